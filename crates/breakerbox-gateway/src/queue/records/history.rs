//! What happened to circuits: each change once, whoever saw it.

use async_trait::async_trait;
use breakerbox_core::Timestamp;

use super::{Page, PageOf, RecordsError};
use crate::objects::PastChange;
use crate::queue::QueueError;

/// What happened to circuits.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// Remembers changes. One whose key and epoch are remembered already is left out. Answers how many were new.
    ///
    /// # Errors
    /// If the database fails; none was written.
    async fn append_history(&self, changes: Vec<PastChange>) -> Result<u64, QueueError>;

    /// The changes of one circuit, the newest epoch first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn circuit_history(&self, key: &str, page: &PageOf) -> Result<Page<PastChange>, RecordsError>;

    /// The changes of all circuits from then until then, the newest first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn history(
        &self,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        page: &PageOf,
    ) -> Result<Page<PastChange>, RecordsError>;

    /// Forgets changes from before then, a bounded number of them. Answers how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}
