//! One circuit's ramp in this process: the callers that wait for a slot, the slots to release, and the time of the
//! next request. It is a plain value under a lock: no function here waits or runs a waker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{RampDemand, RampRequest, RampState, RampStep, RampView, ReleasedSlot};
use breakerbox_core::{self as core, Epoch, Nonce, Refusal, Timestamp};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::Lease;

/// The first pause after the store refused a slot. Each further pause is twice as long, up to `LONGEST_PAUSE`. That
/// maximum is short, so that free slots are found soon, even if many processes pause.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(80);

/// How long an entry is kept after the latest reply, so that the next pause is longer than the previous one.
const KEEP_AFTER_REPLY: Duration = Duration::from_secs(1);

/// The maximum number of callers that wait for one circuit's slots. Further callers are refused at once.
const MAX_WAITING: usize = 256;

/// The maximum number of slots in one request.
const MAX_SLOTS_PER_REQUEST: usize = 64;

/// The maximum number of attempts to release a slot if the store does not respond, and to replace the limit if other
/// processes replace it first.
const MAX_TRIES: u32 = 4;

/// One circuit's ramp in this process.
pub(super) struct Entry {
    epoch: Epoch,
    /// The ramp's state in the store's latest reply, and the number of calls in flight in the fleet; `None` before the
    /// first reply.
    seen: Option<(RampState, u32)>,
    give: Vec<ReleasedSlot>,
    /// The number of failures for which the limit has not been lowered yet.
    failures: u32,
    step: Option<RampStep>,
    waiting: VecDeque<Waiting>,
    /// Whether to request a slot that is reserved for a caller that cannot wait.
    is_wanted: bool,
    /// The slot for a caller that cannot wait, and the time until which it is reserved.
    held: Option<(core::Permit, Timestamp)>,
    /// The time until which no slots are requested from the store, and calls without a slot are refused.
    paused_until: Option<Instant>,
    pause: Duration,
    stays_until: Option<Instant>,
    /// The number of consecutive requests to the store that failed, or did not replace the ramp's limit as
    /// requested.
    tries: u32,
    changed: Arc<Notify>,
}

/// A caller that waits for a slot.
pub(super) struct Waiting {
    pub(super) started_at: Timestamp,
    pub(super) sender: oneshot::Sender<Lease>,
}

/// What the entry's task must do next: send a request, or wait.
pub(super) enum Next {
    Send(Work),
    /// Wait until this time, or until the entry changes.
    Wait {
        until: Instant,
        ends_pause: bool,
        changed: Arc<Notify>,
    },
}

/// One ramp request, and the callers for which it requests slots.
pub(super) struct Work {
    pub(super) demand: RampDemand,
    pub(super) waiting: VecDeque<Waiting>,
    /// The number of failures for which the request lowers the limit.
    pub(super) failures: u32,
}

impl Waiting {
    /// Admits the caller. Returns false if the caller has been dropped.
    pub(super) fn admit(self, epoch: Epoch, slot: Nonce) -> bool {
        self.sender.send(Lease::Permit(core::Permit::on_ramp(epoch, slot, self.started_at))).is_ok()
    }

    pub(super) fn refuse(self, refusal: Refusal) {
        // The caller may have been dropped.
        let _ = self.sender.send(Lease::Refused(refusal));
    }

    pub(super) fn retry(self) {
        let _ = self.sender.send(Lease::Retry);
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

    /// Resets the entry for this epoch. Returns the callers that waited in the previous epoch.
    pub(super) fn begin(&mut self, epoch: Epoch) -> VecDeque<Waiting> {
        let changed = Arc::clone(&self.changed);
        changed.notify_one();
        std::mem::replace(self, Self { changed, ..Self::new(epoch) }).waiting
    }

    /// Returns the refusal for a call without a slot.
    pub(super) fn refusal(&self) -> Refusal {
        let known = self.seen.and_then(|(state, in_flight)| Some((in_flight, state.limit?)));
        let (in_flight, limit) = known.unwrap_or((0, 1));
        Refusal::Ramping { in_flight, limit }
    }

    fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Adds a waiting caller. Returns the refusal if the caller must not wait, because of a pause or a full queue.
    pub(super) fn wait(&mut self, waiting: Waiting) -> Result<(), Refusal> {
        if self.is_paused() || self.waiting.len() >= MAX_WAITING {
            return Err(self.refusal());
        }
        self.waiting.push_back(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Requests a slot for the next caller that cannot wait, and returns the refusal for this one.
    pub(super) fn request_for_next(&mut self) -> Refusal {
        if !self.is_paused() && !self.is_wanted {
            self.is_wanted = true;
            self.changed.notify_one();
        }
        self.refusal()
    }

    /// Takes the slot that is reserved for a caller that cannot wait; `None` if there is none, or its reservation is
    /// over.
    pub(super) fn take_held(&mut self, now: Timestamp) -> Option<core::Permit> {
        let (permit, _) = self.held.take_if(|(_, until)| now < *until)?;
        Some(permit.by_own_clock(now))
    }

    pub(super) fn give(&mut self, released: ReleasedSlot) {
        self.give.push(released);
    }

    pub(super) fn note_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Ends the pause, so that the next caller sends a request, because this process released a slot.
    pub(super) fn end_pause(&mut self) {
        self.paused_until = None;
        self.pause = PAUSE;
        self.changed.notify_one();
    }

    /// Returns what the entry's task must do next; `None` if no work remains.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        instant: Instant,
        draw: impl Fn() -> Nonce,
    ) -> Option<Next> {
        if let Some((permit, _)) = self.held.take_if(|(_, until)| now >= *until)
            && let Some((_, slot)) = permit.slot()
        {
            self.give(ReleasedSlot { slot, succeeded: false });
        }
        self.paused_until.take_if(|until| instant >= *until);
        let may_request = self.paused_until.is_none();
        let wants_slot = may_request && (!self.waiting.is_empty() || self.is_wanted);
        // A request without a response is retried after the pause.
        let may_change = may_request || self.tries == 0;
        let replace = if may_change { self.next_step() } else { None };
        if wants_slot || replace.is_some() || may_change && !self.give.is_empty() {
            let count = if wants_slot { self.waiting.len().min(MAX_SLOTS_PER_REQUEST) } else { 0 };
            let waiting: VecDeque<_> = self.waiting.drain(..count).collect();
            let wanted = count.max(usize::from(wants_slot && self.is_wanted));
            let give = std::mem::take(&mut self.give);
            let take = (0..wanted).map(|_| draw()).collect();
            let failures = if replace.is_some() { self.failures } else { 0 };
            let demand = RampDemand { epoch: self.epoch, give, replace, take };
            return Some(Next::Send(Work { demand, waiting, failures }));
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
            // The limit is already at its minimum.
            self.failures = 0;
        }
        step
    }

    /// Applies the reply to a request that lowered the limit for `failures`. Returns the number of failures for which
    /// the limit has not been lowered yet.
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
        self.stays_until = Some(Instant::now() + KEEP_AFTER_REPLY);
        self.tries = if request.replace.is_some() && !view.replaced { self.tries + 1 } else { 0 };
        if view.replaced {
            self.failures = self.failures.saturating_sub(failures);
        } else if self.tries >= MAX_TRIES {
            // Other processes keep changing the limit, so these failures are dropped.
            (self.failures, self.tries) = (0, 0);
        }
        self.failures
    }

    /// Reserves one of these slots for a caller that cannot wait, if one is needed, and releases the others.
    pub(super) fn keep(&mut self, mut slots: Vec<Nonce>, until: Timestamp, now: Timestamp) {
        if self.is_wanted
            && self.held.is_none()
            && let Some(slot) = slots.pop()
        {
            self.held = Some((core::Permit::on_ramp(self.epoch, slot, now), until));
            self.is_wanted = false;
        }
        let released = slots.into_iter().map(|slot| ReleasedSlot { slot, succeeded: false });
        self.give.extend(released);
    }

    /// Records the step that is due, and whether the store refused a slot. Returns the callers to refuse, with their
    /// refusal. If the limit is about to change, no caller is refused yet.
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

    /// Handles a missing response. The releases are retried, and the requested slots are released too, because the
    /// store may have granted them.
    pub(super) fn unanswered(&mut self, request: RampRequest, failures: u32) {
        self.tries += 1;
        self.is_wanted = false;
        self.paused_until = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if self.tries < MAX_TRIES {
            self.give.extend(request.give);
            self.give.extend(request.take.into_iter().map(|slot| ReleasedSlot { slot, succeeded: false }));
        } else {
            // The slots expire by themselves.
            self.failures = self.failures.saturating_sub(failures);
            self.tries = 0;
        }
    }
}
