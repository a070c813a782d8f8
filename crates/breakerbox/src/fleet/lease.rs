//! Takes the lease of a probe in the store. There is one request for each circuit at a time; whoever else asks is told that
//! somebody is probing. A first reading that nobody waits for takes its turn here too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_core::fleet::LeaseAnswer;
use breakerbox_core::{self as core, Decision, Refusal, Timestamp};

use super::Fleet;
use super::swap::Ended;
use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::clock::Clock;
use crate::registry::Kept;

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
    shared: Arc<Shared>,
    cell: Arc<Cell>,
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
    fn leave(&self, permit: core::Permit) {
        if let Some(fleet) = &self.shared.fleet {
            fleet.requests.lock().insert(address(&self.cell), Asking::Granted(permit));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(fleet) = &self.shared.fleet else { return };
        let mut asking = fleet.requests.lock();
        if matches!(asking.get(&address(&self.cell)), Some(Asking::UnderWay)) {
            asking.remove(&address(&self.cell));
        }
    }
}

fn address(cell: &Arc<Cell>) -> usize {
    Arc::as_ptr(cell).addr()
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
    /// The right to ask the store about this circuit; none while somebody else does.
    pub(super) fn turn(self: &Arc<Self>, cell: &Arc<Cell>) -> Option<Turn> {
        let mut asking = self.fleet.as_ref()?.requests.lock();
        if asking.contains_key(&address(cell)) {
            return None;
        }
        asking.insert(address(cell), Asking::UnderWay);
        Some(Turn { shared: Arc::clone(self), cell: Arc::clone(cell) })
    }

    /// Takes the lease, and waits for it.
    pub(crate) async fn take_lease(self: &Arc<Self>, cell: &Arc<Cell>) -> Lease {
        let Some(fleet) = &self.fleet else { return Lease::AskAgain };
        match self.turn(cell) {
            Some(_turn) => self.ask_for_lease(fleet, cell).await,
            None => Lease::Refused(self.probing(fleet)),
        }
    }

    /// A lease that was asked for in the background, and granted. The record calls it somebody's, so the core can't tell.
    pub(crate) fn granted(&self, cell: &Arc<Cell>) -> Option<core::Permit> {
        self.fleet.as_ref()?.requests.granted(cell, self.times.now())
    }

    /// For whoever can't wait: a lease is asked for in the background, and [granted](Self::granted) to whoever asks next.
    pub(crate) fn lease_later(self: &Arc<Self>, cell: &Arc<Cell>) -> Refusal {
        let Some(fleet) = &self.fleet else { return Refusal::Judging };
        if let Some(turn) = self.turn(cell) {
            fleet.runtime.spawn(async move {
                let Turn { shared, cell } = &turn;
                let Some(fleet) = &shared.fleet else { return };
                if let Lease::Permit(permit) = shared.ask_for_lease(fleet, cell).await
                    && permit.is_probe()
                {
                    turn.leave(permit);
                }
                shared.waiters.wake_one(cell);
            });
        }
        self.probing(fleet)
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
                self.lost(cell, *record);
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
