//! The settled permits of the decision API, so that each counts once, whichever process receives the settlement.

use async_trait::async_trait;
use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::objects::{PermitId, PermitSettled, PermitTerm, SettledAs};

use crate::QueueError;

/// The result of a claim to settle a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PermitClaim {
    /// The caller, and no other, settles the permit. Until another result is [noted](SettledPermits::note_settlement)
    /// it is stored as counted.
    Yours,
    /// The permit was settled before.
    Settled(PermitSettled),
    /// The permit has expired without being settled.
    Expired,
}

/// The settled permits.
#[async_trait]
pub trait SettledPermits: Send + Sync + 'static {
    /// Claims the settlement of a permit for good, before its outcome counts: after a crash in between the outcome is
    /// lost, and never counts twice.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn claim_permit(&self, permit: PermitTerm, outcome: OutcomeKind)
    -> Result<PermitClaim, QueueError>;

    /// Stores the circuit's response to the outcome of a claimed permit.
    ///
    /// # Errors
    /// If the database fails; it stays stored as counted.
    async fn note_settlement(&self, permit: PermitTerm, settled: SettledAs) -> Result<(), QueueError>;

    /// Returns those of these expired permits that were settled in time, and how.
    ///
    /// # Errors
    /// If the database fails.
    async fn settled_of(
        &self,
        expired: Vec<PermitTerm>,
    ) -> Result<Vec<(PermitId, PermitSettled)>, QueueError>;

    /// Deletes permits that expired before this time, a bounded number. Returns how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_permits(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
