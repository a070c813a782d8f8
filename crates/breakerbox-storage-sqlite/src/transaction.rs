//! A transaction of the writer, as its jobs see it: the connection, the times, the state in memory, and hooks that run
//! once the transaction is durable.

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

/// A function that runs once the transaction is durable.
pub(super) struct Hook {
    pub(super) call: Box<dyn FnOnce() + Send>,
    /// Whether jobs depend on its effect: then the next job must run after it.
    pub(super) changes_memory: bool,
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

    /// Returns the unfinished work of a tenant, in this transaction.
    #[must_use]
    pub fn unfinished(&self, tenant_row: i64) -> Backlog {
        let unfinished = self.writer_state.unfinished(tenant_row);
        Backlog { count: unfinished.count, bytes: unfinished.bytes }
    }

    /// Returns the unfinished work of a lane, in this transaction.
    #[must_use]
    pub fn unfinished_in(&self, lane: LaneId) -> Backlog {
        let unfinished = self.writer_state.unfinished_in(lane.number());
        Backlog { count: unfinished.count, bytes: unfinished.bytes }
    }

    /// Returns the lane of a dynamic URL's circuit, and creates it if there is none.
    ///
    /// # Errors
    /// If the database fails.
    pub fn lane_of(&mut self, tenant_row: i64, key: &str) -> Result<LaneId, JobError<QueueError>> {
        let lane = lanes::of_key(self.connection, self.writer_state, tenant_row, key, self.wall)?;
        Ok(LaneId(id(lane)))
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
