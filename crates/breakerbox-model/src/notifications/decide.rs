//! Decides which circuit changes cause notifications, and of which kind. Pure: the result depends only on the
//! arguments.
//!
//! | change | notification |
//! | --- | --- |
//! | a rule opened the circuit | `trip`, after a delay; see [`OutageStep`](super::OutageStep) |
//! | a failed probe opened it again | none: it is the same outage |
//! | successful probes closed it | `recovery`, if people were notified of the outage |
//! | a rule or a failed probe disabled it | `disabled` |
//! | a rule or a failed probe opened it, and it has failed for half of `disable_min` | `disable_warning` |
//! | an operator's override changed it | none: the operator knows |
//!
//! The cause of a change matters, not the previous state: for a process that joins later, every change seems to come
//! from the closed state.

use std::time::Duration;

use breakerbox_core::{Cause, Change, CircuitBy, CircuitStatus, Policy, Timestamp, Totals, TripRule};

use super::notification::{
    CircuitFacts, Counted, DisableConditions, Disabled, LastResult, News, Notification, Recovered, Tripped,
    Warned, Why,
};
use crate::delivery::LastAttempt;
use crate::values::CircuitId;
use crate::values::{CircuitOwner, EndpointId, Moment, Purpose, ShownKey};

/// The maximum number of endpoints listed in a notification about a circuit.
const NAMED_ENDPOINTS: usize = 5;

/// Facts about a circuit that a notification needs and a [`Change`] does not contain.
#[derive(Clone, Copy, Debug)]
pub struct CircuitContext<'k> {
    /// The policy that governs the circuit.
    pub policy: &'k Policy,
    /// The endpoints that share the circuit.
    pub endpoints: &'k [EndpointId],
    /// The latest attempt through the circuit. `None`: not known.
    pub last: Option<&'k LastAttempt>,
    /// Whether the current outage was not reported yet. This happens if the trip itself was not observed, so
    /// that only the circuit's later state is known.
    pub is_unreported_outage: bool,
}

impl CircuitContext<'_> {
    fn last(&self) -> LastResult {
        self.last.map(LastResult::from).unwrap_or_default()
    }
}

/// Returns the notifications to create at once for a circuit's change. Most changes need none.
#[must_use]
pub fn notifications(key: &str, change: &Change, known: &CircuitContext<'_>) -> Vec<Notification> {
    let mut notifications = Vec::new();
    let mut add = |epoch: u64, news: News| notifications.push(notification(key, change, epoch, news));
    let circuit = || circuit(key, known.endpoints);
    let epoch = change.epoch.0;
    let is_failure = is_failure(&change.cause);
    let is_success = matches!(change.cause, Cause::ProbesSucceeded | Cause::RecoveryRateMet);
    match change.to {
        CircuitStatus::Disabled if is_failure => {
            add(epoch, News::Disabled(given_up(circuit(), change, known.last())));
        }
        CircuitStatus::Closed if is_success => {
            let trips = change.trips;
            add(epoch, News::Recovery(Recovered { circuit: circuit(), since: None, trips }));
        }
        _ => {}
    }
    if is_failure
        && change.to == CircuitStatus::Open
        && let Some(since) = change.failing_since
        && let Some(warned) = warned(circuit, change, since, known)
    {
        // One warning for each period of failures, which ends with the next success.
        add(since.as_micros(), News::DisableWarning(warned));
    }
    notifications
}

/// Returns the notification that a circuit opened with this change.
pub(super) fn trip(key: &str, change: &Change, known: &CircuitContext<'_>) -> Notification {
    let news = News::Trip(tripped(circuit(key, known.endpoints), change, known));
    notification(key, change, change.epoch.0, news)
}

/// Returns whether a change with this cause reports a failing destination.
pub(super) const fn is_failure(cause: &Cause) -> bool {
    matches!(cause, Cause::Rule(_) | Cause::ProbeFailed | Cause::RecoveryRateMissed)
}

fn notification(key: &str, change: &Change, epoch: u64, news: News) -> Notification {
    let tenant = CircuitOwner::of_key(key).map(|owner| owner.tenant);
    Notification { tenant, subject: key.into(), epoch, at: change.at, news }
}

/// Returns the disable warning that is due after a trip or a failed probe, if any.
fn warned(
    circuit: impl FnOnce() -> CircuitFacts,
    change: &Change,
    failing_since: Timestamp,
    known: &CircuitContext<'_>,
) -> Option<Warned> {
    let policy = known.policy;
    let trips_needed = policy.disable_after()?;
    let limit = policy.disable_min();
    if limit.is_zero() || change.at.since(failing_since) < limit / 2 {
        return None;
    }
    Some(Warned {
        circuit: circuit(),
        last_success_at: change.last_success.map(Moment),
        failing_since: Some(Moment(failing_since)),
        disabled_at: Moment(failing_since + limit),
        retry_at: change.retry_at.map(Moment),
        trips: change.trips,
        trips_needed,
        last: known.last(),
    })
}

fn tripped(circuit: CircuitFacts, change: &Change, known: &CircuitContext<'_>) -> Tripped {
    let policy = known.policy;
    let rule = match change.cause {
        Cause::Rule(rule) => Some(rule),
        _ => None,
    };
    Tripped {
        circuit,
        since: Moment(change.at),
        cause: rule.map(|rule| why(rule, policy, change.evidence.as_deref())),
        retry_at: change.retry_at.map(Moment),
        probes: policy.probes(),
        trips: change.trips,
        disables: policy
            .disable_after()
            .map(|trips| DisableConditions { trips, failing_ms: millis(policy.disable_min()) }),
        last: known.last(),
    }
}

fn given_up(circuit: CircuitFacts, change: &Change, last: LastResult) -> Disabled {
    use breakerbox_core::Mode;
    let reason = match &change.mode {
        Mode::Disabled(by) => by.reason().to_owned(),
        _ => format!("{} trips", change.trips),
    };
    Disabled {
        disabled_reason: "circuit".into(),
        circuit: Some(circuit),
        endpoint: None,
        host: None,
        last_success_at: change.last_success.map(Moment),
        reason,
        last,
    }
}

/// Returns the rule that tripped the circuit, with its limit and the counts.
fn why(rule: TripRule, policy: &Policy, totals: Option<&Totals>) -> Why {
    let limit = match rule {
        TripRule::FailureRate => policy.failure_rate().map(u64::from),
        TripRule::Failures => policy.failures(),
        TripRule::ConsecutiveFailures => policy.consecutive_failures(),
        TripRule::MeanLatency => policy.mean_latency().map(millis),
        TripRule::SlowRate => policy.slow_rate().map(u64::from),
        _ => None,
    };
    Why {
        rule: rule.name().to_owned(),
        limit: limit.unwrap_or_default(),
        min_calls: policy.min_calls(),
        window_ms: millis(policy.window()),
        slow_call_ms: policy.slow_call().filter(|_| rule == TripRule::SlowRate).map(millis),
        counts: totals.map(counted),
    }
}

fn counted(totals: &Totals) -> Counted {
    let calls = totals.calls();
    let mean = u32::try_from(calls).ok().and_then(|calls| totals.latency_sum.checked_div(calls));
    Counted {
        calls,
        failures: totals.failures,
        slow: totals.slow,
        consecutive_failures: totals.failure_run,
        mean_latency_ms: mean.map(millis).unwrap_or_default(),
    }
}

/// Returns the facts about a circuit: those that its key contains, and its first endpoints.
fn circuit(key: &str, endpoints: &[EndpointId]) -> CircuitFacts {
    let destination = key.split_once(' ').map(|(_, destination)| destination);
    let by = match destination {
        None => CircuitBy::Tenant,
        Some(destination) if destination.contains("://") => CircuitBy::Endpoint,
        Some(_) => CircuitBy::Host,
    };
    let is_for_reminders = CircuitOwner::of_key(key).is_some_and(|owner| owner.purpose == Purpose::Reminders);
    CircuitFacts {
        id: Some(CircuitId::of(key).to_string()),
        key: Some(key.to_owned()),
        fingerprint: ShownKey(key).fingerprint(),
        circuit_by: match by {
            CircuitBy::Tenant => "tenant",
            CircuitBy::Host => "host",
            _ => "endpoint",
        }
        .into(),
        purpose: if is_for_reminders { "reminders" } else { "deliveries" }.into(),
        destination: ShownKey(key).destination(),
        endpoints: endpoints.iter().take(NAMED_ENDPOINTS).map(ToString::to_string).collect(),
        more_endpoints: endpoints.len().saturating_sub(NAMED_ENDPOINTS) as u64,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether a change is more than 24 hours old, which is too old to be reported.
#[must_use]
pub fn is_old(changed_at: Timestamp, now: Timestamp) -> bool {
    now.since(changed_at) > Duration::from_secs(24 * 60 * 60)
}
