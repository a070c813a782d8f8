//! Which permits of the decision API were settled, so that each counts once, whichever process is told.

use async_trait::async_trait;
use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::objects::{PermitId, PermitSettled, PermitTerm, SettledAs};

use crate::QueueError;

/// What came of wanting to settle a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// It is the caller's to settle, and nobody else's. Until something else is [noted](SettledPermits::note_settlement) it
    /// is remembered as counted.
    Yours,
    /// It was settled before.
    Settled(PermitSettled),
    /// It has expired, and was not settled.
    Expired,
}

/// Which permits were settled.
#[async_trait]
pub trait SettledPermits: Send + Sync + 'static {
    /// Settles a permit for good, before its outcome counts: after a crash in between it is lost, and never counts twice.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn claim_permit(&self, permit: PermitTerm, outcome: OutcomeKind) -> Result<Claimed, QueueError>;

    /// What the circuit made of a permit that was claimed.
    ///
    /// # Errors
    /// If the database fails; it is remembered as counted.
    async fn note_settlement(&self, permit: PermitTerm, settled: SettledAs) -> Result<(), QueueError>;

    /// Of permits that have expired, those that were settled in time, and how.
    ///
    /// # Errors
    /// If the database fails.
    async fn settled_of(
        &self,
        expired: Vec<PermitTerm>,
    ) -> Result<Vec<(PermitId, PermitSettled)>, QueueError>;

    /// Forgets those that expired before then, a bounded number of them. Answers how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_permits(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
