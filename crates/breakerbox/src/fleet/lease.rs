//! Takes the lease of a probe in the store. There is one request for each circuit at a time; other callers are refused,
//! because a probe is in flight. A first read of a record that no caller waits for uses the same slot.
//!
//! Requests continue in the background, also when their caller has reached its timeout or is gone. A lease that is
//! granted then is kept for the next caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_core::fleet::{LeaseAnswer, Proposal};
use breakerbox_core::{self as core, Asked, Decision, Epoch, Refusal, Timestamp};
use tokio::sync::oneshot;

use super::Fleet;
use super::swap::Ended;
use super::under_way::TaskRef;
use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::clock::Clock;
use crate::registry::Kept;
use crate::store::StoreError;

/// The circuits with a request in flight, by address. The request holds its circuit, so no other circuit can get the
/// address meanwhile.
#[derive(Default)]
pub(super) struct Requests(Mutex<HashMap<usize, Asking>>);

/// A request for a circuit's record or lease.
enum Asking {
    UnderWay,
    /// The lease was granted, and is kept for a caller, because the one that requested it could not wait.
    Granted(core::Permit),
}

/// A request for one circuit. It ends when this is dropped.
pub(super) struct Turn {
    shared: TaskRef,
    cell: Arc<Cell>,
    /// The slot belongs to another request by now.
    is_over: bool,
}

impl Requests {
    /// Returns a lease that was granted to a caller which could not wait, if it is still valid.
    fn granted(&self, cell: &Arc<Cell>, now: Timestamp) -> Option<core::Permit> {
        let mut asking = self.lock();
        match asking.remove(&address(cell))? {
            Asking::Granted(permit) => Some(permit).filter(|permit| !permit.is_past_deadline(now)),
            under_way @ Asking::UnderWay => {
                asking.insert(address(cell), under_way);
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Asking>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Keeps the lease for the next caller.
    fn leave(mut self, permit: core::Permit) {
        if let Some(fleet) = &self.shared.fleet {
            self.is_over = true;
            fleet.requests.lock().insert(address(&self.cell), Asking::Granted(permit));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(fleet) = self.shared.fleet.as_ref().filter(|_| !self.is_over) {
            fleet.requests.lock().remove(&address(&self.cell));
        }
    }
}

fn address(cell: &Arc<Cell>) -> usize {
    Arc::as_ptr(cell).addr()
}

/// A lease to swap in.
pub(super) struct LeaseDue {
    proposal: Box<Proposal>,
    /// The store's time when the record was read.
    read_at: Timestamp,
}

/// The result of an acquire by the store's own record.
#[expect(clippy::large_enum_variant, reason = "it is looked at once, and never kept")]
pub(super) enum Consulted {
    Decided(Asked),
    Lease(LeaseDue),
    /// The circuit ramps in this epoch, and a slot has to be taken.
    Place(Epoch),
}

/// The result of a request for a probe, or for a slot on a ramp.
pub(crate) enum Lease {
    /// A permit for the probe, or for a call that needs no lease.
    Permit(core::Permit),
    /// A call that is not counted: the store did not respond, and `on_store_loss` admits every call.
    Uncounted,
    Refused(Refusal),
    /// The circuit has changed: acquire again.
    AskAgain,
}

impl Lease {
    /// Converts a decision that needs no swap, for an acquire at that time.
    pub(super) fn of(asked: Asked, started_at: Timestamp) -> Self {
        match asked.decision {
            Decision::Admitted(permit) => Self::Permit(permit.by_own_clock(started_at)),
            Decision::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl Shared {
    /// Returns the right to send a request about this circuit; none while another request is in flight.
    pub(super) fn turn(self: &Arc<Self>, cell: &Arc<Cell>) -> Option<Turn> {
        let mut asking = self.fleet.as_ref()?.requests.lock();
        if asking.contains_key(&address(cell)) {
            return None;
        }
        asking.insert(address(cell), Asking::UnderWay);
        Some(Turn { shared: self.for_task(), cell: Arc::clone(cell), is_over: false })
    }

    /// Takes the lease, and waits for it as long as one request may take, less the time already waited: the request may
    /// be two, or more if an answer is lost. A lease that arrives later is [granted](Self::granted) to the next caller.
    pub(crate) async fn take_lease(self: &Arc<Self>, cell: &Arc<Cell>, waited: Duration) -> Lease {
        let Some(fleet) = &self.fleet else { return Lease::AskAgain };
        let limit = fleet.settings.store_timeout.saturating_sub(waited);
        if self.is_strict() {
            return self.acquire_strictly(fleet, cell, limit).await;
        }
        self.lease_within(cell, limit).await
    }

    pub(super) async fn lease_within(self: &Arc<Self>, cell: &Arc<Cell>, limit: Duration) -> Lease {
        let asked = self.turn(cell).filter(|_| !limit.is_zero()).map(|turn| self.acquire_fast(turn, limit));
        match asked {
            Some(answer) => answer.await.unwrap_or_else(|_| Lease::Refused(self.probing())),
            None => Lease::Refused(self.probing()),
        }
    }

    /// Returns a lease that was requested in the background and granted. The record shows only that the lease is taken,
    /// so the core can't tell that this process holds it.
    pub(crate) fn granted(&self, cell: &Arc<Cell>) -> Option<core::Permit> {
        self.fleet.as_ref()?.requests.granted(cell, self.times.now())
    }

    /// For callers that can't wait: requests a lease in the background, which is [granted](Self::granted) to the next
    /// caller.
    pub(crate) fn lease_later(self: &Arc<Self>, cell: &Arc<Cell>) -> Refusal {
        let Some(fleet) = &self.fleet else { return Refusal::TripPending };
        if let Some(turn) = self.turn(cell) {
            // No caller waits for the result.
            drop(self.acquire_fast(turn, fleet.settings.store_timeout));
        }
        self.probing()
    }

    /// Requests a lease in the background. The receiver gets the result within the limit.
    fn acquire_fast(self: &Arc<Self>, turn: Turn, limit: Duration) -> oneshot::Receiver<Lease> {
        let (tell, told) = oneshot::channel();
        let shared = self.for_task();
        let asking = async move {
            let Some(fleet) = &shared.fleet else { return };
            let cell = Arc::clone(&turn.cell);
            let mut asked = std::pin::pin!(shared.request_lease(fleet, &cell));
            let mut tell = Some(tell);
            let lease = match tokio::time::timeout(limit, &mut asked).await {
                Ok(lease) => lease,
                Err(_) => {
                    if let Some(tell) = tell.take() {
                        // The caller may have stopped waiting.
                        let _ = tell.send(Lease::Refused(shared.probing()));
                    }
                    asked.await
                }
            };
            let said = match lease {
                Lease::Permit(permit) if permit.is_probe() => {
                    turn.leave(permit);
                    Lease::AskAgain
                }
                said => {
                    drop(turn);
                    said
                }
            };
            if tell.is_none_or(|tell| tell.send(said).is_err()) {
                // The caller is gone; a waiter may want the lease.
                shared.waiters.wake_one(&cell);
            }
        };
        if let Some(fleet) = &self.fleet {
            fleet.runtime.spawn(asking);
        }
        told
    }

    async fn request_lease(self: &Arc<Self>, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        // Before the request: the probe's own deadline must be earlier than the end of the lease.
        let started_at = self.times.now();
        match self.consult(fleet, cell).await {
            Ok(Consulted::Decided(decided)) => Lease::of(decided, started_at),
            Ok(Consulted::Lease(lease)) => self.swap_lease(fleet, cell, lease, started_at).await,
            // It closed meanwhile: the next acquire takes a slot.
            Ok(Consulted::Place(_)) => Lease::AskAgain,
            // The circuit is not shared from now on.
            Err(StoreError::Unreadable(_)) => Lease::AskAgain,
            Err(_) => self.unanswered(fleet, cell),
        }
    }

    /// Decides an acquire by the store's own record and time: a result, or a lease to swap in.
    pub(super) async fn consult(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
    ) -> Result<Consulted, StoreError> {
        let key = self.store_key(cell);
        let answer = self.read_store(fleet, fleet.store.read(std::slice::from_ref(&key))).await?;
        let record = match answer.value.into_iter().next().transpose() {
            Ok(record) => record.flatten(),
            Err(unreadable) => {
                self.can_not_read(fleet, cell, &unreadable);
                return Err(unreadable.into());
            }
        };
        let (learnt, said) = self.converse(cell, Some(answer.now), |member, at| member.lease(record, at));
        self.took(cell, learnt);
        Ok(match said {
            LeaseAnswer::Decided(asked) => Consulted::Decided(asked),
            LeaseAnswer::Swap(proposal) => Consulted::Lease(LeaseDue { proposal, read_at: answer.now }),
            LeaseAnswer::PlaceDue(epoch) => Consulted::Place(epoch),
        })
    }

    /// Swaps a lease in. If that wins, the caller has the probe.
    pub(super) async fn swap_lease(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        LeaseDue { proposal, read_at }: LeaseDue,
        started_at: Timestamp,
    ) -> Lease {
        match self.swap(fleet, cell, &proposal).await {
            Ended::Won => {
                let (change, permit) = self
                    .converse(cell, Some(read_at), |member, at| member.leased(&proposal, at.policy, at.now));
                if let Some(change) = change {
                    self.observers.tell(cell.key(), change);
                }
                permit.map_or(Lease::AskAgain, |permit| Lease::Permit(permit.by_own_clock(started_at)))
            }
            Ended::Lost(record) => {
                self.lost(cell, *record);
                Lease::AskAgain
            }
            Ended::Unknown => Lease::Refused(self.probing()),
        }
    }

    /// Handles a failed request. If the store is lost by now, this process decides alone; else a later acquire tries
    /// again.
    pub(super) fn unanswered(&self, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        if fleet.health.is_lost() {
            self.converse(cell, None, |member, _| member.leave());
            return Lease::AskAgain;
        }
        Lease::Refused(self.probing())
    }

    /// Returns the refusal while another caller probes, or requests the lease.
    pub(crate) fn probing(&self) -> Refusal {
        let retry_in = self.fleet.as_ref().map_or(Duration::ZERO, |fleet| fleet.settings.store_timeout);
        Refusal::Probing { retry_at: self.times.there(self.times.now()) + retry_in, retry_in }
    }
}
