//! Follows the changes that other processes make to tenants, endpoints and API keys, and wakes the scheduler when they change
//! reminders. They announce each with `NOTIFY`; because an announcement may be lost, this process also looks by itself now and
//! then.

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};

use breakerbox_postgres::connections::Task;
use breakerbox_storage::QueueError;
use tokio::sync::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::POLL_EVERY;
use super::load::Loader;
use crate::database::Database;
use crate::listen::Heard;

/// What the task needs to bring the directory up to date.
#[derive(Clone)]
pub(super) struct Follower {
    pub(super) database: Database,
    pub(super) loader: Loader,
    /// The version of the directory in memory. Every change of the directory holds this lock.
    pub(super) version: Arc<Mutex<i64>>,
    /// When the latest read began that brought the directory up to date.
    read_at: Arc<StdMutex<Option<Instant>>>,
}

impl Follower {
    /// Creates a follower of a directory that has this version.
    pub(super) fn new(database: Database, loader: Loader, version: i64) -> Self {
        Self { database, loader, version: Arc::new(Mutex::new(version)), read_at: Arc::default() }
    }

    /// Starts to follow, until the task is dropped.
    pub(super) fn start(&self) -> Task {
        let follower = self.clone();
        let mut heard = follower.database.hear();
        Task::spawn(async move {
            let mut poll = interval_at(Instant::now() + POLL_EVERY, POLL_EVERY);
            poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let (directory, reminders) = tokio::select! {
                    heard = heard.recv() => match heard {
                        Ok(Heard::Directory(number)) => (number > *follower.version.lock().await, false),
                        Ok(Heard::Reminders) => (false, true),
                        Ok(Heard::Woken(_)) => (false, false),
                        Ok(Heard::Missed) | Err(RecvError::Lagged(_)) => (true, true),
                        Err(RecvError::Closed) => {
                            poll.tick().await;
                            (true, true)
                        }
                    },
                    _ = poll.tick() => (true, true),
                };
                if directory && let Err(error) = follower.update().await {
                    tracing::warn!(%error, "can't read changes of tenants, endpoints and API keys; trying again");
                }
                if reminders {
                    follower.loader.directory.reminders_changed();
                }
            }
        })
    }

    /// Applies the changes that other processes have made until now. Callers that wait for each other share one read, so that
    /// many lookups of objects that do not exist cost little.
    pub(super) async fn update(&self) -> Result<(), QueueError> {
        let asked = Instant::now();
        self.database
            .within(async {
                let mut known = Arc::clone(&self.version).lock_owned().await;
                if self.read_at().is_some_and(|began| began >= asked) {
                    return Ok(());
                }
                let began = Instant::now();
                let transaction = self.database.begin_read().await?;
                self.loader.catch_up(&transaction, &mut known).await?;
                transaction.commit().await?;
                *self.read_at() = Some(began);
                Ok(())
            })
            .await
    }

    fn read_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.read_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
