//! Samplers: who has counted the outcomes, and what they are asked. A sampler counts, and never decides.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Sample;

/// Where the totals come from.
#[async_trait]
pub trait Sampler: Send + Sync + 'static {
    /// The totals of every key that had an attempt, as the [poll](Poll) says. Asked once for each tick, by the leader alone,
    /// and never again before it has answered or its time is over: then the future is dropped.
    ///
    /// # Errors
    /// If they can't be had. Nothing changes then, and the reason is [reported](super::Report).
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError>;

    /// Whether its samples have [runs of failures](Sample::failure_run). The rule `consecutive_failures` needs them.
    fn returns_runs(&self) -> bool {
        false
    }
}

/// A sampler that several registries of this process share.
#[async_trait]
impl<S: Sampler + ?Sized> Sampler for Arc<S> {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        (**self).sample(poll).await
    }

    fn returns_runs(&self) -> bool {
        (**self).returns_runs()
    }
}

/// What a sampler is asked. Times are ages, so that clocks need not agree: whoever has the attempts takes them from its own.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Poll {
    /// Attempts count that finished within this time,
    pub window: Duration,
    /// except of these keys, of which fewer count. There are few: keys with a transition inside the window, and those that
    /// are half-open. A key is here once.
    pub since: Vec<Since>,
    /// Attempts of closed circuits that finished within this time are also counted apart, as [`Sample::recent`]. A sampler
    /// that does not is judged by the window alone, and a destination that was healthy for most of it is spared later.
    pub recent: Option<Duration>,
}

/// A key of which fewer attempts count than of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Since {
    /// Whose.
    pub key: Arc<str>,
    /// How long ago its circuit's last transition was.
    pub age: Duration,
    /// Which attempts count. False: those that finished since. True, for a half-open circuit: those that *started* since, and
    /// have finished; the age may be longer than the window.
    pub started: bool,
}

impl Poll {
    /// A question, for whoever tries a sampler.
    #[must_use]
    pub const fn new(window: Duration, since: Vec<Since>) -> Self {
        Self { window, since, recent: None }
    }

    /// The same question, and what finished within this time counted apart.
    #[must_use]
    pub const fn with_recent(mut self, recent: Duration) -> Self {
        self.recent = Some(recent);
        self
    }
}

impl Since {
    /// Attempts count that finished within this time.
    #[must_use]
    pub fn finished(key: &str, age: Duration) -> Self {
        Self { key: key.into(), age, started: false }
    }

    /// Attempts count that started within this time, and have finished.
    #[must_use]
    pub fn started(key: &str, age: Duration) -> Self {
        Self { key: key.into(), age, started: true }
    }
}

/// Why there are no totals.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// They did not come in time.
    #[error(
        "the sampler did not answer within {limit:?}; an index may be missing, or poll_timeout is too short"
    )]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// They can't be had.
    #[error("the sampler failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// What came can't be understood.
    #[error("{field}: {reason}")]
    Unreadable {
        /// Which column, or which part of a sample.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl SampleError {
    /// They can't be had, for this reason.
    pub fn failed(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(reason.into())
    }

    /// What it says, and what its causes say.
    pub(super) fn with_causes(&self) -> String {
        let chain = std::iter::successors(Some(self as &dyn Error), |&error| error.source());
        chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}
