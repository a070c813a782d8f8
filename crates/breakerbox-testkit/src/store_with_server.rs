//! A store together with the server that it runs on, so that the server lives as long as the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store, StoreError,
    Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};

/// A store, and the server that it needs.
#[derive(Debug)]
pub struct StoreWithServer<S, G> {
    /// The store. Declared first, so that it is dropped before the server.
    pub store: S,
    /// The store's server, or a shared handle to it.
    pub server: G,
}

#[async_trait]
impl<S: Store, G: Send + Sync + 'static> Store for StoreWithServer<S, G> {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.store.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.store.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.store.swap_if(swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.store.swap_all(swaps).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.store.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.store.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.store.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.store.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.store.lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.store.check_write().await
    }
}
