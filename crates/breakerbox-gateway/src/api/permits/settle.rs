//! Routes that settle permits.

use std::time::Duration;

use axum::extract::{Request, State};
use breakerbox::OutcomeKind;
use breakerbox::throttle::LoadSignal;
use breakerbox_model::delivery::{Fault, Reply};
use breakerbox_model::objects::SettledAs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::acquire::rounded_up;
use super::batch::{self, Answers, NotDone};
use crate::api::Api;
use crate::api::caller::{Allowed, Caller, Send};
use crate::api::problem::{ApiResult, Code, Problem};
use crate::api::reading::Json;
use crate::permits::{CallResult, LONGEST_TOKEN, Report, SettleResponse};

/// The maximum latency and the maximum `retry_after_ms`, in milliseconds.
const LONGEST: u64 = 24 * 3_600 * 1_000;

/// The result of a call: your own `outcome`, the `status` of the response, or the `fault` if there was no response.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settlement, example = json!({"id": "per_AZ4r3...", "status": 200, "latency_ms": 87}))]
pub(super) struct SettleBody {
    /// Permit ID.
    #[schema(example = "per_AZ4r3...", min_length = 1, max_length = 4096)]
    id: String,
    /// The outcome of the call, if you classify it yourself. Use one of `outcome`, `status` and `fault`.
    #[serde(default)]
    outcome: Option<OutcomeWord>,
    /// The HTTP status of the response, 100 to 999. The tenant's `response_rules` classify it, as for deliveries. Use one
    /// of `outcome`, `status` and `fault`.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 999)]
    status: Option<u16>,
    /// The reason why there was no response. The tenant's `response_rules` classify it. Use one of `outcome`, `status` and
    /// `fault`.
    #[serde(default)]
    fault: Option<FaultWord>,
    /// The duration of the call, in milliseconds. Default: the time since the permit was acquired.
    #[serde(default)]
    #[schema(maximum = 86_400_000)]
    latency_ms: Option<u64>,
    /// The wait that the destination requested, for example with `Retry-After`, in milliseconds. Only with the outcome
    /// `failure` or a `status`. Default: none.
    #[serde(default)]
    #[schema(maximum = 86_400_000)]
    retry_after_ms: Option<u64>,
    /// Whether the destination rejected the call because it was overloaded. Only with an `outcome`.
    /// Default: `false`.
    #[serde(default)]
    overloaded: Option<bool>,
}

/// A batch of call results.
#[derive(Deserialize, ToSchema)]
#[schema(as = SettleBatch, example = json!({"items": [{"id": "per_AZ4r3...", "status": 200}, {"id": "per_0c9Ka...", "fault": "timeout"}]}))]
#[allow(dead_code)]
pub(super) struct SettleItems {
    /// The results of the calls, at most 1,000.
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<SettleBody>,
}

/// The outcome of a call.
#[derive(Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Outcome)]
enum OutcomeWord {
    Success,
    Failure,
    Ignored,
}

/// The reason why there was no response.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Fault)]
enum FaultWord {
    Timeout,
    Dns,
    AddressDenied,
    Connect,
    Tls,
    Reset,
    Protocol,
}

impl From<FaultWord> for Fault {
    fn from(word: FaultWord) -> Self {
        match word {
            FaultWord::Timeout => Self::Timeout,
            FaultWord::Dns => Self::Dns,
            FaultWord::AddressDenied => Self::Denied,
            FaultWord::Connect => Self::Connect,
            FaultWord::Tls => Self::Tls,
            FaultWord::Reset => Self::Reset,
            FaultWord::Protocol => Self::Protocol,
        }
    }
}

/// The result of settling a permit.
#[derive(Serialize, ToSchema)]
#[schema(as = SettlementResult)]
pub(super) struct SettledView {
    /// `counted`: the circuit counted the outcome. `uncounted`: the outcome is ignored, or an override is active.
    /// `late`: the permit's epoch or probe lease is no longer current, so the outcome was not counted. `expired`: the
    /// permit had expired and was counted as a failure. `unconfirmed`: the circuit store did not respond, so the
    /// outcome may or may not have been counted.
    settled: SettledWord,
    /// Whether the permit was already settled. If so, `settled` is the first result, and nothing is counted again.
    repeated: bool,
    /// The time to wait before the next call to the destination, in milliseconds, if the destination requested a wait
    /// that the circuit does not enforce; null means no wait.
    wait_ms: Option<u64>,
}

/// The result of settling a permit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettledAs)]
enum SettledWord {
    Counted,
    Uncounted,
    Late,
    Expired,
    Unconfirmed,
}

/// The result of settling a permit, or a problem.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = SettledItem)]
pub(super) enum SettledItem {
    Answered(SettledView),
    NotDone(NotDone),
}

impl From<SettleResponse> for SettledView {
    fn from(answered: SettleResponse) -> Self {
        let settled = match answered.settled {
            Some(SettledAs::Counted) => SettledWord::Counted,
            Some(SettledAs::Uncounted) => SettledWord::Uncounted,
            Some(SettledAs::Late) => SettledWord::Late,
            Some(SettledAs::Unconfirmed) => SettledWord::Unconfirmed,
            None => SettledWord::Expired,
        };
        Self { settled, repeated: answered.repeated, wait_ms: answered.wait.map(rounded_up) }
    }
}

/// Settle a permit
///
/// The first request counts. A repeated request gets the same response and is not counted again, so you can retry if
/// you do not know whether a request arrived.
#[utoipa::path(
    post,
    path = "/v1/permits/settle",
    operation_id = "settle_permit",
    tag = "permits",
    request_body(content = SettleBody),
    responses((status = 200, description = "The result", body = SettledView)),
    security(("api_key" = ["send"])),
)]
pub(super) async fn settle(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    Json(body): Json<SettleBody>,
) -> ApiResult<axum::Json<SettledView>> {
    one(&api, &caller, body).await.map(axum::Json)
}

/// Settle permits in a batch
///
/// Takes at most 1,000 items. The response has a result or a problem for each item, in the same order.
#[utoipa::path(
    post,
    path = "/v1/permits/settle/batch",
    operation_id = "settle_permits",
    tag = "permits",
    request_body(content = SettleItems),
    responses((status = 200, description = "A result for each item", body = Answers<SettledItem>)),
    security(("api_key" = ["send"])),
)]
pub(super) async fn settle_batch(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    request: Request,
) -> ApiResult<axum::Json<Answers<SettledItem>>> {
    let (api, caller) = (&api, &caller);
    let done = |body| async move { one(api, caller, body).await.map(SettledItem::Answered) };
    batch::each(api, request, done, SettledItem::NotDone).await.map(axum::Json)
}

async fn one(api: &Api, caller: &Caller, body: SettleBody) -> ApiResult<SettledView> {
    let report = report(&body)?;
    let permits = &api.services.permits;
    // The response does not reveal whether the token is forged, altered or another tenant's.
    let unknown = || {
        let detail = "id: is not a permit; send the id unchanged, with a key for the same tenant";
        Problem::new(Code::NotFound, detail).of_field("id")
    };
    let token = permits.open(&body.id).ok_or_else(unknown)?;
    let tenant = token.tenant().filter(|tenant| caller.sees(tenant)).ok_or_else(unknown)?;
    let tenant = api.services.directory.tenant(&tenant).ok_or_else(unknown)?;
    Ok(permits.settle(token, report, &tenant.response_rules).await?.into())
}

fn report(body: &SettleBody) -> ApiResult<Report> {
    if body.id.is_empty() || body.id.len() > LONGEST_TOKEN {
        return Err(Problem::invalid(
            "id",
            format_args!("must be a permit id of at most {LONGEST_TOKEN} characters"),
        ));
    }
    for (field, value) in [("latency_ms", body.latency_ms), ("retry_after_ms", body.retry_after_ms)] {
        if value.is_some_and(|value| value > LONGEST) {
            return Err(Problem::invalid(field, format_args!("must be at most {LONGEST} (24 hours)")));
        }
    }
    let retry_after = body.retry_after_ms.map(Duration::from_millis);
    let result = match (body.outcome, body.status, body.fault) {
        (Some(outcome), None, None) => judged(outcome, retry_after, body.overloaded)?,
        (None, status, fault) if status.is_some() != fault.is_some() => {
            if body.overloaded.is_some() {
                return Err(Problem::invalid(
                    "overloaded",
                    "is allowed with outcome only; otherwise the response rules decide",
                ));
            }
            CallResult::Reply(reply(status, fault, retry_after)?)
        }
        (None, None, None) => {
            let detail = "outcome: is missing; send an outcome, a status, or a fault";
            return Err(Problem::new(Code::MissingField, detail).of_field("outcome"));
        }
        (outcome, status, _) => {
            let second = if outcome.is_some() && status.is_some() { "status" } else { "fault" };
            return Err(Problem::invalid(second, "send one of outcome, status and fault"));
        }
    };
    Ok(Report { result, latency: body.latency_ms.map(Duration::from_millis) })
}

/// Builds the outcome report for a worker that classifies the outcome itself.
fn judged(
    outcome: OutcomeWord,
    retry_after: Option<Duration>,
    overloaded: Option<bool>,
) -> ApiResult<CallResult> {
    if retry_after.is_some() && outcome != OutcomeWord::Failure {
        return Err(Problem::invalid(
            "retry_after_ms",
            "is allowed with the outcome failure or with a status only",
        ));
    }
    let (kind, throttle) = match outcome {
        OutcomeWord::Success => (OutcomeKind::Success, LoadSignal::Accept),
        OutcomeWord::Failure => (OutcomeKind::Failure, LoadSignal::Accept),
        OutcomeWord::Ignored => (OutcomeKind::Ignored, LoadSignal::Neither),
    };
    let throttle = if overloaded == Some(true) { LoadSignal::Reject } else { throttle };
    Ok(CallResult::Outcome { kind, retry_after, throttle })
}

fn reply(status: Option<u16>, fault: Option<FaultWord>, retry_after: Option<Duration>) -> ApiResult<Reply> {
    match (status, fault) {
        (Some(status @ 100..=999), _) => Ok(Reply::Answered { status, retry_after }),
        (Some(_), _) => Err(Problem::invalid("status", "must be an HTTP status, 100 to 999")),
        (None, _) if retry_after.is_some() => Err(Problem::invalid(
            "retry_after_ms",
            "is allowed with the outcome failure or with a status only",
        )),
        (None, Some(fault)) => Ok(Reply::Failed(fault.into())),
        (None, None) => Err(Problem::invalid("fault", "is missing")),
    }
}
