//! The writer's transaction, as its jobs see it: the connection, the times, the state in memory, and hooks that run
//! after the commit.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Backlog, Id, LaneId};
use breakerbox_storage::QueueError;
use breakerbox_storage::clock::Drift;
use rusqlite::Connection;

use super::columns::id;
use super::lanes;
use super::writer_state::WriterState;
use crate::error::JobError;

/// A function that runs after the transaction is committed.
pub(super) struct Hook {
    pub(super) call: Box<dyn FnOnce() + Send>,
    /// Whether jobs depend on the hook's effect. If so, the hook must run before the next job.
    pub(super) changes_memory: bool,
}

/// A transaction in progress on the writer thread.
pub struct WriteTransaction<'w> {
    pub(super) connection: &'w Connection,
    pub(super) writer_state: &'w mut WriterState,
    pub(super) now: Timestamp,
    pub(super) wall: Timestamp,
    pub(super) hooks: &'w mut Vec<Hook>,
}

impl WriteTransaction<'_> {
    /// Returns the connection, within the transaction. Do not begin, commit or roll back transactions on it.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    /// Returns the store-clock time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the wall-clock time, for recorded times and times that other parties check. It may be earlier than in
    /// a previous transaction.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        self.wall
    }

    /// Returns the difference between the wall clock and the store clock, or [`Drift::NONE`] if it is below a
    /// second.
    pub(super) fn drift(&self) -> Drift {
        Drift::between(self.wall, self.now).noticeable()
    }

    /// Returns the time just after the last id in the range that is ahead of the clock, or zero if there is
    /// no such range.
    pub(super) fn newest_id_time(&self) -> Timestamp {
        let ahead = self.writer_state.ids.ahead().and_then(|ahead| Id::from_number(ahead.last));
        ahead.map_or(Timestamp::ZERO, |last| last.made_at() + Duration::from_millis(1))
    }

    /// Generates a new id.
    pub fn next_id(&mut self) -> Id {
        self.writer_state.next_ids(1, self.wall)
    }

    /// Runs a hook after the commit, before the next job runs and before any caller gets a result. The hook must be
    /// fast. If the transaction fails, the hook is not called.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Hook { call: Box::new(hook), changes_memory: true });
    }

    /// Runs a hook that only reports, after the commit and before any caller gets a result. The hook must be fast,
    /// and must not change anything that jobs depend on, because other jobs may share the transaction. If the
    /// transaction fails, the hook is not called.
    pub fn report_after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Hook { call: Box::new(hook), changes_memory: false });
    }

    /// Returns a tenant's unfinished deliveries, including the changes in this transaction.
    #[must_use]
    pub fn unfinished(&self, tenant_row: i64) -> Backlog {
        let unfinished = self.writer_state.unfinished(tenant_row);
        Backlog { count: unfinished.count, bytes: unfinished.bytes }
    }

    /// Returns the lane for a dynamic URL's circuit, creating it if necessary.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub fn lane_of(&mut self, tenant_row: i64, key: &str) -> Result<LaneId, JobError<QueueError>> {
        let lane = lanes::of_key(self.connection, self.writer_state, tenant_row, key, self.wall)?;
        Ok(LaneId(id(lane)))
    }

    /// Closes the lane of an endpoint that is deleted in this transaction: no more deliveries are leased from it. Its
    /// waiting deliveries are cancelled in batches, by [`Database::cancel_closed`](super::Database::cancel_closed);
    /// leased ones are cancelled when they would otherwise wait again.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub fn close_lane(&mut self, lane: LaneId) -> Result<(), JobError<QueueError>> {
        Ok(self.writer_state.close(self.connection, lane.number(), self.wall)?)
    }
}
