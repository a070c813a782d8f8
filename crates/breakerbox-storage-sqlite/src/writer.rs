//! The one thread that writes. It takes the waiting jobs, runs all of them in one transaction, commits, and only then
//! sends the results.
//!
//! A job that refuses does so before it writes, or is rolled back alone (a closure has a savepoint of its own). A job
//! that breaks takes the transaction with it: the others are run again without it. If the commit fails, all of them get
//! the error, nothing is changed, and the thread continues.
//!
//! Memory follows the disk: hooks run after the commit and before the next job, and a job that changes memory is the
//! last of its transaction. So a decision by memory never sees a change that is not durable, and never misses one that
//! is. A hook that only sends a notification changes nothing that a job depends on, so such jobs share a transaction as
//! others do.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::Clock;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Id, LaneId};
use breakerbox_storage::QueueError;
use breakerbox_storage::clock::{Drift, WallClock};
use rusqlite::{Connection, ErrorCode};

use super::checkpoints::Checkpoints;
use super::database::OnCommit;
use super::job::{Job, text_of};
use super::open_files::OpenFiles;
use super::write_queue::WriteQueue;
use super::writer_state::WriterState;
use crate::error::{JobError, queue_error};

/// A function that runs once the transaction is durable.
pub(super) struct Hook {
    call: Box<dyn FnOnce() + Send>,
    /// Whether jobs depend on its effect: then the next job must run after it.
    changes_memory: bool,
}

/// A transaction that is being written.
pub struct WriteTransaction<'w> {
    pub(super) connection: &'w Connection,
    pub(super) writer_state: &'w mut WriterState,
    pub(super) now: Timestamp,
    pub(super) wall: Timestamp,
    pub(super) hooks: &'w mut Vec<Hook>,
}

impl WriteTransaction<'_> {
    /// Returns the connection, in a transaction. Never begin, commit or roll back by hand.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    /// Returns the queue's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the wall-clock time, for recorded times and for times that other parties check. It may be before that of
    /// an earlier transaction.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        self.wall
    }

    /// Returns how far the wall clock is from the queue's time.
    pub(super) fn drift(&self) -> Drift {
        Drift::between(self.wall, self.now).noticeable()
    }

    /// Returns the time after the newest id that is ahead of the clock; zero if there is none.
    pub(super) fn newest_id_time(&self) -> Timestamp {
        let ahead = self.writer_state.ids.ahead().and_then(|ahead| Id::from_number(ahead.last));
        ahead.map_or(Timestamp::ZERO, |last| last.made_at() + Duration::from_millis(1))
    }

    /// Returns a new id.
    pub fn next_id(&mut self) -> Id {
        self.writer_state.next_ids(1, self.wall)
    }

    /// Runs the hook in memory once the transaction is durable, before the next job runs and before any caller gets a
    /// result. It must be quick. If the transaction fails it is never called.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Hook { call: Box::new(hook), changes_memory: true });
    }

    /// Runs a hook that only reports, once the transaction is durable and before any caller gets a result. It must be
    /// quick, and change nothing that a job depends on: others may share the transaction. If that fails it is never
    /// called.
    pub fn report_after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Hook { call: Box::new(hook), changes_memory: false });
    }

    /// Closes the lane of an endpoint that is deleted in this transaction: nothing is leased from it any more. Its
    /// waiting deliveries are cancelled step by step, by [`Database::cancel_closed`](super::Database::cancel_closed);
    /// leased ones are cancelled when they would wait again.
    ///
    /// # Errors
    /// If the database fails.
    pub fn close_lane(&mut self, lane: LaneId) -> Result<(), JobError<QueueError>> {
        Ok(self.writer_state.close(self.connection, lane.number(), self.wall)?)
    }
}

/// The state of the thread.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) writer_state: WriterState,
    pub(super) files: OpenFiles,
    pub(super) write_queue: Arc<WriteQueue>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) wall: WallClock,
    pub(super) checkpoints: Checkpoints,
    pub(super) on_commit: Option<OnCommit>,
}

/// The cause of a broken transaction.
enum TransactionFailure {
    /// The last job that was run.
    ByJob(QueueError),
    /// The database: all jobs fail.
    ForAll(QueueError),
}

impl Writer {
    /// Runs until the queue of jobs is closed and empty.
    pub(super) fn run(mut self) {
        let _abandons = AbandonOnDrop(Arc::clone(&self.write_queue));
        let mut group = VecDeque::new();
        let mut ran = Vec::new();
        while self.write_queue.take(&mut group) {
            self.writer_state.begin_group();
            while !group.is_empty() {
                self.transact(&mut group, &mut ran);
            }
            self.checkpoints.after_commit(&self.connection);
        }
        self.checkpoints.at_the_end(&self.connection);
    }

    /// Runs one transaction with as many jobs of the group as fit, and sends their results.
    fn transact(&mut self, group: &mut VecDeque<Box<dyn Job>>, ran: &mut Vec<Box<dyn Job>>) {
        let mut hooks = Vec::new();
        let began = Instant::now();
        let broken = match self.attempt(group, ran, &mut hooks) {
            Ok(()) => {
                if let Some(hear) = &self.on_commit {
                    hear(ran.len(), began.elapsed());
                }
                self.writer_state.settled();
                for hook in hooks {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(hook.call)) {
                        tracing::error!(panic = text_of(&*panic), "a hook after a commit panicked");
                    }
                }
                ran.drain(..).for_each(|job| job.answer(Ok(())));
                return;
            }
            Err(broken) => broken,
        };
        self.writer_state.undo_to(0);
        self.writer_state.settled();
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "can't roll back a transaction");
        }
        match broken {
            TransactionFailure::ForAll(error) => {
                tracing::warn!(%error, "a transaction failed");
                // If not even one job was run, the first would be tried for ever.
                ran.extend(ran.is_empty().then(|| group.pop_front()).flatten());
                for mut job in ran.drain(..) {
                    job.undo();
                    job.answer(Err(error.clone()));
                }
            }
            TransactionFailure::ByJob(error) => {
                tracing::error!(%error, "a job broke its transaction");
                if let Some(mut culprit) = ran.pop() {
                    culprit.undo();
                    culprit.answer(Err(error.clone()));
                }
                for mut job in ran.drain(..).rev() {
                    if job.undo() {
                        group.push_front(job);
                    } else {
                        job.answer(Err(QueueError::Busy));
                    }
                }
            }
        }
    }

    fn attempt(
        &mut self,
        group: &mut VecDeque<Box<dyn Job>>,
        ran: &mut Vec<Box<dyn Job>>,
        hooks: &mut Vec<Hook>,
    ) -> Result<(), TransactionFailure> {
        let all = |error: rusqlite::Error| TransactionFailure::ForAll(queue_error(error));
        if let Some(path) = self.files.missing() {
            return Err(TransactionFailure::ForAll(QueueError::FileGone(path.to_owned())));
        }
        self.execute("BEGIN IMMEDIATE").map_err(all)?;
        let (now, wall) = (self.clock.now(), (self.wall)());
        while let Some(mut job) = group.pop_front() {
            let before = hooks.len();
            let mut transaction = WriteTransaction {
                connection: &self.connection,
                writer_state: &mut self.writer_state,
                now,
                wall,
                hooks,
            };
            let outcome = match catch_unwind(AssertUnwindSafe(|| job.run(&mut transaction))) {
                Ok(outcome) => outcome.map_err(QueueError::from),
                Err(panic) => Err(QueueError::Panicked(text_of(&*panic))),
            };
            ran.push(job);
            match outcome {
                Ok(()) if hooks[before..].iter().any(|hook| hook.changes_memory) => break,
                Ok(()) => {}
                Err(error) if is_for_all(&error) => return Err(TransactionFailure::ForAll(error)),
                Err(error) => return Err(TransactionFailure::ByJob(error)),
            }
        }
        self.writer_state.write(&self.connection).map_err(all)?;
        self.execute("COMMIT").map_err(all)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// Returns whether an error is the disk's and not a job's.
fn is_for_all(error: &QueueError) -> bool {
    match error {
        QueueError::DiskFull => true,
        QueueError::Database(error) => error
            .downcast_ref::<rusqlite::Error>()
            .and_then(rusqlite::Error::sqlite_error_code)
            .is_some_and(|code| {
                matches!(
                    code,
                    ErrorCode::SystemIoFailure
                        | ErrorCode::DatabaseCorrupt
                        | ErrorCode::CannotOpen
                        | ErrorCode::ReadOnly
                        | ErrorCode::OutOfMemory
                )
            }),
        _ => false,
    }
}

/// However the thread ends, no caller waits for it any more.
struct AbandonOnDrop(Arc<WriteQueue>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
