//! A handle to one circuit: acquire, settle, inspect and override.

pub(crate) mod call;
mod permit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{MemberAnswer, MemberSettled, ReportDue};
use breakerbox_core::{
    self as core, Attribution, Change, CircuitStatus, Decision, Epoch, OverrideCommand, Policy, Record,
    Refusal, Settlement, Totals,
};

use tokio::time::Instant;

use self::call::has_timer;
pub use self::call::{CallError, Classification, by_result};
pub use self::permit::{OwnedPermit, Permit};
use crate::cell::{Cell, Held};
use crate::clock::Times;
use crate::fleet::{Lease, OverrideError, Settling};
use crate::handle::Handle;
use crate::registry::RegistryEntry;

/// The interval at which a caller that waits for a slot in the ramp tries again even if it is not woken.
const RAMP_RETRY: Duration = Duration::from_secs(1);

/// The maximum number of attempts to acquire a permit if other processes change the circuit meanwhile.
pub(crate) const MAX_ATTEMPTS: u32 = 4;

/// What must be obtained from the store before a permit can be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// The record, for a circuit that this process does not know yet.
    Record,
    /// The probe's lease or, with strict consistency, the decision itself.
    Lease,
    /// A slot in this epoch's ramp.
    Place(Epoch),
}

/// A handle to one key's circuit. A handle is cheap to clone and to keep. While a handle exists, its circuit is not
/// evicted.
#[derive(Clone)]
pub struct Circuit {
    pub(crate) shared: Handle,
    pub(crate) cell: Arc<Cell>,
    /// False if the registry was full. In that case the cell is not in the registry, every call is admitted, and none
    /// is counted.
    pub(crate) controlled: bool,
}

impl Circuit {
    pub(crate) const fn new(shared: Handle, cell: Arc<Cell>, controlled: bool) -> Self {
        Self { shared, cell, controlled }
    }

    /// Acquires a permit to make one call now. Never waits.
    ///
    /// # Errors
    /// A refusal is not the caller's error: it states why there is no permit, and when to acquire again.
    #[inline(always)]
    pub fn try_acquire(&self) -> Result<Permit<'_>, Refusal> {
        if !self.controlled {
            self.shared.count_uncontrolled();
            return Ok(Permit::new(self, None));
        }
        match self.cell.acquire_fast(self.clock()) {
            Some(Ok(held)) => Ok(Permit::new(self, Some(held))),
            Some(Err(refusal)) if !self.shared.dry_run => {
                self.shared.times.telemetry.refused(&refusal);
                Err(refusal)
            }
            _ => match self.acquire_from_core() {
                Ok(held) => Ok(Permit::new(self, held.map(Held::Decided))),
                Err(refusal) => Err(*refusal),
            },
        }
    }

    /// Acquires as [`try_acquire`](Self::try_acquire) does, but returns a permit that outlives this handle.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_owned(&self) -> Result<OwnedPermit, Refusal> {
        self.try_acquire().map(|permit| OwnedPermit::new(self.clone(), permit))
    }

    /// Acquires a permit. If the call is refused, waits for a permit for at most `limit`. A waiting caller is woken
    /// when the circuit changes, for example because a probe ends, a call in the ramp settles, or an operator releases
    /// an override. Waiting requires tokio's timer; without one, this returns the first refusal at once.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use breakerbox::Breakerbox;
    /// use std::time::Duration;
    ///
    /// let breakers = Breakerbox::builder().build();
    /// let circuit = breakers.circuit("https://api.example.com/orders")?;
    /// match circuit.acquire_within(Duration::from_secs(5)).await {
    ///     Ok(permit) => {
    ///         permit.success();
    ///     }
    ///     Err(refusal) => println!("still refused after 5 s: {refusal}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal.
    pub async fn acquire_within(&self, limit: Duration) -> Result<Permit<'_>, Refusal> {
        let first = self.acquire().await;
        if first.is_ok() || !has_timer() {
            return first;
        }
        let started_at = Instant::now();
        let waiter = self.shared.waiters.enter(&self.cell);
        loop {
            let refusal = match self.acquire().await {
                Ok(permit) => {
                    self.shared.waiters.wake_one(&self.cell);
                    return Ok(permit);
                }
                Err(refusal) => refusal,
            };
            let left = limit.saturating_sub(started_at.elapsed());
            if left.is_zero() {
                return Err(refusal);
            }
            let wait = match refusal {
                // Some calls never settle, and are written off without waking a waiting caller.
                Refusal::Ramping { .. } => RAMP_RETRY,
                refusal => refusal.retry_in().unwrap_or(left),
            };
            // Whether or not it was woken, the next step is to acquire.
            let _ = tokio::time::timeout(wait.min(left), waiter.woken()).await;
        }
    }

    /// Acquires as [`acquire_within`](Self::acquire_within) does, but returns a permit that outlives this handle.
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_owned_within(&self, limit: Duration) -> Result<OwnedPermit, Refusal> {
        self.acquire_within(limit).await.map(|permit| OwnedPermit::new(self.clone(), permit))
    }

    /// Acquires a permit from the core, when the fast path cannot decide. The result is boxed so that it fits into
    /// registers. A larger result would make the fast path return its result through memory too.
    #[cold]
    fn acquire_from_core(&self) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        let cell = &self.cell;
        if let Some(result) = self.result_without_core() {
            return result;
        }
        let answer = cell.try_acquire(self.clock(), false);
        if answer == MemberAnswer::LeaseDue && self.shared.is_strict() {
            return self.refuse(Refusal::StoreRequired);
        }
        if self.shared.fleet.is_some() && !cell.is_known() {
            self.shared.read_one_later(cell);
        }
        match answer {
            MemberAnswer::Decided(acquired) => self.decided(acquired),
            MemberAnswer::Unknown | MemberAnswer::LeaseDue => self.refuse(self.shared.lease_later(cell)),
            MemberAnswer::SlotDue(epoch) => match self.shared.on_own_ramp(cell) {
                Some(lease) => self.leased(lease),
                None => match self.shared.slot_at_once(cell, epoch) {
                    Ok(permit) => Ok(Some(Box::new(permit))),
                    Err(refusal) => self.refuse(refusal),
                },
            },
        }
    }

    /// Returns a result that does not depend on the circuit's state. This is a probe that was already granted or, while
    /// the store is unavailable, the result that applies to all calls. Returns `None` if the core must decide.
    pub(crate) fn result_without_core(&self) -> Option<Result<Option<Box<core::Permit>>, Box<Refusal>>> {
        if let Some(result) = self.shared.without_store() {
            return Some(match result {
                Ok(()) => Ok(None),
                Err(refusal) => self.refuse(refusal),
            });
        }
        self.shared.granted(&self.cell).map(|permit| Ok(Some(Box::new(permit))))
    }

    /// Returns the refusal; in dry-run mode, admits the call and reports the refusal to observers.
    pub(crate) fn refuse(&self, refusal: Refusal) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        self.shared.times.telemetry.refused(&refusal);
        if self.shared.dry_run {
            self.shared.observers.notify_refusal(self.key(), &refusal);
            return Ok(None);
        }
        Err(Box::new(refusal))
    }

    /// Acquires a permit to make one call, and waits for the store if necessary. The store is necessary for a circuit
    /// whose record is unknown, for a probe's lease, for a slot in the ramp, and with
    /// [`Consistency::Strict`](crate::Consistency::Strict) for every call. Waits no longer than the store timeout; a
    /// request that takes longer continues in the background. Without a store this is the same as
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn acquire(&self) -> Result<Permit<'_>, Refusal> {
        let mut due = match self.acquire_at_once() {
            Ok(result) => return result,
            Err(due) => due,
        };
        let began_at = Instant::now();
        for _ in 0..MAX_ATTEMPTS {
            let lease = match due {
                Due::Record => {
                    self.shared.read_one(&self.cell).await;
                    Lease::Retry
                }
                Due::Lease => self.shared.take_lease(&self.cell, began_at.elapsed()).await,
                Due::Place(epoch) => self.shared.take_slot(&self.cell, epoch, began_at.elapsed()).await,
            };
            if !matches!(lease, Lease::Retry) {
                return self.result(self.leased(lease));
            }
            due = match self.acquire_from_member() {
                Ok(result) => return result,
                Err(due) => due,
            };
        }
        // Other processes got the lease at every attempt.
        self.result(self.refuse(self.shared.probing()))
    }

    /// Converts the result of a request for a lease or a slot.
    fn leased(&self, lease: Lease) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        match lease {
            Lease::Permit(permit) => Ok(Some(Box::new(permit))),
            Lease::Uncounted => Ok(None),
            Lease::Refused(refusal) => self.refuse(refusal),
            Lease::Retry => self.refuse(self.shared.probing()),
        }
    }

    /// Returns the permit or the refusal if the store is not required; otherwise returns what is required from the
    /// store.
    pub(crate) fn acquire_at_once(&self) -> Result<Result<Permit<'_>, Refusal>, Due> {
        if !self.controlled || self.shared.fleet.is_none() {
            return Ok(self.try_acquire());
        }
        match self.cell.acquire_fast(self.clock()) {
            Some(Ok(held)) => return Ok(Ok(Permit::new(self, Some(held)))),
            Some(Err(refusal)) if !self.shared.dry_run => {
                self.shared.times.telemetry.refused(&refusal);
                return Ok(Err(refusal));
            }
            _ => {}
        }
        self.acquire_from_member()
    }

    fn acquire_from_member(&self) -> Result<Result<Permit<'_>, Refusal>, Due> {
        let result = match self.result_without_core() {
            Some(result) => result,
            None => match self.cell.try_acquire(self.clock(), true) {
                MemberAnswer::Decided(acquired) => self.decided(acquired),
                MemberAnswer::Unknown => return Err(Due::Record),
                MemberAnswer::LeaseDue => return Err(Due::Lease),
                MemberAnswer::SlotDue(epoch) => match self.shared.on_own_ramp(&self.cell) {
                    Some(lease) => self.leased(lease),
                    None => return Err(Due::Place(epoch)),
                },
            },
        };
        Ok(self.result(result))
    }

    /// Converts the core's result into a permit or a refusal, for a caller that can wait for the store.
    fn result(&self, result: Result<Option<Box<core::Permit>>, Box<Refusal>>) -> Result<Permit<'_>, Refusal> {
        match result {
            Ok(held) => Ok(Permit::new(self, held.map(Held::Decided))),
            Err(refusal) => Err(*refusal),
        }
    }

    pub(crate) fn decided(
        &self,
        acquired: core::AcquireResult,
    ) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        let core::AcquireResult { decision, change } = acquired;
        if let Some(change) = change {
            self.changed(change);
        }
        match decision {
            Decision::Admitted(permit) => Ok(Some(Box::new(permit))),
            Decision::Refused(refusal) => self.refuse(refusal),
        }
    }

    /// Returns the key of the circuit.
    #[must_use]
    pub fn key(&self) -> &str {
        self.cell.key()
    }

    /// Returns whether the registry had room for the circuit. If not, every call through this handle is admitted, and
    /// counted only in [`uncontrolled`](crate::Counts::uncontrolled).
    #[must_use]
    pub const fn is_controlled(&self) -> bool {
        self.controlled
    }

    /// Returns the circuit's state. In a fleet, this is the state that all processes share.
    #[must_use]
    pub fn status(&self) -> CircuitStatus {
        self.cell.status()
    }

    /// Returns whether the circuit is open in this process only. This happens if this process's calls fail while those
    /// of the other processes succeed. Calls are then refused with [`Refusal::OpenLocally`], while the
    /// [state](Self::status), which is the fleet's, stays closed. Always false without a store, and with an [exclusive
    /// store](crate::BreakerboxBuilder::exclusive_store).
    #[must_use]
    pub fn is_open_locally(&self) -> bool {
        self.cell.is_open_locally()
    }

    /// Returns the circuit's record, which is its stored state without the window.
    #[must_use]
    pub fn record(&self) -> Record {
        self.cell.record(self.clock())
    }

    /// Returns the window's totals.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.cell.totals(self.clock())
    }

    /// Returns the policy that governs the circuit.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.cell.policy()
    }

    /// Applies an operator's command: force open, force closed, disable, release, enable, reset. Returns the change;
    /// `None` if the command changed nothing.
    ///
    /// # Errors
    /// If the command cannot be applied. A shared circuit requires [`apply_override`](Self::apply_override).
    pub fn try_override(
        &self,
        command: OverrideCommand,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        if !self.controlled {
            return Err(OverrideError::NoRoom);
        }
        if self.shared.fleet.is_some() {
            return Err(OverrideError::Shared);
        }
        let change = self.cell.try_override(command, by, self.clock());
        if let Some(change) = &change {
            self.shared.waiters.wake_one(&self.cell);
            self.changed(change.clone());
        }
        Ok(change)
    }

    /// Applies an operator's command through the store. Without a store, this is the same as
    /// [`try_override`](Self::try_override).
    ///
    /// # Errors
    /// If the command cannot be applied. While the store is unavailable, overrides cannot be changed.
    pub async fn apply_override(
        &self,
        command: OverrideCommand,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        match &self.shared.fleet {
            Some(fleet) if self.controlled => self.shared.try_override(fleet, &self.cell, command, by).await,
            _ => self.try_override(command, by),
        }
    }

    #[inline(always)]
    pub(crate) fn clock(&self) -> &Times {
        &self.shared.times
    }

    #[inline(always)]
    pub(crate) fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Returns the time after which to abort the call, which is the time left for a probe. `None` for other calls, and
    /// in dry-run mode, which aborts no call.
    pub(crate) fn limit(&self, time_left: Option<Duration>) -> Option<Duration> {
        time_left.filter(|_| !self.shared.dry_run)
    }

    /// Notifies the observers and the store of a settled permit's effect, and wakes a caller that waits for the
    /// circuit.
    pub(crate) fn settled(&self, reported: MemberSettled) -> Settling {
        let MemberSettled { settled, report } = reported;
        let settling = if self.shared.is_strict() || matches!(report, ReportDue::Swap(_)) {
            self.shared.report_and_wait(&self.cell, report, settled.settlement)
        } else {
            self.shared.report(&self.cell, report);
            Settling::Known(settled.settlement)
        };
        // Wakes a waiting caller before the observers run, because they may be slow.
        self.shared.waiters.wake_one(&self.cell);
        if let Some(change) = settled.change {
            self.changed(change);
        }
        if settled.settlement == Settlement::Late {
            self.shared.count_late(1);
        }
        settling
    }

    #[cold]
    fn changed(&self, change: Change) {
        self.shared.observers.notify(self.key(), change);
    }
}

impl fmt::Debug for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuit")
            .field("key", &self.key())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
