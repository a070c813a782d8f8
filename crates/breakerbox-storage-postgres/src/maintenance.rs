//! Maintenance in bounded batches: expired leases, expired deliveries, closed lanes. Several processes may do it at the same
//! time: rows that another one is working on are skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use breakerbox_model::objects::DeliveryId;
use breakerbox_storage::stored::codes::{id, micros};
use breakerbox_storage::{BatchResult, Lease, QueueError};
use tokio_postgres::Row;

use super::abandoned::{Abandoned, AbandonedResults};
use super::database::Database;
use super::error::get;
use super::lanes;
use super::settle::{EndRows, Ending, Stop, stop_waiting};

/// How long a closed lane is kept. By then, every process has heard of the deletion.
const CLOSED_KEPT: Duration = Duration::from_secs(600);

/// Makes leased deliveries wait again if their lease has expired or the caller that claimed them is gone.
pub(crate) async fn reclaim(
    database: &Database,
    abandoned: &AbandonedResults,
    limit: usize,
) -> Result<BatchResult, QueueError> {
    let answers = abandoned.take();
    let result = database.within(reclaim_once(database, &answers, limit)).await;
    if result.is_err() {
        abandoned.put_back(answers);
    }
    result
}

async fn reclaim_once(
    database: &Database,
    answers: &Abandoned,
    limit: usize,
) -> Result<BatchResult, QueueError> {
    let transaction = database.begin().await?;
    let sql = include_str!("sql/pick_overdue.sql");
    let overdue = transaction.query(sql, &[&database.given_now(), &bound(limit)]).await?;
    let more = overdue.len() == limit;
    let picked = |row: &Row| Ok((DeliveryId(id(get(row, 0)?)), Lease(get(row, 1)?)));
    let mut leases = overdue.iter().map(picked).collect::<Result<Vec<_>, QueueError>>()?;
    leases.extend(&answers.leases);
    leases.sort_unstable_by_key(|(delivery, lease)| (delivery.number(), lease.0));
    leases.dedup();
    let endings: Vec<Ending> = leases
        .into_iter()
        .map(|(delivery, lease)| Ending::WaitsAgain { delivery, lease, may_be_sent: true })
        .collect();
    let ended = EndRows::of(endings.iter()).end(&transaction).await?;
    let woken: BTreeMap<i64, i64> = ended.iter().map(|ended| (ended.lane, ended.tenant)).collect();
    let mut batch = BatchResult { done: ended.len() as u64, woken: answers.woken.clone(), more };
    batch.woken.extend(lanes::waiting_of(&transaction, &woken).await?);
    transaction.commit().await?;
    Ok(batch)
}

/// Fails waiting deliveries that have expired.
pub(crate) async fn expire(database: &Database, limit: usize) -> Result<BatchResult, QueueError> {
    database
        .within(async {
            let transaction = database.begin().await?;
            let sql = include_str!("sql/pick_expired.sql");
            let expired = ids(&transaction.query(sql, &[&database.given_now(), &bound(limit)]).await?)?;
            let done = stop_waiting(&transaction, &expired, Stop::Expired, None).await?;
            transaction.commit().await?;
            Ok(BatchResult { done, woken: Vec::new(), more: expired.len() == limit })
        })
        .await
}

impl Database {
    /// Cancels up to `limit` waiting deliveries in closed lanes.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn cancel_closed(&self, limit: usize) -> Result<BatchResult, QueueError> {
        self.within(async {
            let transaction = self.begin().await?;
            let kept_since = micros(self.now().before(CLOSED_KEPT));
            let mut batch = BatchResult::default();
            let mut left = limit;
            let mut after = -1_i64;
            let next = "SELECT lane, closed_at FROM closed_lanes WHERE lane > $1 ORDER BY lane LIMIT 1";
            while let Some(row) = transaction.query_opt(next, &[&after]).await? {
                if left == 0 {
                    batch.more = true;
                    break;
                }
                after = get(&row, 0)?;
                let picked =
                    transaction.query(include_str!("sql/pick_in_lane.sql"), &[&after, &bound(left)]).await?;
                let waiting = ids(&picked)?;
                let done = stop_waiting(&transaction, &waiting, Stop::Cancelled, Some(get(&row, 1)?)).await?;
                batch.done += done;
                batch.more |= waiting.len() == left;
                if waiting.is_empty() {
                    let sql = include_str!("sql/forget_closed_lane_if_empty.sql");
                    transaction.execute(sql, &[&after, &kept_since]).await?;
                }
                left -= waiting.len();
            }
            transaction.commit().await?;
            Ok(batch)
        })
        .await
    }
}

fn ids(rows: &[Row]) -> Result<Vec<i64>, QueueError> {
    rows.iter().map(|row| get(row, 0)).collect()
}

pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
