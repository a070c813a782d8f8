//! Swaps records in. A lost answer is resolved by reading the version, which is random and can't be somebody else's.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Proposal;
use breakerbox_core::{Attribution, Change, Command, Record};

use super::Fleet;
use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::circuit::OverrideError;
use crate::clock::Clock;
use crate::registry::Kept;
use crate::store::{StoreError, Swap, Swapped};

/// How often a lost answer is looked up.
const LOOKED_UP: u32 = 3;

/// How long a lost answer waits for a store that is lost, before it is looked up. A lease that was taken unnoticed is nobody's
/// until it ends.
const RETURNS_WITHIN: Duration = Duration::from_secs(5);

/// How often an operator's order is tried while others change the circuit.
const TRIED: u32 = 5;

/// How a swap ended.
pub(super) enum Ended {
    Won,
    /// This is what is there instead.
    Lost(Box<Option<Record>>),
    /// Nobody knows.
    Unknown,
}

impl Shared {
    /// Swaps a record in, in the background, and lets everybody know.
    pub(super) fn swap_later(self: &Arc<Self>, cell: &Arc<Cell>, proposal: Proposal) {
        let Some(fleet) = &self.fleet else { return };
        let (shared, cell) = (self.for_task(), Arc::clone(cell));
        fleet.runtime.spawn(async move {
            let Some(fleet) = &shared.fleet else { return };
            // After a flush there may be one for every circuit. Nobody closes this.
            let Ok(_place) = fleet.swaps.acquire().await else { return };
            let ended = shared.swap(fleet, &cell, &proposal).await;
            shared.take_in(&cell, &proposal, ended);
        });
    }

    /// Does what follows from how a swap ended.
    pub(super) fn take_in(self: &Arc<Self>, cell: &Arc<Cell>, proposal: &Proposal, ended: Ended) {
        match ended {
            Ended::Won => self.won(cell, proposal),
            Ended::Lost(record) => {
                if proposal.result_of.is_some() {
                    self.count_late(1);
                }
                if proposal.was_overlapped((*record).as_ref(), self.times.there(self.times.now())) {
                    self.count_overlap();
                }
                self.lost(cell, *record);
            }
            Ended::Unknown => {
                // If it was decided alone, nobody else will bring it in.
                if let Some(fleet) = &self.fleet {
                    fleet.health.note_absentee();
                }
                self.waiters.wake_one(cell);
            }
        }
    }

    /// A proposal was swapped in: it is known here, and everybody hears.
    fn won(&self, cell: &Arc<Cell>, proposal: &Proposal) {
        let change = self.converse(cell, None, |member, at| member.won(proposal, at.policy, at.now));
        self.waiters.wake_one(cell);
        if let Some(change) = change {
            self.observers.tell(cell.key(), change);
        }
    }

    /// It was not: what is there instead is learnt.
    pub(super) fn lost(self: &Arc<Self>, cell: &Arc<Cell>, record: Option<Record>) {
        let learnt = self.converse(cell, None, |member, at| member.learn(record, at));
        self.waiters.wake_one(cell);
        self.took(cell, learnt);
    }

    /// Swaps a record in, once.
    pub(super) async fn swap(&self, fleet: &Fleet, cell: &Arc<Cell>, proposal: &Proposal) -> Ended {
        let record = Record { tenant: self.stored_tenant(cell), ..proposal.step.record.clone() };
        let swap = Swap {
            key: self.store_key(cell),
            expected: proposal.expected,
            record,
            not_after: proposal.not_after,
            keep_for: proposal.keep_for,
        };
        if fleet.health.is_lost() {
            // Nothing is sent, so there is nothing to look up.
            return Ended::Unknown;
        }
        match self.write_store(fleet, fleet.store.swap_if(&swap)).await {
            Ok(answer) => match answer.value {
                Swapped::Won => Ended::Won,
                Swapped::Lost(record) | Swapped::TooLate(record) => Ended::Lost(Box::new(record)),
            },
            Err(StoreError::Unreadable(unreadable)) => {
                self.can_not_read(fleet, cell, &unreadable);
                Ended::Unknown
            }
            Err(_) => self.look_up(fleet, &swap).await,
        }
    }

    /// Finds out whether a swap took place whose answer was lost.
    async fn look_up(&self, fleet: &Fleet, swap: &Swap) -> Ended {
        let waits_until = tokio::time::Instant::now() + RETURNS_WITHIN;
        for _ in 0..LOOKED_UP {
            while fleet.health.is_lost() && tokio::time::Instant::now() < waits_until {
                tokio::time::sleep(fleet.settings.flush_every).await;
            }
            let keys = std::slice::from_ref(&swap.key);
            let Ok(answer) = self.read_store(fleet, fleet.store.read(keys)).await else {
                tokio::time::sleep(fleet.settings.flush_every).await;
                continue;
            };
            // What can't be read is not what was to be swapped in.
            let Ok(there) = answer.value.into_iter().next().transpose() else { return Ended::Unknown };
            let there = there.flatten();
            if there.as_ref().map(|record| record.version) == Some(swap.record.version) {
                return Ended::Won;
            }
            if answer.now > swap.not_after {
                return Ended::Lost(Box::new(there));
            }
            // It may still be on its way: nothing is certain before its deadline.
            tokio::time::sleep(swap.not_after.since(answer.now)).await;
        }
        Ended::Unknown
    }

    /// Does what an operator says.
    pub(crate) async fn try_override(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        command: Command,
        by: &Attribution,
    ) -> Result<Option<Change>, OverrideError> {
        let key = self.store_key(cell);
        for _ in 0..TRIED {
            let read = self.read_store(fleet, fleet.store.read(std::slice::from_ref(&key))).await;
            let answer = read.map_err(|_| OverrideError::StoreAway)?;
            let read = answer.value.into_iter().next().transpose();
            let record = read.map_err(|_| OverrideError::Unreadable)?.flatten();
            let (learnt, proposal) = self.converse(cell, Some(answer.now), |member, at| {
                member.apply_override(record, command, by, at)
            });
            self.took(cell, learnt);
            let Some(proposal) = proposal else { return Ok(None) };
            match self.swap(fleet, cell, &proposal).await {
                Ended::Won => {
                    self.won(cell, &proposal);
                    return Ok(proposal.step.change);
                }
                Ended::Lost(record) => self.lost(cell, *record),
                Ended::Unknown => return Err(OverrideError::StoreAway),
            }
        }
        Err(OverrideError::Contended)
    }
}
