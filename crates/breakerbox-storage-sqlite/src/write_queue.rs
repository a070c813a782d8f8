//! The writer's job queue: first in, first out, and bounded; senders can wait for room.
//!
//! The writer takes an urgent job as soon as it is idle. A lazy job may wait a little for a group commit, so that it
//! does not cost a commit (and an fsync) of its own. Whenever the writer takes a job, it takes all waiting jobs.
//!
//! Senders wake the writer only if it is asleep and has a reason to run, because a wakeup costs more than all other
//! operations here.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use breakerbox_storage::QueueError;
use tokio::sync::Semaphore;

use super::job::Job;

/// The maximum time that a lazy job waits for a group commit.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(10);
/// The number of waiting lazy jobs at which the writer begins at once.
const GROUP_COMMIT_READY: usize = 256;
/// The maximum number of jobs in one commit. With more jobs, the first ones would wait too long.
const GROUP_COMMIT_MAX: usize = 512;
/// The maximum number of bytes in one commit, not counting the last job.
const GROUP_COMMIT_MAX_BYTES: usize = 4 << 20;

/// How soon a job has to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    /// The job runs as soon as the writer is idle.
    Urgent,
    /// The job runs within [`GROUP_COMMIT_DELAY`].
    Lazy,
}

pub(super) struct WriteQueue {
    waiting: Mutex<PendingJobs>,
    ready: Condvar,
    room: Semaphore,
}

#[derive(Default)]
struct PendingJobs {
    jobs: VecDeque<Box<dyn Job>>,
    urgent: bool,
    /// When the oldest waiting lazy job arrived. `None`: no lazy job waits.
    lazy_since: Option<Instant>,
    sleeping: bool,
    closed: bool,
}

impl PendingJobs {
    /// Returns `Ok` if the writer should begin now. Otherwise returns how long the writer should sleep before
    /// it checks again, or `Err(None)` if it should sleep until a job arrives.
    fn begins(&self, now: Instant) -> Result<(), Option<Duration>> {
        if self.urgent || self.closed || self.jobs.len() >= GROUP_COMMIT_READY {
            return Ok(());
        }
        let Some(since) = self.lazy_since else { return Err(None) };
        match GROUP_COMMIT_DELAY.checked_sub(now.duration_since(since)) {
            Some(left) if !left.is_zero() => Err(Some(left)),
            _ => Ok(()),
        }
    }
}

impl WriteQueue {
    /// Creates a queue with room for this many jobs.
    pub(super) fn new(room: usize) -> Self {
        Self { waiting: Mutex::default(), ready: Condvar::new(), room: Semaphore::new(room) }
    }

    /// Adds a job, after waiting for room if necessary.
    pub(super) async fn add(&self, job: Box<dyn Job>, urgency: Urgency) -> Result<(), QueueError> {
        self.room.acquire().await.map_err(|_| QueueError::Closed)?.forget();
        self.push(job, urgency)
    }

    /// Adds a job, or returns an error if there is no room.
    pub(super) fn try_add(&self, job: Box<dyn Job>, urgency: Urgency) -> Result<(), QueueError> {
        match self.room.try_acquire() {
            Ok(room) => room.forget(),
            Err(tokio::sync::TryAcquireError::Closed) => return Err(QueueError::Closed),
            Err(tokio::sync::TryAcquireError::NoPermits) => return Err(QueueError::Busy),
        }
        self.push(job, urgency)
    }

    fn push(&self, job: Box<dyn Job>, urgency: Urgency) -> Result<(), QueueError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(QueueError::Closed);
        }
        let was_idle = waiting.jobs.is_empty();
        waiting.jobs.push_back(job);
        match urgency {
            Urgency::Urgent => waiting.urgent = true,
            Urgency::Lazy => {
                waiting.lazy_since.get_or_insert_with(Instant::now);
            }
        }
        // The first job always wakes the writer; if the job is lazy, the writer only sets its timer.
        let wakes = waiting.sleeping
            && (was_idle || urgency == Urgency::Urgent || waiting.jobs.len() == GROUP_COMMIT_READY);
        if wakes {
            waiting.sleeping = false;
        }
        drop(waiting);
        if wakes {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits until the writer should begin, and moves the waiting jobs to `group`. Returns false if the queue is
    /// closed and empty.
    pub(super) fn take(&self, group: &mut VecDeque<Box<dyn Job>>) -> bool {
        let mut waiting = self.lock();
        while let Err(wait) = waiting.begins(Instant::now()) {
            waiting.sleeping = true;
            waiting = match wait {
                None => self.ready.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    self.ready.wait_timeout(waiting, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            waiting.sleeping = false;
        }
        let mut bytes = 0;
        let mut taken = 0;
        while taken < GROUP_COMMIT_MAX && bytes < GROUP_COMMIT_MAX_BYTES {
            let Some(job) = waiting.jobs.pop_front() else { break };
            bytes += job.bytes();
            taken += 1;
            group.push_back(job);
        }
        if waiting.jobs.is_empty() {
            waiting.urgent = false;
            waiting.lazy_since = None;
        } else {
            // The rest is treated as urgent, lazy or not: it has already waited for one commit.
            waiting.urgent = true;
        }
        drop(waiting);
        self.room.add_permits(taken);
        taken > 0
    }

    /// Rejects new jobs. Waiting jobs are still run.
    pub(super) fn close(&self) {
        self.room.close();
        self.lock().closed = true;
        self.ready.notify_all();
    }

    /// Drops the waiting jobs, so that their callers get an error.
    pub(super) fn abandon(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        drop(jobs);
    }

    fn lock(&self) -> MutexGuard<'_, PendingJobs> {
        // No code panics while it holds the lock, so the state is consistent.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
