//! The one thread that writes. It takes what waits, does all of it in one transaction, commits, and only then answers.
//!
//! A job that refuses refuses before it writes, or is undone alone (a closure has a savepoint of its own). A job that breaks
//! takes the transaction with it: the others are done again without it. If the commit fails, all of them hear why, nothing
//! is changed, and the thread goes on.
//!
//! What is in memory follows the disk: hooks run after the commit and before the next job, and a job that changes memory is the
//! last of its transaction. So whoever decides by memory never sees what is not durable, and never misses what is. A hook that
//! only tells somebody changes nothing that a job goes by, so such jobs share a transaction as others do.

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
use super::ledger::Ledger;
use super::line::Line;
use super::open_files::OpenFiles;
use crate::error::{JobError, queue_error};

/// What is done once the transaction is durable.
pub(super) struct Hook {
    call: Box<dyn FnOnce() + Send>,
    /// Jobs go by what it changes: the next one must come after it.
    changes_memory: bool,
}

/// A transaction that is being written.
pub struct Writing<'w> {
    pub(super) connection: &'w Connection,
    pub(super) ledger: &'w mut Ledger,
    pub(super) now: Timestamp,
    pub(super) wall: Timestamp,
    pub(super) hooks: &'w mut Vec<Hook>,
}

impl Writing<'_> {
    /// The connection, in a transaction. Never begin, commit or roll back by hand.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    /// The queue's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The wall-clock time: for what is recorded and for what other parties check. It may be before that of an earlier
    /// transaction.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        self.wall
    }

    /// How far the wall clock is from the queue's time.
    pub(super) fn drift(&self) -> Drift {
        Drift::between(self.wall, self.now).noticeable()
    }

    /// The time after the newest id that is ahead of the clock; zero if there is none.
    pub(super) fn newest_id_time(&self) -> Timestamp {
        let ahead = self.ledger.ids.ahead().and_then(|ahead| Id::from_number(ahead.last));
        ahead.map_or(Timestamp::ZERO, |last| last.made_at() + Duration::from_millis(1))
    }

    /// A new id.
    pub fn next_id(&mut self) -> Id {
        self.ledger.next_ids(1, self.wall)
    }

    /// Does this in memory once the transaction is durable, before the next job runs and before anybody gets an answer. It
    /// must be quick. If the transaction fails it is never called.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Hook { call: Box::new(hook), changes_memory: true });
    }

    /// Tells somebody once the transaction is durable, before anybody gets an answer. It must be quick, and change nothing that
    /// a job goes by: others may share the transaction. If that fails it is never called.
    pub fn tell_after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Hook { call: Box::new(hook), changes_memory: false });
    }

    /// Closes the lane of an endpoint that is deleted in this transaction: nothing is leased from it any more. What waits in it
    /// is cancelled bit by bit, by [`Database::cancel_closed`](super::Database::cancel_closed); what is leased is cancelled
    /// when it would wait again.
    ///
    /// # Errors
    /// If the database fails.
    pub fn close_lane(&mut self, lane: LaneId) -> Result<(), JobError<QueueError>> {
        Ok(self.ledger.close(self.connection, lane.number(), self.wall)?)
    }
}

/// The thread's own.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) ledger: Ledger,
    pub(super) files: OpenFiles,
    pub(super) line: Arc<Line>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) wall: WallClock,
    pub(super) checkpoints: Checkpoints,
    pub(super) on_commit: Option<OnCommit>,
}

/// What broke a transaction.
enum Broken {
    /// The last job that was run.
    ByJob(QueueError),
    /// The database: all of them.
    ForAll(QueueError),
}

impl Writer {
    /// Works until the line is closed and empty.
    pub(super) fn run(mut self) {
        let _abandons = Abandons(Arc::clone(&self.line));
        let mut group = VecDeque::new();
        let mut ran = Vec::new();
        while self.line.take(&mut group) {
            self.ledger.begin_group();
            while !group.is_empty() {
                self.transact(&mut group, &mut ran);
            }
            self.checkpoints.after_commit(&self.connection);
        }
        self.checkpoints.at_the_end(&self.connection);
    }

    /// One transaction with as many of the group as go into it, and their answers.
    fn transact(&mut self, group: &mut VecDeque<Box<dyn Job>>, ran: &mut Vec<Box<dyn Job>>) {
        let mut hooks = Vec::new();
        let began = Instant::now();
        let broken = match self.attempt(group, ran, &mut hooks) {
            Ok(()) => {
                if let Some(hear) = &self.on_commit {
                    hear(ran.len(), began.elapsed());
                }
                self.ledger.settled();
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
        self.ledger.undo_to(0);
        self.ledger.settled();
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction can't be rolled back");
        }
        match broken {
            Broken::ForAll(error) => {
                tracing::warn!(%error, "a transaction failed");
                // If not even one was run, the first would be tried for ever.
                ran.extend(ran.is_empty().then(|| group.pop_front()).flatten());
                for mut job in ran.drain(..) {
                    job.undo();
                    job.answer(Err(error.clone()));
                }
            }
            Broken::ByJob(error) => {
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
    ) -> Result<(), Broken> {
        let all = |error: rusqlite::Error| Broken::ForAll(queue_error(error));
        if let Some(path) = self.files.missing() {
            return Err(Broken::ForAll(QueueError::FileGone(path.to_owned())));
        }
        self.execute("BEGIN IMMEDIATE").map_err(all)?;
        let (now, wall) = (self.clock.now(), (self.wall)());
        while let Some(mut job) = group.pop_front() {
            let before = hooks.len();
            let mut writing =
                Writing { connection: &self.connection, ledger: &mut self.ledger, now, wall, hooks };
            let outcome = match catch_unwind(AssertUnwindSafe(|| job.run(&mut writing))) {
                Ok(outcome) => outcome.map_err(QueueError::from),
                Err(panic) => Err(QueueError::Panicked(text_of(&*panic))),
            };
            ran.push(job);
            match outcome {
                Ok(()) if hooks[before..].iter().any(|hook| hook.changes_memory) => break,
                Ok(()) => {}
                Err(error) if is_for_all(&error) => return Err(Broken::ForAll(error)),
                Err(error) => return Err(Broken::ByJob(error)),
            }
        }
        self.ledger.write(&self.connection).map_err(all)?;
        self.execute("COMMIT").map_err(all)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// Whether an error is the disk's and not a job's.
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

/// Whatever ends the thread, nobody waits for it any more.
struct Abandons(Arc<Line>);

impl Drop for Abandons {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
