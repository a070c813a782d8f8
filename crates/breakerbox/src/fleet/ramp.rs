//! Slots in a recently closed circuit's ramp, taken and released through the store.
//!
//! Each of this process's circuits has at most one request in flight. Slots to release, a new limit, and slots for
//! all callers that arise meanwhile go into the next request. Requests continue in the background, even after the
//! caller has been dropped; a slot that no caller waits for any more is released. A caller that cannot wait is
//! refused, and a slot is reserved for the next time that it acquires.
//!
//! After a refusal no request is sent for a short, growing pause, because many processes may be acquiring. The core
//! decides the next limit; `ramp_entry` has one circuit's state.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use breakerbox_core::fleet::{RampReply, RampRequest, RampUpdate, RampView, ReleasedSlot};
use breakerbox_core::{self as core, Epoch, Nonce, OutcomeKind, Refusal, Timestamp};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::ramp_entry::{Entry, Next, Waiting, Work};
use super::running_tasks::TaskRef;
use super::{Fleet, Lease};
use crate::cell::Cell;
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::store::Answer;

/// This process's ramps, by the circuit's address. An entry exists only while a task serves it. The task holds a
/// reference to the circuit, so no other circuit can get that address meanwhile.
#[derive(Default)]
pub(super) struct Ramps(Mutex<HashMap<usize, Entry>>);

impl Ramps {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to a circuit's entry, and returns its result; `None` if there is no entry for this epoch.
    fn change<R>(&self, cell: &Arc<Cell>, epoch: Epoch, change: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        self.lock().get_mut(&address(cell)).filter(|entry| entry.epoch() == epoch).map(change)
    }
}

fn address(cell: &Arc<Cell>) -> usize {
    Arc::as_ptr(cell).addr()
}

impl Shared {
    /// Takes a slot for a caller that can wait, for at most the store timeout minus `waited`.
    pub(crate) async fn take_slot(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        epoch: Epoch,
        waited: Duration,
    ) -> Lease {
        let Some(fleet) = &self.fleet else { return Lease::Retry };
        self.slot_within(fleet, cell, epoch, fleet.settings.store_timeout.saturating_sub(waited)).await
    }

    /// Takes a slot for a caller that waits for at most `limit`.
    pub(super) async fn slot_within(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        epoch: Epoch,
        limit: Duration,
    ) -> Lease {
        let started_at = self.times.now();
        let (sender, receiver) = oneshot::channel();
        let result = self.with_entry(fleet, cell, epoch, |entry| match entry.take_held(started_at) {
            Some(permit) => Some(Lease::Permit(permit)),
            None => entry.wait(Waiting { started_at, sender }).err().map(Lease::Refused),
        });
        match result {
            None => Lease::Retry,
            Some(Some(lease)) => lease,
            Some(None) => match timeout(limit, receiver).await {
                Ok(Ok(lease)) => lease,
                // The request continues; its slot is released, or goes to another caller.
                _ => Lease::Refused(self.ramping(fleet, cell, epoch)),
            },
        }
    }

    /// Takes a reserved slot for a caller that cannot wait. If no slot is reserved, refuses this call, and requests a
    /// slot for the next caller.
    pub(crate) fn slot_at_once(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        epoch: Epoch,
    ) -> Result<core::Permit, Refusal> {
        let Some(fleet) = &self.fleet else { return Err(Refusal::TripPending) };
        let now = self.times.now();
        let result = self.with_entry(fleet, cell, epoch, |entry| match entry.take_held(now) {
            Some(permit) => Ok(permit),
            None => Err(entry.request_for_next()),
        });
        result.unwrap_or(Err(Refusal::TripPending))
    }

    /// Takes a slot in this process's own ramp; `None` if other processes may use the store.
    pub(crate) fn on_own_ramp(&self, cell: &Arc<Cell>) -> Option<Lease> {
        self.fleet.as_ref().filter(|fleet| fleet.settings.is_exclusive)?;
        let started_at = self.times.now();
        let acquired = self.step_member(cell, None, |member, at| member.admit_on_own_ramp(at.policy, at.now));
        Some(Lease::of(acquired, started_at))
    }

    /// Releases a call's slot in the background. `kind` is the call's outcome.
    pub(crate) fn release_slot(self: &Arc<Self>, cell: &Arc<Cell>, slot: (Epoch, Nonce), kind: OutcomeKind) {
        let Some(fleet) = &self.fleet else { return };
        let (epoch, slot) = slot;
        // `None` means that a later epoch has begun, and this one's ramp no longer exists.
        let _ = self.with_entry(fleet, cell, epoch, |entry| {
            entry.give(ReleasedSlot { slot, succeeded: kind == OutcomeKind::Success });
            if kind == OutcomeKind::Failure {
                entry.note_failure();
            }
            entry.end_pause();
        });
    }

    /// Applies `change` to a circuit's entry, which is created if necessary. Returns `None` if the entry belongs to a
    /// later epoch.
    fn with_entry<R>(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        epoch: Epoch,
        change: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let (mut is_new, mut outdated) = (false, VecDeque::new());
        let result = {
            let mut entries = fleet.ramps.lock();
            let entry = entries.entry(address(cell)).or_insert_with(|| {
                is_new = true;
                Entry::new(epoch)
            });
            if entry.epoch() < epoch {
                outdated = entry.begin(epoch);
            }
            (entry.epoch() == epoch).then(|| change(entry))
        };
        outdated.into_iter().for_each(Waiting::retry);
        if is_new {
            fleet.runtime.spawn(serve(self.for_task(), Arc::clone(cell)));
        }
        result
    }

    /// Returns the refusal for a caller whose wait timed out.
    fn ramping(&self, fleet: &Fleet, cell: &Arc<Cell>, epoch: Epoch) -> Refusal {
        let known = fleet.ramps.change(cell, epoch, |entry| entry.refusal());
        known.unwrap_or_else(|| Entry::new(epoch).refusal())
    }

    /// Sends one ramp request, and applies the reply.
    async fn request_slots(self: &Arc<Self>, fleet: &Fleet, cell: &Arc<Cell>, work: Work) {
        let Work { demand, waiting, failures } = work;
        let (epoch, key) = (demand.epoch, self.store_key(cell));
        let request = self.step_member(cell, None, |member, at| member.ramp_request(&key, demand, at.policy));
        let Some(request) = request else { return self.end_ramp(fleet, cell, epoch, waiting) };
        match self.read_store(fleet, fleet.store.ramp(&request)).await {
            Ok(Answer { now, value: RampReply::Done(view) }) => {
                self.ramp_replied(fleet, cell, &request, &view, (waiting, failures), now);
            }
            Ok(Answer { value: RampReply::Late, .. }) => {
                self.read_and_learn(fleet, std::slice::from_ref(cell)).await;
                self.end_ramp(fleet, cell, epoch, waiting);
            }
            Err(_) if fleet.health.is_lost() => {
                self.step_member(cell, None, |member, _| member.leave());
                self.end_ramp(fleet, cell, epoch, waiting);
            }
            Err(_) => {
                let refusal = self.ramping(fleet, cell, epoch);
                fleet.ramps.change(cell, epoch, |entry| entry.unanswered(request, failures));
                waiting.into_iter().for_each(|waiting| waiting.refuse(refusal));
            }
        }
    }

    fn ramp_replied(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        request: &RampRequest,
        view: &RampView,
        (mut waiting, failures): (VecDeque<Waiting>, u32),
        now: Timestamp,
    ) {
        let epoch = request.epoch;
        let refused = (view.taken as usize) < request.take.len();
        let unknown = fleet.ramps.change(cell, epoch, |entry| entry.replied(request, view, failures, now));
        let update = self.step_member(cell, Some(now), |member, at| {
            member.ramp_replied(epoch, view, refused, unknown.unwrap_or(0), at)
        });
        let RampUpdate::GoesOn(step) = update else { return self.end_ramp(fleet, cell, epoch, waiting) };
        let mut left = Vec::new();
        for slot in request.take.iter().take(view.taken as usize) {
            let mut permit = Some(*slot);
            while let Some(slot) = permit.take_if(|_| !waiting.is_empty()) {
                let taken = waiting.pop_front().is_some_and(|waiting| waiting.admit(epoch, slot));
                permit = (!taken).then_some(slot);
            }
            left.extend(permit);
        }
        let hold_until = self.times.now() + cell.policy().probe_timeout();
        let refused = fleet.ramps.change(cell, epoch, |entry| {
            entry.keep(left, hold_until, self.times.now());
            entry.set_step(step, refused && step.is_none(), std::mem::take(&mut waiting))
        });
        // The entry now belongs to another epoch, so waiting callers acquire again.
        let Some((unserved, refusal)) = refused else {
            return waiting.into_iter().for_each(Waiting::retry);
        };
        unserved.into_iter().for_each(|waiting| waiting.refuse(refusal));
        if !request.give.is_empty() || view.taken > 0 {
            self.waiters.wake_one(cell);
        }
    }

    /// Returns what the entry's task must do next. If no work remains, removes the entry, and returns `None`.
    fn next_of(&self, server: &mut Server) -> Option<Next> {
        let mut entries = self.fleet.as_ref()?.ramps.lock();
        let draw = || Nonce(self.times.draw().0);
        let entry = entries.get_mut(&address(&server.cell));
        let next = entry.and_then(|entry| entry.next(self.times.now(), Instant::now(), draw));
        if next.is_none() {
            entries.remove(&address(&server.cell));
            server.has_ended = true;
        }
        next
    }

    /// Ends a ramp, because calls no longer need slots, or need slots in another epoch.
    fn end_ramp(&self, fleet: &Fleet, cell: &Arc<Cell>, epoch: Epoch, waiting: VecDeque<Waiting>) {
        let more = fleet.ramps.change(cell, epoch, |entry| entry.begin(epoch)).unwrap_or_default();
        waiting.into_iter().chain(more).for_each(Waiting::retry);
        self.waiters.wake_one(cell);
    }
}

/// Removes a circuit's entry when the task that serves it is dropped before its work is done, because its runtime ends.
struct Server {
    shared: Weak<Shared>,
    cell: Arc<Cell>,
    has_ended: bool,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade().filter(|_| !self.has_ended)
            && let Some(fleet) = &shared.fleet
        {
            fleet.ramps.lock().remove(&address(&self.cell));
        }
    }
}

/// Serves one circuit's ramp until no work remains. A flush waits for the task's requests in flight, but not for its
/// pauses.
async fn serve(mut task: TaskRef, cell: Arc<Cell>) {
    let mut server = Server { shared: Arc::downgrade(&task), cell, has_ended: false };
    loop {
        let Some(next) = task.next_of(&mut server) else { return };
        match next {
            Next::Send(work) => {
                let Some(fleet) = &task.fleet else { return };
                task.request_slots(fleet, &server.cell, work).await;
                // A memory store responds at once, but other tasks need the thread too.
                tokio::task::yield_now().await;
            }
            Next::Wait { until, ends_pause, changed } => {
                // Do not keep the registry alive while waiting.
                drop(task);
                let is_over = timeout_at(until, changed.notified()).await.is_err();
                let Some(again) = TaskRef::of(&server.shared) else { return };
                task = again;
                if is_over && ends_pause {
                    task.waiters.wake_one(&server.cell);
                }
            }
        }
    }
}
