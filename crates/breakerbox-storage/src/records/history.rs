//! What happened to circuits: each change once, whoever saw it. Changes are added, and forgotten when they were kept long enough;
//! there is no verb that changes one.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::{Status, Timestamp};
use breakerbox_model::notifications::Notice;
use breakerbox_model::objects::{PastChange, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::QueueError;

/// A change that was heard of.
#[derive(Clone, PartialEq, Debug)]
pub struct Heard {
    /// What changed.
    pub change: PastChange,
    /// What is told of it.
    pub notices: Vec<Notice>,
}

impl From<PastChange> for Heard {
    /// One that is no news.
    fn from(change: PastChange) -> Self {
        Self { change, notices: Vec::new() }
    }
}

/// Which changes. What is not said does not matter.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChangeFilter {
    /// Of this tenant's circuits, whatever they are for. Not of a deleted tenant that had the same name.
    pub tenant: Option<TenantId>,
    /// Of the circuit with this key.
    pub circuit: Option<Arc<str>>,
    /// At this time or later.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// Into this state.
    pub to: Option<Status>,
}

/// What happened to circuits.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// Remembers changes, and tells what is to be told of them, in one commit. One whose key and epoch are remembered already
    /// is left out, and nothing is told of it again. Answers how many were new.
    ///
    /// # Errors
    /// If the database fails; none was written.
    async fn append_history(&self, changes: Vec<Heard>) -> Result<u64, QueueError>;

    /// The changes of one circuit, the newest epoch first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn circuit_history(&self, key: &str, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// Changes of circuits, the newest first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn history(&self, filter: &ChangeFilter, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// Forgets changes from before then, a bounded number of them. Answers how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
