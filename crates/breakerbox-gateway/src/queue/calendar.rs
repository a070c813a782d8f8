//! The calendar: which reminders are to be looked at, and what was decided about them. For the scheduler.
//!
//! A reminder is looked at when it is due, when its run has ended, and when somebody asked something of it. What follows is
//! decided elsewhere, with what was seen; the calendar does it, if the reminder is still as it was seen. So two schedulers never
//! fire one run twice, and whoever pauses a reminder is not overtaken by a decision from before.
//!
//! Times are by the wall clock: a schedule is a promise to people.

use async_trait::async_trait;
use breakerbox_core::Timestamp;

use super::{Leased, QueueError, WaitingLane};
use crate::objects::{ReminderId, TenantId};
use crate::reminder::{CatchUp, Ended, Schedule, Step};

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

/// A version of a reminder: it grows with every step and change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenTurn(pub i64);

/// A reminder as it was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Looked {
    /// Which.
    pub id: ReminderId,
    /// Whose.
    pub tenant: TenantId,
    /// As of when.
    pub turn: SeenTurn,
    /// Whether it fires by itself.
    pub is_active: bool,
    /// When it is due.
    pub schedule: Schedule,
    /// What is fired of that which was missed; none: as the tenant says.
    pub catch_up: Option<CatchUp>,
    /// Runs that were fired.
    pub runs: u32,
    /// The occurrence that the latest run stands for.
    pub last_at: Option<Timestamp>,
    /// What somebody asked of it.
    pub asked: Option<Asked>,
    /// Its run, if it has one that was not taken note of.
    pub run: OpenRun,
}

/// What somebody asks of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Asked {
    /// To go on after a pause or a stop.
    Resume,
    /// To run now.
    RunNow,
}

/// The latest run of a reminder, as far as it is not taken note of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenRun {
    /// There is none.
    None,
    /// It is not finished.
    Unfinished,
    /// It has ended.
    Ended {
        /// How.
        how: Ended,
        /// When its first request began.
        first_sent_at: Option<Timestamp>,
    },
}

/// What was decided about a reminder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decided {
    /// Which.
    pub id: ReminderId,
    /// As of when.
    pub turn: SeenTurn,
    /// The occurrence that its latest run turned out to stand for.
    pub last_at: Option<Timestamp>,
    /// What comes next.
    pub act: Act,
    /// Whether a run that is fired stands for the latest occurrence until it is sent.
    pub latest: bool,
}

/// What comes next for a reminder.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Act {
    /// By its schedule.
    Step(Step),
    /// Nothing by itself: it is not active, or its run is not finished.
    Rest,
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
