//! The OpenAPI document, and an HTML page that shows it and loads nothing from other servers.
//!
//! Each route describes itself. The parts that all routes have in common are added here: the possible problems, and the
//! headers of every response. Tests compare the document with the routes, and with the responses to hostile requests
//! generated from it.

mod page;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use serde_json::{Map, Value};
use utoipa::PartialSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    Response as Described, ResponseBuilder,
};

use super::Api;
use super::idempotency::{IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};
use super::problem::{Code, PROBLEM_JSON, Written};

const ABOUT: &str = "Send webhooks and scheduled callbacks through one circuit breaker per endpoint. Durations are strings \
    such as `30s`, `5m` or `72h`; times are RFC 3339 in UTC. Listings are paged: pass the `next` of a page as the `cursor` of \
    the next request. Errors are problems (RFC 9457) with a stable `code`.";

const TAGS: &[(&str, &str)] = &[
    ("events", "Submit events, which are delivered to the endpoints of a tenant."),
    ("endpoints", "Registered destinations of a tenant."),
    ("deliveries", "Deliveries of an event to an endpoint, and their attempts."),
    ("lanes", "Queues of endpoints, dynamic URLs and reminders, and what their deliveries wait for."),
    ("resends", "Background jobs that resend finished deliveries, by filter and time range."),
    ("reminders", "Scheduled callbacks, once or repeatedly, and their runs."),
    ("circuits", "Circuits of endpoints, hosts or tenants: state, history and overrides."),
    ("policies", "Policies of circuits: effective values, the origin of each, and changes."),
    (
        "permits",
        "Decision API for workers that make their own calls: acquire a permit, call, settle the permit.",
    ),
    ("tenants", "Tenants and their settings."),
    ("notifications", "Notifications about circuits, dead letters and reminders, their targets and results."),
    ("keys", "API keys and their scopes."),
    ("system", "Health and metrics."),
];

/// Returns the document without any routes.
pub(super) fn frame() -> OpenApi {
    let mut components = Components::new();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("bbx_...")
        .description(Some("An API key. Scope `admin` includes all others; `manage` includes `read`."))
        .build();
    components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
    components.schemas.insert("Problem".to_owned(), Written::schema());
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Breakerbox gateway")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").build()))
                .build(),
        )
        .components(Some(components))
        .tags(Some(
            TAGS.iter().map(|(name, about)| TagBuilder::new().name(*name).description(Some(*about)).build()),
        ))
        .build()
}

/// Adds to each operation what all operations have in common, such as the problem responses, and returns the document
/// as JSON.
pub(super) fn completed(mut document: OpenApi) -> Value {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            complete(path, method, operation);
        }
    }
    tidied(serde_json::to_value(&document).unwrap_or_default())
}

/// Corrects two errors in the macros' output: parameters that may be `null`, and enums with a description that are
/// declared as objects.
fn tidied(mut value: Value) -> Value {
    let paths = value.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
    for operation in items.flat_map(Map::values_mut) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            parameter.get_mut("schema").into_iter().for_each(without_null);
        }
    }
    without_objects(&mut value);
    value
}

fn without_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            schema["type"] = only.clone();
        }
    }
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.retain(|one| one["type"] != "null");
        if let [only] = &choices[..] {
            *schema = only.clone();
        }
    }
}

/// Removes `type: object` from parts of `allOf` that contain only a description. The macros add such a part to an enum
/// with a description.
fn without_objects(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_objects),
        Value::Object(fields) => {
            for part in fields.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
                let says_nothing = |part: &Map<String, Value>| {
                    part.keys().all(|name| name == "type" || name == "description")
                        && part["type"] == "object"
                };
                if let Some(part) = part.as_object_mut().filter(|part| says_nothing(part)) {
                    part.remove("type");
                }
            }
            fields.values_mut().for_each(without_objects);
        }
        _ => {}
    }
}

/// Returns a path's operations and their HTTP methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    [
        ("get", &mut item.get),
        ("post", &mut item.post),
        ("put", &mut item.put),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

fn complete(path: &str, method: &str, operation: &mut Operation) {
    // Handlers in different modules have the same names.
    let tag = operation.tags.as_ref().and_then(|tags| tags.first()).cloned().unwrap_or_default();
    operation.operation_id = operation.operation_id.take().map(|id| format!("{tag}_{id}"));
    let has_body = operation.request_body.is_some();
    let parameters = serde_json::to_value(&operation.parameters).unwrap_or_default();
    let any = |name: &str, value: &str| {
        parameters.as_array().is_some_and(|all| all.iter().any(|parameter| parameter[name] == value))
    };
    let (has_query, has_header) = (any("in", "query"), any("in", "header"));
    let if_match = any("name", "if-match");
    let is_open = path == "/healthz" || path == "/readyz";
    let changes = matches!(method, "post" | "patch" | "delete");
    for status in [400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 429, 500, 503, 507] {
        let can_be = match status {
            400 => has_body || has_query || has_header,
            401 | 403 | 429 => !is_open,
            404 => path.contains('{') || has_body || has_query,
            408 | 413 | 415 => has_body,
            422 => has_body || path.starts_with("/v1/circuits") && changes,
            409 | 507 => changes,
            412 => if_match,
            _ => true,
        };
        if can_be {
            let responses = &mut operation.responses.responses;
            responses.entry(status.to_string()).or_insert_with(|| RefOr::T(problems(status)));
        }
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let id = HeaderBuilder::new()
                .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
                .description(Some("The request's id, also in the gateway's log"))
                .build();
            response.headers.insert("x-request-id".to_owned(), id.into());
        }
    }
    if any("name", IDEMPOTENCY_KEY.as_str()) {
        let done = |status: &str| status.starts_with('2');
        for (_, response) in operation.responses.responses.iter_mut().filter(|(status, _)| done(status)) {
            let RefOr::T(response) = response else { continue };
            let replayed = HeaderBuilder::new()
                .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
                .description(Some("`true` if this is the response to an earlier request with the same key"))
                .build();
            response.headers.insert(IDEMPOTENCY_REPLAYED.to_string(), replayed.into());
        }
    }
}

/// Builds the response for this status, with a description that lists its problem codes.
fn problems(status: u16) -> Described {
    let codes: Vec<_> = Code::ALL.iter().filter(|code| code.status() == status).collect();
    let about: Vec<_> = codes.iter().map(|code| format!("`{}`: {}", code.name(), code.title())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new().description(about.join("; ")).content(PROBLEM_JSON, content);
    let header = |schema_type: Type, about: &str| {
        let schema = ObjectBuilder::new().schema_type(schema_type);
        HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
    };
    if matches!(status, 429 | 503) {
        response = response.header("retry-after", header(Type::Integer, "When to come back, in seconds"));
    }
    if status == 401 {
        response = response.header("www-authenticate", header(Type::String, "How to authenticate"));
    }
    response.build()
}

/// Returns the routes that serve the document and its page.
pub(super) fn routes(document: &Value) -> Router<Api> {
    let json: Arc<str> = document.to_string().into();
    let html: Arc<str> = page::page(document).into();
    Router::new()
        .route(
            "/openapi.json",
            routing::get(move || {
                served(Arc::clone(&json), "application/json", "default-src 'none'; frame-ancestors 'none'")
            }),
        )
        .route(
            "/docs",
            routing::get(move || {
                served(Arc::clone(&html), "text/html; charset=utf-8", page::CONTENT_SECURITY_POLICY)
            }),
        )
}

async fn served(text: Arc<str>, media_type: &'static str, policy: &'static str) -> Response {
    let mut response = text.to_string().into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
