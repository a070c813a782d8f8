//! A store wrapper that reports when a request is made, and how long it took. All requests are passed on
//! unchanged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store, StoreError,
    Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};

type OnSwap = Box<dyn Fn(&str) + Send + Sync>;
type OnRead = Box<dyn Fn(usize, Instant, Duration) + Send + Sync>;

pub(super) struct TimedStore<S> {
    inner: S,
    on_swap: OnSwap,
    on_read: OnRead,
}

impl<S> TimedStore<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, on_swap: Box::new(|_| {}), on_read: Box::new(|_, _, _| {}) }
    }

    /// Calls `callback` with the key of each record that is about to be written.
    pub(super) fn on_swap(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_swap = Box::new(callback);
        self
    }

    /// Calls `callback` with the number of records in a read, its start, and its duration.
    pub(super) fn on_read(
        mut self,
        callback: impl Fn(usize, Instant, Duration) + Send + Sync + 'static,
    ) -> Self {
        self.on_read = Box::new(callback);
        self
    }
}

#[async_trait]
impl<S: Store> Store for TimedStore<S> {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.inner.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        let start = Instant::now();
        let answer = self.inner.read(keys).await;
        (self.on_read)(keys.len(), start, start.elapsed());
        answer
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        (self.on_swap)(&swap.key);
        self.inner.swap_if(swap).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.inner.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.inner.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.inner.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.inner.lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.inner.check_write().await
    }
}
