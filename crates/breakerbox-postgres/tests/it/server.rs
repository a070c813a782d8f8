//! One private server for all tests that do it no harm, gone with the last of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, Merged, Page, Store, StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};
use breakerbox_postgres::{Builder, PostgresStore};
use breakerbox_testkit::servers::PostgresServer;

/// The server that tests share.
pub(crate) fn shared() -> Arc<PostgresServer> {
    static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(PostgresServer::start().unwrap());
        *shared = Arc::downgrade(&server);
        server
    })
}

/// A store for tests that are not about time: the machine may be busy.
pub(crate) fn patient(url: &str) -> Builder {
    PostgresStore::builder(url).time_limit(Duration::from_secs(20)).start_within(Duration::from_secs(20))
}

/// A store, and the server that it is on.
pub(crate) struct Held {
    // Dropped first.
    pub(crate) store: PostgresStore,
    pub(crate) server: Arc<PostgresServer>,
}

impl Held {
    pub(crate) async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    /// In a schema of its own.
    pub(crate) async fn alone(schema: &str) -> Self {
        Self::with(|builder| builder.schema(schema)).await
    }

    pub(crate) async fn with(choose: impl FnOnce(Builder) -> Builder) -> Self {
        let server = tokio::task::spawn_blocking(shared).await.unwrap();
        Self { store: choose(patient(&server.url())).connect().await.unwrap(), server }
    }
}

#[async_trait]
impl Store for Held {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Merged>>, StoreError> {
        self.store.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Option<Record>>>, StoreError> {
        self.store.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.store.swap_if(swap).await
    }

    fn changes(&self) -> Changes {
        self.store.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.store.list(query).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.store.lead(name, candidate, ttl).await
    }
}

/// Waits until something holds, for as long as a busy machine may take.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < limit, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
