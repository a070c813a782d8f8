//! A handle to one circuit: ask, settle, look, and order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{MemberAnswer, Reported, Tell};
use breakerbox_core::{
    self as core, Attribution, Change, Command, Decision, Epoch, Policy, Record, Refusal, Settlement, Status,
    Totals,
};

use tokio::time::Instant;

use crate::call::has_timer;
use crate::cell::{Cell, Held};
use crate::clock::Times;
use crate::fleet::{Lease, Settling};
use crate::handle::Handle;
use crate::permit::{OwnedPermit, Permit};
use crate::registry::Kept;

/// After how long a waiter on the ramp asks again, though nobody woke it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often an ask begins anew because others changed the circuit meanwhile.
pub(crate) const ASKED_AGAIN: u32 = 4;

/// What the store is due for before an ask can be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// The record of a circuit that this process has never heard of.
    Record,
    /// The lease of a probe, or an answer to each ask.
    Lease,
    /// A place on the ramp of this epoch.
    Place(Epoch),
}

/// The circuit of one key. A handle is cheap to clone and to keep; while one is held, its circuit is not evicted.
#[derive(Clone)]
pub struct Circuit {
    pub(crate) shared: Handle,
    pub(crate) cell: Arc<Cell>,
    /// False if there was no room for it: the cell is nobody's, every call is admitted, and none is counted.
    pub(crate) controlled: bool,
}

impl Circuit {
    pub(crate) const fn new(shared: Handle, cell: Arc<Cell>, controlled: bool) -> Self {
        Self { shared, cell, controlled }
    }

    /// Asks for a permit to make one call now. Never waits.
    ///
    /// # Errors
    /// A refusal is not an error of the caller: it says why there is no permit, and when to ask again.
    #[inline(always)]
    pub fn try_acquire(&self) -> Result<Permit<'_>, Refusal> {
        if !self.controlled {
            self.shared.count_uncontrolled();
            return Ok(Permit::new(self, None));
        }
        match self.cell.acquire_fast(self.clock()) {
            Some(Ok(held)) => Ok(Permit::new(self, Some(held))),
            Some(Err(refusal)) if !self.shared.dry_run => Err(refusal),
            _ => match self.acquire_from_core() {
                Ok(held) => Ok(Permit::new(self, held.map(Held::Decided))),
                Err(refusal) => Err(*refusal),
            },
        }
    }

    /// The same, for a permit that outlives this handle.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_owned(&self) -> Result<OwnedPermit, Refusal> {
        self.try_acquire().map(|permit| OwnedPermit::new(self.clone(), permit))
    }

    /// Asks for a permit and, where it is refused, waits for one, at most so long. Who waits is woken when something happens
    /// to the circuit: a probe ends, a call on the ramp settles, an operator lets go. Times are waited for by tokio's clock;
    /// on a runtime without tokio's timer nobody waits, and the first refusal is the last.
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
        let place = self.shared.waiters.enter(&self.cell);
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
                // Some calls never settle, and are written off without a word.
                Refusal::Ramping { .. } => ASK_AGAIN,
                refusal => refusal.retry_in().unwrap_or(left),
            };
            // Whether woken or not, the next step is to ask.
            let _ = tokio::time::timeout(wait.min(left), place.woken()).await;
        }
    }

    /// The same, for a permit that outlives this handle.
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_owned_within(&self, limit: Duration) -> Result<OwnedPermit, Refusal> {
        self.acquire_within(limit).await.map(|permit| OwnedPermit::new(self.clone(), permit))
    }

    /// Boxed, so that the answer fits into registers: the quick way would otherwise go through memory too.
    #[cold]
    fn acquire_from_core(&self) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        let cell = &self.cell;
        if let Some(said) = self.said_without_core() {
            return said;
        }
        let answer = cell.try_acquire(self.clock(), false);
        if answer == MemberAnswer::LeaseDue && self.shared.is_strict() {
            return self.refuse(Refusal::StoreRequired);
        }
        if self.shared.fleet.is_some() && !cell.is_known() {
            self.shared.read_one_later(cell);
        }
        match answer {
            MemberAnswer::Decided(asked) => self.decided(asked),
            MemberAnswer::Unknown | MemberAnswer::LeaseDue => self.refuse(self.shared.lease_later(cell)),
            MemberAnswer::PlaceDue(epoch) => match self.shared.on_own_ramp(cell) {
                Some(lease) => self.leased(lease),
                None => match self.shared.place_at_once(cell, epoch) {
                    Ok(permit) => Ok(Some(Box::new(permit))),
                    Err(refusal) => self.refuse(refusal),
                },
            },
        }
    }

    /// What needs no decision about the circuit: a probe that was granted already, and what is said to everybody while the
    /// store is away.
    pub(crate) fn said_without_core(&self) -> Option<Result<Option<Box<core::Permit>>, Box<Refusal>>> {
        if let Some(said) = self.shared.without_store() {
            return Some(match said {
                Ok(()) => Ok(None),
                Err(refusal) => self.refuse(refusal),
            });
        }
        self.shared.granted(&self.cell).map(|permit| Ok(Some(Box::new(permit))))
    }

    /// Refuses, or only says so in dry-run.
    pub(crate) fn refuse(&self, refusal: Refusal) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        if self.shared.dry_run {
            self.shared.observers.tell_refusal(self.key(), &refusal);
            return Ok(None);
        }
        Err(Box::new(refusal))
    }

    /// Asks for a permit to make one call, and waits for the store where it must be asked: a circuit that this process has
    /// never heard of, the lease of a probe, and [strictly](crate::Consistency::Strict) each time. It waits no longer than the
    /// store may take to answer; what is not known by then goes on in the background. Without a store it is
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn acquire(&self) -> Result<Permit<'_>, Refusal> {
        let mut due = match self.acquire_at_once() {
            Ok(said) => return said,
            Err(due) => due,
        };
        let asked_at = Instant::now();
        for _ in 0..ASKED_AGAIN {
            let lease = match due {
                Due::Record => {
                    self.shared.read_one(&self.cell).await;
                    Lease::AskAgain
                }
                Due::Lease => self.shared.take_lease(&self.cell, asked_at.elapsed()).await,
                Due::Place(epoch) => self.shared.take_place(&self.cell, epoch, asked_at.elapsed()).await,
            };
            if !matches!(lease, Lease::AskAgain) {
                return self.said(self.leased(lease));
            }
            due = match self.acquire_from_member() {
                Ok(said) => return said,
                Err(due) => due,
            };
        }
        // Others keep getting the lease.
        self.said(self.refuse(self.shared.probing()))
    }

    /// What is said to whoever was to be given a lease or a place.
    fn leased(&self, lease: Lease) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        match lease {
            Lease::Permit(permit) => Ok(Some(Box::new(permit))),
            Lease::Uncounted => Ok(None),
            Lease::Refused(refusal) => self.refuse(refusal),
            Lease::AskAgain => self.refuse(self.shared.probing()),
        }
    }

    /// The answer, if the store need not be waited for; else what it is due for.
    pub(crate) fn acquire_at_once(&self) -> Result<Result<Permit<'_>, Refusal>, Due> {
        if !self.controlled || self.shared.fleet.is_none() {
            return Ok(self.try_acquire());
        }
        match self.cell.acquire_fast(self.clock()) {
            Some(Ok(held)) => return Ok(Ok(Permit::new(self, Some(held)))),
            Some(Err(refusal)) if !self.shared.dry_run => return Ok(Err(refusal)),
            _ => {}
        }
        self.acquire_from_member()
    }

    fn acquire_from_member(&self) -> Result<Result<Permit<'_>, Refusal>, Due> {
        let said = match self.said_without_core() {
            Some(said) => said,
            None => match self.cell.try_acquire(self.clock(), true) {
                MemberAnswer::Decided(asked) => self.decided(asked),
                MemberAnswer::Unknown => return Err(Due::Record),
                MemberAnswer::LeaseDue => return Err(Due::Lease),
                MemberAnswer::PlaceDue(epoch) => match self.shared.on_own_ramp(&self.cell) {
                    Some(lease) => self.leased(lease),
                    None => return Err(Due::Place(epoch)),
                },
            },
        };
        Ok(self.said(said))
    }

    /// The answer to whoever could have waited for the store.
    fn said(&self, said: Result<Option<Box<core::Permit>>, Box<Refusal>>) -> Result<Permit<'_>, Refusal> {
        match said {
            Ok(held) => Ok(Permit::new(self, held.map(Held::Decided))),
            Err(refusal) => Err(*refusal),
        }
    }

    pub(crate) fn decided(&self, asked: core::Asked) -> Result<Option<Box<core::Permit>>, Box<Refusal>> {
        let core::Asked { decision, change } = asked;
        if let Some(change) = change {
            self.changed(change);
        }
        match decision {
            Decision::Admitted(permit) => Ok(Some(Box::new(permit))),
            Decision::Refused(refusal) => self.refuse(refusal),
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.cell.key()
    }

    /// Whether there was room for the circuit. If not, every call through this handle is admitted and none is counted,
    /// except [as such](crate::Counts::uncontrolled).
    #[must_use]
    pub const fn is_controlled(&self) -> bool {
        self.controlled
    }

    /// The state.
    #[must_use]
    pub fn status(&self) -> Status {
        self.cell.status()
    }

    /// Whether the circuit is open in this process only: its own calls fail while those of the other processes succeed, and it
    /// is refused with [`Refusal::OpenLocally`]. The [state](Self::status) is the fleet's and stays closed. Always false without a
    /// store, and with one that [no other process uses](crate::Builder::exclusive_store).
    #[must_use]
    pub fn is_open_locally(&self) -> bool {
        self.cell.is_open_locally()
    }

    /// All that is remembered of the circuit.
    #[must_use]
    pub fn record(&self) -> Record {
        self.cell.record(self.clock())
    }

    /// What the window holds.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.cell.totals(self.clock())
    }

    /// The policy that governs it.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.cell.policy()
    }

    /// Does what an operator says: force open, force closed, disable, release, enable, reset. Returns the change; none if
    /// there was nothing to do.
    ///
    /// # Errors
    /// If it can't be done.
    pub fn try_override(&self, command: Command, by: &Attribution) -> Result<Option<Change>, OverrideError> {
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

    /// The same for a circuit that is shared: the store is asked. Without a store it is [`try_override`](Self::try_override).
    ///
    /// # Errors
    /// If it can't be done, such as while the store is away: overrides stay as they were until it is back.
    pub async fn apply_override(
        &self,
        command: Command,
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

    /// After how long a probe with so much time left is to be given up: never while calls are only watched.
    pub(crate) fn limit(&self, time_left: Option<Duration>) -> Option<Duration> {
        time_left.filter(|_| !self.shared.dry_run)
    }

    /// Tells the observers, and the store, what settling a permit changed.
    pub(crate) fn settled(&self, reported: Reported) -> Settling {
        let Reported { settled, tell } = reported;
        let settling = if self.shared.is_strict() || matches!(tell, Tell::Swap(_)) {
            self.shared.tell_and_hear(&self.cell, tell, settled.settlement)
        } else {
            self.shared.tell(&self.cell, tell);
            Settling::Known(settled.settlement)
        };
        // Before the observers, who may take their time.
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
        self.shared.observers.tell(self.key(), change);
    }
}

/// Why an operator's word was not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// There was no room for the circuit. Ask the registry for the handle again, or raise `max_circuits`.
    #[error("there was no room for this circuit; ask for the handle again, or raise max_circuits")]
    NoRoom,
    /// The circuit is shared, and the store has to be asked: by [`Circuit::apply_override`].
    #[error("this circuit is shared, and the store has to be asked: use apply_override")]
    Shared,
    /// The store does not answer. Try again when it is back.
    #[error("the store does not answer; overrides stay as they are until it is back")]
    StoreAway,
    /// The store's record can't be read: see [`Breakerbox::unreadable`](crate::Breakerbox::unreadable).
    #[error("the store's record of this circuit can't be read; upgrade this process, or delete the record")]
    Unreadable,
    /// Others changed the circuit each time before this could be done. Try again.
    #[error("others keep changing the circuit; try again")]
    Contended,
}

impl fmt::Debug for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuit")
            .field("key", &self.key())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
