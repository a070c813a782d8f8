//! Routes for health and metrics.

use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use breakerbox_core::own_outage::Outage;
use breakerbox_model::objects::Moment;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Allowed, Read};
use super::problem::{ApiResult, Problem};

/// The media type of metrics in the OpenMetrics format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of metrics in the classic Prometheus text format.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// The health of the gateway.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct HealthView {
    /// The overall state: `ok`, `degraded` or `unavailable`.
    status: StatusView,
    /// The reasons why the gateway is degraded or unavailable.
    degraded: Vec<String>,
    /// The current outage on the gateway's own side. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    own_outage: Option<OwnOutageView>,
}

/// An outage on the gateway's own side: most destinations can't be reached, because DNS fails or no connection can be
/// established.
#[derive(Serialize, ToSchema)]
#[schema(as = OwnOutage)]
struct OwnOutageView {
    /// The time of the first failure.
    #[schema(value_type = String, format = "date-time")]
    since: Moment,
    /// The number of destinations that could not be reached when the outage was detected.
    lost: u32,
    /// The number of destinations that were called in the 10 seconds before the outage was detected.
    destinations: u32,
    /// The number of hosts that were called in that time.
    hosts: u32,
}

impl From<Outage> for OwnOutageView {
    fn from(outage: Outage) -> Self {
        let Outage { since, lost, keys, hosts, .. } = outage;
        Self { since: Moment(since), lost, destinations: keys, hosts }
    }
}

/// The overall state of the gateway.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = HealthStatus)]
enum StatusView {
    Ok,
    Degraded,
    Unavailable,
}

/// Check liveness
///
/// Returns 503 if the gateway has to be restarted.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "check_liveness",
    tag = "system",
    responses(
        (status = 200, description = "Alive", body = HealthView),
        (status = 503, description = "Not alive; restart the process", body = HealthView, example = json!({"status": "unavailable", "degraded": ["database: no response within 10s"]})),
    ),
    security(()),
)]
async fn healthz(State(api): State<Api>) -> (StatusCode, axum::Json<HealthView>) {
    let report = api.services.health.report();
    let (code, status, degraded) = if report.alive {
        (StatusCode::OK, StatusView::Ok, Vec::new())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, StatusView::Unavailable, report.degraded)
    };
    (code, axum::Json(HealthView { status, degraded, own_outage: None }))
}

/// Check readiness
///
/// Returns whether the gateway accepts requests, and lists what is degraded. A gateway can be degraded and ready. A
/// gateway is not ready while it starts or shuts down, and while its database accepts no writes.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "check_readiness",
    tag = "system",
    responses(
        (status = 200, description = "Ready", body = HealthView),
        (status = 503, description = "Not ready", body = HealthView, example = json!({"status": "unavailable", "degraded": ["starting: the database is being opened and read"]})),
    ),
    security(()),
)]
async fn readyz(State(api): State<Api>) -> (StatusCode, axum::Json<HealthView>) {
    let report = api.services.health.report();
    let (code, status) = match (report.ready, report.degraded.is_empty()) {
        (true, true) => (StatusCode::OK, StatusView::Ok),
        (true, false) => (StatusCode::OK, StatusView::Degraded),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, StatusView::Unavailable),
    };
    (
        code,
        axum::Json(HealthView {
            status,
            degraded: report.degraded,
            own_outage: report.own_outage.map(Into::into),
        }),
    )
}

/// Returns the response to `/healthz` while the gateway starts.
pub(super) async fn alive() -> axum::Json<HealthView> {
    axum::Json(HealthView { status: StatusView::Ok, degraded: Vec::new(), own_outage: None })
}

/// Returns the response to `/readyz` while the gateway starts.
pub(super) async fn not_ready_yet() -> (StatusCode, axum::Json<HealthView>) {
    let degraded = vec!["starting: the database is being opened and read".to_owned()];
    (
        StatusCode::SERVICE_UNAVAILABLE,
        axum::Json(HealthView { status: StatusView::Unavailable, degraded, own_outage: None }),
    )
}

/// Show metrics
///
/// Returns all metrics in the Prometheus text format, or in the OpenMetrics format if the `Accept` header asks for
/// `application/openmetrics-text`. Needs a key with the scope `read` for all tenants, unless `metrics.public` is set.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "show_metrics",
    tag = "system",
    responses((
        status = 200,
        description = "All metrics, as Prometheus text (`text/plain`), or as `application/openmetrics-text` if `Accept` asks for it",
    )),
    security(("api_key" = ["read"])),
)]
async fn metrics(State(api): State<Api>, _allowed: MaySeeMetrics, headers: HeaderMap) -> Response {
    let metrics = &api.services.metrics;
    let (media_type, text) = if wants_open_metrics(&headers) {
        (OPEN_METRICS, metrics.encode())
    } else {
        (CLASSIC, metrics.encode_classic())
    };
    ([(CONTENT_TYPE, media_type), (VARY, "accept")], text).into_response()
}

/// Returns whether the `Accept` header names OpenMetrics, and does not prefer plain text.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let (mut open_metrics, mut plain) = (0.0, 0.0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let preference: &mut f32 = match parts.next().map(str::to_ascii_lowercase).as_deref() {
            Some("application/openmetrics-text") => &mut open_metrics,
            Some("text/plain") => &mut plain,
            _ => continue,
        };
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse().ok()).unwrap_or(1.0);
        *preference = preference.max(quality);
    }
    open_metrics > 0.0 && open_metrics >= plain
}

/// Proof that the caller may read metrics, which cover all tenants.
struct MaySeeMetrics;

impl FromRequestParts<Api> for MaySeeMetrics {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> ApiResult<Self> {
        if !api.services.limits.open_metrics {
            let Allowed(caller, _) = Allowed::<Read>::from_request_parts(parts, api).await?;
            caller.needs_all_tenants("reading metrics")?;
        }
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn open_metrics_are_sent_to_those_that_ask_for_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/plain; version=0.0.4"), false),
            (Some("text/html,application/xhtml+xml,*/*;q=0.8"), false),
            (Some("application/openmetrics-text"), true),
            (Some("Application/OpenMetrics-Text; version=1.0.0"), true),
            (Some("application/openmetrics-text;q=0"), false),
            (Some("application/openmetrics-text;q=0.3, text/plain;q=0.5"), false),
            (Some(prometheus), true),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(accept.map(|accept| (ACCEPT, HeaderValue::from_static(accept))));
            assert_eq!(wants_open_metrics(&headers), expected, "{accept:?}");
        }
    }
}
