//! The store: each operation is one exchange with the servers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};

use crate::error::ConnectError;
use crate::listening::Listening;
use crate::servers::Servers;
use crate::{calling, checking, leading, listing, merging, ramping, reading, swapping};

/// A store that keeps circuits in Redis or Valkey.
///
/// See the [crate documentation](crate) for an example and the URLs. The store's connections belong to the
/// tokio runtime on which it was connected. When that runtime ends, every request fails with an error that says
/// so.
pub struct RedisStore {
    servers: Servers,
    announcer: Arc<Announcer>,
    listening: Listening,
    /// Opens another store with the same settings, in the current tokio runtime.
    reopen: Box<dyn Fn() -> Option<Self> + Send + Sync>,
}

impl RedisStore {
    pub(crate) fn new(
        servers: Servers,
        announcer: Arc<Announcer>,
        listening: Listening,
        reopen: impl Fn() -> Option<Self> + Send + Sync + 'static,
    ) -> Self {
        Self { servers, announcer, listening, reopen: Box::new(reopen) }
    }

    /// Waits until every server has been reached. Returns an error if a server can't be reached.
    pub(crate) async fn is_ready(&self) -> Result<(), ConnectError> {
        self.servers.wire.is_ready().await?;
        self.listening.is_ready().await
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("layout", &self.servers.layout)
            .field("limit", &self.servers.limit)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        merging::merge(&self.servers, deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        reading::read(&self.servers, keys, self.servers.deadline()).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        swapping::swap_if(&self.servers, swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        swapping::swap_all(&self.servers, swaps).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        calling::call_for_reports(&self.servers, keys).await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        listing::list(&self.servers, query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        ramping::ramp(&self.servers, request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        leading::lead(&self.servers, name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        checking::check_write(&self.servers).await
    }

    fn reopen(&self) -> Option<Arc<dyn Store>> {
        let store = (self.reopen)()?;
        Some(Arc::new(store))
    }
}
