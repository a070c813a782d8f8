//! Accepts batches, many in one transaction: events, payloads, a delivery for each endpoint, idempotency keys. It takes two
//! round trips, however many batches there are.
//!
//! The first round trip stores the idempotency keys, finds the lanes of dynamic URLs, and reads the backlogs. Then it is
//! decided which batches are accepted. The second one writes their rows and commits. The transaction writes a bounded number of
//! deliveries per tenant, and a durable job ([`fan_out`](super::fan_out)) writes the rest.
//!
//! Limits hold exactly within a process. Processes that accept at the same moment do not see each other, so a tenant may exceed
//! its limit by what the others have in one commit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Key, Timestamp};
use breakerbox_model::objects::{Backlog, EventId, EventType, LaneId, NewBatch, NewEvent};
use breakerbox_storage::stored::codes::{id, micros};
use breakerbox_storage::{QueueError, Reservations, SubmitError, Submitted, SubmittedEvent};
use breakerbox_storage::{Routes, TenantRoutes};
use tokio_postgres::error::SqlState;

use super::abandoned::AbandonedResults;
use super::audience;
use super::backlogs;
use super::batcher::{Caller, Handed, Job};
use super::database::Transaction;
use super::database::{Database, transaction_ended};
use super::error::{get, is_of_values, is_transient, sql_state};
use super::fresh::{Dispatched, FreshDelivery, FreshEvent, FreshRows, Reserved, on_caller_gone};
use super::idempotency::KeyRows;
use super::ids::{self, MAX_LARGE_RANGE, MAX_RANGE};
use super::lanes::DynamicLanes;
use super::rows::small;

/// The maximum number of deliveries of one tenant that a transaction writes when it accepts their events.
const WRITTEN_AT_SUBMIT: u32 = 1_000;
/// The approximate number of bytes that a delivery takes on disk, with its attempt and the log, in addition to its payload.
const BYTES_EACH: u32 = 1_024;

/// A batch, and the channel for its result.
pub(crate) struct SubmitJob {
    pub(crate) batch: NewBatch,
    pub(crate) caller: Caller<Submitted, SubmitError>,
}

impl Job for SubmitJob {
    fn bytes(&self) -> usize {
        self.batch.events.iter().map(|event| event.payload.len() + BYTES_EACH as usize).sum()
    }
}

/// Accepts batches.
#[derive(Clone)]
pub(crate) struct Submitter {
    pub(crate) database: Database,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) reservations: Arc<dyn Reservations>,
    pub(crate) abandoned: AbandonedResults,
}

/// The result of one batch, and the slots that were reserved for its deliveries.
type Outcome = (Result<Submitted, SubmitError>, Option<Reserved>);

impl Submitter {
    /// Accepts a group of batches, and sends the results.
    pub(crate) async fn run(&self, group: Vec<SubmitJob>) {
        let mut waiting = VecDeque::from(group);
        while !waiting.is_empty() {
            // A statement can't insert a key twice, so a repetition goes into the next transaction.
            let mut keys = HashSet::new();
            let (mut now, mut later) = (Vec::new(), VecDeque::new());
            for job in waiting {
                let key =
                    job.batch.idempotency.as_ref().map(|key| (job.batch.tenant.clone(), key.key.clone()));
                let is_new = key.is_none_or(|key| keys.insert(key));
                if is_new { now.push(job) } else { later.push_back(job) }
            }
            self.accept(now).await;
            waiting = later;
        }
    }

    async fn accept(&self, jobs: Vec<SubmitJob>) {
        let batches: Vec<&NewBatch> = jobs.iter().map(|job| &job.batch).collect();
        let mut result = self.attempt(&batches).await;
        if result.as_ref().is_err_and(is_transient) {
            result = self.attempt(&batches).await;
        }
        match result {
            Ok(outcomes) => {
                jobs.into_iter().zip(outcomes).for_each(|(job, outcome)| self.answer(job.caller, outcome));
            }
            Err(error) if is_of_values(&error) => {
                // Nothing was written. One batch may be the reason, so that each is tried alone.
                if sql_state(&error) == Some(&SqlState::UNIQUE_VIOLATION)
                    && let Err(error) = self.database.renumber_ids().await
                {
                    tracing::warn!(%error, "can't get another number for this process");
                }
                for job in jobs {
                    let outcome = match self.attempt(&[&job.batch]).await {
                        Ok(mut outcomes) => outcomes.pop(),
                        Err(error) => Some((Err(error.into()), None)),
                    };
                    self.answer(job.caller, outcome.unwrap_or((Err(QueueError::Closed.into()), None)));
                }
            }
            Err(error) => {
                tracing::warn!(%error, jobs = jobs.len(), "can't accept events");
                for job in jobs {
                    self.answer(job.caller, (Err(error.clone().into()), None));
                }
            }
        }
    }

    fn answer(&self, caller: Caller<Submitted, SubmitError>, (result, reserved): Outcome) {
        let abandoned = self.abandoned.clone();
        let answer = result.map(|submitted| {
            let Some(reserved) = reserved else { return Handed::plain(submitted) };
            Handed::with(submitted, reserved, Reserved::keep, move |submitted: Submitted, reserved| {
                on_caller_gone(&abandoned, &submitted.taken, submitted.woken, reserved);
            })
        });
        // The caller may be gone.
        let _ = caller.send(answer);
    }

    async fn attempt(&self, batches: &[&NewBatch]) -> Result<Vec<Outcome>, QueueError> {
        self.database.within(self.transact(batches)).await
    }

    async fn transact(&self, batches: &[&NewBatch]) -> Result<Vec<Outcome>, QueueError> {
        let now = self.database.now();
        let mut prepared: Vec<Result<Prepared<'_>, SubmitError>> =
            batches.iter().map(|batch| Prepared::new(batch, &*self.routes)).collect();
        let mut transaction = self.database.lend().await?;
        let mut begun = false;
        let large: i64 = prepared.iter().flatten().map(Prepared::large_ranges).sum();
        let mut next_large = 0;
        if large > 0 {
            transaction.run(self.database.begin_sql()).await?;
            begun = true;
            let odd = ids::odd_millis(now);
            let row = transaction.query_opt(include_str!("sql/take_large_ids.sql"), &[&odd, &large]).await?;
            next_large = row.map_or(Ok(odd), |row| get(&row, 0))?;
        }
        for one in prepared.iter_mut().flatten() {
            one.set_ids(&self.database, &mut next_large)?;
        }
        let mut keys = KeyRows::default();
        let mut lanes = DynamicLanes::default();
        let mut tenants = Vec::new();
        for one in prepared.iter_mut().flatten() {
            if let Some(key) = &one.batch.idempotency {
                let row = self.database.next_id().number();
                one.key_row = row;
                one.key = Some(keys.push(row, one.tenant.row(), &key.key, &key.fingerprint, &one.events));
            }
            one.circuits.iter().flatten().for_each(|circuit| lanes.want(one.tenant.row(), circuit));
            tenants.push(one.tenant.row());
        }
        tenants.sort_unstable();
        tenants.dedup();
        let (started, stored, found, totals) = tokio::join!(
            biased;
            async { if begun { Ok(()) } else { transaction.run(self.database.begin_sql()).await } },
            keys.remember(&transaction),
            lanes.find(&transaction),
            backlogs::totals(&transaction, &tenants),
        );
        started?;
        let stored = stored?;
        found?;
        let mut writing = Writing {
            submitter: self,
            now,
            lanes: &lanes,
            totals: totals?,
            room: HashMap::new(),
            rows: FreshRows::default(),
            fan_outs: FanOutRows::default(),
        };
        let mut rejected = Vec::new();
        let mut outcomes: Vec<(Result<Submitted, SubmitError>, Option<Dispatched>)> = Vec::new();
        for one in &prepared {
            let one = match one {
                Ok(one) => one,
                Err(_) => {
                    outcomes.push((Err(SubmitError::Queue(QueueError::Closed)), None));
                    continue;
                }
            };
            let earlier = one.key.and_then(|key| stored.get(&key)).filter(|stored| stored.id != one.key_row);
            if let (Some(earlier), Some(key)) = (earlier, &one.batch.idempotency) {
                outcomes.push((earlier.earlier(&key.fingerprint), None));
                continue;
            }
            match writing.admit(one) {
                Ok(()) => {
                    let (submitted, dispatched) = writing.add(one);
                    outcomes.push((Ok(submitted), Some(dispatched)));
                }
                Err(error) => {
                    rejected.extend(one.key);
                    outcomes.push((Err(error), None));
                }
            }
        }
        let Writing { rows, fan_outs, .. } = writing;
        let (forgotten, inserted, deferred, committed) = tokio::join!(
            biased;
            keys.forget(&transaction, &rejected),
            rows.insert(&transaction),
            fan_outs.insert(&transaction),
            transaction.send_commit(),
        );
        let leases =
            forgotten.and(inserted).and_then(|leases| deferred.map(|()| leases)).inspect_err(|_| {
                // The commit of a failed transaction is a rollback.
                transaction_ended(&mut transaction, &committed);
            })?;
        committed?;
        transaction.give_back();
        drop(rows);
        let outcomes = outcomes.into_iter().zip(prepared).map(|((result, dispatched), prepared)| {
            let Some(mut dispatched) = dispatched else {
                return (prepared.and(result), None);
            };
            dispatched.set_leases(&leases);
            let Dispatched { taken, woken, reserved } = dispatched;
            (result.map(|submitted| Submitted { taken, woken, ..submitted }), Some(reserved))
        });
        Ok(outcomes.collect())
    }
}

/// A batch that may be accepted.
struct Prepared<'b> {
    batch: &'b NewBatch,
    tenant: Arc<dyn TenantRoutes>,
    /// The circuit key of each event with a dynamic URL.
    circuits: Vec<Option<Arc<str>>>,
    /// The id of each event, and the number of its deliveries.
    events: Vec<(i64, u32)>,
    /// The position of the idempotency key in the statement.
    key: Option<usize>,
    /// The id of the idempotency key's row.
    key_row: i64,
}

impl<'b> Prepared<'b> {
    fn new(batch: &'b NewBatch, routes: &dyn Routes) -> Result<Self, SubmitError> {
        let tenant =
            routes.tenant(&batch.tenant).ok_or_else(|| SubmitError::UnknownTenant(batch.tenant.clone()))?;
        let circuit = |event: &NewEvent| {
            let key = event
                .url
                .as_ref()
                .map(|url| Key::of(batch.tenant.as_str(), url.as_str(), tenant.circuit_by()));
            key.transpose().map(|key| key.map(|key| Arc::from(key.text())))
        };
        let circuits = batch.events.iter().map(circuit).collect::<Result<_, _>>()?;
        let fan_out = |event: &NewEvent| match &event.url {
            Some(_) => 1,
            None => u32::try_from(tenant.endpoint_count(&event.kind)).unwrap_or(u32::MAX),
        };
        let events = batch.events.iter().map(|event| (0, fan_out(event))).collect();
        Ok(Self { batch, circuits, events, tenant, key: None, key_row: 0 })
    }

    /// Returns the number of events whose ids have to come from the database.
    fn large_ranges(&self) -> i64 {
        self.events.iter().filter(|(_, fan_out)| *fan_out >= MAX_RANGE).map(|_| 1).sum()
    }

    fn set_ids(&mut self, database: &Database, next_large: &mut i64) -> Result<(), QueueError> {
        for (id, fan_out) in &mut self.events {
            if *fan_out >= MAX_LARGE_RANGE {
                let error = format!("{fan_out} endpoints are too many for one event");
                return Err(QueueError::Database(Arc::from(
                    Box::<dyn std::error::Error + Send + Sync>::from(error),
                )));
            }
            if *fan_out >= MAX_RANGE {
                *id = ids::first_of(*next_large);
                *next_large += 2;
            } else {
                *id = database.next_ids(*fan_out + 1).number();
            }
        }
        Ok(())
    }

    /// Returns the number of deliveries, their bytes, and the bytes of the payloads.
    fn size(&self) -> (u64, u64, u64) {
        self.batch.events.iter().zip(&self.events).fold((0, 0, 0), |sum, (event, (_, fan_out))| {
            let (size, fan_out) = (event.payload.len() as u64, u64::from(*fan_out));
            (sum.0 + fan_out, sum.1.saturating_add(size.saturating_mul(fan_out)), sum.2 + size)
        })
    }
}

/// The rows of the accepted batches.
struct Writing<'w, 'e> {
    submitter: &'w Submitter,
    now: Timestamp,
    lanes: &'w DynamicLanes,
    totals: HashMap<i64, Backlog>,
    /// How many deliveries of each tenant the transaction may still write.
    room: HashMap<i64, u32>,
    rows: FreshRows<'e>,
    fan_outs: FanOutRows,
}

impl<'e> Writing<'_, 'e> {
    /// Checks that the backlog limit and the disk allow the whole batch, and counts it.
    fn admit(&mut self, one: &Prepared<'_>) -> Result<(), SubmitError> {
        let (count, bytes, payloads) = one.size();
        let limit = one.tenant.backlog();
        let total = self.totals.entry(one.tenant.row()).or_insert(Backlog { count: 0, bytes: 0 });
        let is_over = total.count.saturating_add(count) > limit.count
            || total.bytes.saturating_add(bytes) > limit.bytes;
        if count > 0 && is_over {
            return Err(SubmitError::BacklogFull { waiting: total.count, bytes: total.bytes });
        }
        // Each byte is written twice: to the write-ahead log, and to the table.
        let wanted = payloads.saturating_mul(2).saturating_add((count + 1).saturating_mul(BYTES_EACH.into()));
        if let Some((free, reserve)) = self.submitter.database.below_reserve(wanted) {
            return Err(SubmitError::DiskReserve { free, reserve });
        }
        total.count = total.count.saturating_add(count);
        total.bytes = total.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Adds the rows of a batch.
    fn add(&mut self, one: &Prepared<'e>) -> (Submitted, Dispatched) {
        let row = one.tenant.row();
        let mut dispatched = Dispatched::new(&self.submitter.reservations);
        let mut submitted = Submitted {
            events: Vec::with_capacity(one.events.len()),
            repeated: false,
            taken: Vec::new(),
            woken: Vec::new(),
            deferred: 0,
        };
        // The audience of the previous event; events of the same type share it.
        let mut shared: Option<(&EventType, i64)> = None;
        for (index, (event_id, fan_out)) in one.events.iter().copied().enumerate() {
            let event = &one.batch.events[index];
            let room = self.room.entry(row).or_insert(WRITTEN_AT_SUBMIT);
            // An event for a dynamic URL has one row, which is no more work than a fan-out job.
            let written = if event.url.is_some() { fan_out } else { fan_out.min(*room) };
            *room = room.saturating_sub(written);
            let fresh = FreshEvent {
                id: event_id,
                tenant: &one.batch.tenant,
                tenant_row: row,
                kind: &event.kind,
                content_type: &event.content_type,
                priority: event.priority,
                payload: &event.payload,
                fan_out,
                not_before: event.not_before,
                expires_at: event.expires_at,
                url: event.url.as_ref().map(url::Url::as_str),
                key: one.circuits[index].clone(),
                run: None,
            };
            self.rows.add_event(&fresh);
            let due_at = event.not_before.map_or(self.now, |at| at.max(self.now));
            let lane = one.circuits[index].as_ref().map(|circuit| self.lanes.get(row, circuit));
            for (nth, target) in (1..).zip(targets(&*one.tenant, event, lane, written, due_at)) {
                let is_ripe = due_at <= self.now && target.expires_at.is_none_or(|at| at > self.now);
                let Target { lane, expires_at } = target;
                let delivery = FreshDelivery { id: event_id + nth, lane, due_at, expires_at, is_ripe };
                self.rows.add_delivery(&fresh, delivery, &mut dispatched);
            }
            let rest = fan_out - written;
            if rest > 0 {
                let audience = match shared {
                    Some((kind, audience)) if kind == &event.kind => audience,
                    _ => self.fan_outs.add_audience(event_id, &*one.tenant, &event.kind, fan_out),
                };
                shared = Some((&event.kind, audience));
                self.fan_outs.add(row, event_id, audience, written, due_at);
                self.rows.backlogs.deferred(row, rest.into(), event.payload.len() as u64);
                submitted.deferred += u64::from(rest);
            }
            submitted.events.push(SubmittedEvent { id: EventId(id(event_id)), deliveries: fan_out });
        }
        (submitted, dispatched)
    }
}

/// The destination of one of an event's deliveries.
struct Target {
    lane: LaneId,
    expires_at: Option<Timestamp>,
}

/// Returns the destinations of an event's first `written` deliveries. `lane` is that of its dynamic URL, if it has one.
fn targets(
    tenant: &dyn TenantRoutes,
    event: &NewEvent,
    lane: Option<i64>,
    written: u32,
    start: Timestamp,
) -> Vec<Target> {
    let expires = |after: Option<Duration>| event.expires_at.or(after.map(|after| start + after));
    if let Some(lane) = lane {
        return vec![Target { lane: LaneId(id(lane)), expires_at: expires(tenant.expires_after()) }];
    }
    let mut targets = Vec::with_capacity(written as usize);
    if written > 0 {
        tenant.endpoints(&event.kind, &mut |route| {
            if targets.len() < written as usize {
                targets.push(Target { lane: route.lane, expires_at: expires(route.expires_after) });
            }
        });
    }
    targets
}

/// Fan-out jobs to insert, which later write the deliveries that this transaction does not write.
#[derive(Default)]
struct FanOutRows {
    audiences: Vec<i64>,
    endpoints: Vec<Vec<u8>>,
    tenants: Vec<i64>,
    events: Vec<i64>,
    audience_of: Vec<i64>,
    positions: Vec<i32>,
    due_at: Vec<i64>,
}

impl FanOutRows {
    fn add_audience(&mut self, event: i64, tenant: &dyn TenantRoutes, kind: &EventType, fan_out: u32) -> i64 {
        let mut bytes = Vec::with_capacity(fan_out as usize * audience::ENTRY);
        tenant.endpoints(kind, &mut |route| audience::push(&mut bytes, route));
        self.audiences.push(event);
        self.endpoints.push(bytes);
        event
    }

    fn add(&mut self, tenant: i64, event: i64, audience: i64, written: u32, due_at: Timestamp) {
        self.tenants.push(tenant);
        self.events.push(event);
        self.audience_of.push(audience);
        self.positions.push(small(written));
        self.due_at.push(micros(due_at));
    }

    async fn insert(&self, transaction: &Transaction) -> Result<(), QueueError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let (audiences, fan_outs) = tokio::join!(
            biased;
            async {
                let sql = include_str!("sql/insert_audiences.sql");
                transaction.query(sql, &[&self.audiences, &self.endpoints]).await
            },
            async {
                let sql = include_str!("sql/insert_fan_outs.sql");
                let columns: [&dyn super::Value; 5] =
                    [&self.tenants, &self.events, &self.audience_of, &self.positions, &self.due_at];
                transaction.query(sql, &columns).await
            },
        );
        audiences.and(fan_outs).map(drop)
    }
}
