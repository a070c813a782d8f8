//! Swaps records in. A lost response is resolved by reading the version, which is random and so cannot be another
//! process's.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Proposal;
use breakerbox_core::{Attribution, Change, OverrideCommand, Record};

use super::Fleet;
use crate::cell::Cell;
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::registry::RegistryEntry;
use crate::store::{StoreError, Swap, Swapped};

/// The maximum number of reads that determine whether a swap without a response took place.
const MAX_LOOKUPS: u32 = 3;

/// The maximum time to wait for a lost store to recover before checking whether a swap took place. If the swap took a
/// lease, no caller can use the lease until then, or until it expires.
const WAIT_FOR_STORE: Duration = Duration::from_secs(5);

/// The maximum number of attempts to apply an operator's override while other processes change the circuit.
const MAX_TRIES: u32 = 5;

/// The result of a swap, as far as this process knows.
pub(super) enum SwapResult {
    Won,
    /// The swap failed. Contains the store's current record, if there is one.
    Lost(Box<Option<Record>>),
    /// It is not known whether the swap succeeded.
    Unknown,
}

/// The reason why an override was not applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The registry had no slot for the circuit. Get the handle again, or raise `max_circuits`.
    #[error("there was no room for this circuit; ask for the handle again, or raise max_circuits")]
    NoRoom,
    /// The circuit is shared, so its override requires the store. Use
    /// [`Circuit::apply_override`](crate::Circuit::apply_override).
    #[error("this circuit is shared, and the store has to be asked: use apply_override")]
    Shared,
    /// The store did not respond. Try again when the store is available.
    #[error("the store does not answer; overrides stay as they are until it is back")]
    StoreAway,
    /// The record in the store cannot be read. See [`Breakerbox::unreadable`](crate::Breakerbox::unreadable).
    #[error("the store's record of this circuit can't be read; upgrade this process, or delete the record")]
    Unreadable,
    /// Other processes changed the circuit during every attempt. Try again.
    #[error("others keep changing the circuit; try again")]
    Contended,
}

impl Shared {
    /// Swaps in a record in the background, and applies the result.
    pub(super) fn swap_later(self: &Arc<Self>, cell: &Arc<Cell>, proposal: Proposal) {
        let Some(fleet) = &self.fleet else { return };
        let (shared, cell) = (self.for_task(), Arc::clone(cell));
        fleet.runtime.spawn(async move {
            let Some(fleet) = &shared.fleet else { return };
            // After a flush there may be a swap for every circuit. The semaphore is never closed.
            let Ok(_permit) = fleet.swaps.acquire().await else { return };
            let result = shared.swap(fleet, &cell, &proposal).await;
            shared.apply_swap_result(&cell, &proposal, result);
        });
    }

    /// Applies the result of a swap.
    pub(super) fn apply_swap_result(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        proposal: &Proposal,
        result: SwapResult,
    ) {
        match result {
            SwapResult::Won => self.won(cell, proposal),
            SwapResult::Lost(record) => {
                if proposal.result_of.is_some() {
                    self.count_late(1);
                }
                if proposal.was_overlapped((*record).as_ref(), self.times.to_store_time(self.times.now())) {
                    self.count_overlap();
                }
                self.lost(cell, *record);
            }
            SwapResult::Unknown => {
                // If this process decided it without the store, no other process will write it.
                if let Some(fleet) = &self.fleet {
                    fleet.health.note_absentee();
                }
                self.waiters.wake_one(cell);
            }
        }
    }

    /// Applies a successfully swapped proposal to this process's circuit, and publishes the change to observers.
    fn won(&self, cell: &Arc<Cell>, proposal: &Proposal) {
        let change = self.step_member(cell, None, |member, at| member.won(proposal, at.policy, at.now));
        self.waiters.wake_one(cell);
        if let Some(change) = change {
            self.observers.notify(cell.key(), change);
        }
    }

    /// Applies the store's current record after a failed swap.
    pub(super) fn lost(self: &Arc<Self>, cell: &Arc<Cell>, record: Option<Record>) {
        let learnt = self.step_member(cell, None, |member, at| member.learn(record, at));
        self.waiters.wake_one(cell);
        self.apply_learnt(cell, learnt);
    }

    /// Swaps in a record, without retrying. If there is no response, determines whether the swap took place.
    pub(super) async fn swap(&self, fleet: &Fleet, cell: &Arc<Cell>, proposal: &Proposal) -> SwapResult {
        let record = proposal.step.record.clone().with_tenant(self.stored_tenant(cell));
        let swap = Swap {
            key: self.store_key(cell),
            expected: proposal.expected,
            record,
            not_after: proposal.not_after,
            keep_for: proposal.keep_for,
        };
        if fleet.health.is_lost() {
            // No request was sent, so there is no response to resolve.
            return SwapResult::Unknown;
        }
        match self.write_store(fleet, fleet.store.swap_if(&swap)).await {
            Ok(answer) => match answer.value {
                Swapped::Won => SwapResult::Won,
                Swapped::Lost(record) | Swapped::TooLate(record) => SwapResult::Lost(Box::new(record)),
            },
            Err(StoreError::Unreadable(unreadable)) => {
                self.can_not_read(fleet, cell, &unreadable);
                SwapResult::Unknown
            }
            Err(_) => self.look_up(fleet, &swap).await,
        }
    }

    /// Determines whether a swap whose response was lost took place.
    async fn look_up(&self, fleet: &Fleet, swap: &Swap) -> SwapResult {
        let waits_until = tokio::time::Instant::now() + WAIT_FOR_STORE;
        for _ in 0..MAX_LOOKUPS {
            while fleet.health.is_lost() && tokio::time::Instant::now() < waits_until {
                tokio::time::sleep(fleet.settings.flush_every).await;
            }
            let keys = std::slice::from_ref(&swap.key);
            let Ok(answer) = self.read_store(fleet, fleet.store.read(keys)).await else {
                tokio::time::sleep(fleet.settings.flush_every).await;
                continue;
            };
            // A record that cannot be read is not the one that was to be swapped in.
            let Ok(record) = answer.value.into_iter().next().transpose() else { return SwapResult::Unknown };
            let record = record.flatten();
            if record.as_ref().map(|record| record.version) == Some(swap.record.version) {
                return SwapResult::Won;
            }
            if answer.now > swap.not_after {
                return SwapResult::Lost(Box::new(record));
            }
            // The swap may still be in flight: the result is not certain before its deadline.
            tokio::time::sleep(swap.not_after.since(answer.now)).await;
        }
        SwapResult::Unknown
    }

    /// Applies an operator's command through the store.
    pub(crate) async fn try_override(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        command: OverrideCommand,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        let key = self.store_key(cell);
        for _ in 0..MAX_TRIES {
            let read = self.read_store(fleet, fleet.store.read(std::slice::from_ref(&key))).await;
            let answer = read.map_err(|_| OverrideError::StoreAway)?;
            let read = answer.value.into_iter().next().transpose();
            let record = read.map_err(|_| OverrideError::Unreadable)?.flatten();
            let (learnt, proposal) = self.step_member(cell, Some(answer.now), |member, at| {
                member.apply_override(record, command, by, at)
            });
            self.apply_learnt(cell, learnt);
            let Some(proposal) = proposal else { return Ok(None) };
            match self.swap(fleet, cell, &proposal).await {
                SwapResult::Won => {
                    self.won(cell, &proposal);
                    return Ok(proposal.step.change);
                }
                SwapResult::Lost(record) => self.lost(cell, *record),
                SwapResult::Unknown => return Err(OverrideError::StoreAway),
            }
        }
        Err(OverrideError::Contended)
    }
}
