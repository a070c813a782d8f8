//! The decision API's settled permits, stored so that each counts once, regardless of which process receives the
//! settlement.

use async_trait::async_trait;
use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::objects::{PermitId, PermitSettled, PermitTerm, SettledAs};

use crate::QueueError;

/// The result of claiming the settlement of a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PermitClaim {
    /// The caller alone may settle the permit. The permit is stored as counted until another result is
    /// [noted](SettledPermits::note_settlement).
    Yours,
    /// The permit was already settled.
    Settled(PermitSettled),
    /// The permit expired without being settled.
    Expired,
}

/// Operations on settled permits.
#[async_trait]
pub trait SettledPermits: Send + Sync + 'static {
    /// Claims the settlement of a permit permanently, before its outcome is counted. If the process crashes
    /// after the claim, the outcome may be lost, but is never counted twice.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was written.
    async fn claim_permit(&self, permit: PermitTerm, outcome: OutcomeKind)
    -> Result<PermitClaim, QueueError>;

    /// Stores the circuit's response to the outcome of a claimed permit.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, the permit stays stored as counted.
    async fn note_settlement(&self, permit: PermitTerm, settled: SettledAs) -> Result<(), QueueError>;

    /// Returns which of these expired permits were settled in time, with their settlements.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn settled_of(
        &self,
        expired: Vec<PermitTerm>,
    ) -> Result<Vec<(PermitId, PermitSettled)>, QueueError>;

    /// Deletes up to `limit` permits that expired before this time. Returns the number deleted.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn prune_permits(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
