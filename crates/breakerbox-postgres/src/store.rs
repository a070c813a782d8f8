//! The store itself: the verbs, and the tasks that go with them.

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
use crate::listen::{Ear, Ears, listen_for_ever};
use crate::recreate::{Recreation, recreate_for_ever};
use crate::task::Task;
use crate::verbs::Verbs;

/// A store in a Postgres database. See the [crate's front page](crate).
///
/// It has tasks of its own, which end when it is dropped. They live on the tokio runtime that it was connected on: when that
/// runtime ends, every verb fails and says so.
#[derive(Debug)]
pub struct PostgresStore {
    verbs: Arc<Verbs>,
    announcer: Arc<Announcer>,
    /// What makes it once more.
    again: Builder,
    listening: Task,
    _cleaning: Task,
    _recreating: Task,
}

impl PostgresStore {
    /// Makes a store with all defaults that connects in the background, and creates the tables if they are missing: a service
    /// that starts while Postgres is down starts degraded, and joins when Postgres is there. Must be called on a tokio runtime
    /// that lives as long as the store.
    ///
    /// # Errors
    /// If the URL is wrong. Everything else is reported as the store's health.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).open()
    }

    /// Connects to the database of a URL with all defaults, and creates the tables if they are missing, or fails.
    /// [`open`](Self::open) makes a store that starts without its server.
    ///
    /// # Errors
    /// If that can't be. The error says what to do.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// Connects a store that is not all defaults.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    /// A store that is ready.
    pub(crate) async fn connected(database: Database, builder: &Builder) -> Result<Self, ConnectError> {
        let ears = Ears::new(database.clone(), builder);
        match timeout(builder.start_within, ears.open()).await {
            Ok(ear) => Ok(Self::start(database, builder, ears, Some(ear?))),
            Err(_) => Err(database.too_slow(builder.start_within)),
        }
    }

    /// A store that will be.
    pub(crate) fn opened(database: Database, builder: &Builder) -> Self {
        let ears = Ears::new(database.clone(), builder);
        Self::start(database, builder, ears, None)
    }

    fn start(database: Database, builder: &Builder, ears: Ears, ear: Option<Ear>) -> Self {
        let recreation = Arc::new(Recreation::default());
        let announcer = Arc::new(Announcer::new());
        let recreating = recreate_for_ever(
            Arc::clone(&recreation),
            database.clone(),
            builder.schema.clone(),
            Arc::clone(&announcer),
        );
        let verbs = Arc::new(Verbs::new(database, &builder.schema, recreation));
        let listening = listen_for_ever(ears, ear, Arc::clone(&verbs), Arc::clone(&announcer));
        let cleaning = clean_for_ever(Arc::clone(&verbs), builder.clean_every);
        let again = builder.clone().alone();
        Self {
            verbs,
            announcer,
            again,
            listening: Task::spawn(listening),
            _cleaning: Task::spawn(cleaning),
            _recreating: Task::spawn(recreating),
        }
    }

    /// The verbs, as long as the tasks go on that belong to them.
    fn verbs(&self) -> Result<&Verbs, StoreError> {
        if self.listening.has_ended() {
            return Err(ConnectError::Ended.into());
        }
        Ok(&self.verbs)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.verbs()?.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.verbs()?.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.verbs()?.swap_if(swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.verbs()?.swap_all(swaps).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.verbs.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.verbs()?.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.verbs()?.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.verbs()?.lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.verbs()?.check_write().await
    }

    fn reopen(&self) -> Option<Arc<dyn Store>> {
        // What was right once is right again.
        let store = self.again.clone().open().ok()?;
        Some(Arc::new(store))
    }
}
