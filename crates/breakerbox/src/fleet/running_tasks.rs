//! The background tasks that are running, so that a flush can wait for tasks that began before it.
//!
//! A task refers to the registry by a [`TaskRef`], and a user by a [`Handle`](crate::handle::Handle).

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::fleet::Shared;

#[derive(Default)]
pub(crate) struct RunningTasks {
    tasks: Mutex<Tasks>,
    ended: Notify,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    running: BTreeSet<u64>,
}

/// A background task's reference to the registry. A flush waits until such references are dropped.
pub(crate) struct TaskRef {
    shared: Arc<Shared>,
    id: u64,
}

impl RunningTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.lock().running.is_empty()
    }

    /// Waits until all tasks that are running now have ended, except the task `except` and tasks with an ID below
    /// `since`.
    pub(super) async fn ended(&self, since: u64, except: u64) {
        let until = self.lock().next;
        loop {
            let ended = self.ended.notified();
            if !self.lock().running.range(since..until).any(|&id| id != except) {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Creates a reference for a background task, which then counts as running.
    pub(crate) fn for_task(self: &Arc<Self>) -> TaskRef {
        let shared = Arc::clone(self);
        let mut id = 0;
        if let Some(fleet) = &self.fleet {
            let mut tasks = fleet.running_tasks.lock();
            id = tasks.next;
            tasks.next += 1;
            tasks.running.insert(id);
        }
        TaskRef { shared, id }
    }
}

impl TaskRef {
    /// Returns a reference for a background task; `None` if the registry was dropped.
    pub(super) fn of(shared: &Weak<Shared>) -> Option<Self> {
        shared.upgrade().map(|shared| shared.for_task())
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }
}

impl Deref for TaskRef {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        if let Some(fleet) = &self.shared.fleet {
            let mut tasks = fleet.running_tasks.lock();
            tasks.running.remove(&self.id);
            drop(tasks);
            fleet.running_tasks.ended.notify_waiters();
        }
    }
}
