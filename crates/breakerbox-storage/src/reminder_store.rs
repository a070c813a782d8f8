//! The scheduler's view of reminders: which are due for a check, and the decisions about them.
//!
//! A reminder is checked when it is due, when its run has ended, and when a client has requested something. The
//! scheduler decides the next step from the state that it read; the store applies the decision only if the reminder
//! has not changed since. So two schedulers never fire the same run, and a decision made before a pause never takes
//! effect after it.
//!
//! All times are wall-clock times, because people rely on schedules.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Decision, DueReminder};

use super::{Leased, QueueError, WaitingLane};

/// The scheduler's operations on reminders.
#[async_trait]
pub trait ReminderStore: Send + Sync + 'static {
    /// Returns when the next reminder has to be checked, or `None` if no reminder has to be checked.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn next_check_at(&self) -> Result<Option<Timestamp>, QueueError>;

    /// Returns up to `limit` reminders that have to be checked by this time, longest due first. The cost does not
    /// depend on the total number of reminders.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn due_reminders(&self, until: Timestamp, limit: usize) -> Result<Vec<DueReminder>, QueueError>;

    /// Applies decisions, except those whose reminder has changed since it was read. Each fired run and its delivery
    /// are durable before this returns.
    ///
    /// # Errors
    /// Returns the reason why nothing was applied.
    async fn apply_decisions(&self, steps: Vec<Decision>) -> Result<AppliedDecisions, ApplyError>;
}

/// The result of applying decisions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AppliedDecisions {
    /// The number of runs fired.
    pub fired: u64,
    /// The number of reminders stopped.
    pub stopped: u64,
    /// The number of decisions that were not applied because the reminder had changed.
    pub stale: u64,
    /// Deliveries that this process has leased.
    pub taken: Vec<Leased>,
    /// Lanes with new deliveries that wait and were not leased.
    pub woken: Vec<WaitingLane>,
}

/// Why no decision was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The disk is nearly full. The remaining space is reserved for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are reserved")]
    DiskReserve {
        /// The number of free bytes on the disk.
        free: u64,
        /// The number of reserved bytes.
        reserve: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
