//! The test world for Postgres: a schema of its own on the server that all tests share.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::ManualClock;
use breakerbox_storage::conformance::records::world::{self, Backend, NoReservations, Opened};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{Defaults, ReminderStore};
use breakerbox_storage_postgres::{Database, Options, PostgresQueue, PostgresRecords};
use breakerbox_testkit::servers::PostgresServer;

use crate::server::{own_schema, shared};

/// The world that the checks use, with the database behind it.
pub(crate) struct World {
    world: world::World,
    database: Arc<Mutex<Option<Database>>>,
}

struct Postgres {
    server: Arc<PostgresServer>,
    schema: String,
    key: MasterKey,
    database: Arc<Mutex<Option<Database>>>,
}

impl World {
    pub(crate) async fn on_postgres() -> Self {
        let database = Arc::default();
        let postgres = Postgres {
            server: shared().await,
            schema: own_schema(),
            key: MasterKey::random(),
            database: Arc::clone(&database),
        };
        Self { world: world::World::new(postgres).await, database }
    }

    pub(crate) fn database(&self) -> Database {
        self.database.lock().unwrap().clone().unwrap()
    }
}

impl Deref for World {
    type Target = world::World;

    fn deref(&self) -> &world::World {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut world::World {
        &mut self.world
    }
}

#[async_trait]
impl Backend for Postgres {
    async fn open(&mut self, clock: &ManualClock, defaults: Defaults) -> Opened {
        let options = Options {
            schema: self.schema.clone(),
            // The same process each time, so that its earlier leases are void.
            worker: "test".to_owned(),
            connections: 4,
            time_limit: Duration::from_secs(30),
            clock: Some(Arc::new(clock.clone())),
            reserve: 0,
            ..Options::default()
        };
        let database = Database::open(&self.server.url(), options).await.unwrap();
        let keyring = Keyring::new(&self.key);
        let records = PostgresRecords::open(database.clone(), keyring, defaults).await.unwrap();
        let directory = Arc::clone(records.directory());
        let queue =
            Arc::new(PostgresQueue::new(database.clone(), directory.clone(), Arc::new(NoReservations)));
        *self.database.lock().unwrap() = Some(database);
        let reminder_store = Arc::clone(&queue) as Arc<dyn ReminderStore>;
        Opened { records: Arc::new(records), queue, reminder_store, directory }
    }

    async fn close(&mut self) {
        self.database.lock().unwrap().take().unwrap();
    }
}
