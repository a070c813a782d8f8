//! The gates, in order: tenant and endpoint enabled, rate limit, throttle, circuit. The lanes enforce the in-flight
//! limit. A lane's gates are checked before a delivery is claimed, so a refusal needs no write and uses no attempt.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::throttle::{Overload, Pass as ThrottlePass};
use breakerbox::{CircuitStatus, OwnedPermit, Refusal};
use breakerbox_core::Timestamp;
use breakerbox_model::delivery::lanes::{Hold, Sleep};
use breakerbox_model::objects::Priority;

use super::destination::Destination;
use crate::telemetry::labels::Gate;

/// The delay before a lane tries again after a refusal that states no time. Such a refusal may end without an event
/// that wakes the lane.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The maximum time that a throttle holds a lane.
const LONGEST_HOLD: Duration = Duration::from_secs(2);

/// The right to make one request: the permit and the throttle's pass.
pub(super) struct Pass {
    pub(super) permit: OwnedPermit,
    /// The throttle's pass. `None` for a probe, which skips the throttle, and if there is no throttle.
    pub(super) throttle: Option<ThrottlePass<'static, Overload>>,
}

/// A gate's refusal, and how long it holds the lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The lane sleeps and sends nothing.
    Sleep(Sleep),
    /// The throttle sheds calls of this priority and below, so their deliveries wait.
    Shed(Hold),
}

impl Refused {
    /// Returns the gate that refused the lane.
    pub(super) const fn gate(&self) -> Gate {
        match self {
            Self::Sleep(Sleep::Disabled) => Gate::Disabled,
            Self::Sleep(Sleep::Circuit { .. }) => Gate::Circuit,
            Self::Sleep(_) => Gate::Rate,
            Self::Shed(_) => Gate::Throttle,
        }
    }
}

/// The result of checking all gates without waiting.
pub(super) enum GateDecision {
    Pass(Pass),
    Refused(Refused),
    /// The circuit store has to respond first. [`acquire_waiting`] waits for it.
    Wait,
}

/// Checks all gates without waiting. Returns [`GateDecision::Wait`] if the circuit is not closed, or its record has not
/// been read yet.
pub(super) fn try_acquire(destination: &Destination, priority: Priority, now: Timestamp) -> GateDecision {
    if !destination.is_enabled() {
        return GateDecision::Refused(Refused::Sleep(Sleep::Disabled));
    }
    if destination.circuit.status() != CircuitStatus::Closed || !destination.is_met() {
        return GateDecision::Wait;
    }
    if let Err(refused) = take_token(destination, now) {
        return GateDecision::Refused(refused);
    }
    let decision = acquire_throttle(destination, priority, now).and_then(|throttle| {
        let permit =
            destination.circuit.try_acquire_owned().map_err(|refusal| sleep(destination, &refusal, now))?;
        Ok(Pass { permit, throttle })
    });
    match decision {
        Ok(pass) => GateDecision::Pass(pass),
        Err(refused) => {
            give_token_back(destination);
            GateDecision::Refused(refused)
        }
    }
}

/// Checks all gates, and waits for the circuit store where needed. A circuit that is not closed is checked before the
/// throttle, since a probe skips the throttle.
pub(super) async fn acquire_waiting(
    destination: &Destination,
    priority: Priority,
    now: Timestamp,
) -> Result<Pass, Refused> {
    if !destination.is_enabled() {
        return Err(Refused::Sleep(Sleep::Disabled));
    }
    take_token(destination, now)?;
    let acquired = destination.circuit.acquire_owned_within(Duration::ZERO).await;
    destination.meet();
    let decision = acquired.map_err(|refusal| sleep(destination, &refusal, now)).and_then(|permit| {
        let throttle = if permit.is_probe() { None } else { acquire_throttle(destination, priority, now)? };
        Ok(Pass { permit, throttle })
    });
    decision.inspect_err(|_| give_token_back(destination))
}

fn take_token(destination: &Destination, now: Timestamp) -> Result<(), Refused> {
    let taken = destination.rate().map_or(Ok(()), |mut rate| rate.take(now));
    taken.map_err(|next| Refused::Sleep(Sleep::RateLimit(next)))
}

/// Returns an unused token to the rate limit.
pub(super) fn give_token_back(destination: &Destination) {
    if let Some(mut rate) = destination.rate() {
        rate.give_back();
    }
}

fn acquire_throttle(
    destination: &Destination,
    priority: Priority,
    now: Timestamp,
) -> Result<Option<ThrottlePass<'static, Overload>>, Refused> {
    let Some(throttle) = &destination.throttle else { return Ok(None) };
    match throttle.try_acquire_owned(priority.into()) {
        Ok(pass) => Ok(Some(pass)),
        Err(shed) => Err(Refused::Shed(Hold {
            throttle: Arc::from(destination.key()),
            until: now + shed.retry_in().min(LONGEST_HOLD),
        })),
    }
}

fn sleep(destination: &Destination, refusal: &Refusal, now: Timestamp) -> Refused {
    let until = match refusal {
        // Only a change ends these refusals, and every such change wakes the lane.
        Refusal::ForcedOpen | Refusal::Disabled => None,
        refusal => Some(now + refusal.retry_in().unwrap_or(ASK_AGAIN)),
    };
    Refused::Sleep(Sleep::Circuit { key: Arc::from(destination.key()), until })
}
