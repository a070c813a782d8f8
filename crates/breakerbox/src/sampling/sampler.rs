//! Samplers: sources of counted outcomes, and the requests to them. A sampler counts, and never decides.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Sample;

/// A source of totals.
#[async_trait]
pub trait Sampler: Send + Sync + 'static {
    /// Returns the totals of every key that had an attempt, as the [poll](Poll) specifies. Only the leader calls it,
    /// once per tick, and never again before it has returned or its timeout has passed: then the future is dropped.
    ///
    /// # Errors
    /// If the totals are not available. Nothing changes then, and the error is [reported](super::Report).
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError>;

    /// Returns whether its samples have [runs of failures](Sample::failure_run). The rule `consecutive_failures` needs
    /// them.
    fn returns_runs(&self) -> bool {
        false
    }
}

/// Shares one sampler between several registries of this process.
#[async_trait]
impl<S: Sampler + ?Sized> Sampler for Arc<S> {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        (**self).sample(poll).await
    }

    fn returns_runs(&self) -> bool {
        (**self).returns_runs()
    }
}

/// A request to a sampler. Times are ages, so that clocks need not agree: the database applies them to its own clock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Poll {
    /// Count the attempts that finished within this time,
    pub window: Duration,
    /// except for these keys, of which fewer count. There are few: keys with a transition inside the window, and
    /// half-open ones. Each key occurs once.
    pub since: Vec<Since>,
    /// Also count the attempts of closed circuits that finished within this time separately, as [`Sample::recent`]. If
    /// a sampler does not, only the window decides, and a destination that was healthy for most of it trips later.
    /// None: no recent part.
    pub recent: Option<Duration>,
}

/// A key of which fewer attempts count.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Since {
    /// The key of the circuit.
    pub key: Arc<str>,
    /// The time since the last transition of its circuit.
    pub age: Duration,
    /// Which attempts count. False: those that finished since. True, for a half-open circuit: those that *started*
    /// since, and have finished; then the age may be longer than the window.
    pub started: bool,
}

impl Poll {
    /// Creates a poll, to test a sampler.
    #[must_use]
    pub const fn new(window: Duration, since: Vec<Since>) -> Self {
        Self { window, since, recent: None }
    }

    /// Adds the recent part: attempts that finished within this time are also counted separately.
    #[must_use]
    pub const fn with_recent(mut self, recent: Duration) -> Self {
        self.recent = Some(recent);
        self
    }
}

impl Since {
    /// Counts the attempts that finished within this time.
    #[must_use]
    pub fn finished(key: &str, age: Duration) -> Self {
        Self { key: key.into(), age, started: false }
    }

    /// Counts the attempts that started within this time and have finished.
    #[must_use]
    pub fn started(key: &str, age: Duration) -> Self {
        Self { key: key.into(), age, started: true }
    }
}

/// The reason why there are no totals.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The poll exceeded its timeout.
    #[error(
        "the sampler did not answer within {limit:?}; an index may be missing, or poll_timeout is too short"
    )]
    TimedOut {
        /// The timeout.
        limit: Duration,
    },
    /// The sampler failed.
    #[error("the sampler failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The result is not valid.
    #[error("{field}: {reason}")]
    Unreadable {
        /// The column, or the part of a sample.
        field: &'static str,
        /// The reason why it is not valid.
        reason: String,
    },
}

impl SampleError {
    /// Creates an error with this cause.
    pub fn failed(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(reason.into())
    }

    /// Returns the message with those of its causes.
    pub(super) fn with_causes(&self) -> String {
        let chain = std::iter::successors(Some(self as &dyn Error), |&error| error.source());
        chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}
