//! Notices: what is told to people, as facts. Pure values; their words are in `text`, their way out in `message`.
//!
//! A notice is told once for its kind, its subject and its epoch, whoever notices it and however often.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::objects::{EndpointId, Moment, ShownKey, TenantId};

/// The subject of notices about the store of circuits.
pub const STORE: &str = "store";

/// What is told to people.
#[derive(Clone, PartialEq, Debug)]
pub struct Notice {
    /// Whom it concerns besides the operator; none: nobody.
    pub tenant: Option<TenantId>,
    /// What it is about: a circuit's key, an endpoint, a reminder, a tenant, or the store.
    pub subject: Arc<str>,
    /// Which change of the subject: one notice for each kind, subject and epoch.
    pub epoch: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub news: News,
}

/// What happened. The names of the fields are those of messages to webhooks, and never change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum News {
    /// A circuit opened.
    Trip(Tripped),
    /// A circuit closed again.
    Recovery(Recovered),
    /// A circuit or an endpoint was given up.
    Disabled(Disabled),
    /// It soon will be.
    DisableWarning(Warned),
    /// The store of circuits does not answer.
    StoreLost {
        /// What it said last.
        error: String,
    },
    /// It answers again.
    StoreBack {
        /// Since when it did not.
        since: Option<Moment>,
    },
    /// The gateway's database takes no writes.
    DatabaseLost {
        /// Why not.
        error: String,
    },
    /// It takes writes again.
    DatabaseBack {
        /// Since when it took none.
        since: Moment,
    },
    /// Many deliveries have failed for good.
    DeadLetters {
        /// How many within the last hour.
        count: u64,
        /// How many were too many.
        limit: u64,
    },
    /// A reminder fires no more.
    ReminderStopped(Stopped),
    /// Somebody tries whether notices arrive.
    Test {},
}

/// The circuit that a notice is about.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CircuitFacts {
    /// Its id in paths; none in messages about a URL, since the id holds the whole URL.
    pub id: Option<String>,
    /// Its key; none in messages about a URL.
    pub key: Option<String>,
    /// The beginning of the key's hash, as `GET /v1/circuits` shows it.
    #[serde(default)]
    pub fingerprint: String,
    /// Whose calls share it: those to an `endpoint`, to a `host`, or all of a `tenant`.
    pub by: String,
    /// What it is for: `deliveries` or `reminders`.
    pub purpose: String,
    /// The URL's origin and `/...`, or the host; none for that of a whole tenant. A notice that an older version stored may hold
    /// the whole URL.
    pub place: Option<String>,
    /// The ids of endpoints that share it, a few.
    pub endpoints: Vec<String>,
    /// How many more there are.
    pub more_endpoints: u64,
}

/// What tripped a circuit: a rule, its limit, and what was counted.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Why {
    /// The rule, by its name in the policy.
    pub rule: String,
    /// Its limit: percent, calls, or milliseconds.
    pub limit: u64,
    /// How many calls the rates and the mean wait for.
    pub min_calls: u64,
    /// Over which time calls count.
    pub window_ms: u64,
    /// From when on a call is slow, if the rule is about slow calls.
    pub slow_call_ms: Option<u64>,
    /// What was counted; none if that is not known any more.
    pub counted: Option<Counted>,
}

/// What the window held.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Calls.
    pub calls: u64,
    /// Those that failed.
    pub failures: u64,
    /// Those that were slow.
    pub slow: u64,
    /// How many of the latest failed, one after the other.
    pub consecutive_failures: u64,
    /// How long they took on average.
    pub mean_latency_ms: u64,
}

/// When a circuit is given up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct GivesUp {
    /// At so many trips.
    pub trips: u32,
    /// And after so long without a success.
    pub silence_ms: u64,
}

/// A circuit that opened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tripped {
    /// Which.
    pub circuit: CircuitFacts,
    /// Since when.
    pub since: Moment,
    /// Why; none if a record that was found later does not say.
    pub why: Option<Why>,
    /// When the first probe may be made.
    pub retry_at: Option<Moment>,
    /// How many probes must succeed.
    pub probes: u32,
    /// Trips so far, this one included.
    pub trips: u32,
    /// When it is given up; none: never.
    pub gives_up: Option<GivesUp>,
}

/// A circuit that closed again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recovered {
    /// Which.
    pub circuit: CircuitFacts,
    /// Since when it was not closed, if that is known.
    pub since: Option<Moment>,
    /// Its trips, which are remembered for a while.
    pub trips: u32,
}

/// What was given up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Disabled {
    /// `circuit`: it failed for too long. `gone`: the endpoint answered 410.
    pub because: String,
    /// The circuit, if it is one.
    pub circuit: Option<CircuitFacts>,
    /// The endpoint, if it is one.
    pub endpoint: Option<String>,
    /// The host of that endpoint.
    pub host: Option<String>,
    /// The latest success, if there was one.
    pub last_success_at: Option<Moment>,
    /// In words.
    pub reason: String,
}

/// A circuit that will be given up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Warned {
    /// Which.
    pub circuit: CircuitFacts,
    /// The latest success, if there was one.
    #[serde(default)]
    pub last_success_at: Option<Moment>,
    /// The first failure after it; none in notices of an earlier version.
    #[serde(default)]
    pub failing_since: Option<Moment>,
    /// From when on a failed probe gives it up.
    pub disabled_at: Moment,
    /// When it may be probed next.
    pub retry_at: Option<Moment>,
    /// Trips so far.
    pub trips: u32,
    /// How many trips there must be.
    pub trips_needed: u32,
}

/// A reminder that fires no more.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stopped {
    /// Which.
    pub reminder: String,
    /// At which run.
    pub run: u32,
    /// The host that it called.
    pub host: String,
    /// In words.
    pub reason: String,
}

impl CircuitFacts {
    /// The same without what may be a secret: the path of a URL, and the id and the key that hold it.
    fn redacted(self) -> Self {
        let Some(key) = self.key.as_deref().filter(|key| ShownKey(key).has_url()) else { return self };
        let (place, fingerprint) = (ShownKey(key).destination(), ShownKey(key).fingerprint());
        Self { id: None, key: None, place, fingerprint, ..self }
    }
}

impl News {
    /// The same without what may be a secret. This is what leaves the gateway.
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

    /// Its kind.
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

impl Notice {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.news.kind()
    }

    /// The store of circuits does not answer.
    #[must_use]
    pub fn store_lost(error: impl Into<String>, at: Timestamp) -> Self {
        Self::of_store(News::StoreLost { error: error.into() }, at)
    }

    /// It answers again.
    #[must_use]
    pub fn store_back(at: Timestamp) -> Self {
        Self::of_store(News::StoreBack { since: None }, at)
    }

    fn of_store(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: STORE.into(), epoch: at.as_micros(), at, news }
    }

    /// The gateway's database takes no writes since `at`.
    #[must_use]
    pub fn database_lost(error: impl Into<String>, at: Timestamp) -> Self {
        Self::of_database(News::DatabaseLost { error: error.into() }, at)
    }

    /// The gateway's database takes writes again; it took none from `since` on.
    #[must_use]
    pub fn database_back(since: Timestamp, at: Timestamp) -> Self {
        Self::of_database(News::DatabaseBack { since: Moment(since) }, at)
    }

    fn of_database(news: News, at: Timestamp) -> Self {
        Self { tenant: None, subject: "database".into(), epoch: at.as_micros(), at, news }
    }

    /// An endpoint answered 410, and was disabled. `epoch` is the revision that disabled it.
    #[must_use]
    pub fn endpoint_gone(
        tenant: TenantId,
        endpoint: EndpointId,
        url: &url::Url,
        epoch: u64,
        at: Timestamp,
    ) -> Self {
        let news = News::Disabled(Disabled {
            because: "gone".into(),
            circuit: None,
            endpoint: Some(endpoint.to_string()),
            host: url.host_str().map(str::to_owned),
            last_success_at: None,
            reason: "it answered 410 Gone".into(),
        });
        Self { tenant: Some(tenant), subject: endpoint.to_string().into(), epoch, at, news }
    }

    /// Many of a tenant's deliveries failed within an hour. Told once for each limit and hour.
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

    /// A reminder fires no more, because of how its run went. Of the URL only the host is told.
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

    /// Somebody tries whether notices arrive.
    #[must_use]
    pub fn test(tenant: Option<TenantId>, at: Timestamp) -> Self {
        Self { tenant, subject: "test".into(), epoch: at.as_micros(), at, news: News::Test {} }
    }
}
