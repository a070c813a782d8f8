//! Noise: rejects that do not react to load, such as a faulty instance behind a load balancer. This file decides which
//! share of all calls is noise, so that no call is shed for it. It is pure, and it never decides how many calls to send
//! outside a trial.
//!
//! Shedding shows the difference: if load is the cause of rejects, they become rare once fewer calls are sent than
//! the destination accepted before. If they do not become rare after a while of shedding, a *trial* follows: for a
//! moment, fewer calls are sent than the destination accepted. The share that is rejected even then is noise. A trial
//! ends early when its result is clear.
//!
//! What was learnt is a count of rejects among a count of outcomes. Both decay, and the share is their lower confidence
//! bound, so noise that is not confirmed is forgotten within a minute.

use super::estimate::{Mode, Seen};
use super::math::{fade, square_root};

/// The minimum share of rejects for a trial. Fewer cost less than a trial.
const TRIAL_SHARE_MIN: f64 = 0.04;
/// The maximum share of rejects that may be noise. If a destination rejects more calls than that, sending fewer is
/// right in any case.
const NOISE_MAX: f64 = 0.4;
/// The time for which calls are shed before a trial, in seconds. `TRIAL_AFTER_OUTCOMES` must be met too.
const TRIAL_AFTER_SECONDS: f64 = 1.0;
/// The number of outcomes before a trial. They show whether the rejects react to the shedding that has begun.
const TRIAL_AFTER_OUTCOMES: f64 = 20.0;
/// The fraction of the share of rejects when shedding began above which the rejects do not react to it, so that a
/// trial follows.
const STAYS_FRACTION: f64 = 0.4;
/// Rejects are taken for noise only if the offered rate is at most this multiple of what noise alone would explain.
const NEAR_FACTOR: f64 = 2.0;
/// The number of outcomes over which the share of rejects when shedding begins is measured.
const RECENT_OUTCOMES: f64 = 20.0;
/// A further trial follows only if the rate of accepts has fallen by at least this fraction since the latest one, as it
/// does if calls are shed because of noise.
const FALLEN_BY: f64 = 0.15;
/// `FALLEN_BY` is at least this many sampling errors of the rate of accepts.
const FALLEN_ERRORS: f64 = 1.5;
/// While calls are shed and there is noise, a trial follows this many seconds after the latest one, to learn whether
/// there still is. `RENEW_OUTCOMES` must be met too.
const RENEW_SECONDS: f64 = 20.0;
/// The minimum number of outcomes between a trial and the one that renews it.
const RENEW_OUTCOMES: f64 = 500.0;
/// The rate of calls during a trial, as a fraction of the rate that the destination accepted before.
const TRIAL_RATE: f64 = 0.9;
/// The fraction of the accepted rate below which the calls count for the trial. The bucket may still hold tokens when
/// the trial begins.
const SLOW_RATE: f64 = 0.97;
/// The minimum time over which the rate of calls is measured for `SLOW_RATE`, in seconds.
const SLOW_SECONDS: f64 = 0.2;
/// The minimum number of calls over which the rate of calls is measured for `SLOW_RATE`.
const SLOW_CALLS: f64 = 5.0;
/// The minimum time that a trial measures, in seconds.
const TRIAL_SECONDS: f64 = 1.0;
/// The maximum number of outcomes that a trial needs, unless fewer than `TRIAL_REJECTS_MAX` rejects were to be expected
/// among them.
const TRIAL_OUTCOMES: f64 = 60.0;
/// The number of rejects to be expected in a trial.
const TRIAL_REJECTS_MAX: f64 = 8.0;
/// A trial without a reject ends when this many were to be expected.
const CLEARLY_NONE: f64 = 4.0;
/// A trial with this many rejects ends, if their share is about the same as before.
const CLEARLY_SOME: f64 = 8.0;
/// The fraction of the former share above which rejects in a trial are noise. Below it, load was the cause of most.
const SAME_FRACTION: f64 = 0.25;
/// The multiple of the former share up to which rejects in a trial count as the same, apart from chance.
const MORE_FACTOR: f64 = 1.25;
/// How many sampling errors a share may exceed another one and still count as the same.
const SAME_ERRORS: f64 = 2.0;
/// The fraction of what was learnt before that remains when a trial contradicts it.
const KEPT_AFTER_REACTION: f64 = 0.25;
/// The maximum number of outcomes that are remembered, so that also a busy client forgets within a minute.
const REMEMBERED_OUTCOMES: f64 = 200.0;
/// The number of rejects that may be chance: the share of noise that is assumed is that of the others. While what was
/// learnt decays, this is a growing part of it.
const UNSURE_REJECTS: f64 = 1.0;
/// The time constant with which noise is forgotten, in seconds, unless `FORGET_OUTCOMES` outcomes take longer.
const FORGET_SECONDS: f64 = 16.0;
/// The minimum number of outcomes over which noise is forgotten.
const FORGET_OUTCOMES: f64 = 150.0;
/// The maximum time constant with which noise is forgotten, in seconds, for clients with few calls.
const FORGET_SECONDS_MAX: f64 = 120.0;
/// While every call is admitted, noise is not forgotten if at least this fraction of it is still seen.
const STILL_SEEN: f64 = 0.5;
/// The time constant with which the rate of accepts before a fall follows a higher rate, as a multiple of the time that
/// `TRIAL_AFTER_OUTCOMES` take, or of a second if that is longer.
const RISE_FACTOR: f64 = 10.0;
/// The same for a lower rate. It is slow, so that a slow fall is noticed too.
const FALL_FACTOR: f64 = 60.0;

/// What is known besides the counts of an evaluation: from the estimate of capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The rate of offered calls, per second.
    pub(super) offered: f64,
    /// The rate of accepts, per second.
    pub(super) accepts: f64,
    /// The rate of outcomes, per second.
    pub(super) outcomes: f64,
    /// The share of rejects among the recent outcomes, and the number of these outcomes.
    pub(super) share: f64,
    pub(super) count: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No trial.
    Waiting,
    /// A trial has begun, but more calls are still sent than it allows.
    Slowing,
    /// The outcomes are counted.
    Measuring,
}

/// The result of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    /// The rejects are as frequent as before: they are noise.
    Same,
    /// The rejects have become rarer. The rest is noise.
    Fewer,
    /// The rejects have become more frequent, so something else has changed.
    Unsteady,
}

#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Noise {
    /// What was learnt: the number of rejects in trials, and of outcomes.
    rejected: f64,
    outcomes: f64,
    /// The phase of the trial, as a number.
    phase: f64,
    /// The rate of accepts before it fell: that when shedding began, which slowly follows the current one.
    base: f64,
    /// The share of rejects when the trial began, or when shedding began; negative after a trial.
    before: f64,
    /// The share of rejects among the latest `RECENT_OUTCOMES`.
    recent: f64,
    /// The time since the current phase began, in seconds, and the calls or outcomes and rejects in it.
    seconds: f64,
    count: f64,
    rejects: f64,
}

impl Noise {
    /// The number of floating-point values, for storing them in atomics.
    pub(super) const NUMBERS: usize = 9;

    /// Returns the share of calls that is rejected whatever the load: the lower confidence bound of what was learnt.
    pub(super) fn share(&self) -> f64 {
        let sure = self.rejected - UNSURE_REJECTS;
        if sure > 0.0 { (sure / self.outcomes).min(NOISE_MAX) } else { 0.0 }
    }

    /// Whether more calls are rejected than noise explains: `share` is that of the latest `count` outcomes.
    pub(super) fn is_exceeded_by(&self, share: f64, count: f64) -> bool {
        let noise = self.share();
        share > noise + SAME_ERRORS * sampling_error(noise, count)
    }

    /// Whether a share of rejects is about what was learnt, or less.
    fn is_likely(&self, share: f64, count: f64) -> bool {
        let learnt = self.rejected / self.outcomes;
        share <= learnt + sampling_error(learnt, count)
    }

    /// Returns the number of calls per second to send during a trial; `None` if there is no trial.
    /// `accepts` is the rate of accepts before it.
    pub(super) fn trial_rate(&self, accepts: f64) -> Option<f64> {
        self.is_trial().then_some(accepts * TRIAL_RATE)
    }

    pub(super) fn is_trial(&self) -> bool {
        self.phase() != Phase::Waiting
    }

    /// Whether outcomes count for a trial. Only those of calls sent since this became true must be passed on.
    pub(super) fn is_measuring(&self) -> bool {
        self.phase() == Phase::Measuring
    }

    /// Adds the counts since the latest evaluation, which was in this mode. Returns whether a trial has just shown
    /// that the rejects are noise.
    pub(super) fn look(&mut self, mode: Mode, seen: Seen, known: Known) -> Option<f64> {
        self.forget(mode, seen, known);
        let outcomes = seen.accepted + seen.rejected;
        if outcomes > 0.0 {
            let keep = fade(outcomes / RECENT_OUTCOMES);
            self.recent = self.recent * keep + (1.0 - keep) * seen.rejected / outcomes;
        }
        if mode != Mode::Shedding {
            self.stop();
            self.before = 0.0;
            self.base = 0.0;
            return None;
        }
        self.seconds += seen.seconds;
        match self.phase() {
            Phase::Waiting => self.wait(seen, known),
            Phase::Slowing => self.slow(seen, known),
            Phase::Measuring => return self.measure(seen, known),
        }
        None
    }

    fn forget(&mut self, mode: Mode, seen: Seen, known: Known) {
        let holds = self.is_trial() || mode == Mode::Calm && known.share >= self.share() * STILL_SEEN;
        if mode == Mode::Calm && self.rejected > 0.0 && self.outcomes < REMEMBERED_OUTCOMES {
            // The trial was short. The calls after it say more about the same noise.
            if self.is_likely(known.share, known.count) && self.is_likely(self.recent, RECENT_OUTCOMES) {
                self.learn(seen.rejected, seen.accepted + seen.rejected);
            }
        }
        if !holds {
            let constant = (FORGET_OUTCOMES / known.outcomes).clamp(FORGET_SECONDS, FORGET_SECONDS_MAX);
            self.scale(fade(seen.seconds / constant));
        }
    }

    fn wait(&mut self, seen: Seen, known: Known) {
        let is_first = self.before >= 0.0;
        if self.base == 0.0 {
            (self.base, self.before) = (known.accepts, self.recent);
        }
        self.count += seen.accepted + seen.rejected;
        self.rejects += seen.rejected;
        let factor = if known.accepts > self.base { RISE_FACTOR } else { FALL_FACTOR };
        let constant = factor * (TRIAL_AFTER_OUTCOMES / known.outcomes).clamp(1.0, FORGET_SECONDS_MAX);
        self.base += (known.accepts - self.base) * (1.0 - fade(seen.seconds / constant));
        if self.seconds < TRIAL_AFTER_SECONDS || self.count < TRIAL_AFTER_OUTCOMES {
            return;
        }
        // The share since shedding began shows whether it has helped. Later, the latest outcomes say more.
        let share = if is_first { self.rejects / self.count } else { known.share };
        let stays =
            is_first && share >= self.before * STAYS_FRACTION && self.is_exceeded_by(share, self.count);
        let fallen_by = FALLEN_BY.max(FALLEN_ERRORS / square_root(known.count));
        let has_fallen = known.accepts < self.base * (1.0 - fallen_by);
        let is_due = self.share() > 0.0 && self.seconds >= RENEW_SECONDS && self.count >= RENEW_OUTCOMES;
        if ((stays || has_fallen) && self.is_near(share, known) || is_due)
            && (TRIAL_SHARE_MIN..=NOISE_MAX).contains(&share)
        {
            self.before = share;
            self.enter(Phase::Slowing);
        }
    }

    /// Whether so many calls are offered that noise may be the only cause of the rejects. If far more are offered, most
    /// of the load is too much anyway; and if all clients of a fleet are, a trial of one of them proves nothing.
    fn is_near(&self, share: f64, known: Known) -> bool {
        known.offered * (1.0 - share) <= self.base * NEAR_FACTOR
    }

    fn slow(&mut self, seen: Seen, known: Known) {
        self.count += seen.sent;
        if self.seconds >= SLOW_SECONDS.max(SLOW_CALLS / known.accepts) {
            // One call more is chance, or was let through because none had been for too long.
            let is_slow = self.count <= known.accepts * SLOW_RATE * self.seconds + 1.0;
            self.enter(if is_slow { Phase::Measuring } else { Phase::Slowing });
        }
    }

    fn measure(&mut self, seen: Seen, known: Known) -> Option<f64> {
        self.count += seen.accepted + seen.rejected;
        self.rejects += seen.rejected;
        let finding = self.finding()?;
        match finding {
            Finding::Same => {
                // The calls before the trial got as many rejects, so they were noise too. Any more were not.
                let more = known.count.min(self.count);
                let share = self.before.min(self.rejects / self.count);
                let (rejects, count) = (self.rejects + share * more, self.count + more);
                let known_noise = self.rejected / self.outcomes;
                let is_near = self.is_near(share, known);
                self.learn(if is_near { rejects } else { rejects.min(known_noise * count) }, count);
            }
            Finding::Fewer => {
                self.scale(KEPT_AFTER_REACTION);
                self.learn(self.rejects, self.count);
                self.base = known.accepts;
            }
            Finding::Unsteady => self.base = known.accepts,
        }
        self.stop();
        (finding == Finding::Same).then_some(self.base)
    }

    /// Returns the trial's result; `None` if it is not known yet.
    fn finding(&self) -> Option<Finding> {
        if self.seconds < TRIAL_SECONDS || self.count < 1.0 {
            return None;
        }
        let share = self.rejects / self.count;
        let expected = self.count * self.before;
        let is_more =
            share > self.before * MORE_FACTOR + SAME_ERRORS * sampling_error(self.before, self.count);
        let is_same = !is_more && share >= self.before * SAME_FRACTION;
        let is_long = self.count >= TRIAL_OUTCOMES && expected >= TRIAL_REJECTS_MAX;
        if is_same && (is_long || self.rejects >= CLEARLY_SOME) {
            Some(Finding::Same)
        } else if (self.rejects == 0.0 && expected >= CLEARLY_NONE) || (is_long && !is_more) {
            Some(Finding::Fewer)
        } else {
            is_long.then_some(Finding::Unsteady)
        }
    }

    fn learn(&mut self, rejected: f64, outcomes: f64) {
        self.rejected += rejected;
        self.outcomes += outcomes;
        if self.outcomes > REMEMBERED_OUTCOMES {
            self.scale(REMEMBERED_OUTCOMES / self.outcomes);
        }
    }

    fn scale(&mut self, keep: f64) {
        self.rejected *= keep;
        self.outcomes *= keep;
    }

    /// Ends a trial. The next one is not the first since shedding began.
    fn stop(&mut self) {
        self.before = -1.0;
        self.enter(Phase::Waiting);
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = match phase {
            Phase::Waiting => 0.0,
            Phase::Slowing => 1.0,
            Phase::Measuring => 2.0,
        };
        (self.seconds, self.count, self.rejects) = (0.0, 0.0, 0.0);
    }

    fn phase(&self) -> Phase {
        if self.phase < 0.5 {
            Phase::Waiting
        } else if self.phase < 1.5 {
            Phase::Slowing
        } else {
            Phase::Measuring
        }
    }

    pub(super) fn to_numbers(self) -> [f64; Self::NUMBERS] {
        let Self { rejected, outcomes, phase, base, before, recent, seconds, count, rejects } = self;
        [rejected, outcomes, phase, base, before, recent, seconds, count, rejects]
    }

    pub(super) fn from_numbers(numbers: [f64; Self::NUMBERS]) -> Self {
        let [rejected, outcomes, phase, base, before, recent, seconds, count, rejects] = numbers;
        Self { rejected, outcomes, phase, base, before, recent, seconds, count, rejects }
    }
}

/// Returns the standard deviation of a share that is measured over `count` outcomes.
fn sampling_error(share: f64, count: f64) -> f64 {
    square_root(share * (1.0 - share) / count.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::estimate::Estimate;
    use super::*;

    /// A destination that is called as the estimate says, evaluated fifty times per second. Counts are fractions of
    /// calls, so that chance plays no part.
    struct Loop {
        estimate: Estimate,
        mode: Mode,
        sent: f64,
        accepted: f64,
        trials: u32,
    }

    impl Loop {
        fn new() -> Self {
            Self { estimate: Estimate::default(), mode: Mode::Calm, sent: 0.0, accepted: 0.0, trials: 0 }
        }

        /// Runs for some seconds. The rates are per second; `noise` is the share that is rejected whatever the load.
        /// Returns the rates of calls sent and accepted.
        fn run(&mut self, seconds: u32, offered: f64, capacity: f64, noise: f64) -> [f64; 2] {
            (self.sent, self.accepted) = (0.0, 0.0);
            for _ in 0..seconds * 50 {
                let limit =
                    if self.mode == Mode::Calm { f64::INFINITY } else { self.estimate.rate(self.mode) };
                let sent = offered.min(limit) / 50.0;
                let accepted = (sent * (1.0 - noise)).min(capacity / 50.0);
                let seen = Seen {
                    seconds: 0.02,
                    asked: offered / 50.0,
                    sent,
                    accepted,
                    rejected: sent - accepted,
                    neither: 0.0,
                    latency: 0.01,
                };
                let was_measuring = self.estimate.is_measuring_noise();
                self.mode = self.estimate.look(self.mode, seen);
                self.trials += u32::from(self.estimate.is_measuring_noise() && !was_measuring);
                self.sent += sent;
                self.accepted += accepted;
            }
            [self.sent, self.accepted].map(|count| count / f64::from(seconds))
        }
    }

    #[test]
    fn noise_is_learnt_and_not_shed_for() {
        for offered in [20.0, 100.0, 1_000.0, 50_000.0] {
            for noise in [0.15, 0.2, 0.3] {
                let mut calls = Loop::new();
                calls.run(30, offered, f64::INFINITY, 0.0);
                calls.run(30, offered, f64::INFINITY, noise);
                let [sent, _] = calls.run(60, offered, f64::INFINITY, noise);
                assert!(sent >= 0.99 * offered, "{sent} of {offered} with {noise}");
                let learnt = calls.estimate.noise_share();
                assert!(
                    learnt == 0.0 || (noise * 0.7..=noise * 1.01).contains(&learnt),
                    "{learnt} for {noise}"
                );
            }
        }
    }

    #[test]
    fn an_overload_is_not_noise() {
        for offered in [120.0, 150.0, 500.0, 5_000.0] {
            let mut calls = Loop::new();
            calls.run(30, 90.0, 100.0, 0.0);
            calls.run(10, offered, 100.0, 0.0);
            let [sent, accepted] = calls.run(120, offered, 100.0, 0.0);
            assert_eq!(calls.mode, Mode::Shedding, "{offered}/s");
            assert!(calls.estimate.noise_share() < 0.02, "{offered}/s: {}", calls.estimate.noise_share());
            assert!(accepted >= 98.0, "{accepted} of 100 at {offered}/s");
            assert!(sent <= 103.0 + 0.025 * offered, "{sent} at {offered}/s");
        }
    }

    #[test]
    fn an_overload_on_top_of_noise_is_found() {
        // With more noise, more of the capacity is lost while the noise is measured again.
        for (noise, offered, least) in
            [(0.1, 150.0, 96.0), (0.1, 500.0, 96.0), (0.2, 150.0, 90.0), (0.2, 500.0, 90.0)]
        {
            let mut calls = Loop::new();
            calls.run(60, 90.0, 100.0, noise);
            calls.run(30, offered, 100.0, noise);
            let [sent, accepted] = calls.run(120, offered, 100.0, noise);
            assert_eq!(calls.mode, Mode::Shedding, "{offered}/s with {noise}");
            assert!(accepted >= least, "{accepted} of 100 at {offered}/s with {noise}");
            assert!(sent * (1.0 - noise) <= 118.0, "{sent} at {offered}/s with {noise}");
            calls.run(5, 90.0, 100.0, noise);
            assert_eq!(calls.mode, Mode::Calm, "after {offered}/s with {noise}");
        }
    }

    #[test]
    fn noise_is_forgotten_within_a_minute() {
        let mut noise = Noise::default();
        noise.learn(100_000.0, 500_000.0);
        assert!((0.18..0.2).contains(&noise.share()), "{}", noise.share());
        let seen = Seen { seconds: 1.0, accepted: 100.0, ..Seen::default() };
        let known = Known { offered: 100.0, accepts: 100.0, outcomes: 100.0, share: 0.0, count: 100.0 };
        noise.look(Mode::Calm, seen, known);
        assert!(noise.share() > 0.1, "a second without rejects may be chance: {}", noise.share());
        (0..60).for_each(|_| assert_eq!(noise.look(Mode::Calm, seen, known), None));
        assert_eq!(noise.share(), 0.0);
        noise.learn(100_000.0, 500_000.0);
        // While calls are shed, rejects are seen in any case. Without a trial, they confirm nothing.
        let known = Known { share: 0.3, accepts: 0.0, ..known };
        (0..60).for_each(|_| assert_eq!(noise.look(Mode::Probing, seen, known), None));
        assert!(noise.share() < 0.01, "{}", noise.share());
    }

    #[test]
    fn few_rejects_are_not_certain() {
        // Rejects and outcomes of trials, and the share that is assumed.
        for (rejected, outcomes, least, most) in
            [(0.0, 60.0, 0.0, 0.0), (1.0, 60.0, 0.0, 0.0), (6.0, 60.0, 0.08, 0.09), (50.0, 500.0, 0.09, 0.1)]
        {
            let mut noise = Noise::default();
            noise.learn(rejected, outcomes);
            assert!((least..=most).contains(&noise.share()), "{rejected} of {outcomes}: {}", noise.share());
        }
    }

    #[test]
    fn a_trial_tells_noise_from_load() {
        // Rejects among 100 outcomes at a lower rate, where the share was 20 % before.
        let table = [
            (0.0, Some(Finding::Fewer)),
            (4.0, Some(Finding::Fewer)),
            (10.0, Some(Finding::Same)),
            (20.0, Some(Finding::Same)),
            (30.0, Some(Finding::Same)),
            (45.0, Some(Finding::Unsteady)),
        ];
        for (rejects, expected) in table {
            let trial = Noise { before: 0.2, seconds: 2.0, count: 100.0, rejects, ..Noise::default() };
            assert_eq!(trial.finding(), expected, "{rejects}");
        }
        let short = Noise { before: 0.2, seconds: 2.0, count: 15.0, rejects: 3.0, ..Noise::default() };
        assert_eq!(short.finding(), None);
    }

    #[test]
    fn more_rejects_than_noise_explains_are_noticed() {
        let mut noise = Noise::default();
        assert!(noise.is_exceeded_by(0.001, 1_000.0), "without noise, any reject is more");
        noise.learn(50.0, 500.0);
        for (share, count, expected) in [(0.1, 100.0, false), (0.14, 100.0, false), (0.2, 100.0, true)] {
            assert_eq!(noise.is_exceeded_by(share, count), expected, "{share} of {count}");
        }
    }
}
