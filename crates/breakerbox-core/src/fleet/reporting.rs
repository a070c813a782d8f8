//! When a process reports to the store what it has counted, and when all processes are called upon to report.
//!
//! The store's load follows trouble, not traffic. A key that is well is never reported: its counts stay in the process, in
//! a window of their own, and expire with it.
//!
//! | a process reports a key when | because |
//! | --- | --- |
//! | its unreported outcomes are at the limit of a rate or a mean, whatever `min_calls` says | a rate over the sum of parts reaches a limit only if it does in one part (the mediant inequality); the parts are what was reported, and what each process has not reported |
//! | it has a failure and the policy has the rule `failures` | that is a plain sum |
//! | it has two failures in a row, or one that no success followed within a second, and the policy has the rule `consecutive_failures` | a run of the fleet consists of each process's latest outcomes |
//! | a rule holds over its own outcomes, reported or not | its own part is judged as a circuit that is not shared |
//! | the key is under suspicion, or somebody called for reports | |
//!
//! **Under suspicion** is a key whose reported outcomes are at the limit of a rate or a mean, or have at least half of the
//! run that `consecutive_failures` needs (two or more). Whoever learns that from the store calls for reports. Every process
//! that hears the call reports all it has, and goes on reporting every outcome until the store's totals say otherwise, or a
//! window has passed. The design calls a key suspected as soon as any failure was reported within the window. With one call
//! in a hundred failing at random, that would be a third of all keys at any time; what is done here is enough for every rule
//! (see the property test), and costs nothing in that case.
//!
//! **What is not covered**: the reported totals also reach a limit when successes in them grow older than the window. That is
//! noticed with the next report of the key, by whatever process.
//!
//! Here is only decided. The shell collects reports that are due at about the same time into one request.

use core::time::Duration;

use crate::policy::Policy;
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::window::Totals;

/// For how long a single failure may wait for a success before it is reported.
const RUN_OPEN_FOR: Duration = Duration::from_secs(1);

/// By how much a report may be early: times are estimates of the store's time.
const TOLERANCE: Duration = Duration::from_millis(10);

/// How often a process calls for reports of one key, at the most, while it does not judge.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// After how long a process looks at what the others reported of a key under suspicion; then after four times as long each
/// time.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// The shortest run of failures that makes a key suspected.
const SUSPECTED_RUN: u64 = 2;

/// When a process must report a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Not as things are.
    Never,
    /// After so long, unless a success comes first.
    After(Duration),
    /// Successes, for a key under suspicion: with whatever else is reported within a second.
    Later,
    /// With the next batch.
    Soon,
    /// At once.
    Now,
}

impl Due {
    /// This, or after so long at the latest.
    pub(super) fn at_the_latest_in(self, wait: Duration) -> Self {
        match self {
            Self::Never | Self::After(_) if wait.is_zero() => Self::Soon,
            Self::Never => Self::After(wait),
            Self::After(sooner) => Self::After(sooner.min(wait)),
            due => due,
        }
    }
}

/// What a process knows when it decides whether to report.
pub(super) struct Known<'k> {
    /// Outcomes that the store has not heard of.
    pub(super) unreported: &'k Totals,
    /// What the store last said, and the unreported ones after it.
    pub(super) all: &'k Totals,
    /// All outcomes of this process, reported or not.
    pub(super) own: &'k Totals,
    /// When the first failure after the latest unreported success was.
    pub(super) run_began: Option<Timestamp>,
}

/// Whether a process must report a key that is not under suspicion.
pub(super) fn due(policy: &Policy, known: &Known<'_>, now: Timestamp) -> Due {
    let Known { unreported, all, own, run_began } = known;
    if unreported.calls() == 0 {
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

/// Whether a key is under suspicion, as far as this process knows, and who called for reports.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Suspicion {
    /// All that is unreported is to be reported at once.
    pub(super) is_report_wanted: bool,
    /// Until when the key is under suspicion, unless the store says otherwise before.
    until: Option<Timestamp>,
    /// When reports were last called for, by this process or another.
    called_at: Option<Timestamp>,
    /// When this process last looked at the store's totals, and how often without news of its own; none: it has no reason to
    /// look again.
    looked: Option<(Timestamp, u32)>,
}

impl Suspicion {
    /// Whether every outcome is reported.
    pub(super) fn holds(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// The store said what was reported. Returns whether reports are to be called for.
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

    /// This process reports something: what comes of it is news.
    pub(super) const fn report(&mut self) {
        self.looked = None;
    }

    /// After how long this process is to look at the store's totals again, though it has nothing to report: the others may
    /// have answered the call, or it was lost, or came too early for what they counted since.
    pub(super) fn look_due_in(&self, now: Timestamp) -> Option<Duration> {
        let (looked_at, times) = self.looked.filter(|_| self.holds(now))?;
        let every = LOOK_AFTER.saturating_mul(4_u32.saturating_pow(times));
        Some(every.saturating_sub(now.since(looked_at)))
    }

    /// Whether to call for reports if the last call, by whomever, was so long ago. Takes note of it.
    fn call_again(&mut self, every: Duration, now: Timestamp) -> bool {
        let is_time = self.called_at.is_none_or(|at| now.since(at) >= every);
        if is_time {
            self.called_at = Some(now);
        }
        is_time
    }

    /// Another process called for reports.
    pub(super) fn hear_call(&mut self, policy: &Policy, now: Timestamp) {
        self.until = Some(now + policy.window());
        self.called_at = Some(now);
    }

    /// The clock says `after` where it said `before`.
    pub(super) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        let looked_at = self.looked.as_mut().map(|(at, _)| at);
        for time in self.until.iter_mut().chain(&mut self.called_at).chain(looked_at) {
            *time = time.moved(before, after);
        }
    }
}

/// A rule holds over what this process knows. It refuses calls, and gives the others time to report before it decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Judging {
    /// Since when. The cool-off counts from here, because calls have been refused since then.
    pub(super) since: Timestamp,
    /// When the others were first called upon to report after the rule held, by this process or another.
    called_at: Option<Timestamp>,
}

/// What a judge does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JudgingStep {
    /// Look again after so long.
    Wait {
        /// How long.
        wait: Duration,
        /// Whether to call for reports.
        call: bool,
    },
    /// The others had their time.
    Decide,
}

impl Judging {
    pub(super) const fn begin(now: Timestamp) -> Self {
        Self { since: now, called_at: None }
    }

    /// The rule holds over what was reported by now. The others get `confirm` from the first call on, so that what they
    /// report is as new as what this process knows; with none of them, `confirm` is zero.
    pub(super) fn go_on(
        &mut self,
        confirm: Duration,
        suspicion: &mut Suspicion,
        now: Timestamp,
    ) -> JudgingStep {
        if confirm.is_zero() {
            return JudgingStep::Decide;
        }
        // Another process's call is as good, if it came after the rule held.
        let called_at = suspicion.called_at.filter(|at| *at >= self.since);
        // Some looks on the way: a call may be lost, and the others may say at once that they are well.
        let every = confirm / LOOKS;
        let call = suspicion.call_again(if called_at.is_some() { every } else { Duration::ZERO }, now);
        let called_at = *self.called_at.get_or_insert(called_at.unwrap_or(now));
        let left = confirm.saturating_sub(now.since(called_at));
        if left.is_zero() { JudgingStep::Decide } else { JudgingStep::Wait { wait: left.min(every), call } }
    }

    /// The clock says `after` where it said `before`.
    pub(super) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        self.since = self.since.moved(before, after);
        self.called_at = self.called_at.map(|at| at.moved(before, after));
    }
}

/// How often a judge looks, and calls, while it waits for the others.
const LOOKS: u32 = 3;

#[cfg(test)]
mod tests;
