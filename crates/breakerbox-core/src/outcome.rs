//! The outcome of a call.

use core::time::Duration;

use crate::policy::Policy;

/// The kind of outcome, which determines how the circuit counts the call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutcomeKind {
    /// The destination handled the call correctly.
    Success,
    /// The destination failed, or responded too late.
    Failure,
    /// The result says nothing about the destination, because the caller's request was invalid or the call was
    /// cancelled. It is not counted.
    Ignored,
}

/// The outcome of one call: its kind, its latency, and the destination's retry-after.
///
/// ```
/// use breakerbox_core::Outcome;
/// use core::time::Duration;
///
/// let ok = Outcome::success(Duration::from_millis(12));
/// let busy = Outcome::failure(Duration::from_millis(3)).with_retry_after(Duration::from_secs(90));
/// assert_eq!(busy.retry_after, Some(Duration::from_secs(90)));
/// # let _ = ok;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the call is a success, a failure or ignored.
    pub kind: OutcomeKind,
    /// The duration of the call.
    pub latency: Duration,
    /// The time that the destination asked the caller to wait before the next call; `None` if the destination did not
    /// ask. Used only when the circuit trips.
    pub retry_after: Option<Duration>,
}

/// How long the calls that opened a circuit require it to stay open. A fleet member combines several calls, because
/// it reports several at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenedBy {
    /// The duration of the call whose outcome opened the circuit. The cool-off is at least as long, so that a
    /// destination that takes long to fail is not called continually.
    pub latency: Duration,
    /// The time that the destination asked callers to wait; `None` if it did not ask.
    pub retry_after: Option<Duration>,
}

impl OpenedBy {
    /// Returns the requirements of both, so that the longer times apply.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            latency: self.latency.max(other.latency),
            retry_after: self.retry_after.max(other.retry_after),
        }
    }
}

impl From<&Outcome> for OpenedBy {
    fn from(outcome: &Outcome) -> Self {
        Self { latency: outcome.latency, retry_after: outcome.retry_after }
    }
}

impl Outcome {
    /// Creates an outcome of this kind that took `latency`.
    #[must_use]
    pub const fn new(kind: OutcomeKind, latency: Duration) -> Self {
        Self { kind, latency, retry_after: None }
    }

    /// Creates a success that took `latency`.
    #[must_use]
    pub const fn success(latency: Duration) -> Self {
        Self { kind: OutcomeKind::Success, latency, retry_after: None }
    }

    /// Creates a failure that took `latency`.
    #[must_use]
    pub const fn failure(latency: Duration) -> Self {
        Self { kind: OutcomeKind::Failure, latency, retry_after: None }
    }

    /// Creates an outcome that is not counted.
    #[must_use]
    pub const fn ignored() -> Self {
        Self { kind: OutcomeKind::Ignored, latency: Duration::ZERO, retry_after: None }
    }

    /// Whether the call took at least the policy's `slow_call`.
    pub(crate) fn is_slow(&self, policy: &Policy) -> bool {
        policy.slow_call().is_some_and(|limit| self.latency >= limit)
    }

    /// Returns the same outcome with the destination's retry-after, or without one.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: impl Into<Option<Duration>>) -> Self {
        self.retry_after = retry_after.into();
        self
    }
}
