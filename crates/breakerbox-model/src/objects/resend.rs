//! Resends by filter: background jobs that make finished deliveries pending again, a few at a time and behind live
//! traffic.

use breakerbox_core::Timestamp;

use super::{ApiKeyId, DeliveryFilter, JobId, TenantNumber};

/// A resend by filter, and its progress.
#[derive(Clone, PartialEq, Debug)]
pub struct Resend {
    /// The id of the job.
    pub id: JobId,
    /// The deliveries to resend. The time range never ends after the job's creation, so that the job ends.
    pub filter: DeliveryFilter,
    /// The number of the tenant in the filter, because another tenant may have its name by now. `None`: all tenants.
    pub owner: Option<TenantNumber>,
    /// The API key that created the job.
    pub by: Option<ApiKeyId>,
    /// The present state.
    pub state: ResendState,
    /// The progress so far.
    pub progress: ResendProgress,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was done or was cancelled.
    pub finished_at: Option<Timestamp>,
}

/// The state of a resend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResendState {
    /// It is running.
    Running,
    /// It went through all deliveries of the filter.
    Done,
    /// A client cancelled it. Deliveries that it had made pending by then stay pending.
    Cancelled,
}

impl ResendState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Cancelled];

    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The progress of a resend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResendProgress {
    /// The number of deliveries that it made pending again.
    pub resent: u64,
    /// The number of deliveries that it left as they were, because their endpoint was deleted.
    pub skipped: u64,
    /// The creation time that the job has reached; it begins with the oldest deliveries. `None`: it has not begun.
    pub reached: Option<Timestamp>,
}
