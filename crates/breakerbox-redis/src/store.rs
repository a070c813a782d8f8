//! The store: each operation as one exchange with the servers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};
use tokio::time::Instant;

use crate::builder::Builder;
use crate::error::ConnectError;
use crate::layout::{Bucket, Layout};
use crate::listening::Listening;
use crate::wire::{Call, Wire};
use crate::{calling, checking, leading, listing, merging, ramping, reading, swapping};

/// A store in Redis or Valkey.
///
/// See the [crate documentation](crate) for an example and the URLs. Its connections belong to the tokio runtime on
/// which it was connected: when that runtime ends, every request fails with an error that states this.
pub struct RedisStore {
    pub(crate) wire: Wire,
    pub(crate) layout: Layout,
    pub(crate) limit: Duration,
    announcer: Arc<Announcer>,
    listening: Listening,
    /// The settings to open it again.
    again: Builder,
}

impl RedisStore {
    /// Creates a store with the default settings that connects in the background: a service that starts while Redis is
    /// down starts degraded, and joins the fleet when Redis is up. Must be called on a tokio runtime that lives as long
    /// as the store.
    ///
    /// # Errors
    /// If the URL is not valid. All other problems are reported as the store's health.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).open()
    }

    /// Connects with the default settings, or fails. To start without the server use [`open`](Self::open).
    ///
    /// # Errors
    /// If the URL is not valid, or there is no server that this store can use. The error states what to do.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder, for other settings than the defaults.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    pub(crate) fn new(
        wire: Wire,
        layout: Layout,
        limit: Duration,
        announcer: Arc<Announcer>,
        listening: Listening,
        again: Builder,
    ) -> Self {
        Self { wire, layout, limit, announcer, listening, again }
    }

    /// Returns when every server has been reached, or can't be.
    pub(crate) async fn is_ready(&self) -> Result<(), ConnectError> {
        self.wire.is_ready().await?;
        self.listening.is_ready().await
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Returns one bucket of each master; with a single server, any bucket.
    pub(crate) async fn one_bucket_for_each_master(
        &self,
        deadline: Instant,
    ) -> Result<Vec<Bucket>, StoreError> {
        self.wire.one_bucket_for_each_master(self.limit, deadline).await
    }

    /// Makes calls, and returns a response for each.
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

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        calling::call_for_reports(self, keys).await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        listing::list(self, query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        ramping::ramp(self, request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        leading::lead(self, name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        checking::check_write(self).await
    }

    fn reopen(&self) -> Option<Arc<dyn Store>> {
        // The settings were valid before, so they are valid now.
        let store = self.again.clone().open().ok()?;
        Some(Arc::new(store))
    }
}
