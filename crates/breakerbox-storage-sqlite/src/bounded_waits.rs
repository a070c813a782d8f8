//! Bounds due times that were set while the clock was ahead: no delivery is due later than now plus the delay of its
//! retry schedule.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::{RetrySchedule, bounded_due};
use breakerbox_model::objects::{LaneId, Purpose, TenantId};
use breakerbox_storage::{Directory, QueueError};
use rusqlite::{Connection, params};

use super::clock_step;
use super::columns::{id, micros, parsed, time};
use super::{Database, SqliteQueue};
use crate::error::JobError;

/// The maximum number of deliveries checked by one job.
const PIECE: u32 = 2_000;

/// A waiting delivery that is due in the future, with the data that [`bounded_due`] needs.
struct LaterDelivery {
    delivery: i64,
    lane: LaneId,
    tenant: TenantId,
    attempts: u32,
    due_at: Timestamp,
    not_before: Option<Timestamp>,
    purpose: Purpose,
}

impl SqliteQueue {
    /// If stored times were ahead of the clock at startup, corrects the due times of waiting deliveries with
    /// [`bounded_due`]. Returns the number of deliveries changed. Call this at startup, before any claim.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn bound_waits(&self, directory: &Arc<Directory>) -> Result<u64, QueueError> {
        let database = self.database();
        if database.clock_step().is_none() {
            return Ok(0);
        }
        let (mut after, mut bounded) = (-1, 0);
        loop {
            let found = piece(database, after).await?;
            let Some(last) = found.last() else { break };
            after = last.delivery;
            let now = database.now();
            let earlier: Vec<(i64, Timestamp)> = found
                .iter()
                .filter_map(|later| {
                    let schedule = schedule(directory, later)?;
                    let due_at = bounded_due(later.due_at, later.attempts, later.not_before, &schedule, now);
                    (due_at < later.due_at).then_some((later.delivery, due_at))
                })
                .collect();
            bounded += earlier.len() as u64;
            database
                .write(move |transaction| {
                    let mut update = transaction
                        .connection()
                        .prepare_cached("UPDATE deliveries SET due_at = ?2 WHERE id = ?1 AND state = 0")?;
                    for (delivery, due_at) in &earlier {
                        update.execute(params![delivery, micros(*due_at)])?;
                    }
                    Ok::<_, JobError<QueueError>>(())
                })
                .await?;
        }
        database
            .write(|transaction| Ok::<_, JobError<QueueError>>(clock_step::done(transaction.connection())?))
            .await?;
        Ok(bounded)
    }
}

async fn piece(database: &Database, after: i64) -> Result<Vec<LaterDelivery>, QueueError> {
    let now = database.now();
    database.read(move |connection| Ok::<_, JobError<QueueError>>(find_later(connection, after, now)?)).await
}

fn find_later(connection: &Connection, after: i64, now: Timestamp) -> rusqlite::Result<Vec<LaterDelivery>> {
    connection
        .prepare_cached(
            "SELECT d.id, d.lane, t.id, d.attempts, d.due_at, e.not_before, e.reminder
             FROM deliveries d JOIN events e ON e.id = d.event JOIN tenants t ON t.row = d.tenant
             WHERE d.id > ?1 AND d.state = 0 AND d.due_at > ?2 ORDER BY d.id LIMIT ?3",
        )?
        .query_map(params![after, micros(now), PIECE], |row| {
            let purpose = row.get::<_, Option<i64>>(6)?.map_or(Purpose::Deliveries, |_| Purpose::Reminders);
            Ok(LaterDelivery {
                delivery: row.get(0)?,
                lane: LaneId(id(row.get(1)?)),
                tenant: parsed(2, row.get_ref(2)?.as_str()?)?,
                attempts: row.get(3)?,
                due_at: time(row.get(4)?),
                not_before: row.get::<_, Option<i64>>(5)?.map(time),
                purpose,
            })
        })?
        .collect()
}

/// Returns a delivery's retry schedule, or `None` if its endpoint or tenant was deleted, so that the delivery will be
/// cancelled.
fn schedule(directory: &Directory, later: &LaterDelivery) -> Option<Arc<RetrySchedule>> {
    if let Some(endpoint) = directory.endpoint(later.lane) {
        return Some(Arc::clone(&endpoint.retry));
    }
    let tenant = directory.tenant(&later.tenant)?;
    Some(match later.purpose {
        Purpose::Deliveries => Arc::clone(&tenant.retry),
        Purpose::Reminders => Arc::clone(&tenant.reminders.retry),
    })
}
