//! Permits: the right to make one call, settled once.
//!
//! A [`Permit`] borrows its circuit and is as cheap as possible. An [`OwnedPermit`] holds a handle, so that it can be
//! used where borrowing is not possible. To settle, it moves its contents into a borrowed permit.

use std::future::Future;
use std::time::Duration;

use breakerbox_core::{Outcome, OutcomeKind, Settlement, Timestamp};

use super::Circuit;
use super::call::{self, Classification};
use crate::cell::{Cell, Held};
use crate::clock::Clock;
use crate::fleet::Settling;

/// The right to make one call. Settle it with the call's outcome. Dropping a permit within the policy's `cancel_grace`
/// cancels it, which is not counted; dropping it later counts as a failure.
///
/// ```
/// use breakerbox::{Breakerbox, Refusal};
///
/// let breakers = Breakerbox::builder().build();
/// let circuit = breakers.circuit("https://hooks.example.com/in")?;
/// match circuit.try_acquire() {
///     Ok(permit) => {
///         // Make the call, then say how it went.
///         permit.success();
///     }
///     Err(Refusal::Open { retry_in, .. }) => println!("ask again in {retry_in:?}"),
///     Err(other) => println!("not now: {other:?}"),
/// }
/// # Ok::<(), breakerbox::KeyError>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once is cancelled"]
pub struct Permit<'c> {
    circuit: &'c Circuit,
    /// The state that the circuit needs to settle this permit; `None` once it is settled, or if the call is not
    /// counted.
    held: Option<Held>,
}

impl<'c> Permit<'c> {
    #[inline(always)]
    pub(crate) const fn new(circuit: &'c Circuit, held: Option<Held>) -> Self {
        Self { circuit, held }
    }

    /// Returns whether this call probes a half-open circuit.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.deadline().is_some()
    }

    /// Returns a probe's deadline, by the registry's clock; `None` for other calls. A probe that is still in flight at
    /// its deadline has failed.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.held.as_ref().and_then(Held::deadline)
    }

    /// Returns the time left until a probe's deadline; `None` for other calls. If it is zero, it is too late to start
    /// the call.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.since(self.circuit.clock().now()))
    }

    /// Settles with a success. The latency is the time since the permit was given.
    #[inline(always)]
    pub fn success(self) -> Settlement {
        self.succeed().so_far()
    }

    /// Settles with a success. The result also contains the pending report to the store.
    #[inline(always)]
    pub(crate) fn succeed(mut self) -> Settling {
        let Some((cell, held)) = self.take() else { return Settling::Known(Settlement::Uncounted) };
        if cell.count_fast(&held, self.circuit.clock()) {
            return Settling::Known(Settlement::Counted);
        }
        settle(self.circuit, cell, held, Outcome::success)
    }

    /// Settles with a failure. The latency is the time since the permit was given.
    pub fn failure(self) -> Settlement {
        self.settle_with(Outcome::failure)
    }

    /// Settles with a failure for which the destination sent a retry-after.
    pub fn failure_with_retry_after(self, retry_after: Duration) -> Settlement {
        self.settle_with(|latency| Outcome::failure(latency).with_retry_after(retry_after))
    }

    /// Settles with an outcome that is not counted, because it says nothing about the destination.
    pub fn ignored(self) -> Settlement {
        self.settle_with(|_| Outcome::ignored())
    }

    /// Settles with an outcome that contains the latency measured by the caller.
    pub fn settle(self, outcome: Outcome) -> Settlement {
        self.settle_with(|_| outcome)
    }

    /// Settles the permit as [`call`](Circuit::call) does. The latency is the time since the permit was given, and a
    /// probe that ends after its deadline has failed.
    ///
    /// The future waits until the outcome has been reported to the store, but no longer than the store timeout. This
    /// applies to a probe's outcome if circuits are shared, so that the next probe may begin, and to every outcome with
    /// [`Consistency::Strict`](crate::Consistency::Strict). Dropping the future only skips the wait.
    pub fn settle_and_confirm(self, judgement: Classification) -> impl Future<Output = Settlement> + use<> {
        call::settle(self, judgement).settled()
    }

    pub(crate) fn settle_with(self, outcome: impl FnOnce(Duration) -> Outcome) -> Settlement {
        self.settling(outcome).so_far()
    }

    /// Settles with this outcome. The result also contains the pending report to the store.
    pub(crate) fn settling(mut self, outcome: impl FnOnce(Duration) -> Outcome) -> Settling {
        let Some((cell, held)) = self.take() else { return Settling::Known(Settlement::Uncounted) };
        settle(self.circuit, cell, held, outcome)
    }

    #[inline(always)]
    fn take(&mut self) -> Option<(&'c Cell, Held)> {
        self.held.take().map(|held| (self.circuit.cell(), held))
    }
}

impl Drop for Permit<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((cell, held)) = self.take() {
            settle_dropped(self.circuit, cell, held);
        }
    }
}

/// A permit that owns a handle to its circuit, for futures and tasks that cannot borrow. Like a [`Permit`], it is
/// settled once.
///
/// ```
/// use breakerbox::Breakerbox;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let breakers = Breakerbox::builder().build();
/// let circuit = breakers.circuit("https://hooks.example.com/in")?;
/// if let Ok(permit) = circuit.try_acquire_owned() {
///     tokio::spawn(async move {
///         // Make the call here, then say how it went.
///         permit.success()
///     });
/// }
/// # Ok::<(), breakerbox::KeyError>(()) })?;
/// # Ok::<(), breakerbox::KeyError>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once is cancelled"]
pub struct OwnedPermit {
    circuit: Circuit,
    held: Option<Held>,
}

impl OwnedPermit {
    pub(crate) fn new(circuit: Circuit, mut lent: Permit<'_>) -> Self {
        Self { circuit, held: lent.held.take() }
    }

    /// Returns the circuit that gave the permit.
    #[must_use]
    pub const fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// Returns whether this call probes a half-open circuit.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.deadline().is_some()
    }

    /// Returns a probe's deadline, by the registry's clock; `None` for other calls. A probe that is still in flight at
    /// its deadline has failed.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.held.as_ref().and_then(Held::deadline)
    }

    /// Returns the time left until a probe's deadline; `None` for other calls. If it is zero, it is too late to start
    /// the call.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.since(self.circuit.clock().now()))
    }

    /// Settles with a success. The latency is the time since the permit was given.
    pub fn success(mut self) -> Settlement {
        self.lend().success()
    }

    /// Settles with a failure. The latency is the time since the permit was given.
    pub fn failure(mut self) -> Settlement {
        self.lend().failure()
    }

    /// Settles with a failure for which the destination sent a retry-after.
    pub fn failure_with_retry_after(mut self, retry_after: Duration) -> Settlement {
        self.lend().failure_with_retry_after(retry_after)
    }

    /// Settles with an outcome that is not counted, because it says nothing about the destination.
    pub fn ignored(mut self) -> Settlement {
        self.lend().ignored()
    }

    /// Settles with an outcome that contains the latency measured by the caller.
    pub fn settle(mut self, outcome: Outcome) -> Settlement {
        self.lend().settle(outcome)
    }

    /// Settles, and waits for the store as [`Permit::settle_and_confirm`] does.
    pub fn settle_and_confirm(
        mut self,
        judgement: Classification,
    ) -> impl Future<Output = Settlement> + use<> {
        self.lend().settle_and_confirm(judgement)
    }

    pub(crate) const fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Takes the state that settles the permit. The caller must settle it.
    pub(crate) const fn take_held(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// Moves the permit's state into a borrowed permit, which settles it.
    pub(crate) fn lend(&mut self) -> Permit<'_> {
        Permit::new(&self.circuit, self.held.take())
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        drop(self.lend());
    }
}

#[cold]
fn settle(circuit: &Circuit, cell: &Cell, held: Held, outcome: impl FnOnce(Duration) -> Outcome) -> Settling {
    let (slot, mut kind) = (held.slot(), OutcomeKind::Ignored);
    let reported = cell.settle(held, circuit.clock(), |latency| {
        let outcome = outcome(latency);
        kind = outcome.kind;
        outcome
    });
    if let Some(slot) = slot {
        circuit.shared.release_slot(&circuit.cell, slot, kind);
    }
    circuit.settled(reported)
}

#[cold]
fn settle_dropped(circuit: &Circuit, cell: &Cell, held: Held) {
    let slot = held.slot();
    let reported = cell.settle_dropped(held, circuit.clock());
    if let Some(slot) = slot {
        // If a dropped permit counts, it counts as a failure.
        let counted = reported.settled.settlement == Settlement::Counted;
        let kind = if counted { OutcomeKind::Failure } else { OutcomeKind::Ignored };
        circuit.shared.release_slot(&circuit.cell, slot, kind);
    }
    circuit.settled(reported);
}
