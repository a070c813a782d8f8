//! The estimate of a destination's capacity, and the mode that follows from it. It is pure: it takes the counts since
//! the latest evaluation and the time they cover, and returns the mode. It sheds no call itself.
//!
//! Capacity is learnt from accepts, not from rejects: while more calls are offered than the destination can take, the
//! rate of accepts is its capacity (or this process's share of it). The budget is slightly higher, so that spare
//! capacity is found while rejects stay at a few percent.

use super::math::{fade, square_root};
use super::noise::{Known, NEAR_FACTOR, Noise};

/// The time constant with which counts of accepts and rejects decay, in seconds, unless `OUTCOME_COUNT` outcomes take
/// longer.
const OUTCOME_SECONDS: f64 = 1.0;
/// The minimum number of outcomes over which counts of accepts and rejects decay, because fewer do not determine a
/// rate.
const OUTCOME_COUNT: f64 = 60.0;
/// The maximum time constant of any count's decay, in seconds, for clients with few calls.
const LONGEST_MEMORY: f64 = 120.0;
/// The time constant with which counts of offered calls decay, in seconds, unless `OFFERED_COUNT` calls take longer. It
/// is short, so that shedding stops soon after the load fits again.
const OFFERED_SECONDS: f64 = 0.2;
/// The minimum number of calls over which counts of offered calls decay.
const OFFERED_COUNT: f64 = 7.0;
/// How many times more slowly the usual offered rate decays than the current offered rate.
const USUAL_FACTOR: f64 = 5.0;
/// The multiple of the usual time between calls after which the client counts as pausing. Time beyond that does not
/// lower the rate of accepts, because no call could have been accepted.
const PAUSE_FACTOR: f64 = 10.0;
/// The fraction of the usual rate below which the load has clearly fallen. Above this fraction, there may be just a
/// short lull.
const PLAINLY_FALLEN: f64 = 0.5;
/// The number of outcomes that must be known before a call is shed for an overload.
const EVIDENCE_OUTCOMES: f64 = 10.0;
/// The number of accepts that must be among the `EVIDENCE_OUTCOMES`. A rate learnt from fewer would be a guess or zero.
const EVIDENCE_ACCEPTS: f64 = 1.0;
/// Shedding begins when the offered rate exceeds `budget * (1 + BEGIN_ERRORS / sqrt(count))`, where `1 / sqrt(count)`
/// is the rate's relative sampling error.
const BEGIN_ERRORS: f64 = 0.5;
/// Shedding ends once the offered rate is at most `budget * (1 + END_ERRORS / count)`. Ending too early costs only one
/// or two rejects, so the margin may be wide for clients with few calls.
const END_ERRORS: f64 = 4.0;
/// Shedding ends after this many seconds without a reject, regardless of the estimates, if there were `CLEAN_ACCEPTS`
/// accepts meanwhile.
const CLEAN_SECONDS: f64 = 30.0;
/// The number of accepts that must come within `CLEAN_SECONDS` for shedding to end.
const CLEAN_ACCEPTS: f64 = 15.0;
/// The fraction by which the budget exceeds the rate of accepts. It is enough to detect more capacity, and costs few
/// rejects.
const HEADROOM: f64 = 0.02;
/// The number of accepts without a reject after which the headroom grows, with the square of the further accepts. Such
/// a long run is not due to chance.
const CLEAN_RUN: f64 = 30.0;
/// The maximum headroom.
const MAX_HEADROOM: f64 = 0.5;
/// The fraction of the unmet load that is added to the budget, so that all processes in a fleet converge to equal
/// shares.
const FAIR_SHARE: f64 = 0.025;
/// The share of noise at which nothing of the unmet load is added any more. The more noise there is, the more calls of
/// a high priority each call in excess of the capacity displaces.
const FAIR_NOISE_MAX: f64 = 0.3;
/// The minimum number of calls without an accept for an outage to be detected. `OUTAGE_SECONDS` and `OUTAGE_FACTOR`
/// must be met too.
const OUTAGE_CALLS: f64 = 8.0;
/// The minimum time since the first call without an accept for an outage to be detected, in seconds.
const OUTAGE_SECONDS: f64 = 0.6;
/// For an outage to be detected, the time without an accept must be at least this many times the usual latency of an
/// accept. At least this many accepts must also have been expected in that time, unless the rate of accepts is not
/// known.
const OUTAGE_FACTOR: f64 = 4.0;
/// The maximum fraction of the offered calls that probe during an outage. It matters only for clients with one or two
/// calls per second, which would otherwise send almost every call to a destination that is down.
const PROBE_PART: f64 = 0.7;
/// The number of accepts that end an outage. Each reject subtracts one.
const RECOVERED_ACCEPTS: f64 = 8.0;
/// The part of a run of accepts that a reject takes back, as a fraction of the accepts for each reject that is noise.
const NOISE_REJECT_COST: f64 = 0.6;
/// When rejects turn out to be noise, shedding ends if the offered rate is at most this multiple of the budget.
const NOISE_END_FACTOR: f64 = 1.25;
/// The estimate is reset after this many seconds without a call.
const IDLE_SECONDS: f64 = 30.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Every call is sent.
    Calm,
    /// Calls are sent within the budget.
    Shedding,
    /// The destination accepts no calls, so only probes are sent.
    Probing,
}

/// The counts since the latest evaluation, and the time they cover.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen {
    /// The time of the evaluation, in seconds since the clock's origin.
    pub(super) now: f64,
    pub(super) seconds: f64,
    pub(super) asked: f64,
    pub(super) sent: f64,
    pub(super) accepted: f64,
    pub(super) rejected: f64,
    /// Calls that were neither accepted nor rejected, and rejects of calls sent before the throttle last turned calm or
    /// started probing.
    pub(super) neither: f64,
    /// The usual latency of an accept, in seconds; 0 before the first.
    pub(super) latency: f64,
}

/// A rate in which older counts decay exponentially.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Rate {
    count: f64,
    seconds: f64,
}

impl Rate {
    fn add(&mut self, count: f64, seconds: f64, keep: f64) {
        self.count = self.count * keep + count;
        self.seconds = self.seconds * keep + seconds;
    }

    fn per_second(self) -> f64 {
        if self.seconds > 0.0 { self.count / self.seconds } else { 0.0 }
    }

    /// Returns the time constant of this rate's decay, in seconds: the longer of `seconds` and the time that `count`
    /// calls take, at most `LONGEST_MEMORY`.
    fn horizon(self, seconds: f64, count: f64) -> f64 {
        (count / self.per_second()).clamp(seconds, LONGEST_MEMORY)
    }
}

/// The values from which a destination's capacity is estimated.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Estimate {
    offered: Rate,
    /// The offered rate over a longer time, for comparison with the current offered rate.
    usual: Rate,
    accepts: Rate,
    outcomes: Rate,
    /// The rate of accepts at the latest reject. Capacity is assumed to stay at least this high until a further reject,
    /// even if the rate of accepts falls because calls are shed.
    known_capacity: f64,
    /// The number of accepts since the latest reject. `clean_seconds` is the time since that reject.
    clean_run: f64,
    clean_seconds: f64,
    /// The number of calls sent since the latest accept. `silent_seconds` is the time since the first of these calls.
    unanswered: f64,
    silent_seconds: f64,
    /// The usual latency of an accept, in seconds.
    latency: f64,
    /// The number of accepts since probing began, minus the rejects.
    recovery: f64,
    /// The share of rejects that do not react to load.
    noise: Noise,
}

impl Estimate {
    /// The number of floating-point values in an estimate, for storing it in atomics.
    pub(super) const NUMBERS: usize = Self::OWN_NUMBERS + Noise::NUMBERS;
    const OWN_NUMBERS: usize = 15;

    /// Adds the counts since the latest evaluation, and returns the mode that applies from now on.
    pub(super) fn look(&mut self, mode: Mode, seen: Seen) -> Mode {
        if seen.seconds >= IDLE_SECONDS {
            *self = Self::default();
            return Mode::Calm;
        }
        self.take_in(mode, seen);
        let was_noise = self.noise.look(mode, seen, self.known());
        if let Some(accepts) = was_noise {
            self.restore(accepts);
        }
        match mode {
            Mode::Probing if self.recovery >= RECOVERED_ACCEPTS => {
                self.recovery = 0.0;
                Mode::Calm
            }
            Mode::Probing => Mode::Probing,
            Mode::Calm | Mode::Shedding if self.is_outage() => {
                self.recovery = 0.0;
                self.forget_silence();
                Mode::Probing
            }
            Mode::Calm if seen.rejected > 0.0 && self.is_overload() => {
                // What was accepted under a lower load is no sign of spare capacity.
                self.clean_run = 0.0;
                Mode::Shedding
            }
            Mode::Shedding if self.is_over() || was_noise.is_some() && self.is_nearly_over() => Mode::Calm,
            Mode::Shedding if self.may_fit() => {
                self.assume_fit();
                Mode::Calm
            }
            Mode::Calm | Mode::Shedding => mode,
        }
    }

    /// Returns the number of calls per second that may be sent in this mode.
    pub(super) fn rate(&self, mode: Mode) -> f64 {
        let offered = self.offered.per_second();
        match mode {
            Mode::Probing => (offered * PROBE_PART).min(square_root(offered)),
            Mode::Calm | Mode::Shedding => {
                self.noise.trial_rate(self.accepts.per_second()).unwrap_or_else(|| self.budget())
            }
        }
    }

    fn take_in(&mut self, mode: Mode, seen: Seen) {
        // If the usual rate is zero, this divides to infinity, and the time is not limited.
        let active = seen.seconds.min(PAUSE_FACTOR * seen.asked / self.usual.per_second());
        let horizon = self.offered.horizon(OFFERED_SECONDS, OFFERED_COUNT);
        self.offered.add(seen.asked, seen.seconds, fade(seen.seconds / horizon));
        self.usual.add(seen.asked, seen.seconds, fade(seen.seconds / (horizon * USUAL_FACTOR)));
        // Probes do not measure capacity, nor do the calls of a trial. The best estimate after them is the capacity
        // before them.
        if mode != Mode::Probing && !self.noise.is_trial() {
            let keep = fade(seen.seconds / self.outcomes.horizon(OUTCOME_SECONDS, OUTCOME_COUNT));
            self.accepts.add(seen.accepted, active, keep);
            self.outcomes.add(seen.accepted + seen.rejected, active, keep);
        }
        if seen.rejected > 0.0 {
            self.known_capacity = self.accepts.per_second();
            self.clean_run = self.clean_run_after(seen);
            self.clean_seconds = 0.0;
        } else if !self.noise.is_trial() {
            self.clean_run += seen.accepted;
            self.clean_seconds += seen.seconds;
        }
        self.recovery = (self.recovery + seen.accepted - seen.rejected).max(0.0);
        self.latency = seen.latency;
        self.hear_silence(seen);
    }

    /// Returns the run of accepts after rejects. Rejects that noise explains do not end it: each takes back fewer accepts
    /// than come with it. Without noise, or far above the capacity, a reject ends the run.
    fn clean_run_after(&self, seen: Seen) -> f64 {
        if self.noise.is_trial() {
            return self.clean_run;
        }
        let noise = self.noise.share();
        // If far more is offered than accepted, a client that grew because of noise that it overestimates would take
        // the capacity from the other clients.
        let is_far = self.offered.per_second() * (1.0 - noise) > self.accepts.per_second() * NEAR_FACTOR;
        if noise == 0.0 || is_far {
            return 0.0;
        }
        let accepts_for_each = (1.0 - noise) / noise;
        (self.clean_run + seen.accepted - seen.rejected * accepts_for_each * NOISE_REJECT_COST).max(0.0)
    }

    fn hear_silence(&mut self, seen: Seen) {
        let was_waiting = self.unanswered > 0.0;
        self.unanswered = (self.unanswered + seen.sent - seen.neither).max(0.0);
        if seen.accepted > 0.0 {
            self.unanswered = 0.0;
        }
        let goes_on = was_waiting && self.unanswered > 0.0;
        self.silent_seconds = if goes_on { self.silent_seconds + seen.seconds } else { 0.0 };
    }

    fn budget(&self) -> f64 {
        let offered = self.offered.per_second();
        let accepts = self.accepts.per_second().max(self.known_capacity);
        let clean = (self.clean_run / CLEAN_RUN - 1.0).max(0.0);
        let headroom = (HEADROOM * (1.0 + clean * clean)).min(MAX_HEADROOM);
        let unmet = (offered - accepts).max(0.0);
        let fair = FAIR_SHARE * unmet * (1.0 - self.noise.share() / FAIR_NOISE_MAX).max(0.0);
        // Noise takes its share of the calls that are sent, so more must be sent for as many accepts.
        self.noise.sent_for(accepts) * (1.0 + headroom) + fair
    }

    /// Whether the offered rate exceeds the budget by more than chance explains.
    fn is_overload(&self) -> bool {
        if self.outcomes.count < EVIDENCE_OUTCOMES || self.accepts.count < EVIDENCE_ACCEPTS {
            return false;
        }
        let Known { share, count, .. } = self.known();
        let (offered, accepts) = (self.offered.per_second(), self.accepts.per_second());
        if !self.noise.is_exceeded_by(share, count) || Noise::is_tolerated(offered, accepts) {
            return false;
        }
        let error = BEGIN_ERRORS / square_root(self.offered.count.max(1.0));
        offered > self.budget() * (1.0 + error)
    }

    /// Whether the offered rate is within the budget again, or there was no reject for long enough, so that shedding
    /// ends.
    fn is_over(&self) -> bool {
        let fits = |offered: Rate| {
            offered.per_second() <= self.budget() * (1.0 + END_ERRORS / offered.count.max(1.0))
        };
        let fits = fits(self.offered) && (self.has_fallen() || fits(self.usual));
        fits || (self.clean_seconds >= CLEAN_SECONDS && self.clean_run >= CLEAN_ACCEPTS)
    }

    /// Whether the offered rate has clearly fallen.
    fn has_fallen(&self) -> bool {
        self.offered.per_second() < self.usual.per_second() * PLAINLY_FALLEN
    }

    /// Whether the load has fallen so far that it may fit, although more is offered than the budget. The budget was
    /// learnt under a higher load: it is this client's share of the capacity at that time, and the other clients of the
    /// destination probably need less now too.
    fn may_fit(&self) -> bool {
        self.has_fallen() && self.offered.per_second() <= self.budget() * NEAR_FACTOR
    }

    /// Sets the estimates to what they are if the destination takes all offered calls but noise. If it does not, its
    /// rejects correct them within a second or `OUTCOME_COUNT` outcomes.
    fn assume_fit(&mut self) {
        self.outcomes.count = self.offered.per_second() * self.outcomes.seconds;
        self.accepts.count = self.outcomes.count * (1.0 - self.noise.share());
        self.known_capacity = self.accepts.per_second();
    }

    /// Restores the rates to what they were before the outage that has just been detected.
    fn forget_silence(&mut self) {
        let constant = self.outcomes.horizon(OUTCOME_SECONDS, OUTCOME_COUNT);
        let silent = constant * (1.0 - fade(self.silent_seconds / constant));
        if self.accepts.seconds > silent {
            self.accepts.seconds -= silent;
            self.outcomes.seconds -= silent;
            self.outcomes.count = self.accepts.count / (1.0 - self.noise.share());
            self.known_capacity = self.accepts.per_second();
        }
    }

    /// Restores the rate of accepts to what it was before calls were shed because of noise.
    fn restore(&mut self, accepts: f64) {
        let factor = accepts / self.accepts.per_second();
        if factor > 1.0 && factor < f64::INFINITY {
            self.accepts.count *= factor;
            self.outcomes.count *= factor;
            self.known_capacity = accepts;
        }
    }

    fn is_nearly_over(&self) -> bool {
        self.offered.per_second() <= self.budget() * NOISE_END_FACTOR
    }

    /// Whether only outcomes of calls count that are sent from now on.
    pub(super) fn is_measuring_noise(&self) -> bool {
        self.noise.is_measuring()
    }

    #[cfg(test)]
    pub(super) fn noise_share(&self) -> f64 {
        self.noise.share()
    }

    fn known(&self) -> Known {
        let (accepts, outcomes) = (self.accepts.per_second(), self.outcomes.per_second());
        let count = self.outcomes.count;
        let share = if count > 0.0 { 1.0 - self.accepts.count / count } else { 0.0 };
        Known {
            offered: self.offered.per_second(),
            usual: self.usual.per_second(),
            accepts,
            outcomes,
            share,
            count,
        }
    }

    /// Whether the destination has stopped accepting calls.
    fn is_outage(&self) -> bool {
        // If the destination has never responded, a call may just be slow.
        let answered = self.outcomes.count > 0.0;
        let missed = self.silent_seconds * self.accepts.per_second();
        answered
            && self.unanswered >= OUTAGE_CALLS
            && self.silent_seconds >= OUTAGE_SECONDS.max(OUTAGE_FACTOR * self.latency)
            && (missed >= OUTAGE_FACTOR || self.accepts.count < 1.0)
    }

    pub(super) fn to_numbers(self) -> [f64; Self::NUMBERS] {
        let mut numbers = [0.0; Self::NUMBERS];
        let (own, noise) = numbers.split_at_mut(Self::OWN_NUMBERS);
        own.copy_from_slice(&self.own_numbers());
        noise.copy_from_slice(&self.noise.to_numbers());
        numbers
    }

    fn own_numbers(self) -> [f64; Self::OWN_NUMBERS] {
        [
            self.offered.count,
            self.offered.seconds,
            self.usual.count,
            self.usual.seconds,
            self.accepts.count,
            self.accepts.seconds,
            self.outcomes.count,
            self.outcomes.seconds,
            self.known_capacity,
            self.clean_run,
            self.clean_seconds,
            self.unanswered,
            self.silent_seconds,
            self.latency,
            self.recovery,
        ]
    }

    pub(super) fn from_numbers(numbers: [f64; Self::NUMBERS]) -> Self {
        let [o_count, o_seconds, u_count, u_seconds, a_count, a_seconds, n_count, n_seconds, rest @ ..] =
            numbers;
        let [
            known_capacity,
            clean_run,
            clean_seconds,
            unanswered,
            silent_seconds,
            latency,
            recovery,
            noise @ ..,
        ] = rest;
        Self {
            offered: Rate { count: o_count, seconds: o_seconds },
            usual: Rate { count: u_count, seconds: u_seconds },
            accepts: Rate { count: a_count, seconds: a_seconds },
            outcomes: Rate { count: n_count, seconds: n_seconds },
            known_capacity,
            clean_run,
            clean_seconds,
            unanswered,
            silent_seconds,
            latency,
            recovery,
            noise: Noise::from_numbers(noise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time at which no trial begins.
    const BETWEEN_TRIALS: Seen = Seen {
        now: 1.9,
        seconds: 0.0,
        asked: 0.0,
        sent: 0.0,
        accepted: 0.0,
        rejected: 0.0,
        neither: 0.0,
        latency: 0.0,
    };

    /// Evaluates the estimate fifty times per second for some seconds of steady traffic. `rates` are calls per second:
    /// offered, sent, accepted and rejected.
    fn steady(estimate: &mut Estimate, mode: Mode, seconds: u32, rates: [f64; 4]) -> Mode {
        let [asked, sent, accepted, rejected] = rates.map(|rate| rate / 50.0);
        let seen = Seen { seconds: 0.02, asked, sent, accepted, rejected, latency: 0.01, ..BETWEEN_TRIALS };
        (0..seconds * 50).fold(mode, |mode, _| estimate.look(mode, seen))
    }

    /// Returns the estimate after a minute of 100 calls per second, all accepted.
    fn healthy() -> Estimate {
        let mut estimate = Estimate::default();
        assert_eq!(steady(&mut estimate, Mode::Calm, 60, [100.0, 100.0, 100.0, 0.0]), Mode::Calm);
        estimate
    }

    #[test]
    fn what_is_offered_and_accepted_decides_the_mode() {
        // After a second of this traffic. The rates are calls offered, sent, accepted and rejected.
        let table = [
            ("all accepted", [100.0, 100.0, 100.0, 0.0], Mode::Calm),
            ("more, all accepted", [900.0, 900.0, 900.0, 0.0], Mode::Calm),
            ("one in a hundred rejected", [100.0, 100.0, 99.0, 1.0], Mode::Calm),
            ("a fifth over", [120.0, 120.0, 100.0, 20.0], Mode::Shedding),
            ("five times over", [500.0, 500.0, 100.0, 400.0], Mode::Shedding),
            ("all rejected", [100.0, 100.0, 0.0, 100.0], Mode::Probing),
            ("nothing answered", [100.0, 100.0, 0.0, 0.0], Mode::Probing),
            ("nothing asked for", [0.0, 0.0, 0.0, 0.0], Mode::Calm),
        ];
        for (what, rates, expected) in table {
            assert_eq!(steady(&mut healthy(), Mode::Calm, 1, rates), expected, "{what}");
        }
    }

    #[test]
    fn the_budget_is_a_little_more_than_what_is_accepted() {
        let mut estimate = healthy();
        let mode = steady(&mut estimate, Mode::Calm, 5, [500.0, 500.0, 100.0, 400.0]);
        let rate = estimate.rate(mode);
        assert!((110.0..115.0).contains(&rate), "{rate}");
    }

    #[test]
    fn shedding_does_not_lower_the_budget() {
        let mut estimate = healthy();
        steady(&mut estimate, Mode::Calm, 5, [120.0, 120.0, 100.0, 20.0]);
        // Far fewer calls are sent than the budget allows, and none is rejected.
        steady(&mut estimate, Mode::Shedding, 5, [120.0, 30.0, 30.0, 0.0]);
        assert!(estimate.rate(Mode::Shedding) >= 100.0);
    }

    #[test]
    fn shedding_ends_when_the_load_fits_or_nothing_was_rejected_for_long() {
        let overloaded = || {
            let mut estimate = healthy();
            steady(&mut estimate, Mode::Calm, 5, [500.0, 500.0, 100.0, 400.0]);
            estimate
        };
        assert_eq!(steady(&mut overloaded(), Mode::Shedding, 1, [100.0, 80.0, 80.0, 0.0]), Mode::Calm);
        let mut estimate = overloaded();
        assert_eq!(steady(&mut estimate, Mode::Shedding, 1, [500.0, 110.0, 110.0, 0.0]), Mode::Shedding);
        assert_eq!(steady(&mut estimate, Mode::Shedding, 30, [500.0, 110.0, 110.0, 0.0]), Mode::Calm);
    }

    #[test]
    fn a_load_that_has_clearly_fallen_may_fit() {
        let overloaded = || {
            let mut estimate = healthy();
            steady(&mut estimate, Mode::Calm, 5, [900.0, 900.0, 100.0, 800.0]);
            estimate
        };
        // More than the budget, but the budget was learnt under far more load.
        assert_eq!(steady(&mut overloaded(), Mode::Shedding, 1, [150.0, 130.0, 130.0, 0.0]), Mode::Calm);
        assert_eq!(steady(&mut overloaded(), Mode::Shedding, 1, [400.0, 130.0, 100.0, 30.0]), Mode::Shedding);
        let mut estimate = overloaded();
        let mode = steady(&mut estimate, Mode::Shedding, 1, [150.0, 150.0, 100.0, 50.0]);
        let mode = steady(&mut estimate, mode, 2, [150.0, 150.0, 100.0, 50.0]);
        assert_eq!(mode, Mode::Shedding, "it does not fit");
    }

    #[test]
    fn shedding_begins_without_spare_capacity() {
        let mut estimate = healthy();
        assert!(estimate.clean_run > 1_000.0);
        steady(&mut estimate, Mode::Calm, 1, [500.0, 500.0, 100.0, 400.0]);
        assert_eq!(estimate.clean_run, 0.0);
    }

    #[test]
    fn probes_grow_with_the_root_of_the_load() {
        for (offered, expected) in [(1.0, 0.7), (100.0, 10.0), (10_000.0, 100.0)] {
            let mut estimate = Estimate::default();
            steady(&mut estimate, Mode::Calm, 20, [offered, offered, offered, 0.0]);
            let rate = estimate.rate(Mode::Probing);
            assert!((rate / expected - 1.0).abs() < 0.01, "{rate} for {offered}");
        }
    }

    #[test]
    fn accepts_end_an_outage_and_rejects_take_them_back() {
        for (accepted, rejected, expected) in
            [(7.0, 0.0, Mode::Probing), (8.0, 0.0, Mode::Calm), (9.0, 2.0, Mode::Probing)]
        {
            let mut estimate = healthy();
            assert_eq!(steady(&mut estimate, Mode::Calm, 1, [100.0, 100.0, 0.0, 0.0]), Mode::Probing);
            let seen = Seen { seconds: 0.1, asked: 10.0, sent: 10.0, accepted, rejected, ..BETWEEN_TRIALS };
            assert_eq!(
                estimate.look(Mode::Probing, seen),
                expected,
                "{accepted} accepts, {rejected} rejects"
            );
        }
    }

    #[test]
    fn slow_answers_are_no_outage() {
        let mut estimate = healthy();
        let silent = Seen { seconds: 0.02, asked: 2.0, sent: 2.0, latency: 0.5, ..BETWEEN_TRIALS };
        let modes = |count: usize, estimate: &mut Estimate| {
            (0..count).fold(Mode::Calm, |mode, _| estimate.look(mode, silent))
        };
        assert_eq!(modes(75, &mut estimate), Mode::Calm, "1.5 s where an accept takes 0.5 s");
        assert_eq!(modes(50, &mut estimate), Mode::Probing, "2.5 s");
        let mut never_answered = Estimate::default();
        assert_eq!(modes(500, &mut never_answered), Mode::Calm);
    }

    #[test]
    fn a_pause_says_nothing_about_capacity() {
        for seconds in [1.0, 2.0, 5.0, 20.0] {
            let mut estimate = healthy();
            let seen = Seen { seconds: 0.02, asked: 2.0, sent: 2.0, rejected: 2.0, ..BETWEEN_TRIALS };
            let mode = estimate.look(Mode::Calm, seen);
            // No call is offered until the receiver's `Retry-After` is over.
            let pause = Seen { seconds, asked: 1.0, sent: 1.0, rejected: 2.0, ..BETWEEN_TRIALS };
            assert_eq!(estimate.look(mode, pause), Mode::Calm, "{seconds} s");
            assert_eq!(steady(&mut estimate, Mode::Calm, 5, [100.0, 100.0, 100.0, 0.0]), Mode::Calm);
        }
    }

    #[test]
    fn idle_time_heals() {
        let mut estimate = healthy();
        steady(&mut estimate, Mode::Calm, 5, [500.0, 500.0, 100.0, 400.0]);
        let idle = Seen { seconds: IDLE_SECONDS, ..BETWEEN_TRIALS };
        assert_eq!(estimate.look(Mode::Shedding, idle), Mode::Calm);
        assert_eq!(estimate, Estimate::default());
    }

    #[test]
    fn an_estimate_survives_being_stored() {
        let mut estimate = healthy();
        steady(&mut estimate, Mode::Calm, 5, [500.0, 500.0, 100.0, 400.0]);
        assert_eq!(Estimate::from_numbers(estimate.to_numbers()), estimate);
    }
}
