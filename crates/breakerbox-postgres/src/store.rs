//! The store itself: the verbs, and the two tasks that go with them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, Store, StoreError, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};
use tokio::time::timeout;

use crate::clean::clean_for_ever;
use crate::database::Database;
use crate::error::ConnectError;
use crate::listen::{Ear, listen_for_ever};
use crate::options::Options;
use crate::statements::channel;
use crate::task::Task;
use crate::verbs::Verbs;

/// A store in a Postgres database. See the [crate's front page](crate).
///
/// It has tasks of its own, which end when it is dropped; so it is made, used and dropped inside a tokio runtime.
#[derive(Debug)]
pub struct PostgresStore {
    verbs: Arc<Verbs>,
    announcer: Arc<Announcer>,
    _tasks: [Task; 2],
}

impl PostgresStore {
    /// Opens the store of a URL with all [defaults](Options), and creates its tables if they are missing.
    ///
    /// # Errors
    /// What is wrong, and what to do about it.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Options::new().connect(url).await
    }

    /// Opens the store on a database that is used for other things too, and creates its tables if they are missing.
    ///
    /// # Errors
    /// What is wrong, and what to do about it.
    pub async fn on(database: Database, options: &Options) -> Result<Self, ConnectError> {
        options.check()?;
        let channel = channel(&options.schema);
        let opened = async {
            database.set_up(&options.schema).await?;
            Ear::open(&database, &channel).await
        };
        let ear = match timeout(options.start_within, opened).await {
            Ok(opened) => opened?,
            Err(_) => return Err(database.too_slow(options.start_within)),
        };
        let verbs = Arc::new(Verbs::new(database.clone(), &options.schema));
        let announcer = Arc::new(Announcer::new());
        let listening = listen_for_ever(
            ear,
            database,
            channel,
            options.ask_every,
            Arc::clone(&verbs),
            Arc::clone(&announcer),
        );
        let cleaning = clean_for_ever(Arc::clone(&verbs), options.clean_every);
        let _tasks = [Task::spawn(listening), Task::spawn(cleaning)];
        Ok(Self { verbs, announcer, _tasks })
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Merged>>, StoreError> {
        self.verbs.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Option<Record>>>, StoreError> {
        self.verbs.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.verbs.swap_if(swap).await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.verbs.list(query).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.verbs.lead(name, candidate, ttl).await
    }
}
