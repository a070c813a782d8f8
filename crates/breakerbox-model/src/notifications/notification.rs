//! Notifications as facts. Pure values; `text` has their words, `message` their form for each target.
//!
//! A notification is created once for its kind, subject and epoch, however often and by however many processes the
//! change is seen.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::values::{EndpointId, Moment, ShownKey, TenantId};

/// The subject of notifications about the store of circuits.
pub const STORE: &str = "store";

/// A notification to the operator or a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Notification {
    /// The tenant that it concerns besides the operator. `None`: only the operator.
    pub tenant: Option<TenantId>,
    /// The subject: a circuit's key, an endpoint, a reminder, a tenant, or the store.
    pub subject: Arc<str>,
    /// The number of the change of the subject. There is one notification for each kind, subject and epoch.
    pub epoch: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The content.
    pub news: News,
}

/// The content of a notification. Its field names are those of messages to webhooks, and never change.
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
    /// The store of circuits does not respond.
    StoreLost {
        /// The latest error of the store.
        error: String,
    },
    /// The store of circuits responds again.
    StoreBack {
        /// The beginning of the outage. `None`: not known.
        since: Option<Moment>,
    },
    /// The gateway's database accepts no writes.
    DatabaseLost {
        /// The error of the database.
        error: String,
    },
    /// The gateway's database accepts writes again.
    DatabaseBack {
        /// The beginning of the outage.
        since: Moment,
    },
    /// Many deliveries have failed for good.
    DeadLetters {
        /// The number within the last hour.
        count: u64,
        /// The limit that was reached.
        limit: u64,
    },
    /// A reminder was stopped.
    ReminderStopped(Stopped),
    /// A test of the delivery of notifications, at a client's request.
    Test {},
}

/// The circuit that a notification is about.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CircuitFacts {
    /// The id of the circuit in paths. `None` in messages about a URL, since the id holds the whole URL.
    pub id: Option<String>,
    /// The key of the circuit. `None` in messages about a URL.
    pub key: Option<String>,
    /// The first characters of the key's hash, as `GET /v1/circuits` shows it.
    #[serde(default)]
    pub fingerprint: String,
    /// The calls that share the circuit: those to an `endpoint`, to a `host`, or all of a `tenant`.
    pub circuit_by: String,
    /// The purpose of the circuit: `deliveries` or `reminders`.
    pub purpose: String,
    /// The URL's origin and `/...`, or the host. `None` for the circuit of a whole tenant. A notification that an older
    /// version stored may hold the whole URL.
    pub destination: Option<String>,
    /// The ids of some endpoints that share the circuit.
    pub endpoints: Vec<String>,
    /// The number of further endpoints.
    pub more_endpoints: u64,
}

/// Why a circuit tripped: the rule, its limit, and the counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Why {
    /// The rule, by its name in the policy.
    pub rule: String,
    /// The limit of the rule: percent, calls, or milliseconds.
    pub limit: u64,
    /// The minimum number of calls before rates and means are evaluated.
    pub min_calls: u64,
    /// The length of the window, in milliseconds.
    pub window_ms: u64,
    /// The duration from which on a call is slow, in milliseconds, if the rule is about slow calls.
    pub slow_call_ms: Option<u64>,
    /// The counts of the window. `None`: not known any more.
    pub counts: Option<Counted>,
}

/// The counts of the window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed.
    pub failures: u64,
    /// The number of calls that were slow.
    pub slow: u64,
    /// The number of consecutive failures up to the latest call.
    pub consecutive_failures: u64,
    /// The mean latency, in milliseconds.
    pub mean_latency_ms: u64,
}

/// The conditions under which a circuit is disabled. Both must hold.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct DisableConditions {
    /// The number of trips.
    pub trips: u32,
    /// The time without a success, in milliseconds.
    pub failing_ms: u64,
}

/// A circuit that opened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tripped {
    /// The circuit.
    pub circuit: CircuitFacts,
    /// When it opened.
    pub since: Moment,
    /// The rule that tripped it. `None` if a record that was found later does not contain it.
    pub cause: Option<Why>,
    /// When the first probe may be made.
    pub retry_at: Option<Moment>,
    /// The number of probes that must succeed.
    pub probes: u32,
    /// The number of trips so far, including this one.
    pub trips: u32,
    /// The conditions under which the circuit is disabled. `None`: it never is.
    pub disables: Option<DisableConditions>,
}

/// A circuit that closed again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recovered {
    /// The circuit.
    pub circuit: CircuitFacts,
    /// Since when it was not closed. `None`: not known.
    pub since: Option<Moment>,
    /// The number of its trips, which are remembered for a while.
    pub trips: u32,
}

/// A circuit or an endpoint that was disabled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Disabled {
    /// The reason. `circuit`: it failed for too long. `gone`: the endpoint responded with 410.
    pub disabled_reason: String,
    /// The circuit. `None` if an endpoint was disabled.
    pub circuit: Option<CircuitFacts>,
    /// The id of the endpoint. `None` if a circuit was disabled.
    pub endpoint: Option<String>,
    /// The host of that endpoint.
    pub host: Option<String>,
    /// The latest success. `None`: there was none.
    pub last_success_at: Option<Moment>,
    /// The reason, for people.
    pub reason: String,
}

/// A circuit that will be disabled soon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Warned {
    /// The circuit.
    pub circuit: CircuitFacts,
    /// The latest success. `None`: there was none.
    #[serde(default)]
    pub last_success_at: Option<Moment>,
    /// The first failure after it. `None` in notifications of an earlier version.
    #[serde(default)]
    pub failing_since: Option<Moment>,
    /// The time from which on a failed probe disables the circuit.
    pub disabled_at: Moment,
    /// When it may be probed next.
    pub retry_at: Option<Moment>,
    /// The number of trips so far.
    pub trips: u32,
    /// The number of trips at which it is disabled.
    pub trips_needed: u32,
}

/// A reminder that was stopped.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stopped {
    /// The id of the reminder.
    pub reminder: String,
    /// The number of the run that stopped it.
    pub run: u32,
    /// The host that it called.
    pub host: String,
    /// The reason, for people.
    pub reason: String,
}

impl CircuitFacts {
    /// Returns the facts without possible secrets: the path of a URL, and the id and the key that contain it.
    fn redacted(self) -> Self {
        let Some(key) = self.key.as_deref().filter(|key| ShownKey(key).has_url()) else { return self };
        let (destination, fingerprint) = (ShownKey(key).destination(), ShownKey(key).fingerprint());
        Self { id: None, key: None, destination, fingerprint, ..self }
    }
}

impl News {
    /// Returns the notification without possible secrets. Only this form leaves the gateway.
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

    /// Returns the kind.
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
            Self::DeadLetters { .. } => Kind::DeadLetters,
            Self::ReminderStopped(_) => Kind::ReminderStopped,
            Self::Test {} => Kind::Test,
        }
    }
}

impl Notification {
    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.news.kind()
    }

    /// Returns a notification that the store of circuits does not respond.
    #[must_use]
    pub fn store_lost(error: impl Into<String>, at: Timestamp) -> Self {
        Self::of_store(News::StoreLost { error: error.into() }, at)
    }

    /// Returns a notification that the store of circuits responds again.
    #[must_use]
    pub fn store_back(at: Timestamp) -> Self {
        Self::of_store(News::StoreBack { since: None }, at)
    }

    fn of_store(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: STORE.into(), epoch: at.as_micros(), at, news }
    }

    /// Returns a notification that the gateway's database accepts no writes since `at`.
    #[must_use]
    pub fn database_lost(error: impl Into<String>, at: Timestamp) -> Self {
        Self::of_database(News::DatabaseLost { error: error.into() }, at)
    }

    /// Returns a notification that the gateway's database accepts writes again. It accepted none from `since` on.
    #[must_use]
    pub fn database_back(since: Timestamp, at: Timestamp) -> Self {
        Self::of_database(News::DatabaseBack { since: Moment(since) }, at)
    }

    fn of_database(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: "database".into(), epoch: at.as_micros(), at, news }
    }

    /// Returns a notification that an endpoint responded with 410 and was disabled. `epoch` is the revision that
    /// disabled it.
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
        });
        Self { tenant: Some(tenant), subject: endpoint.to_string().into(), epoch, at, news }
    }

    /// Returns a notification that many of a tenant's deliveries failed within an hour. There is one for each limit and
    /// hour.
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

    /// Returns a notification that a reminder was stopped because of the result of its run. It contains only the host
    /// of the URL.
    #[must_use]
    pub fn reminder_stopped(
        tenant: TenantId,
        reminder: impl Into<String>,
        run: u32,
        url: &str,
        why: impl Into<String>,
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
            }),
        }
    }

    /// Returns a test notification.
    #[must_use]
    pub fn test(tenant: Option<TenantId>, at: Timestamp) -> Self {
        Self { tenant, subject: "test".into(), epoch: at.as_micros(), at, news: News::Test {} }
    }
}
