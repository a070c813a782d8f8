//! The rules of sampling: one evaluation for each key and tick, by totals that somebody else counted.
//!
//! | from | when | to |
//! | --- | --- | --- |
//! | closed | a trip rule holds over the totals | open |
//! | open | `retry_at` has come | half-open; this tick's totals are not used |
//! | half-open | at least `probes` outcomes, successes reach `recovery_rate` | closed |
//! | half-open | at least `probes` outcomes, successes do not | open, or disabled |
//! | half-open | fewer | half-open, however long |

use core::time::Duration;

use crate::change::{Cause, Step};
use crate::policy::Policy;
use crate::record::{LatestOutcomes, Record, State};
use crate::rule::reaches;
use crate::time::Timestamp;
use crate::token::Draw;
use crate::window::Totals;

/// The totals of one key at one tick, as a sampler returns them: over the window, or since the circuit's last
/// transition if that is later; for a half-open circuit, of all attempts started since it turned half-open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// The sum of their latencies, if the sampler knows it.
    pub latency_sum: Option<Duration>,
}

/// Which attempts a circuit's totals are taken over. Times are ages, so that clocks need not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// Those that finished within the window.
    Window,
    /// Those that finished within this time: the circuit's last transition is younger than the window.
    FinishedWithin(Duration),
    /// Those that started within this time and have finished: the circuit turned half-open then.
    StartedWithin(Duration),
    /// None: the circuit is open or overridden, and its totals are not used.
    Unused,
}

/// The policy has a limit for the mean latency, and the sample has no latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is required, because the policy sets mean_latency")]
pub struct MissingLatencySum;

impl Record {
    /// Evaluates one tick. An empty sample trips nothing and closes nothing.
    ///
    /// # Errors
    /// If the policy needs latencies and the sample has none.
    pub fn sample(
        &self,
        sample: &Sample,
        policy: &Policy,
        draw: Draw,
        now: Timestamp,
    ) -> Result<Option<Step>, MissingLatencySum> {
        let calls = sample.successes.saturating_add(sample.failures);
        if policy.mean_latency().is_some() && sample.latency_sum.is_none() && calls > 0 {
            return Err(MissingLatencySum);
        }
        if !self.is_automatic() {
            return Ok(None);
        }
        let noted = self.clone().with_latest_outcomes(self.latest_outcomes_with(sample, now));
        Ok(match self.state {
            State::Closed => {
                let totals = Totals {
                    successes: sample.successes,
                    failures: sample.failures,
                    latency_sum: sample.latency_sum.unwrap_or_default(),
                    ..Totals::default()
                };
                noted.judge(&totals, None, policy, draw, now)
            }
            State::Open if self.retry_at.is_some_and(|retry_at| now < retry_at) => None,
            State::Open => Some(self.half_opened(None, draw, now)),
            State::HalfOpen if calls < u64::from(policy.probes()) => None,
            State::HalfOpen if reaches(sample.successes, calls, policy.recovery_rate()) => {
                Some(self.closed(Cause::RecoveryRateMet, draw, now))
            }
            State::HalfOpen => Some(noted.tripped(Cause::RecoveryRateMissed, None, policy, draw, now)),
        })
    }

    /// Which attempts the next tick must be told about, so that nothing counts that came before a transition.
    #[must_use]
    pub fn sampled_over(&self, policy: &Policy, now: Timestamp) -> Span {
        let age = now.since(self.changed_at);
        match self.state {
            _ if !self.is_automatic() => Span::Unused,
            State::Open => Span::Unused,
            State::HalfOpen => Span::StartedWithin(age),
            // Without a cause the circuit is new, and there was no transition.
            State::Closed if self.cause.is_some() && age < policy.window() => Span::FinishedWithin(age),
            State::Closed => Span::Window,
        }
    }

    /// The latest success and since when the circuit fails, as far as this sample tells. A half-open circuit's totals go back
    /// to the transition, so an outcome among them may be that old; an open one's are not used. Of successes and failures in
    /// one sample does not say which came last: the circuit fails since the sample then, and not since before.
    #[must_use]
    pub fn latest_outcomes_with(&self, sample: &Sample, now: Timestamp) -> LatestOutcomes {
        let mut latest = self.latest_outcomes();
        let seen_at = match self.state {
            State::Closed => now,
            State::HalfOpen => self.changed_at,
            State::Open => return latest,
        };
        match (self.is_automatic(), sample.successes, sample.failures) {
            (false, _, _) | (_, 0, 0) => {}
            (true, 0, _) => latest.failed(seen_at),
            (true, _, failures) => {
                latest.succeeded(seen_at.max(self.last_success.unwrap_or(seen_at)));
                if failures > 0 {
                    latest.failed(seen_at);
                }
            }
        }
        latest
    }
}
