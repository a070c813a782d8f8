//! Notes every few seconds that this process is there, and compares its clock with the server's.

use std::time::{Duration, Instant};

use breakerbox_postgres::connections::Task;
use breakerbox_storage::QueueError;

use super::{Database, WeakDatabase};
use crate::error::get;

/// The interval between two notes.
const EVERY: Duration = Duration::from_secs(5);
/// How long the row of a process that is gone is kept.
const KEPT: Duration = Duration::from_secs(86_400);

/// Starts the task, which ends with the database.
pub(crate) fn start(database: WeakDatabase) -> Task {
    Task::spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            let Some(database) = database.upgrade() else { break };
            if let Err(error) = database.within(note(&database)).await {
                tracing::debug!(%error, "can't note that this process is there");
            }
        }
    })
}

async fn note(database: &Database) -> Result<(), QueueError> {
    let transaction = database.begin().await?;
    let kept = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
    let asked = Instant::now();
    let sql = include_str!("../sql/see_worker.sql");
    let row = transaction.query_opt(sql, &[&database.worker(), &database.given_now(), &kept]).await?;
    let answered = Instant::now();
    transaction.commit().await?;
    if let Some(row) = row {
        database.set_clock(get(&row, 0)?, asked, answered);
    }
    Ok(())
}
