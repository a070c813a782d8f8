//! Who waits for a circuit to let it through.
//!
//! Nothing is kept for circuits that nobody waits for: waiters are found by their cell, in a table beside all circuits. When
//! something happens to a circuit, one waiter is woken. If it gets through it wakes the next one, and so on until somebody
//! is refused: so a ramp with room for three wakes four of ten thousand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::cell::Cell;

#[derive(Default)]
pub(crate) struct Waiters {
    /// How many there are, for those who only want to know that there are none.
    count: AtomicUsize,
    /// By the address of their cell. A waiter holds its cell, so nobody else can get the address meanwhile.
    queues: Mutex<HashMap<usize, Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: usize,
    notify: Arc<Notify>,
}

/// One waiter's place. Dropping it leaves.
pub(crate) struct Place<'w> {
    waiters: &'w Waiters,
    address: usize,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Takes a place. Take it before asking: whatever happens after the answer is then heard.
    pub(crate) fn enter(&self, cell: &Arc<Cell>) -> Place<'_> {
        let address = Arc::as_ptr(cell).addr();
        let mut queues = self.lock();
        let queue = queues.entry(address).or_default();
        queue.waiting += 1;
        self.count.fetch_add(1, Ordering::SeqCst);
        let notify = Arc::clone(&queue.notify);
        drop(queues);
        // Either we see what was done before this, or whoever does it sees us.
        fence(Ordering::SeqCst);
        Place { waiters: self, address, notify }
    }

    /// Something happened to this circuit: whoever waited longest asks again.
    #[inline]
    pub(crate) fn wake_one(&self, cell: &Arc<Cell>) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) > 0
            && let Some(queue) = self.lock().get(&Arc::as_ptr(cell).addr())
        {
            queue.notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits until somebody says that it may be worth asking again.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.waiters.lock();
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        if let Some(queue) = queues.get_mut(&self.address) {
            queue.waiting -= 1;
            if queue.waiting == 0 {
                queues.remove(&self.address);
            }
        }
    }
}
