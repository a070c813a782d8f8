//! Error responses: problems (RFC 9457), each with a code whose meaning never changes.
//!
//! A detail is a human-readable sentence. It may quote the request, and never reveals internals of the gateway.

use std::borrow::Cow;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use breakerbox_model::objects::Scope;
use breakerbox_storage::records::Refused;
use breakerbox_storage::{QueueError, SubmitError};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use crate::telemetry::labels::EventRefusal;

/// The media type of error responses.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// The maximum length of a detail, in characters. A detail may quote the request.
const LONGEST_DETAIL: usize = 400;

macro_rules! codes {
    ($($code:ident $name:literal $status:literal $title:literal,)*) => {
        /// The machine-readable code of a problem. Its meaning and its HTTP status never change.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Code {
            $(#[doc = $title] $code,)*
        }

        impl Code {
            /// All codes, in the order of their HTTP status.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// Returns the code as a string, such as `invalid_field`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            /// Returns the HTTP status of responses with this code.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$code => $status,)* }
            }

            /// Returns the title, which is the same in every response with this code.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$code => $title,)* }
            }
        }
    };
}

codes! {
    InvalidJson "invalid_json" 400 "Body is not valid JSON",
    InvalidQuery "invalid_query" 400 "Invalid query parameter",
    InvalidHeader "invalid_header" 400 "Invalid header",
    BodyIncomplete "body_incomplete" 400 "Incomplete body",
    Unauthenticated "unauthenticated" 401 "Valid API key required",
    ScopeMissing "scope_missing" 403 "API key lacks the required scope",
    TenantMismatch "tenant_mismatch" 403 "API key is bound to another tenant",
    NotFound "not_found" 404 "Resource not found",
    TenantNotFound "tenant_not_found" 404 "Tenant not found",
    MethodNotAllowed "method_not_allowed" 405 "Method not allowed; see the Allow header",
    BodyTimeout "body_timeout" 408 "Timeout while receiving the body",
    AlreadyExists "already_exists" 409 "Resource already exists",
    WrongState "invalid_state" 409 "Operation not allowed in the current state",
    IdempotencyKeyReused "idempotency_key_reused" 409 "Idempotency key already used for a different request",
    AlreadyCreated "already_created" 409 "Already created by an earlier request; its response contained a secret and cannot be replayed",
    Changed "revision_mismatch" 412 "Resource has changed since the revision in If-Match",
    BodyTooLarge "body_too_large" 413 "Request body too large",
    PayloadTooLarge "payload_too_large" 413 "Event or reminder payload too large",
    UnsupportedMediaType "unsupported_media_type" 415 "Unsupported media type; use application/json",
    InvalidField "invalid_field" 422 "Invalid field",
    MissingField "missing_field" 422 "Missing field",
    UnknownField "unknown_field" 422 "Unknown field",
    TooManyFailures "too_many_auth_failures" 429 "Too many requests without a valid API key",
    RateLimited "rate_limited" 429 "Tenant exceeds its event rate limit",
    BacklogFull "backlog_full" 429 "Tenant's backlog limit reached",
    CircuitsFull "circuits_full" 429 "Tenant's circuit limit reached",
    EndpointsFull "endpoints_full" 429 "Tenant's endpoint limit reached",
    RemindersFull "reminders_full" 429 "Tenant's reminder limit reached",
    TenantBusy "tenant_busy" 429 "Tenant exceeds its share of the gateway's capacity",
    TestsTooFast "tests_too_fast" 429 "Too many test requests",
    Internal "internal" 500 "Internal error",
    Overloaded "overloaded" 503 "Gateway overloaded; retry later",
    Unavailable "unavailable" 503 "Temporarily unavailable; retry later",
    DiskReserve "disk_reserve" 507 "Disk nearly full",
}

/// An error response in the format of RFC 9457 (`application/problem+json`).
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    code: Code,
    detail: Cow<'static, str>,
    field: Option<Box<str>>,
    retry_after: Option<Duration>,
    /// The ID of the resource that an earlier request created.
    id: Option<Box<str>>,
    /// The cause, which is logged and not part of the response.
    cause: Option<Box<str>>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

/// Lets a function that merges a change into a stored record reject the change with a problem.
impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

/// The cause of an error response, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Logged(pub(crate) Box<str>);

/// The result of a handler, with a problem as its error.
pub(super) type ApiResult<T> = Result<T, Problem>;

impl Problem {
    /// Creates a problem with this code, and a sentence that states what to do.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), field: None, retry_after: None, id: None, cause: None }
    }

    /// Creates the problem for a field with an invalid value.
    #[must_use]
    pub fn invalid(field: &str, why: impl std::fmt::Display) -> Self {
        Self::new(Code::InvalidField, format!("{field}: {why}")).of_field(field)
    }

    /// Creates the problem for a resource that does not exist, or that the caller may not access.
    #[must_use]
    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no {what} {name:?}"))
    }

    /// Creates the problem for a request that names a tenant which does not exist, in its query or in its body.
    #[must_use]
    pub fn tenant_not_found(name: &str) -> Self {
        Self::new(Code::TenantNotFound, format!("tenant: there is no tenant {name:?}")).of_field("tenant")
    }

    /// Creates the problem for a valid key without the required scope.
    #[must_use]
    pub fn scope_missing(wanted: &[Scope], why: &str) -> Self {
        let names: Vec<_> = wanted.iter().map(|scope| format!("`{}`", scope.name())).collect();
        Self::new(Code::ScopeMissing, format!("{why} needs the scope {}", names.join(" or ")))
    }

    /// Creates the problem for an idempotency key that was used for another request.
    #[must_use]
    pub fn key_reused() -> Self {
        Self::new(
            Code::IdempotencyKeyReused,
            "this Idempotency-Key was used for another request within the last 24 hours; use another key, or repeat the \
             first request unchanged",
        )
    }

    /// Sets the field that is invalid.
    #[must_use]
    pub fn of_field(mut self, field: &str) -> Self {
        self.field = Some(shortened(field).into());
        self
    }

    /// Prefixes the field with its container: `events[3]` and `priority` become `events[3].priority`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        if let Some(field) = &self.field {
            let path = format!("{outer}.{field}");
            // The detail begins with the name of the field, if there is one.
            if let Some(rest) = self.detail.strip_prefix(&**field) {
                self.detail = format!("{path}{rest}").into();
            }
            self.field = Some(path.into());
        } else {
            self.detail = format!("{outer}: {}", self.detail).into();
            self.field = Some(outer.into());
        }
        self
    }

    /// Replaces the code.
    #[must_use]
    pub(super) const fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// Sets the field to the text before the first `: ` in the detail, where policy errors name the field.
    #[must_use]
    pub(super) fn of_policy(self) -> Self {
        let field = self.detail.split(": ").next().unwrap_or("policy").to_owned();
        self.of_field(&field)
    }

    /// Sets the ID of the resource that an earlier request created.
    #[must_use]
    pub fn of_id(mut self, id: &str) -> Self {
        self.id = Some(shortened(id).into());
        self
    }

    /// Sets the time to wait before a retry, for `Retry-After`.
    #[must_use]
    pub const fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the machine-readable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Returns the invalid field, such as `events[3].priority`, if there is one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns the human-readable explanation: what is wrong, and what to do.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Creates the problem for a failure that the caller can't fix. The error is logged, and not part of the response.
    #[must_use]
    pub fn internal(doing: &'static str, error: &dyn std::error::Error) -> Self {
        Self::new(
            Code::Internal,
            "internal error; the gateway's log has details under the x-request-id of this response",
        )
        .caused_by(format!("{doing}: {}", chain(error)))
    }

    /// Sets the cause, which is logged and not part of the response.
    #[must_use]
    pub fn caused_by(mut self, cause: String) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

/// Formats an error with all its sources, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

/// Limits the length of a string, and removes control characters.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_DETAIL && !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line: String =
        text.chars().take(LONGEST_DETAIL).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LONGEST_DETAIL).is_some() {
        line.push('…');
    }
    line.into()
}

/// An error response in the format of RFC 9457 (`application/problem+json`).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "/docs#invalid_field",
    "title": "Invalid field",
    "status": 422,
    "code": "invalid_field",
    "detail": "priority: must be high, important, medium or low",
    "field": "priority"
}))]
pub(crate) struct Written<'a> {
    /// A link to the description of the code.
    r#type: String,
    /// The meaning of the code; the same in every response with this code.
    title: &'a str,
    /// The HTTP status of the response.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The machine-readable code. Its meaning never changes.
    code: &'a str,
    /// A human-readable explanation: what is wrong, and what to do.
    detail: &'a str,
    /// The invalid field, such as `events[3].priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    field: Option<&'a str>,
    /// With `already_created`: the ID of the resource that the earlier request created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    id: Option<&'a str>,
}

impl Problem {
    fn written<'a>(&'a self, detail: &'a str) -> Written<'a> {
        let code = self.code;
        Written {
            r#type: format!("/docs#{}", code.name()),
            title: code.title(),
            status: code.status(),
            code: code.name(),
            detail,
            field: self.field.as_deref(),
            id: self.id.as_deref(),
        }
    }

    /// Returns the problem as it is in the body of a response.
    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self.written(&self.detail)).unwrap_or_default()
    }

    /// Returns the problem as JSON for one item of a batch response, and logs its cause.
    pub(super) fn into_part(self) -> Box<RawValue> {
        if let Some(cause) = &self.cause {
            tracing::warn!(code = self.code.name(), %cause, "an item of a batch failed");
        }
        to_raw_value(&self.written(&shortened(&self.detail))).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = self.code;
        let body = serde_json::to_vec(&self.written(&shortened(&self.detail))).unwrap_or_default();
        let mut response = Response::new(body.into());
        *response.status_mut() =
            StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if code == Code::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"breakerbox\""));
        }
        let wait = self.retry_after.or(matches!(code.status(), 429 | 503).then_some(Duration::from_secs(1)));
        if let Some(wait) = wait {
            // Rounded up: a caller that retries too early is refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(Logged(cause));
        }
        response
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Busy => Self::new(Code::Overloaded, "the queue is full; retry"),
            QueueError::Closed => Self::new(Code::Unavailable, "the gateway is stopping; retry"),
            QueueError::DiskFull => Self::new(Code::DiskReserve, "the disk is full; nothing was written"),
            other => Self::new(
                Code::Unavailable,
                "the database does not respond; nothing was written; retry later",
            )
            .caused_by(chain(&other)),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::UnknownTenant(tenant) => Self::tenant_not_found(tenant.as_str()),
            SubmitError::BacklogFull { waiting, bytes } => Self::new(
                Code::BacklogFull,
                format!(
                    "the backlog limit of the tenant is reached: {waiting} deliveries with {bytes} bytes are waiting; \
                     nothing was accepted"
                ),
            )
            .retry_after(Duration::from_secs(10)),
            SubmitError::KeyReused => Self::key_reused(),
            SubmitError::DiskReserve { .. } => Self::new(
                Code::DiskReserve,
                "the disk is nearly full, and the rest is reserved for accepted deliveries; nothing was accepted",
            ),
            SubmitError::Url(error) => Self::new(Code::InvalidField, error.to_string()).of_field("url"),
            SubmitError::Queue(error) => error.into(),
        }
    }
}

impl From<Code> for EventRefusal {
    fn from(code: Code) -> Self {
        match code {
            Code::BacklogFull => Self::BacklogFull,
            Code::RateLimited => Self::RateLimited,
            Code::DiskReserve => Self::DiskReserve,
            Code::BodyTooLarge | Code::PayloadTooLarge => Self::TooLarge,
            Code::IdempotencyKeyReused => Self::KeyReused,
            Code::Overloaded => Self::Overloaded,
            Code::Unavailable | Code::Internal => Self::Unavailable,
            _ => Self::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_their_statuses_are_errors() {
        for (place, code) in Code::ALL.iter().enumerate() {
            assert!((400..600).contains(&code.status()), "{code:?}");
            assert!(Code::ALL[place + 1..].iter().all(|other| other.name() != code.name()), "{code:?}");
        }
    }

    #[test]
    fn a_problem_knows_where_it_is() {
        let problem =
            Problem::invalid("priority", "must be high, important, medium or low").within("events[3]");
        assert_eq!(problem.field(), Some("events[3].priority"));
        assert_eq!(problem.detail(), "events[3].priority: must be high, important, medium or low");
        let problem = Problem::new(Code::PayloadTooLarge, "has 300,000 bytes").within("events[0]");
        assert_eq!((problem.field(), problem.detail()), (Some("events[0]"), "events[0]: has 300,000 bytes"));
    }

    #[test]
    fn waits_are_rounded_up_and_never_zero() {
        for (wait, written) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2")] {
            let problem = Problem::new(Code::RateLimited, "").retry_after(Duration::from_millis(wait));
            assert_eq!(problem.into_response().headers()[RETRY_AFTER], written);
        }
        assert!(!Problem::new(Code::Internal, "").into_response().headers().contains_key(RETRY_AFTER));
    }
}
