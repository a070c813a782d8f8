//! What one circuit of this process wants of its ramp: who waits for a place, what is to be given back, and when the store is
//! asked next. A plain value under a lock: nothing here waits, and nobody's waker runs here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{GivenPlace, RampRequest, RampState, RampStep, RampView, RampWish};
use breakerbox_core::{self as core, Epoch, Nonce, Refusal, Timestamp};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::Lease;

/// The first pause after a refusal, and the longest. Of many processes somebody asks often enough all the same.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(80);

/// For how long an entry stays after its latest reply, so that pauses go on to grow.
const LINGER: Duration = Duration::from_secs(1);

/// How many callers wait for one circuit's places at the most. More are refused at once.
const MOST_WAITING: usize = 256;

/// How many places one request wants at the most.
const MOST_WANTED: usize = 64;

/// How often places are given back to a store that does not answer, and a limit is replaced where others are quicker.
const TRIED: u32 = 4;

/// One circuit's ramp in this process.
pub(super) struct Entry {
    epoch: Epoch,
    /// The latest reply: the ramp, and how many places are taken.
    seen: Option<(RampState, u32)>,
    give: Vec<GivenPlace>,
    /// Failures that the limit does not know of.
    failures: u32,
    step: Option<RampStep>,
    waiting: VecDeque<Waiting>,
    /// A caller that can't wait wants a place.
    is_wanted: bool,
    /// A place for such a caller, and until when it is held.
    held: Option<(core::Permit, Timestamp)>,
    /// Until then asks are refused without a request.
    paused_until: Option<Instant>,
    pause: Duration,
    stays_until: Option<Instant>,
    /// How many requests, or replacements of the limit, were in vain in a row.
    tries: u32,
    changed: Arc<Notify>,
}

/// A caller that waits for a place.
pub(super) struct Waiting {
    pub(super) asked_at: Timestamp,
    pub(super) tell: oneshot::Sender<Lease>,
}

/// What the task does next.
pub(super) enum Next {
    Ask(Work),
    /// Waits until then, or until something changes.
    Wait {
        until: Instant,
        ends_pause: bool,
        changed: Arc<Notify>,
    },
}

/// One request, and who it is for.
pub(super) struct Work {
    pub(super) wish: RampWish,
    pub(super) waiting: VecDeque<Waiting>,
    /// How many failures the new limit takes into account.
    pub(super) failures: u32,
}

impl Waiting {
    /// False: the caller is gone.
    pub(super) fn admit(self, epoch: Epoch, place: Nonce) -> bool {
        self.tell.send(Lease::Permit(core::Permit::on_ramp(epoch, place, self.asked_at))).is_ok()
    }

    pub(super) fn refuse(self, refusal: Refusal) {
        // Whoever is gone need not hear it.
        let _ = self.tell.send(Lease::Refused(refusal));
    }

    pub(super) fn ask_again(self) {
        let _ = self.tell.send(Lease::AskAgain);
    }
}

impl Entry {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            seen: None,
            give: Vec::new(),
            failures: 0,
            step: None,
            waiting: VecDeque::new(),
            is_wanted: false,
            held: None,
            paused_until: None,
            pause: PAUSE,
            stays_until: None,
            tries: 0,
            changed: Arc::default(),
        }
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Begins anew, in this epoch. Returns who waited.
    pub(super) fn begin(&mut self, epoch: Epoch) -> VecDeque<Waiting> {
        let changed = Arc::clone(&self.changed);
        changed.notify_one();
        std::mem::replace(self, Self { changed, ..Self::new(epoch) }).waiting
    }

    /// The refusal of a call for which there is no place.
    pub(super) fn refusal(&self) -> Refusal {
        let known = self.seen.and_then(|(state, in_flight)| Some((in_flight, state.limit?)));
        let (in_flight, limit) = known.unwrap_or((0, 1));
        Refusal::Ramping { in_flight, limit }
    }

    fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Lets somebody wait for a place, or says why not.
    pub(super) fn wait(&mut self, waiting: Waiting) -> Result<(), Refusal> {
        if self.is_paused() || self.waiting.len() >= MOST_WAITING {
            return Err(self.refusal());
        }
        self.waiting.push_back(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Somebody who can't wait wants a place.
    pub(super) fn want(&mut self) -> Refusal {
        if !self.is_paused() && !self.is_wanted {
            self.is_wanted = true;
            self.changed.notify_one();
        }
        self.refusal()
    }

    /// A place that is held for whoever asks next.
    pub(super) fn take_held(&mut self, now: Timestamp) -> Option<core::Permit> {
        let (permit, _) = self.held.take_if(|(_, until)| now < *until)?;
        Some(permit.by_own_clock(now))
    }

    pub(super) fn give(&mut self, given: GivenPlace) {
        self.give.push(given);
    }

    pub(super) fn note_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// A place came free here: whoever asks next goes to the store.
    pub(super) fn stir(&mut self) {
        self.paused_until = None;
        self.pause = PAUSE;
        self.changed.notify_one();
    }

    /// What to do next; none: nothing is left to do.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        instant: Instant,
        draw: impl Fn() -> Nonce,
    ) -> Option<Next> {
        if let Some((permit, _)) = self.held.take_if(|(_, until)| now >= *until)
            && let Some((_, place)) = permit.place()
        {
            self.give(GivenPlace { place, succeeded: false });
        }
        self.paused_until.take_if(|until| instant >= *until);
        let may_ask = self.paused_until.is_none();
        let wants_place = may_ask && (!self.waiting.is_empty() || self.is_wanted);
        // What a store did not answer is repeated after the pause.
        let may_change = may_ask || self.tries == 0;
        let replace = if may_change { self.next_step() } else { None };
        if wants_place || replace.is_some() || may_change && !self.give.is_empty() {
            let count = if wants_place { self.waiting.len().min(MOST_WANTED) } else { 0 };
            let waiting: VecDeque<_> = self.waiting.drain(..count).collect();
            let wanted = count.max(usize::from(wants_place && self.is_wanted));
            let give = std::mem::take(&mut self.give);
            let take = (0..wanted).map(|_| draw()).collect();
            let failures = if replace.is_some() { self.failures } else { 0 };
            let wish = RampWish { epoch: self.epoch, give, replace, take };
            return Some(Next::Ask(Work { wish, waiting, failures }));
        }
        let ends_pause = self.paused_until.is_some();
        let held_for = self.held.as_ref().map(|(_, until)| instant + until.since(now));
        let stays_until = self.stays_until.filter(|until| instant < *until).max(held_for);
        let until = self.paused_until.or(stays_until)?;
        Some(Next::Wait { until, ends_pause, changed: Arc::clone(&self.changed) })
    }

    fn next_step(&mut self) -> Option<RampStep> {
        let (state, _) = self.seen?;
        if self.failures == 0 {
            return self.step.take();
        }
        self.step = None;
        let step = state.halved(self.failures);
        if step.is_none() {
            // The limit is as low as it can be.
            self.failures = 0;
        }
        step
    }

    /// The store replied to a request whose new limit took so many failures into account. Returns how many it does not know of.
    pub(super) fn replied(
        &mut self,
        request: &RampRequest,
        view: &RampView,
        failures: u32,
        now: Timestamp,
    ) -> u32 {
        let refused = (view.taken as usize) < request.take.len();
        let refused_at = if refused { now } else { view.state.refused_at };
        self.seen = Some((RampState { refused_at, ..view.state }, view.in_flight));
        self.stays_until = Some(Instant::now() + LINGER);
        self.tries = if request.replace.is_some() && !view.replaced { self.tries + 1 } else { 0 };
        if view.replaced {
            self.failures = self.failures.saturating_sub(failures);
        } else if self.tries >= TRIED {
            // Others change the limit all the time: it has heard enough.
            (self.failures, self.tries) = (0, 0);
        }
        self.failures
    }

    /// Keeps a place for a caller that can't wait, and gives back what nobody wants.
    pub(super) fn keep(&mut self, mut places: Vec<Nonce>, until: Timestamp, now: Timestamp) {
        if self.is_wanted
            && self.held.is_none()
            && let Some(place) = places.pop()
        {
            self.held = Some((core::Permit::on_ramp(self.epoch, place, now), until));
            self.is_wanted = false;
        }
        let given = places.into_iter().map(|place| GivenPlace { place, succeeded: false });
        self.give.extend(given);
    }

    /// Takes note of the step that is due, and of a refusal. Returns who is refused, and how: if the limit is about to change,
    /// whoever waits goes on waiting.
    pub(super) fn set_step(
        &mut self,
        step: Option<RampStep>,
        refused: bool,
        mut waiting: VecDeque<Waiting>,
    ) -> (VecDeque<Waiting>, Refusal) {
        self.step = step;
        if step.is_some() {
            waiting.append(&mut self.waiting);
            self.waiting = waiting;
            return (VecDeque::new(), self.refusal());
        }
        self.is_wanted = false;
        if refused {
            self.paused_until = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            waiting.append(&mut self.waiting);
        } else {
            self.pause = PAUSE;
        }
        (waiting, self.refusal())
    }

    /// The store did not answer. What was given back is given back again, and what was wanted too: it may have been taken.
    pub(super) fn unanswered(&mut self, request: RampRequest, failures: u32) {
        self.tries += 1;
        self.is_wanted = false;
        self.paused_until = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if self.tries < TRIED {
            self.give.extend(request.give);
            self.give.extend(request.take.into_iter().map(|place| GivenPlace { place, succeeded: false }));
        } else {
            // They expire.
            self.failures = self.failures.saturating_sub(failures);
            self.tries = 0;
        }
    }
}
