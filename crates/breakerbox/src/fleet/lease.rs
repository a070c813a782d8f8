//! Takes a probe's lease in the store. There is one request per circuit at a time; other callers are refused as if a
//! probe were in flight. If no caller waits for a record's first read, that read counts as the circuit's request too.
//!
//! Requests continue in the background, even after their caller has reached its timeout or has been dropped. A lease
//! that is granted then is kept for the next caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_core::fleet::{LeaseAnswer, Proposal};
use breakerbox_core::{self as core, AcquireResult, Decision, Epoch, Refusal, Timestamp};
use tokio::sync::oneshot;

use super::Fleet;
use super::running_tasks::TaskRef;
use super::swap::SwapResult;
use crate::cell::Cell;
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::registry::RegistryEntry;
use crate::store::StoreError;

/// The circuits with a request in flight, or with a granted lease that is kept for the next caller. The map's key is
/// the circuit's address. A request holds a reference to its circuit, so no other circuit can get the same address.
#[derive(Default)]
pub(super) struct Requests(Mutex<HashMap<usize, Request>>);

/// A request for a circuit's record or lease.
enum Request {
    InFlight,
    /// The lease was granted and is kept for the next caller, because the caller that requested it could not wait.
    Granted(core::Permit),
}

/// A guard for one circuit's request. Dropping the guard ends the request.
pub(super) struct RequestGuard {
    shared: TaskRef,
    cell: Arc<Cell>,
    /// Whether the circuit's entry now keeps a granted lease, so that dropping this guard must not remove the entry.
    is_over: bool,
}

impl Requests {
    /// Returns the lease that is kept for the next caller; `None` if there is none, or its deadline has passed.
    fn granted(&self, cell: &Arc<Cell>, now: Timestamp) -> Option<core::Permit> {
        let mut requests = self.lock();
        match requests.remove(&address(cell))? {
            Request::Granted(permit) => Some(permit).filter(|permit| !permit.is_past_deadline(now)),
            in_flight @ Request::InFlight => {
                requests.insert(address(cell), in_flight);
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestGuard {
    /// Keeps a granted lease for the next caller.
    fn keep_permit(mut self, permit: core::Permit) {
        if let Some(fleet) = &self.shared.fleet {
            self.is_over = true;
            fleet.requests.lock().insert(address(&self.cell), Request::Granted(permit));
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if let Some(fleet) = self.shared.fleet.as_ref().filter(|_| !self.is_over) {
            fleet.requests.lock().remove(&address(&self.cell));
        }
    }
}

fn address(cell: &Arc<Cell>) -> usize {
    Arc::as_ptr(cell).addr()
}

/// A lease that must be swapped in before the caller has the probe.
pub(super) struct LeaseDue {
    proposal: Box<Proposal>,
    /// The store's time at which the record was read.
    read_at: Timestamp,
}

/// The result of acquiring a permit based on the store's record.
#[expect(clippy::large_enum_variant, reason = "it is looked at once, and never kept")]
pub(super) enum StoreDecision {
    Decided(AcquireResult),
    Lease(LeaseDue),
    /// The circuit is ramping up in this epoch, so the call needs a slot.
    Place(Epoch),
}

/// The result of a request for a probe, or for a slot in a ramp.
pub(crate) enum Lease {
    /// A permit for the probe, or for a call that needs no lease.
    Permit(core::Permit),
    /// The call is admitted but not counted, because the store did not respond and `on_store_loss` admits every call.
    Uncounted,
    Refused(Refusal),
    /// The circuit has changed, so the caller must acquire again.
    Retry,
}

impl Lease {
    /// Converts a decision that needs no swap. A permit starts at `started_at`, by the local clock.
    pub(super) fn of(acquired: AcquireResult, started_at: Timestamp) -> Self {
        match acquired.decision {
            Decision::Admitted(permit) => Self::Permit(permit.by_own_clock(started_at)),
            Decision::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl Shared {
    /// Begins a request for this circuit; `None` while another request for it is in flight.
    pub(super) fn begin_request(self: &Arc<Self>, cell: &Arc<Cell>) -> Option<RequestGuard> {
        let mut requests = self.fleet.as_ref()?.requests.lock();
        if requests.contains_key(&address(cell)) {
            return None;
        }
        requests.insert(address(cell), Request::InFlight);
        Some(RequestGuard { shared: self.for_task(), cell: Arc::clone(cell), is_over: false })
    }

    /// Requests the probe's lease. Waits no longer than the store timeout minus `waited`, even though taking a lease
    /// requires at least two requests. A lease that arrives later is [granted](Self::granted) to the next caller.
    pub(crate) async fn take_lease(self: &Arc<Self>, cell: &Arc<Cell>, waited: Duration) -> Lease {
        let Some(fleet) = &self.fleet else { return Lease::Retry };
        let limit = fleet.settings.store_timeout.saturating_sub(waited);
        if self.is_strict() {
            return self.acquire_strictly(fleet, cell, limit).await;
        }
        self.lease_within(cell, limit).await
    }

    pub(super) async fn lease_within(self: &Arc<Self>, cell: &Arc<Cell>, limit: Duration) -> Lease {
        let request = self
            .begin_request(cell)
            .filter(|_| !limit.is_zero())
            .map(|guard| self.spawn_lease_request(guard, limit));
        match request {
            Some(answer) => answer.await.unwrap_or_else(|_| Lease::Refused(self.probing())),
            None => Lease::Refused(self.probing()),
        }
    }

    /// Returns a lease that was requested in the background and granted to this process; `None` if there is none.
    /// Granted leases are kept outside the core, because the circuit's record does not show which process has taken the
    /// lease.
    pub(crate) fn granted(&self, cell: &Arc<Cell>) -> Option<core::Permit> {
        self.fleet.as_ref()?.requests.granted(cell, self.times.now())
    }

    /// Requests a lease in the background, for a caller that cannot wait. The lease is [granted](Self::granted) to
    /// the next caller.
    pub(crate) fn lease_later(self: &Arc<Self>, cell: &Arc<Cell>) -> Refusal {
        let Some(fleet) = &self.fleet else { return Refusal::TripPending };
        if let Some(guard) = self.begin_request(cell) {
            // No caller waits for the result.
            drop(self.spawn_lease_request(guard, fleet.settings.store_timeout));
        }
        self.probing()
    }

    /// Requests a lease in the background. The receiver gets the result within the timeout.
    fn spawn_lease_request(
        self: &Arc<Self>,
        guard: RequestGuard,
        limit: Duration,
    ) -> oneshot::Receiver<Lease> {
        let (sender, receiver) = oneshot::channel();
        let shared = self.for_task();
        let request = async move {
            let Some(fleet) = &shared.fleet else { return };
            let cell = Arc::clone(&guard.cell);
            let mut lease_request = std::pin::pin!(shared.request_lease(fleet, &cell));
            let mut sender = Some(sender);
            let lease = match tokio::time::timeout(limit, &mut lease_request).await {
                Ok(lease) => lease,
                Err(_) => {
                    if let Some(sender) = sender.take() {
                        // The caller may have stopped waiting.
                        let _ = sender.send(Lease::Refused(shared.probing()));
                    }
                    lease_request.await
                }
            };
            let result = match lease {
                Lease::Permit(permit) if permit.is_probe() => {
                    guard.keep_permit(permit);
                    Lease::Retry
                }
                other => {
                    drop(guard);
                    other
                }
            };
            if sender.is_none_or(|sender| sender.send(result).is_err()) {
                // The caller has been dropped, but a waiting caller may need the lease.
                shared.waiters.wake_one(&cell);
            }
        };
        if let Some(fleet) = &self.fleet {
            fleet.runtime.spawn(request);
        }
        receiver
    }

    async fn request_lease(self: &Arc<Self>, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        // Read before the request, because the probe's own deadline must be earlier than the end of the lease.
        let started_at = self.times.now();
        match self.decide_by_store(fleet, cell).await {
            Ok(StoreDecision::Decided(decided)) => Lease::of(decided, started_at),
            Ok(StoreDecision::Lease(lease)) => self.swap_lease(fleet, cell, lease, started_at).await,
            // The circuit closed meanwhile: the next caller takes a slot.
            Ok(StoreDecision::Place(_)) => Lease::Retry,
            // The circuit is no longer shared.
            Err(StoreError::Unreadable(_)) => Lease::Retry,
            Err(_) => self.unanswered(fleet, cell),
        }
    }

    /// Acquires a permit based on the store's own record and time. Returns the decision, or a lease to swap in.
    pub(super) async fn decide_by_store(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
    ) -> Result<StoreDecision, StoreError> {
        let key = self.store_key(cell);
        let answer = self.read_store(fleet, fleet.store.read(std::slice::from_ref(&key))).await?;
        let record = match answer.value.into_iter().next().transpose() {
            Ok(record) => record.flatten(),
            Err(unreadable) => {
                self.can_not_read(fleet, cell, &unreadable);
                return Err(unreadable.into());
            }
        };
        let (learnt, answered) =
            self.step_member(cell, Some(answer.now), |member, at| member.lease(record, at));
        self.apply_learnt(cell, learnt);
        Ok(match answered {
            LeaseAnswer::Decided(acquired) => StoreDecision::Decided(acquired),
            LeaseAnswer::Swap(proposal) => StoreDecision::Lease(LeaseDue { proposal, read_at: answer.now }),
            LeaseAnswer::SlotDue(epoch) => StoreDecision::Place(epoch),
        })
    }

    /// Swaps in a lease. If the swap succeeds, the caller has the probe.
    pub(super) async fn swap_lease(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        LeaseDue { proposal, read_at }: LeaseDue,
        started_at: Timestamp,
    ) -> Lease {
        match self.swap(fleet, cell, &proposal).await {
            SwapResult::Won => {
                let (change, permit) = self.step_member(cell, Some(read_at), |member, at| {
                    member.leased(&proposal, at.policy, at.now)
                });
                if let Some(change) = change {
                    self.observers.notify(cell.key(), change);
                }
                permit.map_or(Lease::Retry, |permit| Lease::Permit(permit.by_own_clock(started_at)))
            }
            SwapResult::Lost(record) => {
                self.lost(cell, *record);
                Lease::Retry
            }
            SwapResult::Unknown => Lease::Refused(self.probing()),
        }
    }

    /// Handles a request without a response. If the store is lost, this process decides by itself; otherwise the call
    /// is refused, and a later caller sends a new request.
    pub(super) fn unanswered(&self, fleet: &Fleet, cell: &Arc<Cell>) -> Lease {
        if fleet.health.is_lost() {
            self.step_member(cell, None, |member, _| member.leave());
            return Lease::Retry;
        }
        Lease::Refused(self.probing())
    }

    /// Returns the refusal while another caller is probing, or is requesting the lease.
    pub(crate) fn probing(&self) -> Refusal {
        let retry_in = self.fleet.as_ref().map_or(Duration::ZERO, |fleet| fleet.settings.store_timeout);
        Refusal::Probing { retry_at: self.times.to_store_time(self.times.now()) + retry_in, retry_in }
    }
}
