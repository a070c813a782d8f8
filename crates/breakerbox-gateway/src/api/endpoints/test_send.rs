//! Test requests: sends one request to an endpoint now, under the usual address policy, and returns the response.

use axum::extract::State;
use breakerbox_egress::Incoming;
use breakerbox_model::delivery::Reply;
use breakerbox_model::objects::{EndpointId, EventType};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::seen;
use crate::api::Api;
use crate::api::caller::{Allowed, Manage};
use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::fields::Text;
use crate::api::reading::{Named, OptionalJson};
use crate::api::services::TestEvent;

/// The default event type for test requests.
const TYPE: &str = "breakerbox.test";
const PAYLOAD: &[u8] = br#"{"test":true}"#;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(test))
}

/// The test event to send.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TestEvent, example = json!({"type": "invoice.paid", "payload": {"invoice": 7}}))]
struct TestBody {
    /// Event type. Default: `breakerbox.test`.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$")]
    r#type: Option<Text<EventType>>,
    /// The payload: any JSON. Default: `{"test": true}`.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<serde_json::Value>,
}

/// The result of a test request.
#[derive(Serialize, ToSchema)]
#[schema(as = TestResult)]
struct TestView {
    /// Whether the response was 2xx.
    ok: bool,
    /// The HTTP status of the response; null if there was no response.
    #[schema(minimum = 100, maximum = 999)]
    status: Option<u16>,
    /// The reason why there was no response: timeout, dns, address_denied, connect, tls, reset, protocol, or local (a
    /// fault of the gateway).
    fault: Option<&'static str>,
    /// A human-readable description of the fault.
    detail: Option<String>,
    /// The duration of the request, in milliseconds.
    latency_ms: u64,
    /// The beginning of the response body, as text.
    response: String,
}

impl From<Incoming> for TestView {
    fn from(incoming: Incoming) -> Self {
        let (status, fault) = match incoming.reply {
            Reply::Answered { status, .. } => (Some(status), None),
            Reply::Failed(fault) => (None, Some(fault.name())),
        };
        Self {
            ok: status.is_some_and(|status| (200..300).contains(&status)),
            status,
            fault,
            detail: incoming.detail,
            latency_ms: u64::try_from(incoming.latency.as_millis()).unwrap_or(u64::MAX),
            response: String::from_utf8_lossy(&incoming.body).into_owned(),
        }
    }
}

/// Send a test event
///
/// Sends one signed request now, regardless of the circuit. The request is not retried, not counted and not stored.
#[utoipa::path(
    post,
    path = "/v1/endpoints/{endpoint}/test",
    operation_id = "test_endpoint",
    tag = "endpoints",
    request_body(content = Option<TestBody>),
    params(("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The result", body = TestView)),
    security(("api_key" = ["manage"])),
)]
async fn test(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
    OptionalJson(body): OptionalJson<TestBody>,
) -> ApiResult<axum::Json<TestView>> {
    let endpoint = seen(&api, &caller, id).await?;
    let entry = api.services.directory.endpoint(endpoint.lane());
    let entry = entry.ok_or_else(|| Problem::not_found("endpoint", &id.to_string()))?;
    let kind = match body.r#type {
        Some(kind) => kind.0,
        None => TYPE.parse().map_err(|error| Problem::internal("the test's event type", &error))?,
    };
    let payload = match body.payload {
        Some(value) => value.to_string().into(),
        None => Bytes::from_static(PAYLOAD),
    };
    let _place = api.test_sends.begin(&endpoint.tenant, api.now())?;
    let event = TestEvent { kind, payload, content_type: "application/json".into() };
    Ok(axum::Json(api.services.tests.test(entry, event).await.into()))
}
