//! The content of notifications, as plain values. `text` turns them into words, `message` into messages for each kind
//! of target.
//!
//! A notification is created once for each kind, subject and epoch, no matter how often and by how many processes the
//! change is observed.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_core::own_outage::{End, Outage};
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::delivery::LastAttempt;
use crate::values::{EndpointId, Moment, ShownKey, TenantId};

/// The subject of notifications about the circuit store.
pub const STORE: &str = "store";

/// A notification to the operator or a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Notification {
    /// The tenant that the notification concerns, in addition to the operator. `None`: it concerns only the operator.
    pub tenant: Option<TenantId>,
    /// The subject: a circuit's key, an endpoint, a reminder, a tenant, or [`STORE`].
    pub subject: Arc<str>,
    /// The number of the change to the subject, such as a circuit's epoch. Kind, subject and epoch together are
    /// unique.
    pub epoch: u64,
    /// When the reported change happened.
    pub at: Timestamp,
    /// The content of the notification.
    pub news: News,
}

/// The content of a notification. Its field names appear in webhook messages, and never change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum News {
    /// A circuit opened.
    Trip(Tripped),
    /// A circuit closed again.
    Recovery(Recovered),
    /// A circuit or an endpoint was disabled.
    Disabled(Disabled),
    /// A circuit will be disabled soon.
    DisableWarning(Warned),
    /// The circuit store does not respond.
    StoreLost {
        /// The store's latest error message.
        error: String,
    },
    /// The circuit store responds again.
    StoreBack {
        /// The start of the outage. `None`: not known.
        since: Option<Moment>,
    },
    /// The gateway's database rejects writes.
    DatabaseLost {
        /// The database's error message.
        error: String,
    },
    /// The gateway's database accepts writes again.
    DatabaseBack {
        /// The start of the outage.
        since: Moment,
    },
    /// Most destinations can't be reached, so the fault is on the gateway's side.
    NetworkLost {
        /// The number of destinations that could not be reached.
        lost: u32,
        /// The number of destinations that were called.
        destinations: u32,
        /// The number of hosts that were called.
        hosts: u32,
    },
    /// The outage on the gateway's side is over.
    NetworkBack {
        /// The start of the outage.
        since: Moment,
        /// Why it is over: `answered`, `refuted` or `expired`.
        end: String,
    },
    /// Many of a tenant's deliveries have failed for good.
    DeadLetters {
        /// The number of deliveries that failed within the last hour.
        count: u64,
        /// The limit that the count reached.
        limit: u64,
    },
    /// A reminder stopped because of a run's result.
    ReminderStopped(Stopped),
    /// A test notification that a client requested.
    Test {},
}

/// The circuit that a notification is about.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CircuitFacts {
    /// The circuit's id in paths. `None` in messages about a URL, because the id contains the whole URL.
    pub id: Option<String>,
    /// The circuit's key. `None` in messages about a URL.
    pub key: Option<String>,
    /// The first characters of the key's hash, as listed by `GET /v1/circuits`.
    #[serde(default)]
    pub fingerprint: String,
    /// Which calls share the circuit: those to one `endpoint`, to one `host`, or all calls of a `tenant`.
    pub circuit_by: String,
    /// The purpose of the circuit: `deliveries` or `reminders`.
    pub purpose: String,
    /// The URL's origin and `/...`, or the host. `None` if the circuit is for a whole tenant. A notification stored
    /// by an older version may contain the whole URL.
    pub destination: Option<String>,
    /// The ids of the first endpoints that share the circuit.
    pub endpoints: Vec<String>,
    /// The number of further endpoints that share the circuit but are not listed.
    pub more_endpoints: u64,
}

/// Why a circuit tripped: the rule, its limit, and the counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Why {
    /// The rule's name in the policy.
    pub rule: String,
    /// The rule's limit: a percentage, a number of calls, or milliseconds.
    pub limit: u64,
    /// The minimum number of calls before rates and mean latencies are evaluated.
    pub min_calls: u64,
    /// The length of the window, in milliseconds.
    pub window_ms: u64,
    /// The latency above which a call counts as slow, in milliseconds. `None`: the rule is not about slow calls.
    pub slow_call_ms: Option<u64>,
    /// The counts in the window. `None`: no longer known.
    pub counts: Option<Counted>,
}

/// The counts in a circuit's window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    /// The number of calls, successful or failed.
    pub calls: u64,
    /// The number of failed calls in the window.
    pub failures: u64,
    /// The number of slow calls in the window.
    pub slow: u64,
    /// The number of consecutive failures, up to the latest call.
    pub consecutive_failures: u64,
    /// The mean latency of the calls, in milliseconds.
    pub mean_latency_ms: u64,
}

/// The latest attempt that the gateway made, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LastResult {
    /// The HTTP status of the response. `None`: there was no response, or no attempt is known.
    #[serde(default)]
    pub last_status: Option<u16>,
    /// Why there was no response, such as `connect: connection refused`. `None`: there was one, or no attempt is known.
    #[serde(default)]
    pub last_error: Option<String>,
}

impl From<&LastAttempt> for LastResult {
    fn from(attempt: &LastAttempt) -> Self {
        Self { last_status: attempt.status, last_error: attempt.error() }
    }
}

/// The conditions for disabling a circuit. Both must be met.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct DisableConditions {
    /// The minimum number of trips before the circuit is disabled.
    pub trips: u32,
    /// The minimum time without a success before the circuit is disabled, in milliseconds.
    pub failing_ms: u64,
}

/// The facts about a circuit that opened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tripped {
    /// The circuit that opened.
    pub circuit: CircuitFacts,
    /// When the circuit opened.
    pub since: Moment,
    /// The rule that tripped the circuit. `None`: the trip was observed too late, and the circuit's record does not
    /// contain the rule.
    pub cause: Option<Why>,
    /// The earliest time of the first probe. `None`: not known.
    pub retry_at: Option<Moment>,
    /// The number of probes that must succeed before the circuit closes.
    pub probes: u32,
    /// The circuit's number of trips so far, including the reported one.
    pub trips: u32,
    /// The conditions for disabling the circuit. `None`: it is never disabled.
    pub disables: Option<DisableConditions>,
    /// The latest attempt through the circuit when it opened.
    #[serde(flatten)]
    pub last: LastResult,
}

/// The facts about a circuit that closed again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recovered {
    /// The circuit that closed.
    pub circuit: CircuitFacts,
    /// The start of the outage: when the circuit stopped being closed. `None`: not known.
    pub since: Option<Moment>,
    /// The circuit's number of trips, which are remembered for a limited time.
    pub trips: u32,
}

/// The facts about a circuit or an endpoint that was disabled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Disabled {
    /// Why the circuit or the endpoint was disabled. `circuit`: the circuit failed for too long. `gone`: the endpoint
    /// responded with 410.
    pub disabled_reason: String,
    /// The disabled circuit. `None` if an endpoint was disabled.
    pub circuit: Option<CircuitFacts>,
    /// The disabled endpoint's id. `None` if a circuit was disabled.
    pub endpoint: Option<String>,
    /// The host in the disabled endpoint's URL. `None` if a circuit was disabled.
    pub host: Option<String>,
    /// The time of the circuit's latest success. `None`: there was none, or an endpoint was disabled.
    pub last_success_at: Option<Moment>,
    /// The human-readable reason why the circuit or the endpoint was disabled.
    pub reason: String,
    /// The latest attempt through the circuit, or to the endpoint.
    #[serde(flatten)]
    pub last: LastResult,
}

/// The facts about a circuit that will be disabled soon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Warned {
    /// The circuit that will be disabled.
    pub circuit: CircuitFacts,
    /// The time of the circuit's latest success. `None`: there was none.
    #[serde(default)]
    pub last_success_at: Option<Moment>,
    /// The time of the first failure after the latest success. `None` in notifications stored by an older version.
    #[serde(default)]
    pub failing_since: Option<Moment>,
    /// The time after which a failed probe disables the circuit.
    pub disabled_at: Moment,
    /// The earliest time of the next probe. `None`: not known.
    pub retry_at: Option<Moment>,
    /// The circuit's number of trips so far.
    pub trips: u32,
    /// The number of trips at which the circuit is disabled.
    pub trips_needed: u32,
    /// The latest attempt through the circuit.
    #[serde(flatten)]
    pub last: LastResult,
}

/// The facts about a reminder that stopped.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stopped {
    /// The id of the stopped reminder, `rem_...`.
    pub reminder: String,
    /// The number of the run that stopped the reminder.
    pub run: u32,
    /// The host that the reminder called.
    pub host: String,
    /// The human-readable reason why the reminder stopped.
    pub reason: String,
    /// The latest attempt of the run that stopped the reminder.
    #[serde(flatten)]
    pub last: LastResult,
}

impl CircuitFacts {
    /// Returns the facts without the parts that may be secret: the URL's path, and the id and the key, which contain
    /// that path.
    fn redacted(self) -> Self {
        let Some(key) = self.key.as_deref().filter(|key| ShownKey(key).has_url()) else { return self };
        let (destination, fingerprint) = (ShownKey(key).destination(), ShownKey(key).fingerprint());
        Self { id: None, key: None, destination, fingerprint, ..self }
    }
}

impl News {
    /// Returns the notification without possible secrets. Only this form is sent outside the gateway.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        let circuit = match &mut self {
            Self::Trip(news) => Some(&mut news.circuit),
            Self::Recovery(news) => Some(&mut news.circuit),
            Self::DisableWarning(news) => Some(&mut news.circuit),
            Self::Disabled(news) => news.circuit.as_mut(),
            _ => None,
        };
        if let Some(circuit) = circuit {
            *circuit = circuit.clone().redacted();
        }
        self
    }

    /// Returns the kind of this notification.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Trip(_) => Kind::Trip,
            Self::Recovery(_) => Kind::Recovery,
            Self::Disabled(_) => Kind::Disabled,
            Self::DisableWarning(_) => Kind::DisableWarning,
            Self::StoreLost { .. } => Kind::StoreLost,
            Self::StoreBack { .. } => Kind::StoreBack,
            Self::DatabaseLost { .. } => Kind::DatabaseLost,
            Self::DatabaseBack { .. } => Kind::DatabaseBack,
            Self::NetworkLost { .. } => Kind::NetworkLost,
            Self::NetworkBack { .. } => Kind::NetworkBack,
            Self::DeadLetters { .. } => Kind::DeadLetters,
            Self::ReminderStopped(_) => Kind::ReminderStopped,
            Self::Test {} => Kind::Test,
        }
    }
}

impl Notification {
    /// Returns the kind of notification with this content.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.news.kind()
    }

    /// Creates a notification that the circuit store does not respond.
    #[must_use]
    pub fn store_lost(error: impl Into<String>, at: Timestamp) -> Self {
        Self::of_store(News::StoreLost { error: error.into() }, at)
    }

    /// Creates a notification that the circuit store responds again.
    #[must_use]
    pub fn store_back(at: Timestamp) -> Self {
        Self::of_store(News::StoreBack { since: None }, at)
    }

    fn of_store(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: STORE.into(), epoch: at.as_micros(), at, news }
    }

    /// Creates a notification that the gateway's database has rejected writes since `at`.
    #[must_use]
    pub fn database_lost(error: impl Into<String>, at: Timestamp) -> Self {
        Self::of_database(News::DatabaseLost { error: error.into() }, at)
    }

    /// Creates a notification that the gateway's database accepts writes again, after an outage that began at
    /// `since`.
    #[must_use]
    pub fn database_back(since: Timestamp, at: Timestamp) -> Self {
        Self::of_database(News::DatabaseBack { since: Moment(since) }, at)
    }

    fn of_database(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: "database".into(), epoch: at.as_micros(), at, news }
    }

    /// Creates a notification that most destinations have been out of reach since `at`.
    #[must_use]
    pub fn network_lost(outage: &Outage, at: Timestamp) -> Self {
        let Outage { lost, keys, hosts, .. } = *outage;
        Self::of_network(News::NetworkLost { lost, destinations: keys, hosts }, at)
    }

    /// Creates a notification that the outage on the gateway's side, which began at `since`, is over.
    #[must_use]
    pub fn network_back(since: Timestamp, end: End, at: Timestamp) -> Self {
        Self::of_network(News::NetworkBack { since: Moment(since), end: end.name().into() }, at)
    }

    fn of_network(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: "network".into(), epoch: at.as_micros(), at, news }
    }

    /// Creates a notification that an endpoint responded with 410 and was disabled. `epoch` is the endpoint's
    /// revision after it was disabled.
    #[must_use]
    pub fn endpoint_gone(
        tenant: TenantId,
        endpoint: EndpointId,
        url: &url::Url,
        epoch: u64,
        at: Timestamp,
    ) -> Self {
        let news = News::Disabled(Disabled {
            disabled_reason: "gone".into(),
            circuit: None,
            endpoint: Some(endpoint.to_string()),
            host: url.host_str().map(str::to_owned),
            last_success_at: None,
            reason: "the endpoint responded with 410 Gone".into(),
            last: LastResult { last_status: Some(410), last_error: None },
        });
        Self { tenant: Some(tenant), subject: endpoint.to_string().into(), epoch, at, news }
    }

    /// Creates a notification that many of a tenant's deliveries failed within an hour. Each limit is
    /// reported at most once per clock hour, because the hour is the notification's epoch.
    #[must_use]
    pub fn dead_letters(tenant: TenantId, count: u64, limit: u64, at: Timestamp) -> Self {
        let hour = at.as_micros() / 3_600_000_000;
        Self {
            subject: format!("{tenant} {limit}").into(),
            tenant: Some(tenant),
            epoch: hour,
            at,
            news: News::DeadLetters { count, limit },
        }
    }

    /// Creates a notification that a reminder stopped because of a run's result. The notification contains
    /// the host of the reminder's URL, but not the rest of the URL.
    #[must_use]
    pub fn reminder_stopped(
        tenant: TenantId,
        reminder: impl Into<String>,
        run: u32,
        url: &str,
        why: impl Into<String>,
        last: LastResult,
        at: Timestamp,
    ) -> Self {
        let host = url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let reminder = reminder.into();
        Self {
            tenant: Some(tenant),
            subject: reminder.as_str().into(),
            epoch: run.into(),
            at,
            news: News::ReminderStopped(Stopped {
                reminder,
                run,
                host: host.unwrap_or_default(),
                reason: why.into(),
                last,
            }),
        }
    }

    /// Creates a test notification.
    #[must_use]
    pub fn test(tenant: Option<TenantId>, at: Timestamp) -> Self {
        Self { tenant, subject: "test".into(), epoch: at.as_micros(), at, news: News::Test {} }
    }
}
