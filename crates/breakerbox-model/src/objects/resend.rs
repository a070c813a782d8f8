//! Resend jobs: they make finished deliveries that match a filter pending again, a few at a time and at the lowest
//! priority.

use breakerbox_core::Timestamp;

use super::{ApiKeyId, DeliveryFilter, JobId, TenantNumber};

/// A job that resends the deliveries matching a filter, and its progress.
#[derive(Clone, PartialEq, Debug)]
pub struct Resend {
    /// The job's id, `job_...`.
    pub id: JobId,
    /// The filter for the deliveries to resend. Its time range ends no later than the job's creation, so that the job
    /// comes to an end.
    pub filter: DeliveryFilter,
    /// The number of the filter's tenant. Unlike a name, a number is never reused for another tenant. `None`: all
    /// tenants.
    pub owner: Option<TenantNumber>,
    /// The API key that created the job, if any.
    pub by: Option<ApiKeyId>,
    /// The job's current state.
    pub state: ResendState,
    /// The job's progress so far.
    pub progress: ResendProgress,
    /// When the job was created.
    pub created_at: Timestamp,
    /// When the job was done or cancelled. `None`: it is running.
    pub finished_at: Option<Timestamp>,
}

/// The state of a resend job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResendState {
    /// The job is running.
    Running,
    /// The job has processed all deliveries that match the filter.
    Done,
    /// A client cancelled the job. Deliveries that it had already made pending stay pending.
    Cancelled,
}

impl ResendState {
    /// All states, in the order of a job's life cycle.
    pub const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Cancelled];

    /// Returns the state's name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The progress of a resend job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResendProgress {
    /// The number of deliveries made pending again.
    pub resent: u64,
    /// The number of deliveries left unchanged because their endpoint was deleted.
    pub skipped: u64,
    /// The creation time of the delivery that was processed last. The job proceeds from oldest to newest. `None`: no
    /// delivery was processed yet.
    pub reached: Option<Timestamp>,
}
