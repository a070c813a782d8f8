//! The queue of circuits to report, by time. It contains each circuit once, at the earliest time that was requested,
//! so it is never longer than the registry.
//!
//! Failures go first: if many circuits that have only successes are due, those with failures do not wait behind them.
//! A part of every batch is reserved for the others, so that they do not starve.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_core::Timestamp;
use tokio::sync::Notify;

use crate::cell::Cell;

/// One in this many entries of a batch is reserved for circuits without failures, so that circuits with
/// failures do not delay them for long.
const RESERVED_ONE_IN: usize = 4;

#[derive(Default)]
pub(super) struct Queue {
    due: Mutex<Due>,
    /// Notified when a circuit is queued that is due earlier than all others.
    earlier: Arc<Notify>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    High,
    Low,
}

#[derive(Default)]
struct Due {
    high: Entries,
    low: Entries,
    positions: HashMap<usize, (Urgency, Position)>,
    count: u64,
}

/// A position in the queue, ordered by due time, then by order of arrival.
type Position = (Timestamp, u64);
type Entries = BTreeMap<Position, Arc<Cell>>;

impl Due {
    const fn entries(&mut self, urgency: Urgency) -> &mut Entries {
        match urgency {
            Urgency::High => &mut self.high,
            Urgency::Low => &mut self.low,
        }
    }

    /// Takes circuits with this urgency that are due, until `taken` has `at_most` entries.
    fn take(&mut self, urgency: Urgency, now: Timestamp, at_most: usize, taken: &mut Vec<Arc<Cell>>) {
        while taken.len() < at_most
            && let Some(first) = self.entries(urgency).first_entry().filter(|first| first.key().0 <= now)
        {
            let cell = first.remove();
            self.positions.remove(&Arc::as_ptr(&cell).addr());
            taken.push(cell);
        }
    }

    fn next(&self) -> Option<Timestamp> {
        let of = |entries: &Entries| entries.first_key_value().map(|((at, _), _)| *at);
        of(&self.high).into_iter().chain(of(&self.low)).min()
    }
}

impl Queue {
    pub(super) fn push(&self, cell: &Arc<Cell>, urgency: Urgency, at: Timestamp) {
        let mut due = self.lock();
        let address = Arc::as_ptr(cell).addr();
        let (mut urgency, mut at) = (urgency, at);
        if let Some(&(before, position)) = due.positions.get(&address) {
            if position.0 <= at && (before == urgency || before == Urgency::High) {
                return;
            }
            due.entries(before).remove(&position);
            // The urgency never decreases, and no report is postponed.
            urgency = if before == Urgency::High { before } else { urgency };
            at = at.min(position.0);
        }
        let is_first = due.next().is_none_or(|next| at < next);
        due.count += 1;
        let position = (at, due.count);
        due.entries(urgency).insert(position, Arc::clone(cell));
        due.positions.insert(address, (urgency, position));
        drop(due);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Takes at most `at_most` circuits that are due.
    pub(super) fn take(&self, now: Timestamp, at_most: usize) -> Vec<Arc<Cell>> {
        let mut due = self.lock();
        let mut taken = Vec::new();
        due.take(Urgency::High, now, at_most - at_most / RESERVED_ONE_IN, &mut taken);
        due.take(Urgency::Low, now, at_most, &mut taken);
        // The other circuits may not need all of their reserved part.
        due.take(Urgency::High, now, at_most, &mut taken);
        taken
    }

    /// Returns the time at which the next circuit is due; `None` if the queue is empty.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.lock().next()
    }

    /// Returns the handle that is notified when a circuit is queued that is due earlier than all others.
    pub(super) fn earlier(&self) -> Arc<Notify> {
        Arc::clone(&self.earlier)
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{AnyClock, Times};
    use crate::random::RandomSource;
    use crate::registry::RegistryEntry as _;

    fn cell(key: &str) -> Arc<Cell> {
        let times = Times::new(AnyClock::system(), None, RandomSource::new(Some(1)));
        Arc::new(Cell::new(key, Arc::default(), &times))
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn taken(queue: &Queue, ms: u64, at_most: usize) -> Vec<String> {
        queue.take(at(ms), at_most).iter().map(|cell| cell.key().to_owned()).collect()
    }

    #[test]
    fn each_is_in_it_once_at_its_earliest_and_with_its_worst() {
        let (queue, a, b) = (Queue::default(), cell("a"), cell("b"));
        queue.push(&a, Urgency::Low, at(30));
        queue.push(&a, Urgency::Low, at(10));
        queue.push(&a, Urgency::Low, at(20));
        queue.push(&b, Urgency::Low, at(5));
        queue.push(&b, Urgency::High, at(15));
        queue.push(&b, Urgency::Low, at(15));
        assert_eq!(queue.next(), Some(at(5)));
        assert_eq!(taken(&queue, 4, 9), [""; 0]);
        assert_eq!(taken(&queue, 10, 9), ["b", "a"]);
        assert_eq!((taken(&queue, 99, 9), queue.next()), (vec![], None));
    }

    #[test]
    fn bad_news_go_first_and_leave_something_for_the_others() {
        let queue = Queue::default();
        let cells: Vec<_> = (0..12).map(|n| cell(&n.to_string())).collect();
        for (n, cell) in cells.iter().enumerate() {
            let urgency = if n < 6 { Urgency::Low } else { Urgency::High };
            queue.push(cell, urgency, at(u64::try_from(n).unwrap_or(0)));
        }
        assert_eq!(taken(&queue, 99, 4), ["6", "7", "8", "0"]);
        assert_eq!(taken(&queue, 99, 4), ["9", "10", "11", "1"]);
        assert_eq!(taken(&queue, 99, 4), ["2", "3", "4", "5"]);
        for cell in &cells[6..] {
            queue.push(cell, Urgency::High, at(0));
        }
        assert_eq!(taken(&queue, 99, 4), ["6", "7", "8", "9"], "nobody else wants the place");
    }
}
