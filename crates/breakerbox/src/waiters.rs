//! Callers that wait for a circuit's permit.
//!
//! A circuit without waiters needs no memory for them: waiters are found by their cell, in a table separate from the
//! circuits. When a circuit changes, one waiter is woken. If it is admitted it wakes the next one, and so on until
//! one is refused: so a ramp with three free slots wakes four of ten thousand waiters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::cell::Cell;

/// The number of shards in the table, so that circuits do not contend for one lock.
const PARTS: usize = 16;

#[derive(Default)]
pub(crate) struct Waiters([Part; PARTS]);

#[derive(Default)]
struct Part {
    /// The number of waiting callers. If it is zero, the lock need not be taken.
    count: AtomicUsize,
    /// The queues of waiting callers, by the address of their cell. A waiting caller holds a reference to its cell, so
    /// no other cell can get that address meanwhile.
    queues: Mutex<HashMap<usize, Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: usize,
    notify: Arc<Notify>,
}

/// One waiting caller's entry in a queue. Dropping it removes the entry.
pub(crate) struct Waiter<'w> {
    part: &'w Part,
    address: usize,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Adds a waiting caller. Call this before acquiring, so that no change between the refusal and the wait is missed.
    pub(crate) fn enter(&self, cell: &Arc<Cell>) -> Waiter<'_> {
        let (part, address) = self.part_of(cell);
        let mut queues = part.lock();
        let queue = queues.entry(address).or_default();
        queue.waiting += 1;
        part.count.fetch_add(1, Ordering::SeqCst);
        let notify = Arc::clone(&queue.notify);
        drop(queues);
        // Either this thread sees an earlier change, or the thread that makes the change sees this waiter.
        fence(Ordering::SeqCst);
        Waiter { part, address, notify }
    }

    /// Wakes the caller that has waited longest for this circuit, because the circuit changed. The waker runs without
    /// the lock, because it may run any code.
    #[inline]
    pub(crate) fn wake_one(&self, cell: &Arc<Cell>) {
        fence(Ordering::SeqCst);
        let (part, address) = self.part_of(cell);
        if part.count.load(Ordering::SeqCst) > 0 {
            let notify = part.lock().get(&address).map(|queue| Arc::clone(&queue.notify));
            if let Some(notify) = notify {
                notify.notify_one();
            }
        }
    }

    fn part_of(&self, cell: &Arc<Cell>) -> (&Part, usize) {
        let address = Arc::as_ptr(cell).addr();
        // Cells are more than a hundred bytes apart, so the low bits of their addresses say little.
        (&self.0[(address >> 7) % PARTS], address)
    }
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Waits until the circuit changes, so that the caller should acquire again.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut queues = self.part.lock();
        self.part.count.fetch_sub(1, Ordering::SeqCst);
        if let Some(queue) = queues.get_mut(&self.address) {
            queue.waiting -= 1;
            if queue.waiting == 0 {
                queues.remove(&self.address);
            }
        }
    }
}
