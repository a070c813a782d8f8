//! Routes that acquire permits.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use breakerbox_core::MAX_KEY_LENGTH;
use breakerbox_model::objects::{CircuitId, Priority, TenantId};
use breakerbox_storage::TenantEntry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::batch::{self, Answers, NotDone};
use crate::api::Api;
use crate::api::caller::{Allowed, Caller, Send};
use crate::api::events::PrioritySchema;
use crate::api::problem::{ApiResult, Code, Problem};
use crate::api::reading::Json;
use crate::api::reading::fields::{Moment, Span, Text};
use crate::permits::{
    AcquireError, AcquireRequest, Acquired, GrantedPermit, LONGEST_PERMIT, PermitRefusal, Reason,
};

/// A call to acquire a permit for: to a `url`, or to a destination with a `key` of your own.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Acquire, example = json!({"url": "https://hooks.example.com/in", "priority": "high", "timeout": "30s"}))]
pub(super) struct AcquireBody {
    /// Tenant ID. Keys bound to one tenant may omit it; other keys default to `default`.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// The URL to call, at most 8,192 bytes. Use either this or `key`. The call uses the same circuit as deliveries to this URL, which is per URL, host or tenant
    /// (`circuit_by`).
    #[serde(default)]
    #[schema(format = "uri", max_length = 8192)]
    url: Option<String>,
    /// Your own name for a destination without a URL, such as `warehouse db`; at most 1,023 bytes together with
    /// the tenant ID. Use either this or `url`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 1022)]
    key: Option<String>,
    /// The priority of the call. Default: `medium`.
    #[serde(default)]
    #[schema(value_type = Option<PrioritySchema>)]
    priority: Option<Text<Priority>>,
    /// The timeout of the call, at most `1h`. Default: the gateway's `permits.timeout` (`60s`). A permit that is not
    /// settled within this time counts as a failure.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "30s")]
    timeout: Option<Span>,
}

/// A batch of calls to acquire permits for.
#[derive(Deserialize, ToSchema)]
#[schema(as = AcquireBatch, example = json!({"items": [{"url": "https://hooks.example.com/in"}, {"key": "warehouse db"}]}))]
#[allow(dead_code)]
pub(super) struct AcquireItems {
    /// The calls, at most 1,000.
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<AcquireBody>,
}

/// The result of an acquire: a permit or a refusal.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Acquired)]
pub(super) enum AcquiredView {
    /// A permit: make the call, and settle the permit with its outcome.
    Permit(PermitView),
    /// A refusal: do not make the call.
    Refusal(RefusalView),
}

/// The result for one item: a permit, a refusal or a problem.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = AcquiredItem)]
pub(super) enum AcquiredItem {
    Answered(AcquiredView),
    NotDone(NotDone),
}

/// The right to make one call.
#[derive(Serialize, ToSchema)]
#[schema(as = Permit)]
pub(super) struct PermitView {
    /// Permit ID, an opaque token. Send it unchanged to settle the permit.
    #[schema(example = "per_AZ4r3...")]
    id: String,
    /// Circuit ID.
    #[schema(example = "cir_YWNtZSBodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2lu")]
    circuit: String,
    /// Whether the call is the probe of a half-open circuit.
    probe: bool,
    /// The time at which the permit expires. Settle the permit before this time.
    #[schema(value_type = String, format = "date-time")]
    expires_at: Moment,
    /// The time left until `expires_at`, in milliseconds. Use it as the call's timeout.
    time_left_ms: u64,
}

/// A refusal: do not make the call.
#[derive(Serialize, ToSchema)]
#[schema(as = Refusal)]
pub(super) struct RefusalView {
    /// The reason for the refusal.
    reason: ReasonView,
    /// Circuit ID.
    #[schema(example = "cir_YWNtZSBodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2lu")]
    circuit: String,
    /// The time at which to acquire again; null if an operator has to change an override or enable the tenant first.
    #[schema(value_type = Option<String>, format = "date-time")]
    retry_at: Option<Moment>,
    /// The time left until `retry_at`, in milliseconds. Unlike `retry_at`, it does not depend on your clock.
    retry_in_ms: Option<u64>,
}

/// The reason for a refusal.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RefusalReason)]
enum ReasonView {
    Open,
    Probing,
    Ramping,
    TripPending,
    StoreLost,
    ForcedOpen,
    Disabled,
    Shed,
    TenantDisabled,
}

impl From<Reason> for ReasonView {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Open => Self::Open,
            Reason::Probing => Self::Probing,
            Reason::Ramping => Self::Ramping,
            Reason::TripPending => Self::TripPending,
            Reason::StoreLost => Self::StoreLost,
            Reason::ForcedOpen => Self::ForcedOpen,
            Reason::Disabled => Self::Disabled,
            Reason::Shed => Self::Shed,
            Reason::TenantDisabled => Self::TenantDisabled,
        }
    }
}

/// Acquire a permit
///
/// Returns a permit or a refusal, both with status 200. With a permit, make the call within `time_left_ms`, then settle
/// the permit. A permit that is not settled by `expires_at` counts as a failure.
#[utoipa::path(
    post,
    path = "/v1/circuits/acquire",
    operation_id = "acquire_permit",
    tag = "permits",
    request_body(content = AcquireBody),
    responses((status = 200, description = "A permit, or a refusal", body = AcquiredView)),
    security(("api_key" = ["send"])),
)]
pub(super) async fn acquire(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    Json(body): Json<AcquireBody>,
) -> ApiResult<axum::Json<AcquiredView>> {
    one(&api, &caller, body).await.map(axum::Json)
}

/// Acquire permits in a batch
///
/// Takes at most 1,000 items. The response has a permit, a refusal or a problem for each item, in the same order.
#[utoipa::path(
    post,
    path = "/v1/circuits/acquire/batch",
    operation_id = "acquire_permits",
    tag = "permits",
    request_body(content = AcquireItems),
    responses((status = 200, description = "A result for each item", body = Answers<AcquiredItem>)),
    security(("api_key" = ["send"])),
)]
pub(super) async fn acquire_batch(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    request: Request,
) -> ApiResult<axum::Json<Answers<AcquiredItem>>> {
    let (api, caller) = (&api, &caller);
    let done = |body| async move { one(api, caller, body).await.map(AcquiredItem::Answered) };
    batch::each(api, request, done, AcquiredItem::NotDone).await.map(axum::Json)
}

async fn one(api: &Api, caller: &Caller, body: AcquireBody) -> ApiResult<AcquiredView> {
    let id = caller.tenant_for(body.tenant.map(|tenant| tenant.0))?;
    let tenant = api.services.directory.tenant(&id);
    let tenant = tenant.ok_or_else(|| Problem::tenant_not_found(id.as_str()))?;
    let key = key(&tenant, body.url.as_deref(), body.key.as_deref())?;
    let timeout = body.timeout.map_or(api.services.limits.permit_timeout, |timeout| timeout.0);
    if timeout > LONGEST_PERMIT {
        return Err(Problem::invalid("timeout", "must be at most \"1h\""));
    }
    let priority = body.priority.map_or_else(Priority::default, |priority| priority.0);
    let circuit = CircuitId::of(&key).to_string();
    let wanted = AcquireRequest { tenant, key, priority, timeout };
    match api.services.permits.acquire(wanted).await {
        Ok(Acquired::Permit(given)) => Ok(AcquiredView::Permit(permit(api, circuit, given))),
        Ok(Acquired::Refused(refused)) => Ok(AcquiredView::Refusal(refusal(api, circuit, refused))),
        Err(error @ AcquireError::NoRoom) => Err(Problem::new(Code::Overloaded, error.to_string())),
        Err(error @ AcquireError::CircuitsFull) => Err(Problem::new(Code::CircuitsFull, error.to_string())),
        Err(error @ AcquireError::ShareUsed) => Err(Problem::new(Code::TenantBusy, error.to_string())),
        Err(error) => Err(Problem::invalid("key", error)),
    }
}

/// Returns the key of the call's circuit.
fn key(tenant: &TenantEntry, url: Option<&str>, key: Option<&str>) -> ApiResult<Arc<str>> {
    match (url, key) {
        (Some(url), None) => tenant.circuit_of(url).map_err(|error| {
            let why = error.to_string();
            Problem::invalid("url", why.strip_prefix("url: ").or(why.strip_prefix("key: ")).unwrap_or(&why))
        }),
        (None, Some(key)) => {
            let most = MAX_KEY_LENGTH - tenant.id.as_str().len() - 1;
            let is_clean = key.trim() == key && !key.chars().any(char::is_control);
            if key.is_empty() || key.len() > most || !is_clean {
                let why = format!(
                    "must be 1 to {most} bytes of text, without control characters or white space at its ends"
                );
                return Err(Problem::invalid("key", why));
            }
            Ok(format!("{} {key}", tenant.id).into())
        }
        (Some(_), Some(_)) => Err(Problem::invalid("key", "can't go together with url")),
        (None, None) => {
            let detail = "url: is missing; send the destination's URL, or your own name for it as key";
            Err(Problem::new(Code::MissingField, detail).of_field("url"))
        }
    }
}

fn permit(api: &Api, circuit: String, given: GrantedPermit) -> PermitView {
    PermitView {
        id: given.token,
        circuit,
        probe: given.is_probe,
        expires_at: api.shown(given.expires_at),
        // Rounded down: a worker that takes longer would be late.
        time_left_ms: u64::try_from(given.time_left.as_millis()).unwrap_or(u64::MAX),
    }
}

fn refusal(api: &Api, circuit: String, refused: PermitRefusal) -> RefusalView {
    RefusalView {
        reason: refused.reason.into(),
        circuit,
        retry_at: refused.retry_at.map(|at| api.shown(at)),
        retry_in_ms: refused.retry_in.map(rounded_up),
    }
}

/// Rounds a wait up to milliseconds, because a worker that retries too early is refused again.
pub(super) fn rounded_up(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
