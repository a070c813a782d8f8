//! Tells other processes in which lanes deliveries wait, and hears it from them.
//!
//! What is to be told is gathered while the message before is sent, and is sent outside of the transactions that cause it: commits that
//! notify wait for each other in the whole database. If a message is lost, the others find the lanes when they look for themselves.

use std::collections::BTreeMap;

use breakerbox_storage::{QueueError, WaitingLane};
use tokio::sync::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::batcher::{Batcher, Job};
use super::database::Database;
use super::lanes;
use super::listen::{Heard, wake_channel, write_lanes};

/// The maximum number of lanes in one message, which has room for 8000 bytes.
const LANES_IN_MESSAGE: usize = 200;
/// The maximum number of messages that are sent at once. If there is more to tell, the others have enough to do.
const MESSAGES: usize = 5;
/// The maximum number of lanes that are returned after messages were missed.
const LANES_AFTER_GAP: usize = 1_000;

/// Lanes in which deliveries wait, each with its tenant's number.
struct Told(Vec<(i64, i64)>);

impl Job for Told {}

/// Tells other processes, and hears from them.
pub(crate) struct Wakeups {
    database: Database,
    tells: Batcher<Told>,
    heard: Mutex<broadcast::Receiver<Heard>>,
}

impl Wakeups {
    pub(crate) fn start(database: &Database) -> Self {
        let of_task = database.clone();
        let tells = Batcher::start(database.waiting_jobs(), move |group: Vec<Told>| {
            let database = of_task.clone();
            async move {
                if let Err(error) = tell(&database, group).await {
                    tracing::debug!(%error, "can't tell other processes what waits");
                }
            }
        });
        Self { database: database.clone(), tells, heard: Mutex::new(database.hear()) }
    }

    /// Tells other processes that deliveries wait in these lanes.
    pub(crate) fn tell(&self, lanes: Vec<(i64, i64)>) {
        if !lanes.is_empty() {
            // If too much waits to be told, the others find it by themselves.
            let _ = self.tells.try_add(Told(lanes));
        }
    }

    /// Waits until another process tells of lanes, and returns those in which something waits.
    pub(crate) async fn woken(&self) -> Vec<WaitingLane> {
        let mut heard = self.heard.lock().await;
        loop {
            let mut lanes = BTreeMap::new();
            let mut missed = false;
            let mut note = |heard: Heard| match heard {
                Heard::Woken(woken) => lanes.extend(woken),
                Heard::Missed => missed = true,
                Heard::Directory(_) | Heard::Reminders => {}
            };
            match heard.recv().await {
                Ok(first) => note(first),
                Err(RecvError::Lagged(_)) => note(Heard::Missed),
                Err(RecvError::Closed) => std::future::pending().await,
            }
            loop {
                match heard.try_recv() {
                    Ok(next) => note(next),
                    Err(TryRecvError::Lagged(_)) => note(Heard::Missed),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            let found = if missed {
                lanes::waiting_after(&self.database, -1, LANES_AFTER_GAP).await
            } else {
                self.look(&lanes).await
            };
            match found {
                Ok(found) if found.is_empty() => {}
                Ok(found) => return found,
                Err(error) => tracing::debug!(%error, "can't look at lanes that another process told of"),
            }
        }
    }

    async fn look(&self, lanes: &BTreeMap<i64, i64>) -> Result<Vec<WaitingLane>, QueueError> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        self.database
            .within(async {
                let transaction = self.database.begin_read().await?;
                let mut found = lanes::waiting_of(&transaction, lanes).await?;
                transaction.commit().await?;
                found.retain(|lane| lane.next_due.iter().any(Option::is_some));
                Ok(found)
            })
            .await
    }
}

async fn tell(database: &Database, group: Vec<Told>) -> Result<(), QueueError> {
    let lanes: BTreeMap<i64, i64> = group.into_iter().flat_map(|told| told.0).collect();
    let lanes: Vec<(i64, i64)> = lanes.into_iter().collect();
    let messages: Vec<String> = lanes
        .chunks(LANES_IN_MESSAGE)
        .take(MESSAGES)
        .map(|lanes| write_lanes(database.worker(), lanes))
        .collect();
    let channel = wake_channel(database.schema());
    database
        .within(async {
            let transaction = database.begin().await?;
            let sql = "SELECT pg_notify($1, m) FROM unnest($2) AS m";
            transaction.query(sql, &[&channel, &messages]).await?;
            transaction.commit().await
        })
        .await
}
