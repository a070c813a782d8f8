//! The store: its operations and background tasks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};
use tokio::time::timeout;

use crate::clean::clean_for_ever;
use crate::database::Database;
use crate::error::ConnectError;
use crate::listen::{Listener, ListenerConnection, listen_for_ever};
use crate::operations::Operations;
use crate::recreate::{Recreation, recreate_for_ever};
use crate::task::Task;

/// A store that keeps circuits in a Postgres database. See the [crate documentation](crate).
///
/// The store has background tasks, which end when the store is dropped. They run on the tokio runtime on which
/// the store was connected. When that runtime ends, every operation fails with an error that says so.
pub struct PostgresStore {
    operations: Arc<Operations>,
    announcer: Arc<Announcer>,
    reopen: Reopen,
    listening: Task,
    _cleaning: Task,
    _recreating: Task,
}

/// A function that opens another store with the same settings, in the current tokio runtime.
pub(crate) type Reopen = Box<dyn Fn() -> Option<PostgresStore> + Send + Sync>;

/// The settings, in addition to the database, with which a store starts.
pub(crate) struct Start {
    pub(crate) schema: String,
    pub(crate) heartbeat_every: Duration,
    pub(crate) clean_every: Duration,
    pub(crate) reopen: Reopen,
}

impl PostgresStore {
    /// Connects a store, and returns it when the connection and the tables are ready.
    pub(crate) async fn connected(
        database: Database,
        start: Start,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let listener = Listener::new(database.clone(), &start.schema, start.heartbeat_every);
        match timeout(limit, listener.open()).await {
            Ok(connection) => Ok(Self::start(database, start, listener, Some(connection?))),
            Err(_) => Err(database.too_slow(limit)),
        }
    }

    /// Creates a store that connects in the background, and returns it immediately.
    pub(crate) fn opened(database: Database, start: Start) -> Self {
        let listener = Listener::new(database.clone(), &start.schema, start.heartbeat_every);
        Self::start(database, start, listener, None)
    }

    fn start(
        database: Database,
        start: Start,
        listener: Listener,
        connection: Option<ListenerConnection>,
    ) -> Self {
        let recreation = Arc::new(Recreation::default());
        let announcer = Arc::new(Announcer::new());
        let recreating = recreate_for_ever(
            Arc::clone(&recreation),
            database.clone(),
            start.schema.clone(),
            Arc::clone(&announcer),
        );
        let operations = Arc::new(Operations::new(database, &start.schema, recreation));
        let listening =
            listen_for_ever(listener, connection, Arc::clone(&operations), Arc::clone(&announcer));
        let cleaning = clean_for_ever(Arc::clone(&operations), start.clean_every);
        Self {
            operations,
            announcer,
            reopen: start.reopen,
            listening: Task::spawn(listening),
            _cleaning: Task::spawn(cleaning),
            _recreating: Task::spawn(recreating),
        }
    }

    /// Returns the store's operations, or an error if the background tasks have ended.
    fn operations(&self) -> Result<&Operations, StoreError> {
        if self.listening.has_ended() {
            return Err(ConnectError::Ended.into());
        }
        Ok(&self.operations)
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("operations", &self.operations).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.operations()?.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.operations()?.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.operations()?.swap_if(swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.operations()?.swap_all(swaps).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.operations.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.operations()?.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.operations()?.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.operations()?.lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.operations()?.check_write().await
    }

    fn reopen(&self) -> Option<Arc<dyn Store>> {
        let store = (self.reopen)()?;
        Some(Arc::new(store))
    }
}
