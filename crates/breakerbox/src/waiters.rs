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

/// In how many parts the table is, so that circuits are not in each other's way.
const PARTS: usize = 16;

#[derive(Default)]
pub(crate) struct Waiters([Part; PARTS]);

#[derive(Default)]
struct Part {
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
    part: &'w Part,
    address: usize,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Takes a place. Take it before asking: whatever happens after the answer is then heard.
    pub(crate) fn enter(&self, cell: &Arc<Cell>) -> Place<'_> {
        let (part, address) = self.part_of(cell);
        let mut queues = part.lock();
        let queue = queues.entry(address).or_default();
        queue.waiting += 1;
        part.count.fetch_add(1, Ordering::SeqCst);
        let notify = Arc::clone(&queue.notify);
        drop(queues);
        // Either we see what was done before this, or whoever does it sees us.
        fence(Ordering::SeqCst);
        Place { part, address, notify }
    }

    /// Something happened to this circuit: whoever waited longest asks again. Its waker runs under no lock of ours.
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
        // Cells are more than a hundred bytes apart.
        (&self.0[(address >> 7) % PARTS], address)
    }
}

impl Part {
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
