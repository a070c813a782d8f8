//! Explains what deliveries, endpoints and lanes wait for. The reasons come from the directory, the circuits, the lanes
//! of this process and the stored deliveries; [`Wait::longest`] decides between them.

use std::sync::Arc;

use breakerbox_core::{CircuitStatus, Timestamp};
use breakerbox_model::delivery::lanes::LaneWait;
use breakerbox_model::delivery::{Wait, WaitsFor};
use breakerbox_model::objects::{Delivery, DeliveryState, LaneId, Purpose, TenantId};
use breakerbox_storage::records::LaneBacklog;
use utoipa::ToSchema;

use super::{Api, Reach};

/// The reason why deliveries wait.
#[derive(ToSchema)]
#[schema(as = WaitsFor, rename_all = "snake_case")]
#[allow(dead_code)]
pub(super) enum WaitsForView {
    Disabled,
    Circuit,
    Throttle,
    RateLimit,
    RetryAfter,
    Retry,
    NotBefore,
    InFlightLimit,
    Slot,
}

/// The destination of a lane, with what decides whether it may be called.
pub(super) struct Gates {
    is_enabled: bool,
    /// The key of the circuit. `None`: the stored URL has none.
    pub(super) circuit: Option<Arc<str>>,
}

/// What a delivery waits for.
#[derive(Clone, Copy, Default)]
pub(super) struct DeliveryWait {
    /// Whether the delivery is held back, even if it is due.
    pub(super) is_parked: bool,
    /// What the delivery waits for. `None`: it does not wait.
    pub(super) wait: Option<Wait>,
}

/// What the deliveries of a lane wait for.
#[derive(Clone, Copy, Default)]
pub(super) struct LaneNow {
    pub(super) waiting: u64,
    pub(super) in_flight: u32,
    /// What the delivery that goes next waits for. `None`: none waits.
    pub(super) wait: Option<Wait>,
}

impl Gates {
    /// Returns the gates of an endpoint's lane, or of a dynamic lane, whose circuit key is `dynamic`. Returns `None` if
    /// the endpoint or the tenant was deleted.
    pub(super) fn of_lane(
        api: &Reach,
        lane: LaneId,
        tenant: &TenantId,
        dynamic: Option<Arc<str>>,
    ) -> Option<Self> {
        let directory = &api.services.directory;
        match (directory.endpoint(lane), dynamic) {
            (Some(entry), _) => {
                Some(Self { is_enabled: entry.is_enabled(), circuit: Some(Arc::clone(&entry.circuit)) })
            }
            (None, Some(key)) => {
                let is_enabled = directory.tenant(tenant)?.enabled;
                Some(Self { is_enabled, circuit: Some(key) })
            }
            (None, None) => None,
        }
    }

    fn of_delivery(api: &Reach, delivery: &Delivery) -> Option<Self> {
        let dynamic = match &delivery.url {
            None => None,
            Some(url) => {
                let purpose = if delivery.run.is_some() { Purpose::Reminders } else { Purpose::Deliveries };
                let tenant = api.services.directory.tenant(&delivery.tenant)?;
                let Ok(key) = tenant.key_of(purpose, url) else {
                    return Some(Self { is_enabled: tenant.enabled, circuit: None });
                };
                Some(key)
            }
        };
        Self::of_lane(api, delivery.lane, &delivery.tenant, dynamic)
    }

    /// Returns what holds back a delivery with these facts, and what it waits for.
    fn explain(&self, api: &Reach, lane: LaneWait, own: Option<Wait>, now: Timestamp) -> DeliveryWait {
        let disabled = (!self.is_enabled).then_some(WaitsFor::Disabled.open_ended());
        let circuit = self.circuit.as_ref().and_then(|key| api.services.circuits.find(key));
        let is_open = circuit.as_ref().is_some_and(|circuit| circuit.status() != CircuitStatus::Closed);
        let refused = circuit.and_then(|circuit| Wait::for_circuit(&circuit.record(), now));
        DeliveryWait {
            is_parked: disabled.is_some() || is_open || lane.hold.is_some(),
            wait: Some(Wait::longest([disabled, refused, lane.hold, own]).unwrap_or(lane.place)),
        }
    }
}

/// Returns what a delivery waits for.
pub(super) fn of_delivery(api: &Api, delivery: &Delivery) -> DeliveryWait {
    let (DeliveryState::Pending | DeliveryState::Retrying, Some(due_at)) = (delivery.state, delivery.due_at)
    else {
        return DeliveryWait::default();
    };
    let Some(gates) = Gates::of_delivery(api, delivery) else { return DeliveryWait::default() };
    let lane = api.services.waits.waits(&[(delivery.lane, Some(delivery.priority))]);
    let lane = lane.first().copied().unwrap_or(LaneWait::UNKNOWN);
    let now = api.now();
    gates.explain(api, lane, Wait::for_due_time(due_at, delivery.attempts, now), now)
}

/// Returns what the deliveries of these lanes wait for, in the same order.
pub(super) fn of_lanes(api: &Api, backlogs: &[Option<LaneBacklog>]) -> Vec<LaneNow> {
    let known: Vec<_> = backlogs.iter().flatten().map(|backlog| (backlog.lane, None)).collect();
    let mut lanes = api.services.waits.waits(&known).into_iter();
    let now = api.now();
    let explain = |backlog: &Option<LaneBacklog>| {
        let Some(backlog) = backlog else { return LaneNow::default() };
        let lane = lanes.next().unwrap_or(LaneWait::UNKNOWN);
        let in_flight = LaneNow { in_flight: lane.in_flight, ..LaneNow::default() };
        let gates = Gates::of_lane(api, backlog.lane, &backlog.tenant, backlog.dynamic.clone());
        let (Some(next), Some(gates)) = (backlog.next, gates) else { return in_flight };
        let own = Wait::for_due_time(next.due_at, next.attempts, now);
        LaneNow {
            waiting: backlog.unfinished.count.saturating_sub(lane.in_flight.into()).max(1),
            wait: gates.explain(api, lane, own, now).wait,
            ..in_flight
        }
    };
    backlogs.iter().map(explain).collect()
}
