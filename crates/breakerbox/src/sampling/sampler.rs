//! Samplers: sources of counted outcomes, and the requests to them. A sampler counts, and never decides.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Sample;

/// A source of totals, such as a query on a table of attempts.
#[async_trait]
pub trait Sampler: Send + Sync + 'static {
    /// Returns the totals for every key that had an attempt, as the [poll](Poll) specifies. Only the leader calls this,
    /// once per tick. Calls never overlap; if the timeout passes, the future is dropped.
    ///
    /// # Errors
    /// If the totals are not available. No circuit changes then, and the error is [reported](super::Report).
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError>;

    /// Returns whether samples contain the [number of consecutive failures](Sample::failure_run), which the rule
    /// `consecutive_failures` needs.
    fn returns_runs(&self) -> bool {
        false
    }
}

/// Shares one sampler among several registries in this process.
#[async_trait]
impl<S: Sampler + ?Sized> Sampler for Arc<S> {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        (**self).sample(poll).await
    }

    fn returns_runs(&self) -> bool {
        (**self).returns_runs()
    }
}

/// A request to a sampler. Times are given as ages, which the database applies to its own clock, so that clocks need
/// not agree.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Poll {
    /// Counts attempts that finished within this time. For the keys in `since`, fewer attempts count.
    pub window: Duration,
    /// The keys for which fewer attempts count, because they had a transition within the window, or are half-open.
    /// There are usually few such keys. Each key occurs once.
    pub since: Vec<Since>,
    /// If set, attempts of closed circuits that finished within this time are also counted separately, as
    /// [`Sample::recent`]. `None` if only the window is evaluated. If a sampler does not support this, a destination
    /// that was healthy for most of the window trips later.
    pub recent: Option<Duration>,
}

/// A key for which only attempts after a transition count.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Since {
    /// The circuit's key.
    pub key: Arc<str>,
    /// The time since the circuit's latest transition.
    pub age: Duration,
    /// If true, count attempts that *started* since the transition and have finished. Used for a half-open circuit,
    /// whose age may be longer than the window. If false, count attempts that *finished* since the transition.
    pub started: bool,
}

impl Poll {
    /// Creates a poll without a recent part, for example to test a sampler.
    #[must_use]
    pub const fn new(window: Duration, since: Vec<Since>) -> Self {
        Self { window, since, recent: None }
    }

    /// Requests that attempts that finished within this time are also counted separately.
    #[must_use]
    pub const fn with_recent(mut self, recent: Duration) -> Self {
        self.recent = Some(recent);
        self
    }
}

impl Since {
    /// Requests the key's attempts that finished within this time.
    #[must_use]
    pub fn finished(key: &str, age: Duration) -> Self {
        Self { key: key.into(), age, started: false }
    }

    /// Requests the key's attempts that started within this time and have finished.
    #[must_use]
    pub fn started(key: &str, age: Duration) -> Self {
        Self { key: key.into(), age, started: true }
    }
}

/// The reason why a sampler returned no totals.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The poll exceeded its timeout.
    #[error(
        "the sampler did not answer within {limit:?}; an index may be missing, or poll_timeout is too short"
    )]
    TimedOut {
        /// The timeout that was exceeded.
        limit: Duration,
    },
    /// The sampler failed, with this cause.
    #[error("the sampler failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The sampler's result is not valid.
    #[error("{field}: {reason}")]
    Unreadable {
        /// The invalid column, or the invalid part of a sample.
        field: &'static str,
        /// The reason why the column or part is not valid.
        reason: String,
    },
}

impl SampleError {
    /// Creates an error for a sampler that failed, with this cause.
    pub fn failed(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(reason.into())
    }

    /// Returns the error's message with the messages of its causes.
    pub(super) fn with_causes(&self) -> String {
        let chain = std::iter::successors(Some(self as &dyn Error), |&error| error.source());
        chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}
