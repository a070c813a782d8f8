//! The queue of circuits to report, by time. Each circuit is in it once, at the earliest time that was requested, so it
//! is never longer than the registry.
//!
//! Failures go first: when many circuits with only successes are due, those that fail do not wait behind them. A part
//! of every batch is reserved for the others, so that they do not starve.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_core::Timestamp;
use tokio::sync::Notify;

use crate::cell::Cell;

/// One in this many entries of a batch is reserved for circuits without failures, if there are any.
const KEPT: usize = 4;

#[derive(Default)]
pub(super) struct Queue {
    due: Mutex<Due>,
    /// Notified when a circuit is due earlier than all others.
    earlier: Arc<Notify>,
}

/// The urgency of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    Bad,
    Good,
}

#[derive(Default)]
struct Due {
    bad: Line,
    good: Line,
    places: HashMap<usize, (News, Place)>,
    count: u64,
}

/// The position in a queue: by time, then by order of arrival.
type Place = (Timestamp, u64);
type Line = BTreeMap<Place, Arc<Cell>>;

impl Due {
    const fn line(&mut self, news: News) -> &mut Line {
        match news {
            News::Bad => &mut self.bad,
            News::Good => &mut self.good,
        }
    }

    /// Takes the circuits of one urgency that are due.
    fn take(&mut self, news: News, now: Timestamp, at_most: usize, taken: &mut Vec<Arc<Cell>>) {
        while taken.len() < at_most
            && let Some(first) = self.line(news).first_entry().filter(|first| first.key().0 <= now)
        {
            let cell = first.remove();
            self.places.remove(&Arc::as_ptr(&cell).addr());
            taken.push(cell);
        }
    }

    fn next(&self) -> Option<Timestamp> {
        let of = |line: &Line| line.first_key_value().map(|((at, _), _)| *at);
        of(&self.bad).into_iter().chain(of(&self.good)).min()
    }
}

impl Queue {
    pub(super) fn push(&self, cell: &Arc<Cell>, news: News, at: Timestamp) {
        let mut due = self.lock();
        let address = Arc::as_ptr(cell).addr();
        let (mut news, mut at) = (news, at);
        if let Some(&(before, place)) = due.places.get(&address) {
            if place.0 <= at && (before == news || before == News::Bad) {
                return;
            }
            due.line(before).remove(&place);
            // The urgency never decreases, and no report is postponed.
            news = if before == News::Bad { before } else { news };
            at = at.min(place.0);
        }
        let is_first = due.next().is_none_or(|next| at < next);
        due.count += 1;
        let place = (at, due.count);
        due.line(news).insert(place, Arc::clone(cell));
        due.places.insert(address, (news, place));
        drop(due);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Takes the circuits that are due, at most `at_most`.
    pub(super) fn take(&self, now: Timestamp, at_most: usize) -> Vec<Arc<Cell>> {
        let mut due = self.lock();
        let mut taken = Vec::new();
        due.take(News::Bad, now, at_most - at_most / KEPT, &mut taken);
        due.take(News::Good, now, at_most, &mut taken);
        // The others may not need all of their reserved part.
        due.take(News::Bad, now, at_most, &mut taken);
        taken
    }

    /// Returns when the next circuit is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.lock().next()
    }

    /// Returns the notification for a circuit that is due earlier than was known.
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
    use crate::draws::Draws;
    use crate::registry::Kept as _;

    fn cell(key: &str) -> Arc<Cell> {
        let times = Times::new(AnyClock::system(), None, Draws::new(Some(1)));
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
        queue.push(&a, News::Good, at(30));
        queue.push(&a, News::Good, at(10));
        queue.push(&a, News::Good, at(20));
        queue.push(&b, News::Good, at(5));
        queue.push(&b, News::Bad, at(15));
        queue.push(&b, News::Good, at(15));
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
            let news = if n < 6 { News::Good } else { News::Bad };
            queue.push(cell, news, at(u64::try_from(n).unwrap_or(0)));
        }
        assert_eq!(taken(&queue, 99, 4), ["6", "7", "8", "0"]);
        assert_eq!(taken(&queue, 99, 4), ["9", "10", "11", "1"]);
        assert_eq!(taken(&queue, 99, 4), ["2", "3", "4", "5"]);
        for cell in &cells[6..] {
            queue.push(cell, News::Bad, at(0));
        }
        assert_eq!(taken(&queue, 99, 4), ["6", "7", "8", "9"], "nobody else wants the place");
    }
}
