//! The JSON of circuits.

use breakerbox_core::{Cause, Mode, Policy, RandomBits, Record, Status, Timestamp, Totals};
use breakerbox_model::objects::{CircuitId, CircuitOwner, PastChange, Purpose, ShownKey};
use breakerbox_model::policy_values;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::reading::fields::Moment;

/// The state of a circuit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum StateView {
    Closed,
    Open,
    HalfOpen,
    Disabled,
}

/// What a circuit is for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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

impl From<Status> for StateView {
    fn from(status: Status) -> Self {
        match status {
            Status::Open => Self::Open,
            Status::HalfOpen => Self::HalfOpen,
            Status::Disabled => Self::Disabled,
            _ => Self::Closed,
        }
    }
}

/// The circuit of something that is shown.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct CircuitOf {
    /// Its name in paths.
    id: String,
    /// Its key.
    key: String,
    /// Its state.
    #[schema(inline)]
    state: StateView,
}

impl CircuitOf {
    pub(in crate::api) fn new(key: &str, status: Status) -> Self {
        Self { id: CircuitId::of(key).to_string(), key: key.to_owned(), state: status.into() }
    }
}

impl From<StateView> for Status {
    fn from(state: StateView) -> Self {
        match state {
            StateView::Closed => Self::Closed,
            StateView::Open => Self::Open,
            StateView::HalfOpen => Self::HalfOpen,
            StateView::Disabled => Self::Disabled,
        }
    }
}

/// Who decides about a circuit.
#[derive(Serialize, ToSchema)]
#[schema(as = Mode)]
struct ModeView {
    /// Its outcomes (`automatic`), or an operator.
    #[schema(inline)]
    name: ModeName,
    /// Who said so: an API key's id, or the gateway.
    actor: Option<String>,
    /// Why.
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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

/// A circuit.
#[derive(Serialize, ToSchema)]
#[schema(as = Circuit)]
pub(super) struct CircuitView {
    /// Its name in paths.
    #[schema(example = "cir_YWNtZSBodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2lu")]
    id: String,
    /// Its key: the tenant, and where.
    #[schema(example = "acme https://hooks.example.com/in")]
    key: String,
    /// The beginning of the key's hash. Logs and notifications name a circuit by it where the key holds a URL.
    #[schema(example = "3f2a9c1b8d02")]
    fingerprint: String,
    /// Whose.
    tenant: String,
    /// What it is for: a tenant's reminders have circuits of their own.
    #[schema(inline)]
    purpose: PurposeView,
    /// Its state.
    #[schema(inline)]
    state: StateView,
    /// Who decides.
    #[schema(inline)]
    mode: ModeView,
    /// This life of the circuit. Grows with every change.
    epoch: u64,
    /// Trips since it was last forgiven.
    trips: u32,
    /// While open: from when on a delivery may probe.
    #[schema(value_type = Option<String>, format = "date-time")]
    retry_at: Option<Moment>,
    /// When it last tripped or was opened.
    #[schema(value_type = Option<String>, format = "date-time")]
    opened_at: Option<Moment>,
    /// The latest success; null until there was one.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_success_at: Option<Moment>,
    /// The first failure that counted after the latest success; null: it does not fail.
    #[schema(value_type = Option<String>, format = "date-time")]
    failing_since: Option<Moment>,
    /// While half-open: how many probes have succeeded.
    probe_successes: u32,
    /// Whether a probe is under way.
    probing: bool,
    /// When it last changed; null: nothing has happened to it.
    #[schema(value_type = Option<String>, format = "date-time")]
    changed_at: Option<Moment>,
    /// Why it last changed.
    cause: Option<String>,
}

impl CircuitView {
    pub(super) fn new(api: &Api, key: &str, record: &Record) -> Self {
        let (tenant, purpose) = owner(key);
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
            probe_successes: record.probe_successes,
            probing: record.lease.is_some(),
            changed_at: record.cause.as_ref().map(|_| Moment(record.changed_at)),
            cause: record.cause.as_ref().map(cause_name),
        }
    }
}

/// Returns the record of a circuit that never changed.
pub(super) fn untouched(key: &str) -> Record {
    Record::new(Some(owner(key).0.into()), RandomBits(0), Timestamp::ZERO)
}

/// Returns the tenant of a key, and its purpose.
fn owner(key: &str) -> (String, PurposeView) {
    match CircuitOwner::of_key(key) {
        Some(owner) => (owner.tenant.to_string(), owner.purpose.into()),
        None => (String::new(), PurposeView::Deliveries),
    }
}

/// A circuit with everything about it.
#[derive(Serialize, ToSchema)]
pub(super) struct CircuitShown {
    #[serde(flatten)]
    circuit: CircuitView,
    /// What its window holds, as this process sees it.
    #[schema(inline)]
    window: WindowView,
    /// The policy that governs it, with the names of the policy file.
    #[schema(value_type = Object)]
    policy: serde_json::Value,
}

/// What a window holds.
#[derive(Serialize, ToSchema)]
struct WindowView {
    /// Calls that count.
    calls: u64,
    /// Of which succeeded.
    successes: u64,
    /// Of which failed.
    failures: u64,
    /// Of which were slow.
    slow: u64,
    /// Failures in a row up to now.
    consecutive_failures: u64,
    /// The mean latency; null: there were no calls.
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

/// What happened to a circuit once.
#[derive(Serialize, ToSchema)]
#[schema(as = Change)]
pub(super) struct ChangeView {
    /// The circuit's name in paths.
    #[schema(example = "cir_YWNtZSBodHRwczovL2EuZXhhbXBsZQ")]
    circuit: String,
    /// Its key.
    key: String,
    /// Whose it is.
    tenant: String,
    /// What it is for.
    #[schema(inline)]
    purpose: PurposeView,
    /// When.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// The state before.
    #[schema(inline)]
    from: StateView,
    /// The state after.
    #[schema(inline)]
    to: StateView,
    /// The epoch that began.
    epoch: u64,
    /// Why: a trip rule, such as `failure_rate`; `probe_failed`, `cool_off_over`, `probes_succeeded`; or an order, such as
    /// `force_open`.
    cause: String,
    /// The trip rule, if one held.
    rule: Option<String>,
    /// With an order: whose, an API key's id.
    actor: Option<String>,
    /// With an order: why.
    reason: Option<String>,
    /// While open: from when on a delivery may probe.
    #[schema(value_type = Option<String>, format = "date-time")]
    retry_at: Option<Moment>,
    /// Trips so far.
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

/// Returns the one-word name of a value, as stores hold it.
fn plain_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".to_owned(),
    }
}
