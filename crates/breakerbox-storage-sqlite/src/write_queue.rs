//! The queue of jobs for the writer: in order of arrival and bounded; senders can wait for room.
//!
//! An urgent job is taken as soon as the writer is idle. A lazy one may wait a little for a group commit, so that a
//! commit (and its fsync) is not spent on it alone. Once any job is taken, all waiting jobs are taken with it.
//!
//! Senders wake the writer only if it sleeps and has a reason to run: a wakeup costs more than everything else here.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use breakerbox_storage::QueueError;
use tokio::sync::Semaphore;

use super::job::Job;

/// How long a lazy job may wait for a group commit.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(10);
/// The number of waiting lazy jobs at which the writer does not wait any longer.
const GROUP_COMMIT_READY: usize = 256;
/// The maximum number of jobs of one commit. More would make the first of them wait for the last.
const GROUP_COMMIT_MAX: usize = 512;
/// The maximum number of bytes of one commit, not counting the last job.
const GROUP_COMMIT_MAX_BYTES: usize = 4 << 20;

/// How soon a job is to be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    /// At once.
    Urgent,
    /// Within [`GROUP_COMMIT_DELAY`].
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
    /// When the longest waiting lazy job arrived.
    lazy_since: Option<Instant>,
    sleeping: bool,
    closed: bool,
}

impl PendingJobs {
    /// Returns whether the writer should begin; if not, when to check again.
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

    /// Adds a job as soon as there is room.
    pub(super) async fn add(&self, job: Box<dyn Job>, urgency: Urgency) -> Result<(), QueueError> {
        self.room.acquire().await.map_err(|_| QueueError::Closed)?.forget();
        self.push(job, urgency)
    }

    /// Adds a job if there is room now.
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
        // The first job ends its sleep in any case: if it is lazy, only to check the clock.
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

    /// Moves the waiting jobs to `group`, as soon as the writer should begin. Returns false when the queue is closed
    /// and empty.
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
            // Which of them are lazy does not matter: they have waited for one commit already.
            waiting.urgent = true;
        }
        drop(waiting);
        self.room.add_permits(taken);
        taken > 0
    }

    /// Refuses further jobs. Waiting jobs are still run.
    pub(super) fn close(&self) {
        self.room.close();
        self.lock().closed = true;
        self.ready.notify_all();
    }

    /// Drops the waiting jobs, so that their callers learn that they will not be run.
    pub(super) fn abandon(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        drop(jobs);
    }

    fn lock(&self) -> MutexGuard<'_, PendingJobs> {
        // Nothing in here panics half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
