//! The calendar: which reminders are to be looked at, and what was decided about them. For the scheduler.
//!
//! A reminder is looked at when it is due, when its run has ended, and when somebody asked something of it. What follows is
//! decided elsewhere, with what was seen; the calendar does it, if the reminder is still as it was seen. So two schedulers never
//! fire one run twice, and whoever pauses a reminder is not overtaken by a decision from before.
//!
//! Times are by the wall clock: a schedule is a promise to people.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Decided, Looked};

use super::{Leased, QueueError, WaitingLane};

/// What the scheduler reads and writes.
#[async_trait]
pub trait Calendar: Send + Sync + 'static {
    /// When the first reminder is to be looked at; none if none ever is.
    ///
    /// # Errors
    /// If the database fails.
    async fn next_look(&self) -> Result<Option<Timestamp>, QueueError>;

    /// Reminders that are to be looked at by then, the longest due first. Costs the same however many there are.
    ///
    /// # Errors
    /// If the database fails.
    async fn to_look_at(&self, until: Timestamp, limit: usize) -> Result<Vec<Looked>, QueueError>;

    /// Does what was decided, for each reminder that is still as it was seen. Fires runs: each is durable, with its delivery,
    /// before this returns.
    ///
    /// # Errors
    /// If nothing was done.
    async fn take_steps(&self, steps: Vec<Decided>) -> Result<Stepped, StepError>;
}

/// What came of a number of decisions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stepped {
    /// Runs that were fired.
    pub fired: u64,
    /// Reminders that were stopped.
    pub stopped: u64,
    /// Decisions that came too late.
    pub stale: u64,
    /// Deliveries that this process took.
    pub taken: Vec<Leased>,
    /// What waits now that was not taken.
    pub woken: Vec<WaitingLane>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The disk is nearly full. What is left is for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are kept in reserve")]
    DiskReserve {
        /// Free bytes.
        free: u64,
        /// Bytes in reserve.
        reserve: u64,
    },
    /// The database fails.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
