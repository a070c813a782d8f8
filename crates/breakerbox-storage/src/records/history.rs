//! The history of circuits: each change is stored once, by however many processes it is seen. Changes are appended, and
//! deleted when they were kept long enough; no method modifies one.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::{Status, Timestamp};
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{PastChange, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::QueueError;

/// A change that a process observed.
#[derive(Clone, PartialEq, Debug)]
pub struct ObservedChange {
    /// The change.
    pub change: PastChange,
    /// The notifications that it causes.
    pub notifications: Vec<Notification>,
}

impl From<PastChange> for ObservedChange {
    /// A change without notifications.
    fn from(change: PastChange) -> Self {
        Self { change, notifications: Vec::new() }
    }
}

/// A filter for changes. A change must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChangeFilter {
    /// Changes of this tenant's circuits, for any purpose. Not of a deleted tenant that had the same name.
    pub tenant: Option<TenantId>,
    /// Changes of the circuit with this key.
    pub circuit: Option<Arc<str>>,
    /// Changes at this time or later.
    pub from: Option<Timestamp>,
    /// Changes before this time.
    pub until: Option<Timestamp>,
    /// Changes into this state.
    pub to: Option<Status>,
}

/// The history of circuits.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// Stores changes and their notifications in one commit. A change whose key and epoch are stored already is left
    /// out, with its notifications. Returns how many were new.
    ///
    /// # Errors
    /// If the database fails; none was written.
    async fn append_history(&self, changes: Vec<ObservedChange>) -> Result<u64, QueueError>;

    /// Lists the changes of one circuit, the newest epoch first.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn circuit_history(&self, key: &str, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// Lists changes of circuits, the newest first.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn history(&self, filter: &ChangeFilter, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// Deletes changes from before this time, a bounded number. Returns how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
