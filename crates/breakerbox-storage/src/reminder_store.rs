//! The scheduler's view of reminders: which are due for a check, and the decisions about them.
//!
//! A reminder is checked when it is due, when its run has ended, and when a client requested something. The scheduler
//! decides the next step from the state that it read; the calendar carries it out, if the reminder has not changed
//! since. So two schedulers never fire one run twice, and a pause is never overtaken by an earlier decision.
//!
//! Times are by the wall clock: a schedule is a promise to people.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Decision, DueReminder};

use super::{Leased, QueueError, WaitingLane};

/// The operations of the scheduler.
#[async_trait]
pub trait ReminderStore: Send + Sync + 'static {
    /// Returns when the next reminder is to be checked, or `None` if none is.
    ///
    /// # Errors
    /// If the database fails.
    async fn next_check_at(&self) -> Result<Option<Timestamp>, QueueError>;

    /// Returns reminders that are to be checked by this time, the longest due first. The cost does not depend on the
    /// number of reminders.
    ///
    /// # Errors
    /// If the database fails.
    async fn due_reminders(&self, until: Timestamp, limit: usize) -> Result<Vec<DueReminder>, QueueError>;

    /// Carries out decisions, each if its reminder has not changed since it was read. Fires runs: each is durable, with
    /// its delivery, before this returns.
    ///
    /// # Errors
    /// If nothing was done.
    async fn apply_decisions(&self, steps: Vec<Decision>) -> Result<AppliedDecisions, ApplyError>;
}

/// The result of carrying out decisions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AppliedDecisions {
    /// The number of runs that were fired.
    pub fired: u64,
    /// The number of reminders that were stopped.
    pub stopped: u64,
    /// The number of decisions that came too late: the reminder had changed.
    pub stale: u64,
    /// Deliveries that this process leases.
    pub taken: Vec<Leased>,
    /// Lanes with deliveries that wait now and were not leased.
    pub woken: Vec<WaitingLane>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The disk is nearly full. The rest is reserved for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are reserved")]
    DiskReserve {
        /// The number of free bytes.
        free: u64,
        /// The number of reserved bytes.
        reserve: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
