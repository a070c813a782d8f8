//! Noise: rejects that do not react to load, such as those of a faulty instance behind a load balancer. This file
//! decides which share of all calls is noise, so that no call is shed for it. It is pure, and it never decides how many
//! calls to send outside a trial.
//!
//! Shedding shows the difference: if load is the cause of rejects, they end once fewer calls are sent than the
//! destination accepted before. So while calls are shed, *trials* follow: for a moment, 10 % fewer calls are sent than
//! were accepted. The share that is rejected even then is noise.
//!
//! **Trials have fixed times**, multiples of two seconds of the clock. A trial of one client proves nothing while the
//! other clients of the destination send as before. Clients whose clocks show the same time make their trials at the
//! same time; then the destination has a moment's rest, and each client sees what is left. A client with few calls makes
//! longer trials, less often, and one with very many makes shorter ones.
//!
//! What was learnt is a count of rejects among a count of outcomes. Both decay, and the share is their lower confidence
//! bound, so noise that is not confirmed is forgotten within a minute.

#[cfg(test)]
mod tests;

use super::estimate::{Mode, Seen};
use super::math::{fade, square_root};

/// The minimum share of rejects for a trial. Fewer cost less than a trial.
const TRIAL_SHARE_MIN: f64 = 0.04;
/// The maximum share of rejects that may be noise. If a destination rejects more calls than that, sending fewer is
/// right in any case.
const NOISE_MAX: f64 = 0.4;
/// The interval between the times at which trials may begin, in seconds.
const SLOT_SECONDS: f64 = 2.0;
/// The time after the beginning of a slot until which a trial may begin, in seconds.
const BEGIN_SECONDS: f64 = 0.3;
/// The time until the outcomes count, in seconds: until then, calls from before the trial are still under way.
const SETTLE_SECONDS: f64 = 0.25;
/// The time in a slot at which its trial ends, in seconds.
const TRIAL_SECONDS: f64 = 1.7;
/// The number of slots after which all clients that shed calls make a trial, whatever they know: capacity and noise may
/// have changed.
const RENEW_SLOTS: f64 = 10.0;
/// The minimum time between two trials of one client for the same reason, in seconds.
const RENEW_SECONDS: f64 = 5.0;
/// The minimum number of outcomes in a trial. With fewer, slots and trials are four times as long, repeatedly.
const OUTCOMES_MIN: f64 = 12.0;
/// The number of outcomes in a quarter of a trial above which slots and trials are a quarter as long.
const OUTCOMES_MANY: f64 = 200.0;
/// The factor by which slots and trials differ between clients with few and many calls.
const STRETCH: f64 = 4.0;
/// The maximum factor by which slots and trials are longer.
const STRETCH_MAX: f64 = 64.0;
/// The time for which calls are shed before a trial, in seconds. `AFTER_OUTCOMES` must be met too.
const AFTER_SECONDS: f64 = 0.5;
/// The number of outcomes before a trial. They show whether the rejects react to the shedding that has begun.
const AFTER_OUTCOMES: f64 = 15.0;
/// The fraction of the share of rejects when shedding began above which the rejects do not react to it, so that a
/// trial follows.
const STAYS_FRACTION: f64 = 0.7;
/// The fraction of the usual load below which the load is falling. A trial would shed calls that fit.
const FALLING_FRACTION: f64 = 0.8;
/// A trial follows if the rate of accepts has fallen by this fraction since shedding began, as it does if calls are shed
/// because of noise.
const FALLEN_BY: f64 = 0.15;
/// `FALLEN_BY` is at least this many sampling errors of the rate of accepts.
const FALLEN_ERRORS: f64 = 1.5;
/// The multiple of the rate of accepts before it fell up to which the offered load may be due to noise alone. If far
/// more is offered, trials follow only with those of all clients, or if the rate of accepts has collapsed.
pub(super) const NEAR_FACTOR: f64 = 2.0;
/// The fraction of the rate of accepts when shedding began below which it has collapsed. Shedding for an overload does
/// not lower it so far, but shedding for noise does.
const COLLAPSED_FRACTION: f64 = 0.65;
/// The rate of calls during a trial, as a fraction of the rate that the destination accepted before.
const TRIAL_RATE: f64 = 0.9;
/// The fraction of the accepted rate below which the calls count for the trial. The bucket may still hold tokens when
/// the trial begins.
const SLOW_RATE: f64 = 0.97;
/// The fraction of the share of rejects before the trial above which the rejects in it show that they are noise.
const SAME_FRACTION: f64 = 0.4;
/// If a trial shows that the rejects are noise, and no more calls were rejected before it, the destination takes more
/// than is sent: the rate of accepts is assumed to be this many times as high.
const GROWTH: f64 = 1.5;
/// How many sampling errors the result of a trial may differ from what was learnt. If it differs more, noise has changed.
const CHANGED_ERRORS: f64 = 3.0;
/// The fraction of what was learnt before that remains when noise has changed.
const KEPT_AFTER_CHANGE: f64 = 0.25;
/// The number of outcomes before a trial that count with it if they show the same, as a multiple of those in the trial.
const BEFORE_FACTOR: f64 = 2.0;
/// How many sampling errors more than noise explains is more.
const EXCEEDED_ERRORS: f64 = 2.0;
/// How many sampling errors noise may be above the share of rejects while every call is sent.
const CALM_ERRORS: f64 = 3.0;
/// The share of calls that a client with few calls sends in vain before it sheds any. It would need minutes to learn
/// whether they are noise, and lose more calls meanwhile than it could save.
const TOLERATED_SHARE: f64 = 0.35;
/// The maximum number of outcomes that are remembered, so that also a busy client forgets within a minute.
const REMEMBERED_OUTCOMES: f64 = 200.0;
/// The number of rejects that may be chance: the share of noise that is assumed is that of the others. While what was
/// learnt decays, this is a growing part of it.
const UNSURE_REJECTS: f64 = 1.0;
/// The time constant with which noise is forgotten, in seconds, unless `FORGET_OUTCOMES` outcomes take longer.
const FORGET_SECONDS: f64 = 20.0;
/// The time after a trial in which what it showed is not forgotten while as many calls are rejected, in seconds.
const CONFIRMED_SECONDS: f64 = 10.0;
/// The minimum number of outcomes over which noise is forgotten.
const FORGET_OUTCOMES: f64 = 150.0;
/// The maximum time constant with which noise is forgotten, in seconds, for clients with few calls.
const FORGET_SECONDS_MAX: f64 = 120.0;
/// While every call is admitted, or soon after a trial, noise is not forgotten if at least this fraction of it is still
/// seen.
const STILL_SEEN: f64 = 0.5;
/// The number of outcomes over which the share of rejects when shedding begins is measured.
const RECENT_OUTCOMES: f64 = 20.0;
/// The time constant with which the rate of accepts before a fall follows a higher rate, as a multiple of the time that
/// `RECENT_OUTCOMES` take, or of a second if that is longer.
const RISE_FACTOR: f64 = 10.0;
/// The same for a lower rate. It is slow, so that a slow fall is noticed too.
const FALL_FACTOR: f64 = 60.0;

/// What is known besides the counts of an evaluation: from the estimate of capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The rate of offered calls, per second, and the same over a longer time.
    pub(super) offered: f64,
    pub(super) usual: f64,
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
    /// A trial has begun, but calls from before it are still under way.
    Settling,
    /// The outcomes are counted.
    Measuring,
}

/// The moment of an evaluation in its slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The factor by which slots and trials are longer than for most clients.
    stretch: f64,
    /// The time since the slot began, in seconds.
    position: f64,
    /// Whether all clients that shed calls make a trial in this slot.
    is_common: bool,
}

impl Slot {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn at(now: f64, known: Known) -> Self {
        let outcomes = outcomes_of_trial(known.accepts);
        let mut stretch = if outcomes / STRETCH >= OUTCOMES_MANY { 1.0 / STRETCH } else { 1.0 };
        while stretch < STRETCH_MAX && outcomes * stretch < OUTCOMES_MIN {
            stretch *= STRETCH;
        }
        let length = SLOT_SECONDS * stretch;
        let index = (now / length) as u64;
        let common_every = (RENEW_SLOTS / stretch.min(1.0)) as u64;
        let position = now - index as f64 * length;
        Self { stretch, position, is_common: index.is_multiple_of(common_every) }
    }

    /// Whether a trial may begin now. A client with few calls is evaluated rarely, and gets a second chance.
    fn may_begin(self, known: Known) -> bool {
        self.position <= (BEGIN_SECONDS * self.stretch).max(2.0 / known.offered)
    }

    fn is_over(self) -> bool {
        self.position >= TRIAL_SECONDS * self.stretch
    }
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
    /// The time since the latest trial, in seconds.
    since_trial: f64,
}

impl Noise {
    /// The number of floating-point values, for storing them in atomics.
    pub(super) const NUMBERS: usize = 10;

    /// Returns the share of calls that is rejected whatever the load: the lower confidence bound of what was learnt.
    pub(super) fn share(&self) -> f64 {
        let sure = self.rejected - UNSURE_REJECTS;
        if sure > 0.0 { (sure / self.outcomes).min(NOISE_MAX) } else { 0.0 }
    }

    /// Returns the number of calls to send for this many accepts, if only noise is rejected.
    pub(super) fn sent_for(&self, accepts: f64) -> f64 {
        accepts / (1.0 - self.share())
    }

    /// Whether a client with so few calls sheds none, although some are rejected: until then, `offered` calls per second
    /// are sent, and `accepts` of them are accepted.
    pub(super) fn is_tolerated(offered: f64, accepts: f64) -> bool {
        outcomes_of_trial(accepts) < OUTCOMES_MIN && offered * (1.0 - TOLERATED_SHARE) <= accepts
    }

    /// Whether more calls are rejected than noise explains: `share` is that of the latest `count` outcomes.
    pub(super) fn is_exceeded_by(&self, share: f64, count: f64) -> bool {
        let noise = self.share();
        share > noise + EXCEEDED_ERRORS * sampling_error(noise, count)
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

    /// Adds the counts since the latest evaluation, which was in this mode. If a trial has just shown that the rejects
    /// are noise, returns the rate of accepts that the destination takes at least.
    pub(super) fn look(&mut self, mode: Mode, seen: Seen, known: Known) -> Option<f64> {
        self.forget(mode, seen, known);
        let outcomes = seen.accepted + seen.rejected;
        if outcomes > 0.0 {
            let keep = fade(outcomes / RECENT_OUTCOMES);
            self.recent = self.recent * keep + (1.0 - keep) * seen.rejected / outcomes;
        }
        if mode != Mode::Shedding {
            self.stop();
            (self.before, self.base) = (0.0, 0.0);
            return None;
        }
        let slot = Slot::at(seen.now, known);
        self.seconds += seen.seconds;
        match self.phase() {
            Phase::Waiting => self.wait(seen, known, slot),
            Phase::Settling => self.settle(seen, known, slot),
            Phase::Measuring => {
                self.count += outcomes;
                self.rejects += seen.rejected;
                // The slot may be another one already, if the client has paused.
                if slot.is_over() || self.seconds >= TRIAL_SECONDS * slot.stretch {
                    return self.conclude(known);
                }
            }
        }
        None
    }

    fn forget(&mut self, mode: Mode, seen: Seen, known: Known) {
        if mode == Mode::Calm {
            // While every call is sent, no more can be noise than is rejected.
            let most = known.share + CALM_ERRORS * sampling_error(known.share, known.count);
            self.rejected = self.rejected.min(most * self.outcomes);
        }
        self.since_trial += seen.seconds;
        let is_confirmed = mode == Mode::Calm || self.since_trial < CONFIRMED_SECONDS;
        let is_seen = is_confirmed && known.share >= self.share() * STILL_SEEN;
        // While only probes are sent, nothing can be learnt.
        if !is_seen && !self.is_trial() && mode != Mode::Probing {
            let constant = (FORGET_OUTCOMES / known.outcomes).clamp(FORGET_SECONDS, FORGET_SECONDS_MAX);
            self.scale(fade(seen.seconds / constant));
        }
    }

    fn wait(&mut self, seen: Seen, known: Known, slot: Slot) {
        let is_first = self.before >= 0.0;
        if self.base == 0.0 {
            (self.base, self.before) = (known.accepts, self.recent);
        }
        self.count += seen.accepted + seen.rejected;
        self.rejects += seen.rejected;
        let factor = if known.accepts > self.base { RISE_FACTOR } else { FALL_FACTOR };
        let constant = factor * (RECENT_OUTCOMES / known.outcomes).clamp(1.0, FORGET_SECONDS_MAX);
        self.base += (known.accepts - self.base) * (1.0 - fade(seen.seconds / constant));
        let is_known = self.seconds >= AFTER_SECONDS && self.count >= AFTER_OUTCOMES;
        if !is_known || !slot.may_begin(known) || known.offered < known.usual * FALLING_FRACTION {
            return;
        }
        // The share since shedding began shows whether it has helped. Later, the latest outcomes say more.
        let share = if is_first { self.rejects / self.count } else { known.share };
        if share < TRIAL_SHARE_MIN || share > NOISE_MAX && self.share() == 0.0 {
            return;
        }
        let stays =
            is_first && share >= self.before * STAYS_FRACTION && self.is_exceeded_by(share, self.count);
        let fallen_by = FALLEN_BY.max(FALLEN_ERRORS / square_root(known.count));
        let has_fallen = known.accepts < self.base * (1.0 - fallen_by);
        let is_due = slot.is_common && self.seconds >= RENEW_SECONDS;
        let is_near = self.is_near(share, known);
        let is_near_and_due = is_near && (stays || has_fallen || is_due);
        // A long trial costs a client with few calls more than it tells, unless noise may be the only cause.
        if is_near_and_due || (is_due || self.has_collapsed(known)) && slot.stretch <= 1.0 {
            self.before = share;
            self.enter(Phase::Settling);
        }
    }

    /// Whether so many calls are offered that noise may be the only cause of the rejects.
    fn is_near(&self, share: f64, known: Known) -> bool {
        known.offered * (1.0 - share) <= self.base * NEAR_FACTOR
    }

    /// Whether far fewer calls are accepted than when shedding began.
    fn has_collapsed(&self, known: Known) -> bool {
        known.accepts < self.base * COLLAPSED_FRACTION
    }

    fn settle(&mut self, seen: Seen, known: Known, slot: Slot) {
        self.count += seen.sent;
        if slot.is_over() {
            self.stop();
        } else if self.seconds >= SETTLE_SECONDS * slot.stretch {
            // One call more is chance, or was let through because none had been for too long.
            let is_slow = self.count <= known.accepts * SLOW_RATE * self.seconds + 1.0;
            self.enter(if is_slow { Phase::Measuring } else { Phase::Settling });
        }
    }

    /// Ends a trial, and learns from it. Returns the rate of accepts that the destination takes at least, if the rejects
    /// are noise.
    fn conclude(&mut self, known: Known) -> Option<f64> {
        self.since_trial = 0.0;
        if self.count < 1.0 {
            self.stop();
            return None;
        }
        let share = self.rejects / self.count;
        let learnt = if self.outcomes > 0.0 { self.rejected / self.outcomes } else { 0.0 };
        if (share - learnt).abs() > CHANGED_ERRORS * sampling_error(learnt, self.count) {
            self.scale(KEPT_AFTER_CHANGE);
        }
        let is_near = self.is_near(share, known);
        // Before the trial, no more calls were rejected than in it, so no call was too much then.
        let is_all = self.before <= share + sampling_error(share, self.count);
        let least_share = self.before * SAME_FRACTION;
        let is_noise = share >= least_share && self.rejects > UNSURE_REJECTS;
        let is_same = is_noise && (is_near || is_all);
        let before = if is_same { known.count.min(self.count * BEFORE_FACTOR) } else { 0.0 };
        self.learn(self.rejects + before * share.min(self.before), self.count + before);
        let least = if is_near || self.has_collapsed(known) { self.base } else { 0.0 };
        // If far more is offered, to grow would only take capacity from the other clients.
        let more = if is_all && is_near { known.accepts * GROWTH } else { 0.0 };
        let accepts = least.max(more);
        let is_surely_load = share + sampling_error(least_share, self.count) < least_share;
        if is_same && is_near {
            self.base = accepts;
        } else if !is_same && is_surely_load {
            self.base = known.accepts;
        }
        self.stop();
        (is_same && accepts > 0.0).then_some(accepts)
    }

    fn learn(&mut self, rejected: f64, outcomes: f64) {
        self.rejected += rejected.min(NOISE_MAX * outcomes);
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
            Phase::Settling => 1.0,
            Phase::Measuring => 2.0,
        };
        (self.seconds, self.count, self.rejects) = (0.0, 0.0, 0.0);
    }

    fn phase(&self) -> Phase {
        if self.phase < 0.5 {
            Phase::Waiting
        } else if self.phase < 1.5 {
            Phase::Settling
        } else {
            Phase::Measuring
        }
    }

    pub(super) fn to_numbers(self) -> [f64; Self::NUMBERS] {
        let Self { rejected, outcomes, phase, base, before, recent, seconds, count, rejects, since_trial } =
            self;
        [rejected, outcomes, phase, base, before, recent, seconds, count, rejects, since_trial]
    }

    pub(super) fn from_numbers(numbers: [f64; Self::NUMBERS]) -> Self {
        let [rejected, outcomes, phase, base, before, recent, seconds, count, rejects, since_trial] = numbers;
        Self { rejected, outcomes, phase, base, before, recent, seconds, count, rejects, since_trial }
    }
}

/// Returns the number of outcomes in a trial of the usual length.
fn outcomes_of_trial(accepts: f64) -> f64 {
    accepts * TRIAL_RATE * (TRIAL_SECONDS - SETTLE_SECONDS)
}

/// Returns the standard deviation of a share that is measured over `count` outcomes.
fn sampling_error(share: f64, count: f64) -> f64 {
    square_root(share * (1.0 - share) / count.max(1.0))
}
