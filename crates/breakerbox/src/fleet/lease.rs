//! Takes the lease of a probe in the store. There is one request for each circuit at a time; whoever else asks is told that
//! somebody is probing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_core::fleet::LeaseAnswer;
use breakerbox_core::{self as core, Decision, Refusal};

use super::Fleet;
use super::swap::Ended;
use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::clock::Clock;
use crate::registry::Kept;

#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<usize, Asking>>);

/// A request for a circuit's lease.
enum Asking {
    UnderWay,
    /// It was granted, and waits for a caller who could not wait for it.
    Granted(core::Permit),
}

/// A request that ends when this is dropped.
struct Turn<'l> {
    leases: &'l Leases,
    address: usize,
}

impl Leases {
    /// The one who may ask now; none if somebody does.
    fn turn(&self, cell: &Arc<Cell>) -> Option<Turn<'_>> {
        let address = Arc::as_ptr(cell).addr();
        let mut asking = self.lock();
        if asking.contains_key(&address) {
            return None;
        }
        asking.insert(address, Asking::UnderWay);
        Some(Turn { leases: self, address })
    }

    /// A permit that was granted to somebody who could not wait.
    fn granted(&self, cell: &Arc<Cell>) -> Option<core::Permit> {
        let address = Arc::as_ptr(cell).addr();
        let mut asking = self.lock();
        match asking.remove(&address)? {
            Asking::Granted(permit) => Some(permit),
            under_way @ Asking::UnderWay => {
                asking.insert(address, under_way);
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Asking>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Leaves the permit for whoever asks next.
    fn leave(&self, permit: core::Permit) {
        self.leases.lock().insert(self.address, Asking::Granted(permit));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut asking = self.leases.lock();
        if matches!(asking.get(&self.address), Some(Asking::UnderWay)) {
            asking.remove(&self.address);
        }
    }
}

/// What came of wanting to probe.
pub(crate) enum Lease {
    /// The probe, or a call that needs no lease any more.
    Permit(core::Permit),
    Refused(Refusal),
    /// Things have changed: ask again.
    AskAgain,
}

impl Shared {
    /// Takes the lease, and waits for it.
    pub(crate) async fn take_lease(self: &Arc<Self>, cell: &Arc<Cell>) -> Lease {
        let Some(fleet) = &self.fleet else { return Lease::AskAgain };
        if let Some(permit) = fleet.leases.granted(cell) {
            return Lease::Permit(permit);
        }
        match fleet.leases.turn(cell) {
            Some(_turn) => self.ask_for_lease(fleet, cell).await,
            None => Lease::Refused(self.probing(fleet)),
        }
    }

    /// For whoever can't wait: a lease that was granted meanwhile, or else one is asked for in the background.
    pub(crate) fn lease_at_once(self: &Arc<Self>, cell: &Arc<Cell>) -> Result<core::Permit, Refusal> {
        let Some(fleet) = &self.fleet else { return Err(Refusal::Judging) };
        if let Some(permit) = fleet.leases.granted(cell) {
            return Ok(permit);
        }
        let (shared, wanted) = (Arc::clone(self), Arc::clone(cell));
        fleet.runtime.spawn(async move {
            let Some(fleet) = &shared.fleet else { return };
            let Some(turn) = fleet.leases.turn(&wanted) else { return };
            if let Lease::Permit(permit) = shared.ask_for_lease(fleet, &wanted).await
                && permit.is_probe()
            {
                turn.leave(permit);
            }
            shared.waiters.wake_one(&wanted);
        });
        Err(self.probing(fleet))
    }

    async fn ask_for_lease(self: &Arc<Self>, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        // Before the request: the probe's own deadline must be earlier than the lease's end.
        let started_at = self.times.now();
        let key = self.store_key(cell);
        let Ok(answer) = self.ask_store(fleet, fleet.store.read(std::slice::from_ref(&key))).await else {
            return self.unanswered(fleet, cell);
        };
        let record = answer.value.into_iter().next().flatten();
        let (learnt, said) = self.converse(cell, Some(answer.now), |member, at| member.lease(record, at));
        self.took(cell, learnt);
        let proposal = match said {
            LeaseAnswer::Swap(proposal) => proposal,
            LeaseAnswer::Decided(asked) => {
                return match asked.decision {
                    Decision::Admitted(permit) => Lease::Permit(permit.by_own_clock(started_at)),
                    Decision::Refused(refusal) => Lease::Refused(refusal),
                };
            }
        };
        match self.swap(fleet, cell, &proposal).await {
            Ended::Won => {
                let (change, permit) = self.converse(cell, Some(answer.now), |member, at| {
                    member.leased(&proposal, at.policy, at.now)
                });
                if let Some(change) = change {
                    self.observers.tell(cell.key(), change);
                }
                permit.map_or(Lease::AskAgain, |permit| Lease::Permit(permit.by_own_clock(started_at)))
            }
            Ended::Lost(record) => {
                let learnt = self.converse(cell, None, |member, at| member.learn(*record, at));
                self.took(cell, learnt);
                Lease::AskAgain
            }
            Ended::Unknown => Lease::Refused(self.probing(fleet)),
        }
    }

    /// One request failed. If the store is away by now, this process decides for itself; else somebody asks again later.
    fn unanswered(&self, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        if fleet.health.is_lost() {
            self.converse(cell, None, |member, _| member.leave());
            return Lease::AskAgain;
        }
        Lease::Refused(self.probing(fleet))
    }

    /// Somebody else is probing, or is asking whether it may.
    fn probing(&self, fleet: &Fleet) -> Refusal {
        let retry_in = fleet.settings.store_timeout;
        Refusal::Probing { retry_at: self.times.there(self.times.now()) + retry_in, retry_in }
    }
}
