//! The test world for SQLite: a database in a temporary directory.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use breakerbox::ManualClock;
use breakerbox_storage::conformance::records::world::{self, Backend, NoReservations, Opened};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage::{Defaults, ReminderStore};
use breakerbox_storage_sqlite::{Database, Options, SqliteQueue, SqliteRecords};
use tempfile::TempDir;

/// The world that the checks use, with the database behind it.
pub(crate) struct World {
    world: world::World,
    database: Arc<Mutex<Option<Database>>>,
}

struct Sqlite {
    folder: TempDir,
    key: MasterKey,
    database: Arc<Mutex<Option<Database>>>,
}

impl World {
    pub(crate) async fn on_sqlite() -> Self {
        let database = Arc::default();
        let sqlite = Sqlite {
            folder: tempfile::tempdir().unwrap(),
            key: MasterKey::random(),
            database: Arc::clone(&database),
        };
        Self { world: world::World::new(sqlite).await, database }
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
impl Backend for Sqlite {
    async fn open(&mut self, clock: &ManualClock, defaults: Defaults) -> Opened {
        let options = Options { clock: Arc::new(clock.clone()), reserve: 0, ..Options::default() };
        let database = Database::open(self.folder.path(), options).unwrap();
        let records = SqliteRecords::open(database.clone(), Keyring::new(&self.key), defaults).await.unwrap();
        let directory = Arc::clone(records.directory());
        let queue = Arc::new(SqliteQueue::new(database.clone(), directory.clone(), Arc::new(NoReservations)));
        *self.database.lock().unwrap() = Some(database);
        let reminder_store = Arc::clone(&queue) as Arc<dyn ReminderStore>;
        Opened { records: Arc::new(records), queue, reminder_store, directory }
    }

    async fn close(&mut self) {
        let database = self.database.lock().unwrap().take().unwrap();
        database.close().await;
    }
}
