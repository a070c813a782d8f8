//! What a call turned out to be.

use core::time::Duration;

use crate::policy::Policy;

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutcomeKind {
    /// The destination did its part.
    Success,
    /// The destination failed, or was too late.
    Failure,
    /// Says nothing about the destination (a bad request of ours, a cancelled call): counted nowhere.
    Ignored,
}

/// The outcome of one call: how it ended, how long it took, and when the destination asked us to come back.
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
pub struct Outcome {
    /// How the call ended.
    pub kind: OutcomeKind,
    /// How long it took.
    pub latency: Duration,
    /// The destination's own word on when to come back, if it gave one. Heard at a trip.
    pub retry_after: Option<Duration>,
}

impl Outcome {
    /// A success that took `latency`.
    #[must_use]
    pub const fn success(latency: Duration) -> Self {
        Self { kind: OutcomeKind::Success, latency, retry_after: None }
    }

    /// A failure that took `latency`.
    #[must_use]
    pub const fn failure(latency: Duration) -> Self {
        Self { kind: OutcomeKind::Failure, latency, retry_after: None }
    }

    /// An outcome that counts nowhere.
    #[must_use]
    pub const fn ignored() -> Self {
        Self { kind: OutcomeKind::Ignored, latency: Duration::ZERO, retry_after: None }
    }

    /// Whether the call took too long, by this policy.
    pub(crate) fn is_slow(&self, policy: &Policy) -> bool {
        policy.slow_call().is_some_and(|limit| self.latency >= limit)
    }

    /// The same outcome with the destination's word on when to come back.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }
}
