//! The writer thread. It takes the waiting jobs, runs all of them in one transaction, commits, and only then sends
//! the results.
//!
//! A job that rejects its input does so before it writes, or is rolled back alone (closures run in a savepoint). If a
//! job fails unexpectedly, the whole transaction is rolled back, and the other jobs are run again without it. If the
//! commit fails, all jobs get the error, nothing is changed, and the thread continues.
//!
//! Memory follows the disk: hooks run after the commit and before the next job, and a job that changes memory is the
//! last in its transaction. So jobs that read memory never see a change that is not durable, and never miss one that
//! is. A hook that only sends a notification changes nothing that jobs depend on, so such jobs can share a
//! transaction.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::Clock;
use breakerbox_storage::QueueError;
use breakerbox_storage::clock::WallClock;
use rusqlite::{Connection, ErrorCode};

use super::checkpoints::Checkpoints;
use super::job::{Job, text_of};
use super::open_files::OpenFiles;
use super::transaction::{Hook, WriteTransaction};
use super::write_queue::WriteQueue;
use super::writer_state::WriterState;
use crate::error::queue_error;

/// Called after each commit with the commit's number of jobs and its duration.
pub type OnCommit = Arc<dyn Fn(usize, Duration) + Send + Sync>;

/// The state of the writer thread.
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

/// Why a transaction failed.
enum TransactionFailure {
    /// The last job that ran failed. The jobs before it are run again, if they can be.
    ByJob(QueueError),
    /// The database failed, so every job that ran in the transaction fails with this error.
    ForAll(QueueError),
}

impl Writer {
    /// Runs jobs until the queue is closed and empty.
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

    /// Runs as many jobs of the group as fit into one transaction, and sends their results.
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
                // If no job was run, at least the first one fails; otherwise it would be tried forever.
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

/// Returns whether an error affects all jobs, because it is caused by the disk, the database file or a lack
/// of memory.
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

/// Drops the waiting jobs when the writer thread ends, even by a panic, so that no caller waits forever.
struct AbandonOnDrop(Arc<WriteQueue>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
