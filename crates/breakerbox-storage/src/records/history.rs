//! The history of circuits. Each change is stored once, even if several processes observe it. Changes are only
//! appended, and deleted when their retention ends.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::{CircuitStatus, Timestamp};
use breakerbox_model::notifications::{Notification, OutageStep};
use breakerbox_model::objects::{PastChange, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::QueueError;

/// A circuit change that a process observed.
#[derive(Clone, PartialEq, Debug)]
pub struct ObservedChange {
    /// The observed change.
    pub change: PastChange,
    /// The notifications that the change causes at once. A recovery is stored only if people were notified of the
    /// outage.
    pub notifications: Vec<Notification>,
    /// The effect of the change on the circuit's outage.
    pub outage: OutageStep,
}

impl From<PastChange> for ObservedChange {
    /// Converts a change that causes no notifications.
    fn from(change: PastChange) -> Self {
        Self { change, notifications: Vec::new(), outage: OutageStep::None }
    }
}

/// A filter for circuit changes. A change must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChangeFilter {
    /// Matches only changes of this tenant's circuits, for deliveries and reminders. Changes of a deleted tenant with
    /// the same name are excluded.
    pub tenant: Option<TenantId>,
    /// Matches only changes of the circuit with this key.
    pub circuit: Option<Arc<str>>,
    /// Matches only changes at this time or later.
    pub from: Option<Timestamp>,
    /// Matches only changes before this time.
    pub until: Option<Timestamp>,
    /// Matches only changes into this state.
    pub to: Option<CircuitStatus>,
}

/// Operations on the history of circuits.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// Stores changes, their notifications and their effect on outages in one commit. A change whose key and epoch are already stored is
    /// skipped, with its notifications. Returns the number of new changes.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was written.
    async fn append_history(&self, changes: Vec<ObservedChange>) -> Result<u64, QueueError>;

    /// Lists the changes of one circuit, latest epoch first.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn circuit_history(&self, key: &str, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// Lists the changes that match a filter, newest first.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn history(&self, filter: &ChangeFilter, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// Deletes up to `limit` changes from before this time. Returns the number deleted.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
