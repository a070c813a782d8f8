//! When a process reports its counts to the store, and when all processes are called to report.
//!
//! The store's load depends on failures, not on traffic. A healthy key is never reported: its counts stay in the
//! process, in a window of their own, and expire with it.
//!
//! | a process reports a key when | because |
//! | --- | --- |
//! | its unreported outcomes are at the limit of a rate or a mean, regardless of `min_calls` | a rate over the sum of parts reaches a limit only if it does in one part (the mediant inequality); the parts are the reported outcomes, and each process's unreported ones |
//! | it has a failure, and the policy has the rule `failures` | the rule needs a plain sum over all processes |
//! | it has two failures in a row, or one that no success followed within a second, and the policy has the rule `consecutive_failures` | the fleet's run of consecutive failures consists of each process's latest outcomes |
//! | it has a success, and knows that the store has a run of failures | the success ends the run; otherwise the run would be kept for a week |
//! | its own outcomes, reported or not, meet a rule | its own part is evaluated like an unshared circuit |
//! | the key is under suspicion, or another process called for reports | |
//!
//! A key is **under suspicion** if its reported outcomes are at the limit of a rate or a mean, or contain at least
//! half of the run that `consecutive_failures` needs (two or more). A process that learns this from the store calls
//! for reports. Every process that receives the call reports all its counts and its latest success, however old, and
//! continues to report every outcome until the store's totals no longer require it, or a window has passed. A simpler rule would suspect a key as soon
//! as any failure was reported within the window. If one call in a hundred fails at random, that would be a third of
//! all keys at any time; the present condition is enough for every rule (see the property test), and costs nothing in
//! that case.
//!
//! **Not covered**: the reported totals also reach a limit when their successes become older than the window. This is
//! detected at the next report for the key, by any process. And a success does not end a run of failures if its process
//! did not know of the run, and ended before another process called for reports.
//!
//! This module only decides. Its caller combines reports that are due at about the same time into one request.

use core::time::Duration;

use crate::policy::Policy;
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::window::Totals;

/// How long a single failure stays unreported while a success may still follow.
const RUN_OPEN_FOR: Duration = Duration::from_secs(1);

/// How much earlier than due a report may be sent, because a process only estimates the store's time.
const TOLERANCE: Duration = Duration::from_millis(10);

/// The minimum time between two requests for reports by one process on one key, except while a trip is pending.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// The delay before a process first reads the other processes' reports on a key under suspicion. Each further delay is
/// four times as long as the previous one.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// The minimum number of consecutive failures that puts a key under suspicion.
const SUSPECTED_RUN: u64 = 2;

/// When a process must report a key's counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// No report is due at present.
    Never,
    /// A report is due after this time, unless a success comes first.
    After(Duration),
    /// A report is due within a second, together with other keys' reports, because it contains only successes for a key
    /// under suspicion.
    Later,
    /// A report is due with the next batch.
    Soon,
    /// A report is due at once.
    Now,
}

impl Due {
    /// Returns this due time, or the time after `wait` if that is sooner.
    pub(super) fn at_the_latest_in(self, wait: Duration) -> Self {
        match self {
            Self::Never | Self::After(_) if wait.is_zero() => Self::Soon,
            Self::Never => Self::After(wait),
            Self::After(sooner) => Self::After(sooner.min(wait)),
            due => due,
        }
    }
}

/// The counts from which a process decides whether to report.
pub(super) struct Known<'k> {
    /// Outcomes that have not been reported to the store.
    pub(super) unreported: &'k Totals,
    /// The totals in the store's latest response plus the unreported outcomes.
    pub(super) all: &'k Totals,
    /// All of this process's outcomes, reported or not.
    pub(super) own: &'k Totals,
    /// The time of the first failure after the latest unreported success.
    pub(super) run_began: Option<Timestamp>,
}

/// Returns when a process must report the counts for a key that is not under suspicion.
pub(super) fn due(policy: &Policy, known: &Known<'_>, now: Timestamp) -> Due {
    let Known { unreported, all, own, run_began } = known;
    if unreported.calls() == 0 && unreported.failure_run == 0 {
        return Due::Never;
    }
    let is_sum = policy.failures().is_some() && unreported.failures > 0;
    if is_sum || TripRule::is_at_limit(policy, unreported) || TripRule::first_broken(policy, own).is_some() {
        return Due::Soon;
    }
    if policy.consecutive_failures().is_none() || unreported.failure_run == 0 {
        return Due::Never;
    }
    if all.failure_run >= SUSPECTED_RUN {
        return Due::Soon;
    }
    let open_for = run_began.map_or(Duration::MAX, |began| now.since(began));
    if open_for.saturating_add(TOLERANCE) >= RUN_OPEN_FOR {
        Due::Soon
    } else {
        Due::After(RUN_OPEN_FOR - open_for)
    }
}

/// Whether a key with these reported totals is under suspicion.
pub(super) fn is_suspicious(policy: &Policy, reported: &Totals) -> bool {
    let run = reported.failure_run;
    let is_half = |limit: u64| run >= SUSPECTED_RUN && run.saturating_mul(2) >= limit;
    TripRule::is_at_limit(policy, reported) || policy.consecutive_failures().is_some_and(is_half)
}

/// Whether a key is under suspicion, as far as this process knows, and when reports were last requested.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Suspicion {
    /// Whether all unreported counts are due at once.
    pub(super) is_report_wanted: bool,
    /// The end of the suspicion, unless a response from the store ends it earlier; `None` if the key is not under
    /// suspicion.
    until: Option<Timestamp>,
    /// The time at which this or another process last requested reports; `None` before the first request.
    called_at: Option<Timestamp>,
    /// The time at which this process last read the store's totals, and the number of further reads since its own
    /// latest report; `None` if no further read is needed.
    looked: Option<(Timestamp, u32)>,
}

impl Suspicion {
    /// Whether the key is under suspicion, in which case every outcome is reported.
    pub(super) fn holds(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Handles the totals in a response from the store. Returns whether to request reports.
    pub(super) fn learn(&mut self, reported: &Totals, policy: &Policy, now: Timestamp) -> bool {
        if !is_suspicious(policy, reported) {
            self.until = None;
            self.looked = None;
            return false;
        }
        self.until = Some(now + policy.window());
        self.looked = Some((now, self.looked.map_or(0, |(_, times)| times.saturating_add(1))));
        self.call_again(CALL_EVERY, now)
    }

    /// Records that this process sent a report. The delays between its reads then start at the shortest again.
    pub(super) const fn report(&mut self) {
        self.looked = None;
    }

    /// Returns the time after which this process must read the store's totals again, even without counts to report;
    /// `None` if no read is needed. By then, the other processes may have reported. Repeated reads are needed because
    /// the request for reports may have been lost, or sent before some of their outcomes.
    pub(super) fn look_due_in(&self, now: Timestamp) -> Option<Duration> {
        let (looked_at, times) = self.looked.filter(|_| self.holds(now))?;
        let every = LOOK_AFTER.saturating_mul(4_u32.saturating_pow(times));
        Some(every.saturating_sub(now.since(looked_at)))
    }

    /// Returns whether the latest request for reports by any process was at least `every` ago. If so, records a request
    /// at `now`, which the caller must make.
    fn call_again(&mut self, every: Duration, now: Timestamp) -> bool {
        let is_time = self.called_at.is_none_or(|at| now.since(at) >= every);
        if is_time {
            self.called_at = Some(now);
        }
        is_time
    }

    /// Handles another process's request for reports.
    pub(super) fn handle_report_call(&mut self, policy: &Policy, now: Timestamp) {
        self.until = Some(now + policy.window());
        self.called_at = Some(now);
    }

    /// Adjusts the times to a clock that was set from `before` to `after`.
    pub(super) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        let looked_at = self.looked.as_mut().map(|(at, _)| at);
        for time in self.until.iter_mut().chain(&mut self.called_at).chain(looked_at) {
            *time = time.moved(before, after);
        }
    }
}

/// A pending trip. The counts that this process knows meet a rule, so the process refuses calls, and gives the other
/// processes time to report before it decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PendingTrip {
    /// The time at which the rule was met. The cool-off starts at this time, because calls are refused from then on.
    pub(super) since: Timestamp,
    /// The time at which reports were first requested after the rule was met, by this or another process; `None`
    /// before.
    called_at: Option<Timestamp>,
}

/// What a process with a pending trip must do next: wait for further reports, or decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PendingTripStep {
    /// Read the totals again after `wait`.
    Wait {
        /// The time to wait before reading the totals again.
        wait: Duration,
        /// Whether to request reports.
        call: bool,
    },
    /// The other processes have had enough time to report, so decide now.
    Decide,
}

impl PendingTrip {
    pub(super) const fn begin(now: Timestamp) -> Self {
        Self { since: now, called_at: None }
    }

    /// Returns what to do next if the reports so far still meet the rule. The other processes have the time `confirm`
    /// to report. This time starts at the first request for reports, so that their reports are as recent as this
    /// process's counts. If there are no other processes, `confirm` is zero.
    pub(super) fn go_on(
        &mut self,
        confirm: Duration,
        suspicion: &mut Suspicion,
        now: Timestamp,
    ) -> PendingTripStep {
        if confirm.is_zero() {
            return PendingTripStep::Decide;
        }
        // Another process's call serves as well, if it came after the rule was met.
        let called_at = suspicion.called_at.filter(|at| *at >= self.since);
        // The process reads the totals several times meanwhile: a call may be lost, and the others' successes may
        // arrive at once.
        let every = confirm / LOOKS;
        let call = suspicion.call_again(if called_at.is_some() { every } else { Duration::ZERO }, now);
        let called_at = *self.called_at.get_or_insert(called_at.unwrap_or(now));
        let left = confirm.saturating_sub(now.since(called_at));
        if left.is_zero() {
            PendingTripStep::Decide
        } else {
            PendingTripStep::Wait { wait: left.min(every), call }
        }
    }

    /// Adjusts the times to a clock that was set from `before` to `after`.
    pub(super) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        self.since = self.since.moved(before, after);
        self.called_at = self.called_at.map(|at| at.moved(before, after));
    }
}

/// How many times a process reads the totals and requests reports while a trip awaits confirmation.
const LOOKS: u32 = 3;

#[cfg(test)]
mod tests;
