//! Which circuits are to be told about, and when. Each is in it once, at the earliest time that anybody asked for, so it is
//! never longer than the registry.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_core::Timestamp;
use tokio::sync::Notify;

use crate::cell::Cell;

#[derive(Default)]
pub(super) struct Queue {
    due: Mutex<Due>,
    /// Somebody is due earlier than anybody before.
    earlier: Notify,
}

#[derive(Default)]
struct Due {
    /// By time, and then by the order in which they came.
    cells: BTreeMap<(Timestamp, u64), Arc<Cell>>,
    places: HashMap<usize, (Timestamp, u64)>,
    count: u64,
}

impl Queue {
    pub(super) fn push(&self, cell: &Arc<Cell>, at: Timestamp) {
        let mut due = self.lock();
        let address = Arc::as_ptr(cell).addr();
        if let Some(&place) = due.places.get(&address) {
            if place.0 <= at {
                return;
            }
            due.cells.remove(&place);
        }
        due.count += 1;
        let place = (at, due.count);
        let is_first = due.cells.first_key_value().is_none_or(|(first, _)| place < *first);
        due.cells.insert(place, Arc::clone(cell));
        due.places.insert(address, place);
        drop(due);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Those that are due, at most so many, in their order.
    pub(super) fn take(&self, now: Timestamp, at_most: usize) -> Vec<Arc<Cell>> {
        let mut due = self.lock();
        let mut taken = Vec::new();
        while taken.len() < at_most
            && let Some(first) = due.cells.first_entry().filter(|first| first.key().0 <= now)
        {
            let cell = first.remove();
            due.places.remove(&Arc::as_ptr(&cell).addr());
            taken.push(cell);
        }
        taken
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.lock().cells.first_key_value().map(|((at, _), _)| *at)
    }

    /// Waits until somebody is due earlier than was known.
    pub(super) async fn earlier(&self) {
        self.earlier.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
