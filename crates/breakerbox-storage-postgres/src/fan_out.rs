//! Large fan-outs: writes the deliveries that the transaction that accepted their event did not write.
//!
//! That transaction writes a durable job: the event, its audience (the endpoints that were matched), and the number of
//! endpoints whose delivery is written. The ids of the remaining deliveries are reserved. A piece writes some of them and
//! advances the job's position in one transaction, so a crash at any time neither loses nor duplicates a delivery. Tenants with
//! fan-outs take turns. A job that another process is working on is skipped.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Priority, TenantId};
use breakerbox_storage::Routes;
use breakerbox_storage::stored::codes::{level, priority, time, whole};
use breakerbox_storage::{BatchResult, QueueError, WaitingLane};
use tokio_postgres::Row;

use super::audience::{self, ENTRY};
use super::backlogs::BacklogChanges;
use super::database::Database;
use super::database::Transaction;
use super::error::get;
use super::lanes::OneWaiting;
use super::rows::{DeliveryRow, DeliveryRows, code, small, unsigned};

/// Writes the pieces of fan-outs.
pub(crate) struct FanOuts {
    database: Database,
    routes: Arc<dyn Routes>,
    /// The tenant whose fan-out was written last.
    last_tenant: AtomicI64,
}

/// An unfinished fan-out job.
struct FanOut {
    event: i64,
    audience: i64,
    position: u32,
    due_at: Timestamp,
    of_event: Option<EventData>,
}

/// The columns of an event that its deliveries need.
struct EventData {
    priority: Priority,
    size: u64,
    fan_out: u32,
    expires_at: Option<Timestamp>,
}

impl FanOut {
    fn read(row: &Row) -> Result<Self, QueueError> {
        let of_event = match get::<Option<i16>>(row, 4)? {
            Some(level) => Some(EventData {
                priority: priority(level.into()),
                size: whole(get(row, 5)?),
                fan_out: unsigned(get(row, 6)?),
                expires_at: get::<Option<i64>>(row, 7)?.map(time),
            }),
            None => None,
        };
        Ok(Self {
            event: get(row, 0)?,
            audience: get(row, 1)?,
            position: unsigned(get(row, 2)?),
            due_at: time(get(row, 3)?),
            of_event,
        })
    }
}

impl FanOuts {
    pub(crate) fn new(database: Database, routes: Arc<dyn Routes>) -> Self {
        Self { database, routes, last_tenant: AtomicI64::new(-1) }
    }

    /// Writes up to `limit` deliveries of one tenant's fan-outs, oldest event first.
    pub(crate) async fn piece(&self, limit: u32) -> Result<BatchResult, QueueError> {
        self.database.within(self.write_piece(limit)).await
    }

    async fn write_piece(&self, limit: u32) -> Result<BatchResult, QueueError> {
        let mut transaction = self.database.begin().await?;
        let mut batch = BatchResult::default();
        let after = self.last_tenant.load(Ordering::Relaxed);
        let next_tenant = match next_tenant(&transaction, after).await? {
            None => next_tenant(&transaction, -1).await?,
            found => found,
        };
        let Some((tenant, name)) = next_tenant else {
            transaction.commit().await?;
            return Ok(batch);
        };
        let mut left = limit.max(1);
        while left > 0 {
            let oldest = transaction.query_opt(include_str!("sql/oldest_fan_out.sql"), &[&tenant]).await?;
            let Some(job) = oldest.as_ref().map(FanOut::read).transpose()? else { break };
            let written = self.write(&mut transaction, (tenant, &name), &job, left, &mut batch.woken).await?;
            batch.done += u64::from(written);
            left -= written.min(left);
        }
        batch.more = next_tenant_any(&transaction).await?;
        transaction.commit().await?;
        self.last_tenant.store(tenant, Ordering::Relaxed);
        Ok(batch)
    }

    /// Writes a job's next deliveries, and deletes the job after the last one. Returns the number written.
    async fn write(
        &self,
        transaction: &mut Transaction,
        (tenant, name): (i64, &TenantId),
        job: &FanOut,
        limit: u32,
        woken: &mut Vec<WaitingLane>,
    ) -> Result<u32, QueueError> {
        let Some(event) = &job.of_event else {
            tracing::error!(event = job.event, "the event of a fan-out is missing; the fan-out is dropped");
            return end(transaction, tenant, job).await.map(|()| 0);
        };
        let bytes = |endpoints: u32| u32::try_from(u64::from(endpoints) * ENTRY as u64).unwrap_or(u32::MAX);
        let (first, length) = (small(bytes(job.position).saturating_add(1)), small(bytes(limit)));
        let sql = "SELECT substr(endpoints, $2, $3) FROM audiences WHERE id = $1";
        let part = transaction.query_opt(sql, &[&job.audience, &first, &length]).await?;
        let bytes: Vec<u8> = part.map_or(Ok(Vec::new()), |row| get(&row, 0))?;
        // Another tenant may have the same name by now.
        let routes = self.routes.tenant(name).filter(|routes| routes.row() == tenant);
        let (mut waiting, mut cancelled) = (DeliveryRows::default(), DeliveryRows::default());
        let mut backlogs = BacklogChanges::default();
        let mut written = 0;
        for route in audience::endpoints(&bytes) {
            let row = DeliveryRow {
                id: job.event + 1 + i64::from(job.position + written),
                event: job.event,
                tenant,
                lane: route.lane.number(),
                priority: code(level(event.priority)),
                due_at: job.due_at,
                expires_at: event.expires_at.or(route.expires_after.map(|after| job.due_at + after)),
                size: event.size,
                reminder: None,
                lease: None,
            };
            if routes.as_ref().is_some_and(|routes| routes.has_endpoint(route.lane)) {
                waiting.push(row);
                backlogs.written_later(tenant, row.lane, event.size);
                let one = OneWaiting { lane: route.lane, tenant: name, key: None };
                one.wake(woken, event.priority, job.due_at);
            } else {
                // The endpoint was deleted before the delivery was written: the delivery is cancelled, as it would have
                // been otherwise.
                cancelled.push(row);
                backlogs.dropped(tenant, 1, event.size);
            }
            written += 1;
        }
        waiting.insert(transaction).await?;
        cancelled.insert_cancelled(transaction, transaction.now()).await?;
        let position = job.position + written;
        if written < limit || position >= event.fan_out {
            // Deliveries to endpoints that are missing in the audience can't be written, because their destination is
            // unknown.
            backlogs.dropped(tenant, event.fan_out.saturating_sub(position).into(), event.size);
            end(transaction, tenant, job).await?;
        } else {
            let sql = "UPDATE fan_outs SET position = $3 WHERE tenant = $1 AND event = $2";
            transaction.execute(sql, &[&tenant, &job.event, &small(position)]).await?;
        }
        backlogs.write(transaction).await?;
        Ok(written)
    }
}

/// Returns the next tenant, in the order of numbers, that has a fan-out.
async fn next_tenant(transaction: &Transaction, after: i64) -> Result<Option<(i64, TenantId)>, QueueError> {
    let sql = "SELECT f.tenant, t.id FROM fan_outs f JOIN tenants t ON t.row = f.tenant
        WHERE f.tenant > $1 ORDER BY f.tenant, f.event LIMIT 1";
    let Some(row) = transaction.query_opt(sql, &[&after]).await? else { return Ok(None) };
    let name = get::<&str>(&row, 1)?.parse();
    let name = name.map_err(|error| QueueError::Database(Arc::new(error)))?;
    Ok(Some((get(&row, 0)?, name)))
}

/// Returns whether any fan-out is unfinished that no other process is working on.
async fn next_tenant_any(transaction: &Transaction) -> Result<bool, QueueError> {
    let sql = "SELECT FROM fan_outs LIMIT 1 FOR UPDATE SKIP LOCKED";
    Ok(transaction.query_opt(sql, &[]).await?.is_some())
}

/// Deletes a finished job, and its audience if no other job refers to it.
async fn end(transaction: &Transaction, tenant: i64, job: &FanOut) -> Result<(), QueueError> {
    let sql = "DELETE FROM fan_outs WHERE tenant = $1 AND event = $2";
    transaction.execute(sql, &[&tenant, &job.event]).await?;
    let sql = "DELETE FROM audiences a WHERE a.id = $1 AND NOT EXISTS (SELECT FROM fan_outs f WHERE f.audience = a.id)";
    transaction.execute(sql, &[&job.audience]).await?;
    Ok(())
}
