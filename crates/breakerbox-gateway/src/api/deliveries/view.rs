//! The JSON representation of deliveries and attempts.

use breakerbox_model::objects::{Attempt, Delivery, DeliveryState, FailReason, LastAttempt};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::events::PrioritySchema;
use crate::api::reading::fields::Moment;
use crate::api::waits::{self, DeliveryWait, WaitsForView};

/// The delivery of one event to one endpoint or URL.
#[derive(Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(in crate::api) struct DeliveryView {
    /// Delivery ID.
    #[schema(example = "dlv_01h5k2m8w4c7e")]
    pub(in crate::api) id: String,
    /// Tenant ID.
    tenant: String,
    /// Event ID.
    event: String,
    /// Event type.
    r#type: String,
    /// Endpoint ID; null for a dynamic URL.
    endpoint: Option<String>,
    /// The dynamic URL; null for a registered endpoint.
    pub(in crate::api) url: Option<String>,
    /// Reminder ID; null unless the delivery is a run of a reminder.
    reminder: Option<String>,
    /// The number of the reminder's run, starting at 1; null unless the delivery is a run of a reminder.
    #[schema(minimum = 1)]
    run: Option<u32>,
    /// The priority of the delivery.
    #[schema(value_type = PrioritySchema)]
    priority: &'static str,
    /// The state of the delivery.
    #[schema(value_type = StateNameView)]
    pub(in crate::api) state: &'static str,
    /// The reason for a failure: `rejected` (the receiver rejects the payload), `exhausted` (no attempts are left),
    /// `gone` (the receiver responded with 410), `expired`, or `unreadable` (the stored delivery can't be read).
    #[schema(value_type = Option<FailReasonView>)]
    pub(in crate::api) reason: Option<&'static str>,
    /// Whether the delivery is held back, even if it is due: by its circuit, the throttle, the rate limit, a
    /// `Retry-After`, or because its tenant or endpoint is disabled.
    pub(in crate::api) parked: bool,
    /// What a pending or retrying delivery waits for. If several reasons hold it, this is the one that ends last.
    /// `disabled`: its tenant, endpoint or circuit is disabled. `circuit`: the circuit is open, is being probed, or
    /// admits few calls after a recovery. `throttle`: the receiver is overloaded. `rate_limit`: the endpoint's rate
    /// limit. `retry_after`: the receiver asked for a pause. `retry`: the delay after a failed attempt. `not_before`:
    /// the event's time. `in_flight_limit`: the endpoint's limit on concurrent requests. `slot`: the gateway's own
    /// capacity.
    #[schema(value_type = Option<WaitsForView>)]
    waits_for: Option<&'static str>,
    /// The time until which the delivery waits; null if only a change ends the wait, or if the time is not known.
    #[schema(value_type = Option<String>, format = "date-time")]
    waits_until: Option<Moment>,
    /// The number of attempts used. Local faults of the gateway use no attempts.
    pub(in crate::api) attempts: u32,
    /// The HTTP status of the latest attempt's response; null if there was no attempt or no response.
    #[schema(example = 503)]
    pub(in crate::api) last_status: Option<u16>,
    /// Why the latest attempt had no response: `timeout`, `dns`, `address_denied`, `connect`, `tls`, `reset` or
    /// `protocol`, a colon and a short description; null if it had one, or if there was no attempt.
    #[schema(example = "connect: connection refused")]
    pub(in crate::api) last_error: Option<String>,
    /// The time at which the latest attempt began; null if there was none.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(in crate::api) last_attempt_at: Option<Moment>,
    /// While the delivery is pending or retrying, the earliest time of the next attempt.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(in crate::api) due_at: Option<Moment>,
    /// While the delivery is pending or retrying, the time at which it expires.
    #[schema(value_type = Option<String>, format = "date-time")]
    expires_at: Option<Moment>,
    /// The time at which the event was accepted.
    #[schema(value_type = String, format = "date-time")]
    pub(in crate::api) created_at: Moment,
    /// The time at which the delivery was delivered, failed or cancelled.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(in crate::api) finished_at: Option<Moment>,
}

/// The state of a delivery.
#[derive(ToSchema)]
#[schema(as = DeliveryState, rename_all = "snake_case")]
#[allow(dead_code)]
pub(in crate::api) enum StateNameView {
    Pending,
    InFlight,
    Retrying,
    Delivered,
    Failed,
    Cancelled,
}

/// The reason why a delivery failed.
#[derive(ToSchema)]
#[schema(as = FailReason, rename_all = "snake_case")]
#[allow(dead_code)]
pub(in crate::api) enum FailReasonView {
    Rejected,
    Exhausted,
    Gone,
    Expired,
    Unreadable,
}

impl DeliveryView {
    pub(in crate::api) fn new(api: &Api, delivery: Delivery) -> Self {
        let reason = match delivery.state {
            DeliveryState::Failed(reason) => Some(reason_name(reason)),
            _ => None,
        };
        let last = delivery.last_attempt.as_ref();
        let DeliveryWait { is_parked, wait } = waits::of_delivery(api, &delivery);
        Self {
            parked: is_parked,
            waits_for: wait.map(|wait| wait.waits_for.name()),
            waits_until: wait.and_then(|wait| wait.until).map(|at| api.shown(at)),
            id: delivery.id.to_string(),
            tenant: delivery.tenant.to_string(),
            event: delivery.event.to_string(),
            r#type: delivery.kind.to_string(),
            endpoint: delivery.endpoint.map(|endpoint| endpoint.to_string()),
            url: delivery.url.map(|url| url.to_string()),
            reminder: delivery.run.map(|run| run.reminder.to_string()),
            run: delivery.run.map(|run| run.number),
            priority: delivery.priority.name(),
            state: delivery.state.name().name(),
            reason,
            attempts: delivery.attempts,
            last_status: last.and_then(|last| last.status),
            last_error: last.and_then(LastAttempt::error),
            last_attempt_at: last.map(|last| Moment(last.started_at)),
            due_at: delivery.due_at.map(|at| api.shown(at)),
            expires_at: delivery.expires_at.map(|at| api.shown(at)),
            created_at: Moment(delivery.created_at),
            finished_at: delivery.finished_at.map(Moment),
        }
    }
}

const fn reason_name(reason: FailReason) -> &'static str {
    match reason {
        FailReason::Rejected => "rejected",
        FailReason::Exhausted => "exhausted",
        FailReason::Gone => "gone",
        FailReason::Expired => "expired",
        FailReason::Unreadable => "unreadable",
    }
}

/// One HTTP request of a delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(super) struct AttemptView {
    /// The time at which the request started.
    #[schema(value_type = String, format = "date-time")]
    started_at: Moment,
    /// The duration of the request, in milliseconds.
    latency_ms: u64,
    /// The HTTP status of the response; null if there was no response.
    #[schema(minimum = 100, maximum = 999)]
    status: Option<u16>,
    /// The reason why there was no response: timeout, dns, address_denied, connect, tls, reset or protocol.
    fault: Option<&'static str>,
    /// A human-readable description of the fault.
    detail: Option<String>,
    /// The beginning of the response body, as text.
    response: String,
    /// Whether the attempt was a probe of the circuit.
    probe: bool,
}

impl From<Attempt> for AttemptView {
    fn from(attempt: Attempt) -> Self {
        Self {
            started_at: Moment(attempt.started_at),
            latency_ms: u64::try_from(attempt.latency.as_millis()).unwrap_or(u64::MAX),
            status: attempt.status,
            fault: attempt.fault.map(breakerbox_model::delivery::Fault::name),
            detail: attempt.detail,
            response: String::from_utf8_lossy(&attempt.response).into_owned(),
            probe: attempt.probe,
        }
    }
}
