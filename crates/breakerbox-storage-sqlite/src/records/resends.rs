//! Resends by filter. A step finds deliveries on a reader thread, then makes them pending and stores its progress in
//! one transaction, after checking that no other step has processed them in the meantime.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    ApiKeyId, DeliveryId, Id, JobId, LaneId, Priority, Resend, ResendProgress, ResendState, StateName,
    TenantId, TenantNumber,
};
use breakerbox_storage::records::{NewResend, Page, PageOf, Resends};
use breakerbox_storage::stored::resend::StoredFilter;
use breakerbox_storage::{BatchResult, QueueError, RecordsError, WaitingLane};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::cancel_and_resend::{Resent, resend};
use super::scan::{Found, Order, Scan};
use super::{SqliteRecords, listed, readable};
use crate::WriteTransaction;
use crate::columns::{id, micros, number, time, unreadable, whole};
use crate::error::JobError;
use breakerbox_storage::records::cursors::{page, position};

const JOB: &str = "job";
const KIND: &str = "resend";

/// The maximum number of rows that one step reads.
const LOOKS: usize = 20_000;
/// How long a finished job is kept.
const REMEMBERED: Duration = Duration::from_secs(30 * 86_400);
/// The maximum number of finished jobs that are deleted when a job is created.
const FORGOTTEN_AT_ONCE: u32 = 16;
/// The maximum number of jobs that one step tries. A job whose tenant's backlog is full is skipped.
const MAX_JOBS_TRIED: usize = 8;

const COLUMNS: &str = "id, wanted, by, position, done, skipped, created_at, finished_at, cancelled, tenant";

fn job(row: &Row<'_>) -> rusqlite::Result<Resend> {
    let filter = StoredFilter::read(row.get_ref(1)?.as_str()?).map_err(unreadable(1))?;
    let finished_at = row.get::<_, Option<i64>>(7)?.map(time);
    let state = match (finished_at, row.get(8)?) {
        (_, true) => ResendState::Cancelled,
        (Some(_), false) => ResendState::Done,
        (None, false) => ResendState::Running,
    };
    Ok(Resend {
        id: JobId(id(row.get(0)?)),
        filter,
        owner: row.get::<_, Option<i64>>(9)?.map(TenantNumber),
        by: row.get::<_, Option<i64>>(2)?.map(|by| ApiKeyId(id(by))),
        state,
        progress: ResendProgress {
            resent: whole(row.get(4)?),
            skipped: whole(row.get(5)?),
            reached: row.get::<_, Option<i64>>(3)?.map(|position| id(position).made_at()),
        },
        created_at: time(row.get(6)?),
        finished_at,
    })
}

fn show(connection: &Connection, wanted: JobId) -> Result<Resend, JobError<RecordsError>> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1 AND kind = '{KIND}'"))?
        .query_row([wanted.number()], job)
        .optional();
    readable(found, JOB, wanted)
}

/// The resend job whose turn it is, with the next deliveries that match its filter.
struct ResendPiece {
    job: i64,
    position: Option<i64>,
    found: Found,
}

/// Returns the first running job after the job `after`, wrapping around to the first of all, with the deliveries found
/// for it.
fn next_piece(connection: &Connection, after: i64, limit: usize) -> rusqlite::Result<Option<ResendPiece>> {
    let mut next = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM jobs INDEXED BY jobs_to_do
         WHERE finished_at IS NULL AND kind = '{KIND}' AND id > ?1 ORDER BY id LIMIT 1"
    ))?;
    let mut after_this = |after: i64| {
        let found = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(3)?, job(row)));
        next.query_row([after], found).optional()
    };
    let Some((id, position, job)) =
        after_this(after)?.map_or_else(|| after_this(-1), |found| Ok(Some(found)))?
    else {
        return Ok(None);
    };
    let nothing = Found { ids: Vec::new(), stopped_at: None };
    // A job that can't be read is ended, so that it does not block the others.
    let found = match listed(job, JOB, JobId(self::id(id)))? {
        None => nothing,
        Some(job) => match Scan::new(&job.filter, connection)? {
            // The name may meanwhile belong to another tenant than the one that the job was created for.
            Some(scan) if scan.tenant() == job.owner.map(|owner| owner.0) => {
                scan.run(connection, Order::OldestFirst, position, limit, LOOKS)?
            }
            _ => nothing,
        },
    };
    Ok(Some(ResendPiece { job: id, position, found }))
}

impl SqliteRecords {
    /// Makes the deliveries found for a job pending. Returns `None` if another step has already processed them or the
    /// tenant's backlog is full.
    async fn write_piece(&self, next_piece: ResendPiece) -> Result<Option<BatchResult>, RecordsError> {
        let records = self.clone();
        self.database
            .write(move |transaction| {
                let is_current = transaction
                    .connection()
                    .prepare_cached("SELECT 1 FROM jobs WHERE id = ?1 AND finished_at IS NULL AND position IS ?2")?
                    .exists(params![next_piece.job, next_piece.position])?;
                if !is_current {
                    return Ok(None);
                }
                let (mut resent, mut skipped) = (0_u64, 0_u64);
                let mut lanes: BTreeMap<LaneId, WaitingLane> = BTreeMap::new();
                let mut position = next_piece.position;
                let mut is_full = false;
                for found in next_piece.found.ids {
                    match resend(transaction, &records.directory, DeliveryId(id(found)), Some(Priority::Low))? {
                        Resent::Waits(lane) => {
                            resent += 1;
                            lanes
                                .entry(lane.lane)
                                .and_modify(|known| known.count = known.count.saturating_add(lane.count))
                                .or_insert(lane);
                        }
                        Resent::EndpointGone(_) => skipped += 1,
                        // Another step or a client was faster.
                        Resent::Missing | Resent::Unfinished(_) => {}
                        Resent::BacklogFull(_) => {
                            is_full = true;
                            break;
                        }
                    }
                    position = Some(found);
                }
                let is_done = !is_full && next_piece.found.stopped_at.is_none();
                if !is_full {
                    position = next_piece.found.stopped_at.or(position);
                }
                transaction
                    .connection()
                    .prepare_cached(
                        "UPDATE jobs SET position = ?2, done = done + ?3, skipped = skipped + ?4, finished_at = ?5
                         WHERE id = ?1",
                    )?
                    .execute(params![
                        next_piece.job,
                        position,
                        number(resent),
                        number(skipped),
                        is_done.then(|| micros(transaction.wall()))
                    ])?;
                let woken = lanes.into_values().collect();
                let is_stuck = is_full && resent == 0 && skipped == 0;
                Ok((!is_stuck).then_some(BatchResult { done: resent, woken, more: true }))
            })
            .await
    }
}

impl SqliteRecords {
    /// Inserts a resend job, and deletes a few finished ones.
    pub(super) fn insert_resend(
        &self,
        transaction: &mut WriteTransaction<'_>,
        new: &NewResend,
    ) -> Result<Resend, JobError<RecordsError>> {
        let now = transaction.wall();
        let filter = &new.filter;
        let mut tenant = None;
        if let Some(id) = &filter.tenant {
            let known = self.directory.tenant(id);
            tenant = Some(known.ok_or_else(|| RecordsError::missing("tenant", id))?.row);
        }
        if let Some(id) = filter.endpoint {
            self.known_endpoint(id)?;
        }
        if let Some(id) = filter.event {
            let exists = transaction
                .connection()
                .prepare_cached("SELECT 1 FROM events WHERE id = ?1")?
                .exists([id.number()])?;
            if !exists {
                return Err(RecordsError::missing("event", id).into());
            }
        }
        // Include deliveries that were created while the clock was ahead.
        let newest = now.max(transaction.newest_id_time());
        let until = filter.until.map_or(newest, |until| until.min(newest));
        let wanted = StoredFilter::of(filter, filter.state.unwrap_or(StateName::Failed), until).write();
        let before = Timestamp::from_micros(now.as_micros().saturating_sub(REMEMBERED.as_secs() * 1_000_000));
        transaction
            .connection()
            .prepare_cached(
                "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs NOT INDEXED
                     WHERE id < ?1 AND finished_at IS NOT NULL ORDER BY id LIMIT ?2)",
            )?
            .execute(params![Id::first_at(before).number(), FORGOTTEN_AT_ONCE])?;
        let job = JobId(transaction.next_id());
        transaction
            .connection()
            .prepare_cached(
                "INSERT INTO jobs (id, tenant, kind, wanted, by, done, skipped, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?6)",
            )?
            .execute(params![
                job.number(),
                tenant,
                KIND,
                wanted,
                new.by.map(ApiKeyId::number),
                micros(now)
            ])?;
        show(transaction.connection(), job)
    }
}

#[async_trait]
impl Resends for SqliteRecords {
    async fn create_resend(&self, new: NewResend) -> Result<Resend, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| records.insert_resend(transaction, &new)).await
    }

    async fn resend(&self, wanted: JobId) -> Result<Resend, RecordsError> {
        self.database.read(move |connection| show(connection, wanted)).await
    }

    async fn resends(&self, tenant: Option<&TenantId>, of: &PageOf) -> Result<Page<Resend>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let tenant = match tenant {
            Some(tenant) => match self.directory.tenant(tenant) {
                Some(entry) => Some(entry.row),
                None => return Ok(Page { items: Vec::new(), next: None }),
            },
            None => None,
        };
        let size = of.size();
        self.database
            .read(move |connection| {
                let (index, condition) = match tenant {
                    Some(_) => ("INDEXED BY jobs_of_tenant", "tenant = ?1"),
                    None => ("NOT INDEXED", "?1 IS NULL"),
                };
                let mut statement = connection.prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM jobs {index}
                     WHERE {condition} AND id < ?2 AND kind = '{KIND}' ORDER BY id DESC LIMIT ?3"
                ))?;
                let mut rows = statement.query(params![tenant, before, number(size as u64 + 1)])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.extend(listed(job(row), JOB, JobId(id(row.get(0)?)))?);
                }
                Ok(page(found, size, |resend: &Resend| resend.id.0))
            })
            .await
    }

    async fn cancel_resend(&self, wanted: JobId) -> Result<Resend, RecordsError> {
        self.database
            .write(move |transaction| {
                transaction
                    .connection()
                    .prepare_cached(&format!(
                        "UPDATE jobs SET finished_at = ?2, cancelled = 1
                         WHERE id = ?1 AND kind = '{KIND}' AND finished_at IS NULL"
                    ))?
                    .execute(params![wanted.number(), micros(transaction.wall())])?;
                show(transaction.connection(), wanted)
            })
            .await
    }

    async fn step_resends(&self, limit: usize) -> Result<BatchResult, QueueError> {
        for _ in 0..MAX_JOBS_TRIED {
            let after = self.last_resend.load(Ordering::Relaxed);
            let next = self
                .database
                .read(move |connection| {
                    Ok::<_, JobError<QueueError>>(next_piece(connection, after, limit.max(1))?)
                })
                .await?;
            let Some(next) = next else { return Ok(BatchResult::default()) };
            self.last_resend.store(next.job, Ordering::Relaxed);
            match self.write_piece(next).await {
                Ok(Some(batch)) => return Ok(batch),
                Ok(None) => {}
                Err(RecordsError::Queue(error)) => return Err(error),
                Err(other) => return Err(QueueError::Database(std::sync::Arc::new(other))),
            }
        }
        Ok(BatchResult { more: true, ..BatchResult::default() })
    }
}
