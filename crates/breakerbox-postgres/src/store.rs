//! The store itself: the operations, and their background tasks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};
use tokio::time::timeout;

use crate::builder::Builder;
use crate::clean::clean_for_ever;
use crate::database::Database;
use crate::error::ConnectError;
use crate::listen::{Listener, ListenerConnection, listen_for_ever};
use crate::operations::Operations;
use crate::recreate::{Recreation, recreate_for_ever};
use crate::task::Task;

/// A store in a Postgres database. See the [crate documentation](crate).
///
/// It has background tasks, which end when it is dropped. They run on the tokio runtime on which it was connected: when
/// that runtime ends, every operation fails with an error that states this.
#[derive(Debug)]
pub struct PostgresStore {
    operations: Arc<Operations>,
    announcer: Arc<Announcer>,
    /// The settings to open it again.
    again: Builder,
    listening: Task,
    _cleaning: Task,
    _recreating: Task,
}

impl PostgresStore {
    /// Creates a store with the default settings that connects in the background, and creates the tables if they are
    /// missing: a service that starts while Postgres is down starts degraded, and joins the fleet when Postgres is up.
    /// Must be called on a tokio runtime that lives as long as the store.
    ///
    /// # Errors
    /// If the URL is not valid. All other problems are reported as the store's health.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).open()
    }

    /// Connects to the database of a URL with the default settings, and creates the tables if they are missing, or
    /// fails. To start without the server use [`open`](Self::open).
    ///
    /// # Errors
    /// If the store can't connect. The error states what to do.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder, for other settings than the defaults.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    /// Connects a store, and returns it when it is ready.
    pub(crate) async fn connected(database: Database, builder: &Builder) -> Result<Self, ConnectError> {
        let listener = Listener::new(database.clone(), builder);
        match timeout(builder.start_within, listener.open()).await {
            Ok(connection) => Ok(Self::start(database, builder, listener, Some(connection?))),
            Err(_) => Err(database.too_slow(builder.start_within)),
        }
    }

    /// Creates a store that connects in the background.
    pub(crate) fn opened(database: Database, builder: &Builder) -> Self {
        let listener = Listener::new(database.clone(), builder);
        Self::start(database, builder, listener, None)
    }

    fn start(
        database: Database,
        builder: &Builder,
        listener: Listener,
        connection: Option<ListenerConnection>,
    ) -> Self {
        let recreation = Arc::new(Recreation::default());
        let announcer = Arc::new(Announcer::new());
        let recreating = recreate_for_ever(
            Arc::clone(&recreation),
            database.clone(),
            builder.schema.clone(),
            Arc::clone(&announcer),
        );
        let operations = Arc::new(Operations::new(database, &builder.schema, recreation));
        let listening =
            listen_for_ever(listener, connection, Arc::clone(&operations), Arc::clone(&announcer));
        let cleaning = clean_for_ever(Arc::clone(&operations), builder.clean_every);
        let again = builder.clone().alone();
        Self {
            operations,
            announcer,
            again,
            listening: Task::spawn(listening),
            _cleaning: Task::spawn(cleaning),
            _recreating: Task::spawn(recreating),
        }
    }

    /// Returns the operations, for as long as the background tasks run.
    fn operations(&self) -> Result<&Operations, StoreError> {
        if self.listening.has_ended() {
            return Err(ConnectError::Ended.into());
        }
        Ok(&self.operations)
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
        // The settings were valid before, so they are valid now.
        let store = self.again.clone().open().ok()?;
        Some(Arc::new(store))
    }
}
