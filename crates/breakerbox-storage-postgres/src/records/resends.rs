//! Resends by filter. A step finds deliveries, then makes them pending and stores its progress in one transaction, after
//! checking that no other step, at whatever process, has processed them in the meantime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    ApiKeyId, Id, JobId, LaneId, Priority, Resend, ResendProgress, ResendState, StateName, TenantId,
    TenantNumber,
};
use breakerbox_storage::records::cursors::{page, position};
use breakerbox_storage::records::{NewResend, Page, PageOf, Resends};
use breakerbox_storage::stored::Unreadable;
use breakerbox_storage::stored::codes::{id, micros, number, whole};
use breakerbox_storage::stored::resend::StoredFilter;
use breakerbox_storage::{BatchResult, QueueError, RecordsError, WaitingLane};
use tokio_postgres::Row;

use super::PostgresRecords;
use super::cancel_and_resend::{Resent, resend};
use super::scan::{Found, Order, Scan};
use super::work::Work;
use crate::columns::{at, column, listed, maybe_at, readable};
use crate::database::Transaction;
use crate::error::get;

const JOB: &str = "job";

/// The maximum number of rows that one step reads.
const LOOKS: usize = 20_000;
/// How long a finished job is kept.
const REMEMBERED: Duration = Duration::from_secs(30 * 86_400);
/// The maximum number of finished jobs that are deleted when a job is created.
const FORGOTTEN_AT_ONCE: i64 = 16;
/// The maximum number of jobs that one step tries. A job whose tenant's backlog is full is skipped.
const MAX_JOBS_TRIED: usize = 8;

fn job(row: &Row) -> Result<Resend, Unreadable> {
    let finished_at = maybe_at(row, "finished_at")?;
    let state = match (finished_at, column(row, "cancelled")?) {
        (_, true) => ResendState::Cancelled,
        (Some(_), false) => ResendState::Done,
        (None, false) => ResendState::Running,
    };
    Ok(Resend {
        id: JobId(id(column(row, "id")?)),
        filter: StoredFilter::read(column(row, "wanted")?)?,
        owner: column::<Option<i64>>(row, "tenant")?.map(TenantNumber),
        by: column::<Option<i64>>(row, "by")?.map(|by| ApiKeyId(id(by))),
        state,
        progress: ResendProgress {
            resent: whole(column(row, "done")?),
            skipped: whole(column(row, "skipped")?),
            reached: column::<Option<i64>>(row, "position")?.map(|position| id(position).made_at()),
        },
        created_at: at(row, "created_at")?,
        finished_at,
    })
}

async fn show(transaction: &Transaction, wanted: JobId) -> Result<Resend, RecordsError> {
    let sql = include_str!("../sql/records/show_resend.sql");
    let found = transaction.query_opt(sql, &[&wanted.number()]).await?;
    readable(found.as_ref().map(job), JOB, wanted)
}

/// The resend job whose turn it is, with the next deliveries that match its filter.
struct ResendPiece {
    job: i64,
    position: Option<i64>,
    found: Found,
}

/// Returns the first running job after the job `after`, wrapping around to the first of all, with the deliveries found
/// for it.
async fn next_piece(
    transaction: &Transaction,
    after: i64,
    limit: usize,
) -> Result<Option<ResendPiece>, QueueError> {
    let sql = include_str!("../sql/records/next_resend.sql");
    let mut row = transaction.query_opt(sql, &[&after]).await?;
    if row.is_none() {
        row = transaction.query_opt(sql, &[&-1_i64]).await?;
    }
    let Some(row) = row else { return Ok(None) };
    let (number, position): (i64, Option<i64>) = (get(&row, 0)?, get(&row, 1)?);
    let nothing = Found { ids: Vec::new(), stopped_at: None };
    // A job that can't be read is ended, so that it does not block the others.
    let found = match listed(job(&row), JOB, JobId(id(number))) {
        None => nothing,
        Some(job) => match Scan::new(&job.filter, transaction).await? {
            // The name may meanwhile belong to another tenant than the one that the job was created for.
            Some(scan) if scan.tenant() == job.owner.map(|owner| owner.0) => {
                scan.run(transaction, Order::OldestFirst, position, limit, LOOKS).await?
            }
            _ => nothing,
        },
    };
    Ok(Some(ResendPiece { job: number, position, found }))
}

impl PostgresRecords {
    /// Makes the deliveries found for a job pending. Returns `None` if another step has already processed them or the
    /// tenant's backlog is full.
    async fn write_piece(&self, piece: ResendPiece) -> Result<Option<BatchResult>, RecordsError> {
        let mut work = self.begin().await?;
        let sql = include_str!("../sql/records/lock_resend_if_at.sql");
        if work.transaction.query_opt(sql, &[&piece.job, &piece.position]).await?.is_none() {
            return Ok(None);
        }
        let (mut resent, mut skipped) = (0_u64, 0_u64);
        let mut lanes: BTreeMap<LaneId, WaitingLane> = BTreeMap::new();
        let mut position = piece.position;
        let mut is_full = false;
        let results = resend(&work, &self.directory, &piece.found.ids, Some(Priority::Low)).await?;
        for (found, result) in piece.found.ids.iter().zip(results) {
            match result {
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
            position = Some(*found);
        }
        let is_done = !is_full && piece.found.stopped_at.is_none();
        if !is_full {
            position = piece.found.stopped_at.or(position);
        }
        let sql = include_str!("../sql/records/advance_resend.sql");
        let finished_at = is_done.then(|| micros(work.now));
        work.transaction
            .execute(sql, &[&piece.job, &position, &number(resent), &number(skipped), &finished_at])
            .await?;
        lanes.values().for_each(|lane| work.tell(lane));
        work.commit(&self.directory).await?;
        let woken = lanes.into_values().collect();
        let is_stuck = is_full && resent == 0 && skipped == 0;
        Ok((!is_stuck).then_some(BatchResult { done: resent, woken, more: true }))
    }

    /// Inserts a resend job, and deletes a few finished ones.
    pub(super) async fn insert_resend(
        &self,
        work: &mut Work,
        new: NewResend,
    ) -> Result<Resend, RecordsError> {
        let filter = &new.filter;
        let tenant = match &filter.tenant {
            Some(id) => Some(self.directory_tenant(id)?),
            None => None,
        };
        if let Some(id) = filter.endpoint
            && self.directory.endpoint(id.into()).is_none()
        {
            return Err(RecordsError::missing("endpoint", id));
        }
        if let Some(id) = filter.event {
            let sql = include_str!("../sql/records/fan_out_of_event.sql");
            if work.transaction.query_opt(sql, &[&id.number()]).await?.is_none() {
                return Err(RecordsError::missing("event", id));
            }
        }
        let until = filter.until.map_or(work.now, |until| until.min(work.now));
        let wanted = StoredFilter::of(filter, filter.state.unwrap_or(StateName::Failed), until).write();
        let before = Id::first_at(work.now.before(REMEMBERED)).number();
        let sql = include_str!("../sql/records/forget_finished_jobs.sql");
        work.transaction.execute(sql, &[&before, &FORGOTTEN_AT_ONCE]).await?;
        let job = JobId(work.transaction.next_id());
        let sql = include_str!("../sql/records/insert_resend.sql");
        let by = new.by.map(ApiKeyId::number);
        work.transaction.execute(sql, &[&job.number(), &tenant, &wanted, &by, &micros(work.now)]).await?;
        show(&work.transaction, job).await
    }

    /// Returns the number of a tenant in the directory.
    fn directory_tenant(&self, id: &TenantId) -> Result<i64, RecordsError> {
        self.known_tenant(id).map(|entry| entry.row)
    }

    /// Brings the directory up to date if it lacks what a resend's filter names.
    pub(super) async fn know_filter(&self, new: &NewResend) -> Result<(), QueueError> {
        let knows = |directory: &breakerbox_storage::Directory| {
            let tenant = new.filter.tenant.as_ref().is_none_or(|id| directory.tenant(id).is_some());
            let endpoint = new.filter.endpoint.is_none_or(|id| directory.endpoint(id.into()).is_some());
            (tenant && endpoint).then_some(())
        };
        self.look_up(knows).await.map(drop)
    }
}

#[async_trait]
impl Resends for PostgresRecords {
    async fn create_resend(&self, new: NewResend) -> Result<Resend, RecordsError> {
        self.know_filter(&new).await?;
        let mut work = self.begin().await?;
        let resend = self.insert_resend(&mut work, new).await?;
        work.commit(&self.directory).await?;
        Ok(resend)
    }

    async fn resend(&self, wanted: JobId) -> Result<Resend, RecordsError> {
        let sql = include_str!("../sql/records/show_resend.sql");
        let rows = self.database.read(sql, &[&wanted.number()]).await?;
        readable(rows.first().map(job), JOB, wanted)
    }

    async fn resends(&self, tenant: Option<&TenantId>, of: &PageOf) -> Result<Page<Resend>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let size = of.size();
        let limit = number(size as u64 + 1);
        let rows = match tenant {
            Some(tenant) => {
                let Some(entry) = self.look_up(|directory| directory.tenant(tenant)).await? else {
                    return Ok(Page { items: Vec::new(), next: None });
                };
                let sql = include_str!("../sql/records/list_resends_of_tenant.sql");
                self.database.read(sql, &[&before, &limit, &entry.row]).await?
            }
            None => {
                let sql = include_str!("../sql/records/list_resends.sql");
                self.database.read(sql, &[&before, &limit]).await?
            }
        };
        let mut found = Vec::new();
        for row in &rows {
            found.extend(listed(job(row), JOB, JobId(id(get(row, 0)?))));
        }
        Ok(page(found, size, |resend: &Resend| resend.id.0))
    }

    async fn cancel_resend(&self, wanted: JobId) -> Result<Resend, RecordsError> {
        let work = self.begin().await?;
        let sql = include_str!("../sql/records/cancel_resend_if_running.sql");
        work.transaction.execute(sql, &[&wanted.number(), &micros(work.now)]).await?;
        let shown = show(&work.transaction, wanted).await?;
        work.commit(&self.directory).await?;
        Ok(shown)
    }

    async fn step_resends(&self, limit: usize) -> Result<BatchResult, QueueError> {
        for _ in 0..MAX_JOBS_TRIED {
            let after = self.last_resend.load(Ordering::Relaxed);
            let transaction = self.database.begin_read().await?;
            let next = next_piece(&transaction, after, limit.max(1)).await?;
            transaction.commit().await?;
            let Some(next) = next else { return Ok(BatchResult::default()) };
            self.last_resend.store(next.job, Ordering::Relaxed);
            match self.write_piece(next).await {
                Ok(Some(batch)) => return Ok(batch),
                Ok(None) => {}
                Err(RecordsError::Queue(error)) => return Err(error),
                Err(other) => return Err(QueueError::Database(Arc::new(other))),
            }
        }
        Ok(BatchResult { more: true, ..BatchResult::default() })
    }
}
