//! Resends by filter: background jobs that make finished deliveries wait again, a few at a time and behind live traffic.

use breakerbox_core::Timestamp;

use super::{ApiKeyId, DeliveryFilter, JobId, TenantNumber};

/// A resend by filter, and how far it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Resend {
    /// Its name.
    pub id: JobId,
    /// Which deliveries. Its time range always ends when the job was created or before, so that a job ends.
    pub filter: DeliveryFilter,
    /// Whose deliveries; none: all tenants'. Another tenant may have taken the name in the filter since.
    pub owner: Option<TenantNumber>,
    /// Who asked for it.
    pub by: Option<ApiKeyId>,
    /// What has become of it.
    pub state: ResendState,
    /// How far it is.
    pub progress: ResendProgress,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was done or cancelled.
    pub finished_at: Option<Timestamp>,
}

/// What has become of a resend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResendState {
    /// It goes on.
    Running,
    /// It went through everything.
    Done,
    /// Somebody stopped it. What it had made wait by then waits.
    Cancelled,
}

impl ResendState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Cancelled];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How far a resend is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResendProgress {
    /// Deliveries that it made wait again.
    pub resent: u64,
    /// Deliveries that it left as they were, because their endpoint is gone.
    pub skipped: u64,
    /// Up to when it has gone through what was created, from the oldest on; none: it has not begun.
    pub reached: Option<Timestamp>,
}
