//! Pauses and kills all tasks of one worker, like SIGSTOP and SIGKILL.
//!
//! A paused task is not polled. Time continues meanwhile, and the task's expired timers fire when it resumes. A
//! killed task is dropped. Requests that the worker has sent stay in flight: the network is not one of its
//! tasks.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use breakerbox::BackgroundTask;
use tokio::task::AbortHandle;

/// Polls all tasks in one life of a worker (from one start to the next), so that they can be paused and killed
/// together.
#[derive(Default)]
pub(super) struct Gate(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    paused: bool,
    dead: bool,
    /// The wakers of tasks that were woken while the worker was paused.
    waiting: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    /// The number of tasks that triggers the removal of finished tasks.
    crowded: usize,
}

impl Gate {
    /// Spawns a task for this worker.
    pub(super) fn spawn(self: &Arc<Self>, task: BackgroundTask) {
        if self.lock().dead {
            return;
        }
        let handle = tokio::spawn(Gated { gate: Arc::clone(self), task }).abort_handle();
        let mut inner = self.lock();
        if inner.tasks.len() >= inner.crowded {
            inner.tasks.retain(|task| !task.is_finished());
            inner.crowded = 2 * inner.tasks.len() + 16;
        }
        inner.tasks.push(handle);
    }

    pub(super) fn pause(&self) {
        self.lock().paused = true;
    }

    pub(super) fn resume(&self) {
        let mut inner = self.lock();
        inner.paused = false;
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn kill(&self) {
        let mut inner = self.lock();
        inner.dead = true;
        let tasks = std::mem::take(&mut inner.tasks);
        drop(inner);
        tasks.iter().for_each(AbortHandle::abort);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.lock().paused
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Gated {
    gate: Arc<Gate>,
    task: BackgroundTask,
}

impl Future for Gated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.gate.lock();
        if inner.paused {
            inner.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        drop(inner);
        self.task.as_mut().poll(context)
    }
}
