//! The rules for sampling: one evaluation per key and tick, based on the sampler's totals.
//!
//! | from | when | to |
//! | --- | --- | --- |
//! | closed | a trip rule is met over the totals of the window, or of its recent part | open |
//! | open | `retry_at` is reached | half-open; this tick's totals are not used |
//! | half-open | at least `probes` outcomes, successes reach `recovery_rate` | closed |
//! | half-open | at least `probes` outcomes, successes do not | open, or disabled |
//! | half-open | fewer outcomes | half-open, with no time limit; `probes` more calls may be made until the next tick |
//!
//! The recent part is evaluated separately so that a healthy past does not hide a dead destination until the failures
//! outweigh it.

use core::time::Duration;

use crate::change::{Cause, Step};
use crate::fault::Fault;
use crate::outcome::OpenedBy;
use crate::permit::Refusal;
use crate::policy::Policy;
use crate::record::{LatestOutcomes, Record, State};
use crate::rule::reaches;
use crate::time::Timestamp;
use crate::token::RandomBits;
use crate::window::Totals;

use super::{Answer, LEASE_MARGIN};

/// The totals for one key at one tick, as a sampler returns them. They cover the window, or the time since the
/// circuit's latest transition if that is shorter. For a half-open circuit, they cover all attempts that started after
/// it turned half-open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Sample {
    /// The number of calls that succeeded.
    pub successes: u64,
    /// The number of calls that failed.
    pub failures: u64,
    /// The sum of the calls' latencies; `None` if the sampler does not provide it.
    pub latency_sum: Option<Duration>,
    /// The totals over the [latest ticks](Policy::sample_recent) only; `None` if the sampler does not provide them.
    pub recent: Option<RecentSample>,
    /// The number of consecutive failures since the latest success; `None` if the sampler does not provide it.
    pub failure_run: Option<u64>,
}

/// The totals for one key over the latest few ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RecentSample {
    /// The number of calls that succeeded.
    pub successes: u64,
    /// The number of calls that failed.
    pub failures: u64,
    /// The sum of the calls' latencies; `None` if the sampler does not provide it.
    pub latency_sum: Option<Duration>,
}

impl Sample {
    /// Creates a sample with these numbers of calls. Set the other fields if the sampler provides them.
    #[must_use]
    pub const fn new(successes: u64, failures: u64) -> Self {
        Self { successes, failures, latency_sum: None, recent: None, failure_run: None }
    }

    /// Returns the totals to check against the trip rules: those over the whole window, then those over the latest
    /// ticks.
    fn evaluated(&self, policy: &Policy) -> Result<impl Iterator<Item = Totals>, MissingLatencySum> {
        let whole = RecentSample {
            successes: self.successes,
            failures: self.failures,
            latency_sum: self.latency_sum,
        };
        let whole = whole.totals(self.failure_run, policy)?;
        let judges_recent = policy.sample_recent().is_some() && !policy.has_fault(Fault::NoRecentTicks);
        let recent = self.recent.filter(|_| judges_recent);
        let recent = recent.map(|recent| recent.totals(None, policy)).transpose()?;
        Ok([Some(whole), recent].into_iter().flatten())
    }
}

impl RecentSample {
    /// Creates a sample with these numbers of calls. Set `latency_sum` if the sampler provides it.
    #[must_use]
    pub const fn new(successes: u64, failures: u64) -> Self {
        Self { successes, failures, latency_sum: None }
    }

    fn totals(self, failure_run: Option<u64>, policy: &Policy) -> Result<Totals, MissingLatencySum> {
        let Self { successes, failures, latency_sum } = self;
        if policy.mean_latency().is_some() && latency_sum.is_none() && (successes > 0 || failures > 0) {
            return Err(MissingLatencySum);
        }
        Ok(Totals {
            successes,
            failures,
            latency_sum: latency_sum.unwrap_or_default(),
            failure_run: failure_run.unwrap_or_default(),
            slow: 0,
        })
    }
}

/// The range of attempts that a circuit's totals must cover. Times are given as ages, so that clocks need not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// The attempts that finished within the window.
    Window,
    /// The attempts that finished within this time. Used if the circuit's latest transition was within the window.
    FinishedWithin(Duration),
    /// The attempts that started within this time and have finished. Used for a half-open circuit, where it is the time
    /// since the circuit turned half-open.
    StartedWithin(Duration),
    /// No attempts, because the circuit is open or overridden and its totals are not used.
    Unused,
}

/// The error for a sample without latencies, if the policy limits the mean latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is required, because the policy sets mean_latency")]
pub struct MissingLatencySum;

/// Returns how long sampled calls require the circuit to stay open. Their durations are unknown, so the mean counts.
fn opened_by(totals: &Totals) -> OpenedBy {
    let calls = u32::try_from(totals.calls()).unwrap_or(u32::MAX).max(1);
    OpenedBy { latency: totals.latency_sum / calls, retry_after: None }
}

impl Record {
    /// Evaluates one tick's sample. An empty sample neither trips nor closes a circuit.
    ///
    /// # Errors
    /// If the policy needs latencies and the sample contains none.
    pub fn sample(
        &self,
        sample: &Sample,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Result<Option<Step>, MissingLatencySum> {
        let calls = sample.successes.saturating_add(sample.failures);
        let mut evaluated = sample.evaluated(policy)?;
        if !self.is_automatic() {
            return Ok(None);
        }
        let noted = self.clone().with_latest_outcomes(self.latest_outcomes_with(sample, now));
        Ok(match self.state {
            State::Closed => {
                evaluated.find_map(|totals| noted.evaluate(&totals, opened_by(&totals), policy, draw, now))
            }
            State::Open if self.retry_at.is_some_and(|retry_at| now < retry_at) => None,
            State::Open => Some(self.half_opened(None, draw, now)),
            State::HalfOpen if calls < u64::from(policy.probes()) => self.with_fresh_probes(draw, now),
            State::HalfOpen if reaches(sample.successes, calls, policy.recovery_rate()) => {
                Some(self.closed(Cause::RecoveryRateMet, draw, now))
            }
            State::HalfOpen => {
                let opened_by = evaluated.next().as_ref().map(opened_by).unwrap_or_default();
                Some(noted.tripped(Cause::RecoveryRateMissed, opened_by, policy, draw, now))
            }
        })
    }

    /// As [`try_acquire`](Self::try_acquire), in a fleet. With sampling, a half-open circuit gives at most `probes`
    /// leases between two ticks. Without this limit, one lease would follow another until the next tick, because no
    /// process settles the probes.
    pub(crate) fn acquire_in_fleet(&self, policy: &Policy, draw: RandomBits, now: Timestamp) -> Answer {
        let answer = self.try_acquire(policy, draw, now);
        match answer {
            Answer::Probe(_) if policy.is_sampled() && self.probes_are_used_up(policy) => {
                Answer::Refuse(Refusal::probing(now + LEASE_MARGIN, now))
            }
            Answer::Probe(mut step) if policy.is_sampled() => {
                step.record.probe_successes = step.record.probe_successes.saturating_add(1);
                Answer::Probe(step)
            }
            answer => answer,
        }
    }

    /// Whether no more leases may be given until the next tick. With sampling, `probe_successes` counts the leases
    /// since the latest tick.
    fn probes_are_used_up(&self, policy: &Policy) -> bool {
        matches!(self.state, State::HalfOpen)
            && self.probe_successes >= policy.probes()
            && !policy.has_fault(Fault::NoProbeLimit)
    }

    /// Returns the step after a tick that left the circuit half-open, which allows `probes` leases until the next tick.
    /// `None` if no lease has been given since the previous tick.
    #[must_use]
    pub fn with_fresh_probes(&self, draw: RandomBits, now: Timestamp) -> Option<Step> {
        let running_tasks = u32::from(self.lease.is_some_and(|lease| lease.is_live(now)));
        let is_half_open = self.is_automatic() && self.state == State::HalfOpen;
        (is_half_open && self.probe_successes > running_tasks)
            .then(|| Step::within_epoch(Self { probe_successes: running_tasks, ..self.clone() }, draw))
    }

    /// Returns which attempts the next sample must cover, so that no attempt from before a transition counts.
    #[must_use]
    pub fn sampled_over(&self, policy: &Policy, now: Timestamp) -> Span {
        let age = now.since(self.changed_at);
        match self.state {
            _ if !self.is_automatic() => Span::Unused,
            State::Open => Span::Unused,
            State::HalfOpen => Span::StartedWithin(age),
            // A record without a cause belongs to a new circuit, which has made no transition.
            State::Closed if self.cause.is_some() && age < policy.window() => Span::FinishedWithin(age),
            State::Closed => Span::Window,
        }
    }

    /// Returns the times of the latest success and of the first failure after it, as far as this sample shows them. A
    /// half-open circuit's totals start at its latest transition, so their outcomes get that transition's time. An open
    /// circuit's totals are not used. If a sample has both successes and failures, their order is unknown, so the
    /// failures are assumed to have begun with this sample.
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
