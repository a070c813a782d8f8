//! Tells the store what was counted, in batches, and does what comes of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use breakerbox_core::fleet::{Delta, Tell};
use tokio::task::yield_now;

use super::{BATCH, Fleet};
use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::clock::Clock;

/// How long the teller sleeps when there is nothing to tell, so that it notices when nobody needs it any more.
const NOTHING_TO_DO: Duration = Duration::from_secs(1);

/// How many answers are taken in before others have the thread.
const AT_A_STRETCH: usize = 64;

pub(super) async fn keep_telling(shared: Weak<Shared>) {
    loop {
        let Some(held) = shared.upgrade() else { return };
        let Some(fleet) = &held.fleet else { return };
        let now = held.times.now();
        let cells = fleet.queue.take(now, BATCH);
        if !cells.is_empty() {
            held.tell_store(fleet, &cells).await;
            // A store in memory answers at once, and others want the thread too.
            yield_now().await;
            continue;
        }
        let wait = fleet.queue.next().map_or(NOTHING_TO_DO, |due| due.since(now)).min(NOTHING_TO_DO);
        let _ = tokio::time::timeout(wait, fleet.queue.earlier()).await;
    }
}

impl Shared {
    /// Tells the store about some circuits.
    async fn tell_store(self: &Arc<Self>, fleet: &Fleet, cells: &[Arc<Cell>]) {
        // Forgotten while a call was under way: what it brought has no epoch before the record is read.
        let unread: Vec<_> = cells.iter().filter(|cell| cell.is_unread(&self.times)).cloned().collect();
        if !unread.is_empty() {
            self.read_and_learn(fleet, &unread).await;
        }
        let (told, deltas) = self.deltas_of(cells);
        if deltas.is_empty() {
            return;
        }
        match self.ask_store(fleet, fleet.store.merge(&deltas)).await {
            Ok(answer) => {
                for (place, ((cell, delta), merged)) in
                    told.iter().zip(&deltas).zip(&answer.value).enumerate()
                {
                    if place % AT_A_STRETCH == AT_A_STRETCH - 1 {
                        yield_now().await;
                    }
                    let merged = match merged {
                        Ok(merged) => merged,
                        Err(unreadable) => {
                            self.converse(cell, None, |member, at| member.unheard(at.now));
                            self.can_not_read(fleet, cell, unreadable);
                            continue;
                        }
                    };
                    if merged.late {
                        self.count_late(delta.calls());
                    }
                    let told = self.converse(cell, Some(answer.now), |member, at| member.told(merged, at));
                    self.took(cell, told.learnt);
                    // Whether the judging went on or ended, somebody may want to know.
                    self.waiters.wake_one(cell);
                    self.tell(cell, told.tell);
                }
            }
            Err(_) => {
                for cell in &told {
                    self.count_unheard();
                    self.converse(cell, None, |member, at| member.unheard(at.now));
                    self.waiters.wake_one(cell);
                    self.tell(cell, Tell::Later);
                }
            }
        }
    }

    /// What there is to tell. A circuit about which there is nothing rests: whatever happens to it next is noticed.
    fn deltas_of(&self, cells: &[Arc<Cell>]) -> (Vec<Arc<Cell>>, Vec<Delta>) {
        let told = |cell: &Arc<Cell>| {
            let delta = cell.visit(&self.store_key(cell), &self.times)?;
            Some((Arc::clone(cell), delta))
        };
        cells.iter().filter_map(told).unzip()
    }
}
