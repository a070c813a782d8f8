//! The store: each verb as one exchange with the servers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, Readable, Store, StoreError, Swap, Swapped,
    Term,
};
use breakerbox::{Nonce, Record};
use tokio::time::Instant;

use crate::builder::Builder;
use crate::error::ConnectError;
use crate::layout::Layout;
use crate::listening::Listening;
use crate::wire::{Call, Wire};
use crate::{leading, listing, merging, reading, swapping};

/// Circuits shared through Redis or Valkey.
///
/// See the [front page](crate) for an example and the URLs. It is for one runtime: the one that it was connected in.
pub struct RedisStore {
    pub(crate) wire: Wire,
    pub(crate) layout: Layout,
    pub(crate) limit: Duration,
    announcer: Arc<Announcer>,
    listening: Listening,
}

impl RedisStore {
    /// Connects, with all defaults.
    ///
    /// # Errors
    /// If the URL is wrong, nobody is there, or it is no server that this store can use. The error says what to do.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// For everything that is not the default.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    pub(crate) fn new(
        wire: Wire,
        layout: Layout,
        limit: Duration,
        announcer: Arc<Announcer>,
        listening: Listening,
    ) -> Self {
        Self { wire, layout, limit, announcer, listening }
    }

    /// Returns once every server has been reached, or can't be.
    pub(crate) async fn is_ready(&self) -> Result<(), ConnectError> {
        self.wire.is_ready().await?;
        self.listening.is_ready().await
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Makes calls, and gets an answer for each.
    pub(crate) async fn exchange(
        &self,
        calls: &[Call],
        deadline: Instant,
    ) -> Result<Vec<redis::Value>, StoreError> {
        self.wire.exchange(calls, self.limit, deadline).await
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("layout", &self.layout)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        merging::merge(self, deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        reading::read(self, keys, self.deadline()).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        swapping::swap_if(self, swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        swapping::swap_all(self, swaps).await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        listing::list(self, query).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        leading::lead(self, name, candidate, ttl).await
    }
}
