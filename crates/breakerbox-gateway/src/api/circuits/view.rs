//! The JSON representation of circuits.

use breakerbox_core::{Cause, CircuitStatus, Mode, Policy, RandomBits, Record, Timestamp, Totals};
use breakerbox_model::objects::{CircuitId, CircuitOwner, LastAttempt, PastChange, Purpose, ShownKey};
use breakerbox_model::policy_values;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::reading::fields::Moment;

/// The state of a circuit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CircuitState)]
pub(in crate::api) enum StateView {
    Closed,
    Open,
    HalfOpen,
    Disabled,
}

/// The kind of calls that a circuit is for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Purpose)]
pub(in crate::api) enum PurposeView {
    Deliveries,
    Reminders,
}

impl From<Purpose> for PurposeView {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Deliveries => Self::Deliveries,
            Purpose::Reminders => Self::Reminders,
        }
    }
}

impl From<CircuitStatus> for StateView {
    fn from(status: CircuitStatus) -> Self {
        match status {
            CircuitStatus::Open => Self::Open,
            CircuitStatus::HalfOpen => Self::HalfOpen,
            CircuitStatus::Disabled => Self::Disabled,
            _ => Self::Closed,
        }
    }
}

/// The circuit that governs the calls for an endpoint or a reminder.
#[derive(Serialize, ToSchema)]
#[schema(as = CircuitSummary)]
pub(in crate::api) struct CircuitOf {
    /// Circuit ID.
    id: String,
    /// The key of the circuit: the tenant and the destination.
    key: String,
    /// The state of the circuit.
    state: StateView,
}

impl CircuitOf {
    pub(in crate::api) fn new(key: &str, status: CircuitStatus) -> Self {
        Self { id: CircuitId::of(key).to_string(), key: key.to_owned(), state: status.into() }
    }
}

impl From<StateView> for CircuitStatus {
    fn from(state: StateView) -> Self {
        match state {
            StateView::Closed => Self::Closed,
            StateView::Open => Self::Open,
            StateView::HalfOpen => Self::HalfOpen,
            StateView::Disabled => Self::Disabled,
        }
    }
}

/// What decides whether the circuit admits calls: the outcomes of earlier calls, or an override.
#[derive(Serialize, ToSchema)]
#[schema(as = Mode)]
struct ModeView {
    /// `automatic` if the outcomes of calls decide, otherwise the override.
    name: ModeName,
    /// The actor of the override: an API key ID, or the gateway; null without an override.
    actor: Option<String>,
    /// The reason for the override; null without one.
    reason: Option<String>,
}

/// The name of a mode: `automatic`, or the override.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ModeName)]
enum ModeName {
    Automatic,
    ForcedOpen,
    ForcedClosed,
    Disabled,
}

impl From<&Mode> for ModeView {
    fn from(mode: &Mode) -> Self {
        let (name, by) = match mode {
            Mode::Automatic => (ModeName::Automatic, None),
            Mode::ForcedOpen(by) => (ModeName::ForcedOpen, Some(by)),
            Mode::ForcedClosed(by) => (ModeName::ForcedClosed, Some(by)),
            Mode::Disabled(by) => (ModeName::Disabled, Some(by)),
        };
        Self { name, actor: by.map(|by| by.actor().to_owned()), reason: by.map(|by| by.reason().to_owned()) }
    }
}

/// The circuit breaker for one destination, host or tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = Circuit)]
pub(super) struct CircuitView {
    /// Circuit ID.
    #[schema(example = "cir_YWNtZSBodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2lu")]
    id: String,
    /// The key of the circuit: the tenant and the destination.
    #[schema(example = "acme https://hooks.example.com/in")]
    key: String,
    /// The first characters of the key's hash. Logs and notifications show them instead of a key that contains a URL.
    #[schema(example = "3f2a9c1b8d02")]
    fingerprint: String,
    /// Tenant ID.
    tenant: String,
    /// The kind of calls that the circuit is for. A tenant's reminders have their own circuits.
    purpose: PurposeView,
    /// The state of the circuit.
    state: StateView,
    /// What decides whether the circuit admits calls: the outcomes of earlier calls, or an override.
    mode: ModeView,
    /// The number of the circuit's current epoch, the period between two changes. It grows with every change.
    epoch: u64,
    /// The number of trips since the count was last reset.
    trips: u32,
    /// While the circuit is open, the earliest time of the next probe.
    #[schema(value_type = Option<String>, format = "date-time")]
    retry_at: Option<Moment>,
    /// The time of the last trip or forced opening.
    #[schema(value_type = Option<String>, format = "date-time")]
    opened_at: Option<Moment>,
    /// The time of the latest success; null if there was none.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_success_at: Option<Moment>,
    /// The time of the first counted failure since the latest success; null if there was none.
    #[schema(value_type = Option<String>, format = "date-time")]
    failing_since: Option<Moment>,
    /// The HTTP status of the response to the gateway's latest attempt through the circuit; null if there was no
    /// attempt or no response. Calls of the decision API are not attempts.
    #[schema(example = 503)]
    last_status: Option<u16>,
    /// Why the latest attempt had no response: `timeout`, `dns`, `address_denied`, `connect`, `tls`, `reset` or
    /// `protocol`, a colon and a short description; null if it had one, or if there was no attempt.
    #[schema(example = "connect: connection refused")]
    last_error: Option<String>,
    /// The time at which the latest attempt began; null if there was none.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_attempt_at: Option<Moment>,
    /// While the circuit is half-open, the number of successful probes.
    probe_successes: u32,
    /// Whether a probe is in flight.
    probing: bool,
    /// The time of the last change; null if there was none.
    #[schema(value_type = Option<String>, format = "date-time")]
    changed_at: Option<Moment>,
    /// The cause of the last change; null if there was none.
    cause: Option<String>,
}

impl CircuitView {
    pub(super) fn new(api: &Api, key: &str, record: &Record) -> Self {
        let (tenant, purpose) = owner(key);
        let last = api.services.directory.last_attempt_of_circuit(key);
        let last = last.as_ref();
        Self {
            id: CircuitId::of(key).to_string(),
            key: key.to_owned(),
            fingerprint: ShownKey(key).fingerprint(),
            tenant,
            purpose,
            state: record.status().into(),
            mode: (&record.mode).into(),
            epoch: record.epoch.0,
            trips: record.trips,
            retry_at: record.retry_at.map(|at| api.shown(at)),
            opened_at: record.opened_at.map(Moment),
            last_success_at: record.last_success.map(Moment),
            failing_since: record.failing_since.map(Moment),
            last_status: last.and_then(|last| last.status),
            last_error: last.and_then(LastAttempt::error),
            last_attempt_at: last.map(|last| Moment(last.started_at)),
            probe_successes: record.probe_successes,
            probing: record.lease.is_some(),
            changed_at: record.cause.as_ref().map(|_| Moment(record.changed_at)),
            cause: record.cause.as_ref().map(cause_name),
        }
    }
}

/// Returns the record for a circuit that has never changed.
pub(super) fn untouched(key: &str) -> Record {
    Record::new(Some(owner(key).0.into()), RandomBits(0), Timestamp::ZERO)
}

/// Returns the tenant and the purpose that a circuit's key contains. The tenant is empty if the key has no valid owner.
fn owner(key: &str) -> (String, PurposeView) {
    match CircuitOwner::of_key(key) {
        Some(owner) => (owner.tenant.to_string(), owner.purpose.into()),
        None => (String::new(), PurposeView::Deliveries),
    }
}

/// A circuit with the counts of its window and its policy.
#[derive(Serialize, ToSchema)]
#[schema(as = CircuitDetails)]
pub(super) struct CircuitShown {
    #[serde(flatten)]
    circuit: CircuitView,
    /// The counts in the window, as seen by this process.
    window: WindowView,
    /// The circuit's policy, with the names used in policy files.
    #[schema(value_type = Object)]
    policy: serde_json::Value,
}

/// The counts in a circuit's window.
#[derive(Serialize, ToSchema)]
#[schema(as = CircuitWindow)]
struct WindowView {
    /// The number of calls counted in the window.
    calls: u64,
    /// The number of successful calls in the window.
    successes: u64,
    /// The number of failed calls in the window.
    failures: u64,
    /// The number of calls slower than the policy's `slow_call`.
    slow: u64,
    /// The number of consecutive failures up to the latest call.
    consecutive_failures: u64,
    /// The mean latency, in milliseconds; null if there were no calls.
    #[schema(minimum = 0)]
    mean_latency_ms: Option<f64>,
}

impl CircuitShown {
    pub(super) fn new(api: &Api, key: &str, record: &Record, totals: &Totals, policy: &Policy) -> Self {
        let calls = totals.calls();
        #[allow(clippy::cast_precision_loss)] // A mean for people.
        let mean = (calls > 0).then(|| totals.latency_sum.as_secs_f64() * 1_000.0 / calls as f64);
        Self {
            circuit: CircuitView::new(api, key, record),
            window: WindowView {
                calls,
                successes: totals.successes,
                failures: totals.failures,
                slow: totals.slow,
                consecutive_failures: totals.failure_run,
                mean_latency_ms: mean,
            },
            policy: policy_values(policy).into(),
        }
    }
}

/// One change of a circuit's state or mode.
#[derive(Serialize, ToSchema)]
#[schema(as = Change)]
pub(super) struct ChangeView {
    /// Circuit ID.
    #[schema(example = "cir_YWNtZSBodHRwczovL2EuZXhhbXBsZQ")]
    circuit: String,
    /// The key of the circuit: the tenant and the destination.
    key: String,
    /// Tenant ID.
    tenant: String,
    /// The kind of calls that the circuit is for.
    purpose: PurposeView,
    /// The time of the change.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// The state before the change.
    from: StateView,
    /// The state after the change.
    to: StateView,
    /// The number of the epoch that began with the change.
    epoch: u64,
    /// The cause: a trip rule, such as `failure_rate`; `probe_failed`, `cool_off_over`, `probes_succeeded`; or an override, such as
    /// `force_open`.
    cause: String,
    /// The trip rule that caused the change; null if none did.
    rule: Option<String>,
    /// The actor of an override: an API key ID, or `gateway`; null if the change is not an override.
    actor: Option<String>,
    /// The reason for an override; null if the change is not an override.
    reason: Option<String>,
    /// If the circuit is open, the earliest time of the next probe.
    #[schema(value_type = Option<String>, format = "date-time")]
    retry_at: Option<Moment>,
    /// The number of trips since the count was last reset.
    trips: u32,
}

impl From<PastChange> for ChangeView {
    fn from(past: PastChange) -> Self {
        let change = past.change;
        let by = match &change.cause {
            Cause::Override { by, .. } => Some(by),
            _ => None,
        };
        let rule = match &change.cause {
            Cause::Rule(rule) => Some(rule.name().to_owned()),
            _ => None,
        };
        let (tenant, purpose) = owner(&past.key);
        Self {
            circuit: CircuitId::of(&past.key).to_string(),
            key: past.key.to_string(),
            tenant,
            purpose,
            rule,
            at: Moment(change.at),
            from: change.from.into(),
            to: change.to.into(),
            epoch: change.epoch.0,
            cause: cause_name(&change.cause),
            actor: by.map(|by| by.actor().to_owned()),
            reason: by.map(|by| by.reason().to_owned()),
            retry_at: change.retry_at.map(Moment),
            trips: change.trips,
        }
    }
}

fn cause_name(cause: &Cause) -> String {
    match cause {
        Cause::Rule(rule) => rule.name().to_owned(),
        Cause::Override { command, .. } => plain_name(command),
        other => plain_name(other),
    }
}

/// Returns the snake-case name of an enum value, as stores write it.
fn plain_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".to_owned(),
    }
}
