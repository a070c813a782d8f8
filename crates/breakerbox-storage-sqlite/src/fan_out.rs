//! Large fan-outs: writes the deliveries that the transaction that accepted their event did not write.
//!
//! That transaction writes a durable job: the event, its audience (the endpoints that were matched, see [`defer`]),
//! and the number of endpoints whose delivery is written. The ids of the remaining deliveries are reserved.
//! [`WriteFanOut`] writes some of them and advances the job's position in one transaction, so a crash at any time
//! neither loses nor duplicates a delivery. Other tenants' jobs run in between, and tenants with fan-outs take turns.
//!
//! Deliveries that are not written yet count towards the tenant's backlog as soon as the event is accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{LaneId, Priority};
use breakerbox_storage::{BatchResult, QueueError, WaitingLane};
use rusqlite::{Connection, OptionalExtension, params};

use super::abandoned::AbandonedResults;
use super::columns::{CANCELLED, WAITING, id, micros, number, priority, time, whole};
use super::insert::{self, NewDeliveryRow};
use super::job::Command;
use super::lanes::OneWaiting;
use super::transaction::WriteTransaction;
use crate::error::JobError;
use breakerbox_storage::{EndpointRoute, Routes};

/// The number of bytes per endpoint in a stored audience.
const ENTRY: usize = 16;

/// The maximum number of a tenant's fan-outs that are searched for deliveries to a deleted endpoint.
const SEARCHED: u32 = 10_000;

/// The endpoints that an event goes to, in their stored form.
#[derive(Default)]
pub(super) struct Audience(Vec<u8>);

impl Audience {
    pub(super) fn with_room_for(endpoints: u32) -> Self {
        Self(Vec::with_capacity(endpoints as usize * ENTRY))
    }

    pub(super) fn push(&mut self, route: EndpointRoute) {
        let expires_after = route.expires_after.map_or(0, |after| after.as_micros());
        let expires_after = i64::try_from(expires_after).unwrap_or(i64::MAX);
        self.0.extend_from_slice(&route.lane.number().to_le_bytes());
        self.0.extend_from_slice(&expires_after.to_le_bytes());
    }
}

/// Decodes the endpoints in a part of a stored audience.
fn endpoints(bytes: &[u8]) -> impl Iterator<Item = EndpointRoute> {
    bytes.as_chunks::<ENTRY>().0.iter().map(|entry| {
        let (lane, expires_after) = entry.split_at(ENTRY / 2);
        let read = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let expires_after = Some(whole(read(expires_after))).filter(|micros| *micros > 0);
        EndpointRoute {
            lane: LaneId(id(read(lane))),
            expires_after: expires_after.map(Duration::from_micros),
        }
    })
}

/// A fan-out job to insert.
pub(super) struct NewFanOut<'a> {
    pub(super) tenant: i64,
    pub(super) event: i64,
    pub(super) audience: &'a Audience,
    /// The number of endpoints in the audience whose delivery is already written.
    pub(super) written: u32,
    /// The number of endpoints whose delivery is not written yet.
    pub(super) rest: u32,
    /// The size of the event's payload, in bytes.
    pub(super) size: u64,
    pub(super) due_at: Timestamp,
}

/// Inserts a job that later writes the deliveries which the accepting transaction does not write.
pub(super) fn defer(transaction: &mut WriteTransaction<'_>, new: NewFanOut<'_>) -> rusqlite::Result<()> {
    let connection = transaction.connection;
    let known = transaction.writer_state.audience_like(new.tenant, &new.audience.0);
    let mut is_kept = connection.prepare_cached("SELECT 1 FROM audiences WHERE id = ?1")?;
    // The audience may have been deleted with the last job that referred to it, or by a rollback.
    let audience = match known {
        Some(known) if is_kept.exists([known])? => known,
        _ => {
            connection
                .prepare_cached("INSERT INTO audiences (id, endpoints) VALUES (?1, ?2)")?
                .execute(params![new.event, new.audience.0])?;
            transaction.writer_state.remember_audience(new.tenant, new.event, new.audience.0.clone());
            new.event
        }
    };
    connection
        .prepare_cached(
            "INSERT INTO fan_outs (tenant, event, audience, position, due_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![new.tenant, new.event, audience, new.written, micros(new.due_at)])?;
    transaction.writer_state.deferred(new.tenant, new.rest.into(), new.size);
    Ok(())
}

/// Selects the next tenant, in the order of numbers, that has a fan-out.
pub(super) const NEXT_TENANT: &str =
    "SELECT tenant FROM fan_outs WHERE tenant > ?1 ORDER BY tenant, event LIMIT 1";

/// Selects a tenant's oldest fan-out.
pub(super) const OLDEST: &str =
    "SELECT f.event, f.audience, f.position, f.due_at, e.priority, e.size, e.fan_out, e.expires_at
    FROM fan_outs f LEFT JOIN events e ON e.id = f.event WHERE f.tenant = ?1 ORDER BY f.event LIMIT 1";

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

fn oldest(connection: &Connection, tenant: i64) -> rusqlite::Result<Option<FanOut>> {
    let found = connection.prepare_cached(OLDEST)?.query_row([tenant], |row| {
        let of_event = match row.get::<_, Option<i64>>(4)? {
            Some(level) => Some(EventData {
                priority: priority(level),
                size: whole(row.get(5)?),
                fan_out: row.get(6)?,
                expires_at: row.get::<_, Option<i64>>(7)?.map(time),
            }),
            None => None,
        };
        Ok(FanOut {
            event: row.get(0)?,
            audience: row.get(1)?,
            position: row.get(2)?,
            due_at: time(row.get(3)?),
            of_event,
        })
    });
    found.optional()
}

/// Writes a bounded number of deliveries for one tenant's fan-outs, oldest event first.
pub(super) struct WriteFanOut {
    pub(super) limit: u32,
    pub(super) routes: Arc<dyn Routes>,
    /// The tenant whose fan-out was written last.
    pub(super) last_tenant: Arc<AtomicI64>,
    pub(super) abandoned: AbandonedResults,
}

impl Command for WriteFanOut {
    type Output = BatchResult;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<BatchResult, JobError<QueueError>> {
        let connection = transaction.connection;
        let mut next = connection.prepare_cached(NEXT_TENANT)?;
        let mut after = |tenant: i64| next.query_row([tenant], |row| row.get::<_, i64>(0)).optional();
        let next_tenant = match after(self.last_tenant.load(Ordering::Relaxed))? {
            None => after(-1)?,
            found => found,
        };
        let mut batch = BatchResult::default();
        let Some(tenant) = next_tenant else { return Ok(batch) };
        self.last_tenant.store(tenant, Ordering::Relaxed);
        let mut left = self.limit.max(1);
        while left > 0 {
            let Some(job) = oldest(connection, tenant)? else { break };
            let written = self.write(transaction, tenant, &job, left, &mut batch.woken)?;
            batch.done += u64::from(written);
            left -= written.min(left);
        }
        batch.more = after(-1)?.is_some();
        Ok(batch)
    }

    fn on_caller_gone(&mut self, answer: BatchResult) {
        self.abandoned.add(&[], answer.woken);
    }
}

impl WriteFanOut {
    /// Writes a job's next deliveries, and deletes the job after the last one. Returns the number written.
    fn write(
        &self,
        transaction: &mut WriteTransaction<'_>,
        tenant: i64,
        job: &FanOut,
        limit: u32,
        woken: &mut Vec<WaitingLane>,
    ) -> Result<u32, JobError<QueueError>> {
        let (connection, wall, drift) = (transaction.connection, transaction.wall, transaction.drift());
        let Some(event) = &job.of_event else {
            tracing::error!(event = job.event, "the event of a fan-out is missing; the fan-out is dropped");
            return Ok(end(connection, tenant, job).map(|()| 0)?);
        };
        let bytes: Option<Vec<u8>> = connection
            .prepare_cached("SELECT substr(endpoints, ?2, ?3) FROM audiences WHERE id = ?1")?
            .query_row(
                params![
                    job.audience,
                    number(u64::from(job.position) * ENTRY as u64 + 1),
                    number(u64::from(limit) * ENTRY as u64)
                ],
                |row| row.get(0),
            )
            .optional()?;
        let name = transaction.writer_state.tenant(connection, tenant)?;
        // Another tenant may have the same name by now.
        let routes = self.routes.tenant(&name).filter(|routes| routes.row() == tenant);
        let mut written = 0;
        for route in endpoints(&bytes.unwrap_or_default()) {
            let is_there = routes.as_ref().is_some_and(|routes| routes.has_endpoint(route.lane));
            insert::delivery(
                connection,
                NewDeliveryRow {
                    id: job.event + 1 + i64::from(job.position + written),
                    event: job.event,
                    tenant,
                    lane: route.lane.number(),
                    // The endpoint was deleted before the delivery was written: the delivery is cancelled, as it
                    // would have been otherwise.
                    state: if is_there { WAITING } else { CANCELLED },
                    priority: event.priority,
                    due_at: job.due_at,
                    expires_at: event
                        .expires_at
                        .map(|at| drift.to_store(at))
                        .or(route.expires_after.map(|after| job.due_at + after)),
                    finished_at: (!is_there).then_some(wall),
                },
            )?;
            transaction.writer_state.written_later(tenant, 1, event.size);
            if is_there {
                transaction.writer_state.begun(tenant, route.lane.number(), event.size);
                let waiting = OneWaiting { lane: route.lane, tenant: &name, key: None };
                waiting.wake(woken, event.priority, job.due_at);
            }
            written += 1;
        }
        let position = job.position + written;
        if written < limit || position >= event.fan_out {
            // Deliveries to endpoints that are missing in the audience can't be written, because their destination is
            // unknown.
            let missing = event.fan_out.saturating_sub(position);
            transaction.writer_state.written_later(tenant, missing.into(), event.size);
            end(connection, tenant, job)?;
        } else {
            connection
                .prepare_cached("UPDATE fan_outs SET position = ?3 WHERE tenant = ?1 AND event = ?2")?
                .execute(params![tenant, job.event, position])?;
        }
        Ok(written)
    }
}

/// Deletes a finished job, and its audience if no other job refers to it.
fn end(connection: &Connection, tenant: i64, job: &FanOut) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM fan_outs WHERE tenant = ?1 AND event = ?2")?
        .execute([tenant, job.event])?;
    connection
        .prepare_cached(
            "DELETE FROM audiences WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM fan_outs WHERE audience = ?1)",
        )?
        .execute([job.audience])?;
    Ok(())
}

/// Returns the number of deliveries to this endpoint that are not written yet.
pub(super) fn pending_in(connection: &Connection, tenant: i64, lane: i64) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(
        "SELECT f.position, a.endpoints FROM fan_outs f JOIN audiences a ON a.id = f.audience
         WHERE f.tenant = ?1 LIMIT ?2",
    )?;
    let mut rows = statement.query(params![tenant, SEARCHED])?;
    let mut pending = 0;
    while let Some(row) = rows.next()? {
        let position: u32 = row.get(0)?;
        let audience = row.get_ref(1)?.as_blob()?;
        let rest = audience.get(position as usize * ENTRY..).unwrap_or_default();
        pending += endpoints(rest).filter(|route| route.lane.number() == lane).count() as u64;
    }
    Ok(pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_is_read_as_it_was_written() {
        let route = |lane, expires_after| EndpointRoute { lane: LaneId(id(lane)), expires_after };
        let routes = [
            route(7, None),
            route(i64::MAX, Some(Duration::from_micros(1))),
            route(0, Some(Duration::from_secs(86_400))),
        ];
        let mut audience = Audience::with_room_for(3);
        routes.iter().for_each(|route| audience.push(*route));
        assert_eq!(endpoints(&audience.0).collect::<Vec<_>>(), routes);
        assert_eq!(endpoints(&audience.0[ENTRY..]).collect::<Vec<_>>(), routes[1..]);
    }
}
