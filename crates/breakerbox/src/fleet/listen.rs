//! Learns what other processes swapped in, and when they call for reports. It listens for messages, and periodically
//! rereads the circuits that are not closed and, in turn, [some](CLOSED_BATCH) of the closed ones. So if a change was
//! missed, a circuit that is not closed here is corrected within `reread_every` and one request; a closed one, within
//! `reread_every` for every thousand circuits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use breakerbox_core::fleet::Consistency;

use super::running_tasks::TaskRef;
use super::{BATCH, Fleet};
use crate::cell::Cell;
use crate::fleet::Shared;
use crate::store::{Changes, StoreEvent};

/// The maximum number of closed circuits that are reread at each interval, which bounds the store's load regardless of
/// the number of circuits.
const CLOSED_BATCH: usize = 1_000;

pub(super) async fn keep_listening(shared: Weak<Shared>, mut changes: Changes) {
    loop {
        let Some(every) = shared.upgrade().and_then(|held| Some(held.fleet.as_ref()?.settings.reread_every))
        else {
            return;
        };
        let deadline = tokio::time::Instant::now() + every;
        let missed = loop {
            match tokio::time::timeout_at(deadline, changes.next()).await {
                Ok(Some(StoreEvent::Changed { key, record })) => {
                    let Some(held) = TaskRef::of(&shared) else { return };
                    if let Some(cell) = held.cell_of(&key) {
                        let learnt = held.step_member(&cell, None, |member, at| {
                            member.handle_change((*record).clone(), at)
                        });
                        held.apply_learnt(&cell, learnt);
                        held.waiters.wake_one(&cell);
                    }
                }
                Ok(Some(StoreEvent::ReportsWanted { keys })) => {
                    let Some(held) = shared.upgrade() else { return };
                    held.report_called(&keys);
                }
                Ok(Some(_)) => break true,
                Ok(None) => {
                    // No more messages will arrive, so only rereading remains.
                    tokio::time::sleep_until(deadline).await;
                    break false;
                }
                Err(_) => break false,
            }
        };
        let Some(held) = TaskRef::of(&shared) else { return };
        let Some(fleet) = &held.fleet else { return };
        held.read_again(fleet, missed).await;
    }
}

impl Shared {
    /// Rereads all circuits that are not closed or are overridden, and a batch of the others, and applies their
    /// records. With `everything`, rereads all circuits.
    async fn read_again(self: &Arc<Self>, fleet: &Fleet, everything: bool) {
        // With strict consistency the store is read whenever a permit is acquired, and an exclusive store is changed
        // only by this process.
        let rereads = fleet.settings.consistency == Consistency::LocalFirst && !fleet.settings.is_exclusive;
        let from = fleet.reread_from.load(Ordering::Relaxed);
        let range = if rereads { from..from + CLOSED_BATCH } else { 0..0 };
        let (mut cells, mut closed) = (Vec::new(), 0);
        self.registry.for_each(|cell| {
            let is_closed = cell.is_closed();
            if everything || !is_closed || range.contains(&closed) && cell.is_known() {
                cells.push(Arc::clone(cell));
            }
            closed += usize::from(is_closed);
        });
        fleet.reread_from.store(if range.end < closed { range.end } else { 0 }, Ordering::Relaxed);
        // Circuits whose records could not be read, in any state.
        cells.extend(self.unread(fleet).into_iter().filter(|cell| !everything && cell.is_closed()));
        for cells in cells.chunks(BATCH) {
            if !self.read_and_learn(fleet, cells).await {
                return;
            }
        }
    }

    /// Reads these circuits' records and applies them; after an outage, lets the circuits rejoin the fleet. Returns
    /// false if the store does not respond.
    pub(super) async fn read_and_learn(self: &Arc<Self>, fleet: &Fleet, cells: &[Arc<Cell>]) -> bool {
        let keys: Vec<_> = cells.iter().map(|cell| self.store_key(cell)).collect();
        let Ok(answer) = self.read_store(fleet, fleet.store.read(&keys)).await else { return false };
        fleet.unread.were_read(keys.iter());
        for (cell, record) in cells.iter().zip(answer.value) {
            match record {
                Ok(record) => {
                    let learnt =
                        self.step_member(cell, Some(answer.now), |member, at| member.rejoin(record, at));
                    self.apply_learnt(cell, learnt);
                }
                Err(unreadable) => self.can_not_read(fleet, cell, &unreadable),
            }
        }
        true
    }

    /// Reads one circuit's record for the first time. Returns false if the store does not respond.
    pub(crate) async fn read_one(self: &Arc<Self>, cell: &Arc<Cell>) -> bool {
        let Some(fleet) = &self.fleet else { return false };
        if self.read_and_learn(fleet, std::slice::from_ref(cell)).await {
            return true;
        }
        // Starting without a record is better than waiting for a store that is unavailable.
        self.step_member(cell, None, |member, _| member.leave());
        fleet.health.note_absentee();
        false
    }

    /// Rereads one circuit's record. Returns false if the store does not respond.
    pub(crate) async fn catch_up(self: &Arc<Self>, cell: &Arc<Cell>) -> bool {
        let Some(fleet) = &self.fleet else { return true };
        if cell.is_known() {
            return self.read_and_learn(fleet, std::slice::from_ref(cell)).await;
        }
        self.read_one(cell).await
    }

    /// Reads a record for the first time in the background, for a caller that cannot wait.
    pub(crate) fn read_one_later(self: &Arc<Self>, cell: &Arc<Cell>) {
        let Some(fleet) = &self.fleet else { return };
        let Some(guard) = self.begin_request(cell) else { return };
        let (shared, cell) = (self.for_task(), Arc::clone(cell));
        fleet.runtime.spawn(async move {
            let _guard = guard;
            shared.read_one(&cell).await;
        });
    }
}
