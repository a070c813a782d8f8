//! Takes the lease of a probe in the store. There is one request for each circuit at a time; whoever else asks is told that
//! somebody is probing. A first reading that nobody waits for takes its turn here too.
//!
//! Requests go on in the background, also when whoever made one has waited long enough or is gone. A lease that is granted
//! then is left for whoever asks next.

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

/// The circuits that a request is under way for, by address. Whoever asks holds its circuit, so nobody else can get the
/// address meanwhile.
#[derive(Default)]
pub(super) struct Requests(Mutex<HashMap<usize, Asking>>);

/// A request for a circuit's record or lease.
enum Asking {
    UnderWay,
    /// The lease was granted, and waits for a caller who could not wait for it.
    Granted(core::Permit),
}

/// A request that ends when this is dropped.
pub(super) struct Turn {
    shared: TaskRef,
    cell: Arc<Cell>,
    /// The place is somebody else's by now.
    is_over: bool,
}

impl Requests {
    /// A lease that was granted to somebody who could not wait, if it is still of use.
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
    /// Leaves the lease for whoever asks next.
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

/// A lease that could be swapped in.
pub(super) struct LeaseDue {
    proposal: Box<Proposal>,
    /// The store's time when its record was read.
    read_at: Timestamp,
}

/// What the store's own record says to an ask.
#[expect(clippy::large_enum_variant, reason = "it is looked at once, and never kept")]
pub(super) enum Consulted {
    Decided(Asked),
    Lease(LeaseDue),
    /// The circuit ramps in this epoch, and a place is to be taken.
    Place(Epoch),
}

/// What came of wanting to probe, or of wanting a place on a ramp.
pub(crate) enum Lease {
    /// The probe, or a call that needs no lease.
    Permit(core::Permit),
    /// A call that counts nowhere: the store did not answer, and then every call is admitted.
    Uncounted,
    Refused(Refusal),
    /// Things have changed: ask again.
    AskAgain,
}

impl Lease {
    /// What was decided without a swap, for somebody who asked then.
    pub(super) fn of(asked: Asked, started_at: Timestamp) -> Self {
        match asked.decision {
            Decision::Admitted(permit) => Self::Permit(permit.by_own_clock(started_at)),
            Decision::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl Shared {
    /// The right to ask the store about this circuit; none while somebody else does.
    pub(super) fn turn(self: &Arc<Self>, cell: &Arc<Cell>) -> Option<Turn> {
        let mut asking = self.fleet.as_ref()?.requests.lock();
        if asking.contains_key(&address(cell)) {
            return None;
        }
        asking.insert(address(cell), Asking::UnderWay);
        Some(Turn { shared: self.for_task(), cell: Arc::clone(cell), is_over: false })
    }

    /// Takes the lease, and waits for it as long as one request may take, less what was waited already: the request may be
    /// two, or more if an answer is lost. A lease that was taken is [granted](Self::granted) to whoever asks again.
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

    /// A lease that was asked for in the background, and granted. The record calls it somebody's, so the core can't tell.
    pub(crate) fn granted(&self, cell: &Arc<Cell>) -> Option<core::Permit> {
        self.fleet.as_ref()?.requests.granted(cell, self.times.now())
    }

    /// For whoever can't wait: a lease is asked for in the background, and [granted](Self::granted) to whoever asks next.
    pub(crate) fn lease_later(self: &Arc<Self>, cell: &Arc<Cell>) -> Refusal {
        let Some(fleet) = &self.fleet else { return Refusal::TripPending };
        if let Some(turn) = self.turn(cell) {
            // Nobody waits for what it says.
            drop(self.acquire_fast(turn, fleet.settings.store_timeout));
        }
        self.probing()
    }

    /// Asks for a lease in the background. Says what came of it, within the limit.
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
                        // Whoever does not wait any more need not hear it.
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
                // Whoever asked is gone; somebody else may want to know.
                shared.waiters.wake_one(&cell);
            }
        };
        if let Some(fleet) = &self.fleet {
            fleet.runtime.spawn(asking);
        }
        told
    }

    async fn request_lease(self: &Arc<Self>, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        // Before the request: the probe's own deadline must be earlier than the lease's end.
        let started_at = self.times.now();
        match self.consult(fleet, cell).await {
            Ok(Consulted::Decided(decided)) => Lease::of(decided, started_at),
            Ok(Consulted::Lease(lease)) => self.swap_lease(fleet, cell, lease, started_at).await,
            // It closed meanwhile: whoever asks again takes a place.
            Ok(Consulted::Place(_)) => Lease::AskAgain,
            // It decides alone from now on.
            Err(StoreError::Unreadable(_)) => Lease::AskAgain,
            Err(_) => self.unanswered(fleet, cell),
        }
    }

    /// What the store's own record and time say to an ask: an answer, or a lease to be swapped in.
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

    /// Swaps a lease in. The probe is the caller's if that wins.
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

    /// One request failed. If the store is away by now, this process decides for itself; else somebody asks again later.
    pub(super) fn unanswered(&self, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        if fleet.health.is_lost() {
            self.converse(cell, None, |member, _| member.leave());
            return Lease::AskAgain;
        }
        Lease::Refused(self.probing())
    }

    /// Somebody else is probing, or is asking whether it may.
    pub(crate) fn probing(&self) -> Refusal {
        let retry_in = self.fleet.as_ref().map_or(Duration::ZERO, |fleet| fleet.settings.store_timeout);
        Refusal::Probing { retry_at: self.times.there(self.times.now()) + retry_in, retry_in }
    }
}
