//! The pauses between connection attempts. They grow up to a maximum, with jitter.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::ConnectError;

/// The maximum length of the first pause between connection attempts.
const MIN_PAUSE: Duration = Duration::from_millis(50);

/// The maximum length of any pause between connection attempts.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The delays between connection attempts. Contains the maximum length of the next delay, which doubles each
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Backoff(Duration);

impl Backoff {
    /// Creates the delays after a connection that worked.
    #[must_use]
    pub const fn new() -> Self {
        Self(MIN_PAUSE)
    }

    /// Returns the next pause, with jitter, so that a fleet that lost its server does not reconnect all at
    /// once.
    pub fn wait(&mut self) -> Duration {
        let longest = self.0;
        self.0 = (longest * 2).min(MAX_PAUSE);
        longest.mul_f64(0.5 + rand::random::<f64>() / 2.0)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Limits connection attempts. After a failed attempt, callers get its error for a while without a new attempt,
/// so that a recovering server does not get one attempt per request.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Option<LastFailure>>);

#[derive(Debug)]
struct LastFailure {
    until: Instant,
    backoff: Backoff,
    error: ConnectError,
}

impl Gate {
    /// Returns the error from the last attempt if it is too early for the next attempt.
    pub(crate) fn is_shut(&self) -> Option<ConnectError> {
        let shut = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shut.as_ref().filter(|shut| Instant::now() < shut.until).map(|shut| shut.error.clone())
    }

    /// Records a failed connection attempt.
    pub(crate) fn shut(&self, error: &ConnectError) {
        let mut shut = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // Concurrent attempts that fail count as one.
        if shut.as_ref().is_some_and(|shut| now < shut.until) {
            return;
        }
        let mut backoff = shut.as_ref().map_or(Backoff::new(), |shut| shut.backoff);
        *shut = Some(LastFailure { until: now + backoff.wait(), backoff, error: error.clone() });
    }

    /// Records a successful connection attempt.
    pub(crate) fn open(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..10).map(|_| backoff.wait()).collect();
        assert!(waits[0] >= MIN_PAUSE / 2 && waits[0] <= MIN_PAUSE);
        assert!(waits[3] >= MIN_PAUSE * 4 && waits[3] <= MIN_PAUSE * 8, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= MAX_PAUSE) && waits[9] >= MAX_PAUSE / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_opens_after_a_while_or_a_success() {
        let (gate, error) = (Gate::default(), ConnectError::Failed { reason: "refused".to_owned() });
        assert_eq!(gate.is_shut(), None);
        gate.shut(&error);
        gate.shut(&error);
        assert_eq!(gate.is_shut(), Some(error.clone()));
        tokio::time::advance(MIN_PAUSE).await;
        assert_eq!(gate.is_shut(), None, "two at once are one");
        gate.shut(&error);
        tokio::time::advance(MIN_PAUSE / 2).await;
        assert_eq!(gate.is_shut(), Some(error), "longer than the first time");
        gate.open();
        assert_eq!(gate.is_shut(), None);
    }
}
