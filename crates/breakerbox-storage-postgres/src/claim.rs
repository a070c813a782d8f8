//! Leases waiting deliveries, for many claims in one transaction and one round trip. Each claim seeks directly in the index of
//! waiting deliveries: rows of other lanes, rows that are due later, leased rows and finished rows are never read. Rows that
//! another process is taking at the same moment are skipped.
//!
//! Expired deliveries are never leased. Instead, a claim fails those that it finds, a bounded number of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::objects::{DeliveryId, EventId, LaneId, ReminderId, RunId};
use breakerbox_storage::stored::codes::{content_type_of, id, level, number, priority, time};
use breakerbox_storage::stored::reminder::StoredReminder;
use breakerbox_storage::{BatchResult, Claim, Claimed, Lease, Leased, LeasedRun, QueueError};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio_postgres::Row;

use super::abandoned::AbandonedResults;
use super::batcher::{Caller, Handed, Job};
use super::database::Transaction;
use super::database::{Database, transaction_ended};
use super::error::{get, is_transient};
use super::lanes;
use super::maintenance;
use super::rows::{code, small, unsigned};
use super::settle::{EndRows, Ending, Stop, stop_waiting};

/// The maximum number of times that a claim is repeated because deliveries that it found had expired.
const ROUNDS: u32 = 4;
/// The maximum number of expired deliveries that a claim for a probe fails.
const PROBE_ROUNDS: u32 = 64;

/// A job of the writer that hands out leases, and the channel to its caller.
pub(crate) enum LeaseJob {
    Claim { claims: Vec<Claim>, caller: Caller<Vec<Claimed>, QueueError> },
    Reclaim { limit: usize, caller: Caller<BatchResult, QueueError> },
}

impl Job for LeaseJob {}

/// The claims of one caller, and the channel to it.
type ClaimJob = (Vec<Claim>, Caller<Vec<Claimed>, QueueError>);

/// Runs a group of jobs in order, and sends the results. Claims that follow each other share a transaction.
pub(crate) async fn run(database: &Database, abandoned: &AbandonedResults, group: Vec<LeaseJob>) {
    let mut waiting = Vec::new();
    for job in group {
        match job {
            LeaseJob::Claim { claims, caller } => waiting.push((claims, caller)),
            LeaseJob::Reclaim { limit, caller } => {
                claim(database, abandoned, std::mem::take(&mut waiting)).await;
                let result = maintenance::reclaim(database, abandoned, limit).await;
                let abandoned = abandoned.clone();
                let gone = move |result: BatchResult| abandoned.add(&[], result.woken);
                // The caller may be gone.
                let _ = caller.send(result.map(|result| Handed::or_else(result, gone)));
            }
        }
    }
    claim(database, abandoned, waiting).await;
}

async fn claim(database: &Database, abandoned: &AbandonedResults, jobs: Vec<ClaimJob>) {
    if jobs.is_empty() {
        return;
    }
    let claims: Vec<Claim> = jobs.iter().flat_map(|(claims, _)| claims.iter().copied()).collect();
    let mut result = claim_all(database, &claims).await;
    if result.as_ref().is_err_and(is_transient) {
        result = claim_all(database, &claims).await;
    }
    match result {
        Ok(claimed) => {
            let mut claimed = claimed.into_iter();
            for (claims, caller) in jobs {
                let own: Vec<Claimed> = claimed.by_ref().take(claims.len()).collect();
                let abandoned = abandoned.clone();
                let gone = move |claimed: Vec<Claimed>| {
                    claimed.iter().for_each(|claimed| abandoned.add(&claimed.deliveries, Vec::new()));
                };
                let _ = caller.send(Ok(Handed::or_else(own, gone)));
            }
        }
        Err(error) => {
            tracing::warn!(%error, jobs = jobs.len(), "can't claim deliveries");
            for (_, caller) in jobs {
                let _ = caller.send(Err(error.clone()));
            }
        }
    }
}

/// What a claim wants that is not satisfied yet.
#[derive(Clone, Copy)]
struct Open {
    /// The position of the claim.
    nth: usize,
    claim: Claim,
    rounds: u32,
    /// The number of deliveries that were leased in earlier rounds.
    taken: u32,
}

impl Open {
    fn lane(&self) -> i64 {
        let (Claim::Due { lane, .. } | Claim::Probe { lane, .. }) = self.claim;
        lane.number()
    }
}

async fn claim_all(database: &Database, claims: &[Claim]) -> Result<Vec<Claimed>, QueueError> {
    let mut results: Vec<Claimed> = claims.iter().map(|_| Claimed::default()).collect();
    let mut open: Vec<Open> = claims
        .iter()
        .enumerate()
        .map(|(nth, claim)| Open { nth, claim: *claim, rounds: 0, taken: 0 })
        .collect();
    let mut unreadable = Vec::new();
    let mut expired = Vec::new();
    loop {
        let found = database.within(transact(database, &open, &expired)).await?;
        expired.clear();
        let mut again = HashSet::new();
        for row in found.rows {
            match row {
                Found::Leased { nth, leased } => results[nth].deliveries.push(*leased),
                Found::Unreadable { nth, delivery, lease, error } => {
                    tracing::error!(%delivery, error, "can't read a delivery; it fails");
                    results[nth].unreadable += 1;
                    unreadable.push(Ending::Unreadable { delivery, lease });
                    again.insert(nth);
                }
                Found::Expired { nth, delivery } => {
                    expired.push(delivery);
                    again.insert(nth);
                }
            }
        }
        for one in &open {
            results[one.nth].next_due = found.next_due.get(&one.lane()).copied().unwrap_or_default();
        }
        open = open
            .into_iter()
            .filter(|one| again.contains(&one.nth))
            .filter_map(|one| rest(one, &results))
            .collect();
        if open.is_empty() && expired.is_empty() {
            break;
        }
    }
    if !unreadable.is_empty() {
        let ended = database.within(async {
            let transaction = database.begin().await?;
            EndRows::of(unreadable.iter()).end(&transaction).await?;
            transaction.commit().await
        });
        ended.await?;
    }
    Ok(results)
}

/// Returns what a claim still wants, unless it has been repeated too often.
fn rest(one: Open, results: &[Claimed]) -> Option<Open> {
    let rounds = one.rounds + 1;
    let taken = u32::try_from(results[one.nth].deliveries.len()).unwrap_or(u32::MAX);
    let claim = match one.claim {
        Claim::Due { lane, priority, limit, lease } => {
            let left = limit.saturating_sub(taken - one.taken);
            (left > 0 && rounds < ROUNDS).then_some(Claim::Due { lane, priority, limit: left, lease })
        }
        probe @ Claim::Probe { .. } => (taken == 0 && rounds < PROBE_ROUNDS).then_some(probe),
    };
    claim.map(|claim| Open { claim, rounds, taken, ..one })
}

enum Found {
    Leased { nth: usize, leased: Box<Leased> },
    Unreadable { nth: usize, delivery: DeliveryId, lease: Lease, error: String },
    Expired { nth: usize, delivery: i64 },
}

struct Round {
    rows: Vec<Found>,
    next_due: HashMap<i64, [Option<Timestamp>; 4]>,
}

/// A statement of the transaction.
enum Statement {
    /// Claims for due deliveries, each with another lane or priority.
    Due(Vec<Open>),
    Probe(Open),
}

/// Orders claims into statements. A statement can't lease from the same lane and priority twice.
fn statements(open: &[Open]) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    let mut seen = HashSet::new();
    for one in open {
        match one.claim {
            Claim::Due { lane, priority, .. } => {
                let is_new = seen.insert((lane, priority));
                match statements.last_mut() {
                    Some(Statement::Due(group)) if is_new => group.push(*one),
                    _ => {
                        seen.clear();
                        seen.insert((lane, priority));
                        statements.push(Statement::Due(vec![*one]));
                    }
                }
            }
            Claim::Probe { .. } => statements.push(Statement::Probe(*one)),
        }
    }
    statements
}

/// Fails expired deliveries, leases what the claims want, and reads when the rest is due, in one round trip.
async fn transact(database: &Database, open: &[Open], expired: &Vec<i64>) -> Result<Round, QueueError> {
    let statements = statements(open);
    let mut lanes: Vec<i64> = open.iter().map(Open::lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let mut transaction = database.lend().await?;
    let (begun, stopped, found, next_due, committed) = tokio::join!(
        biased;
        transaction.run(database.begin_sql()),
        stop_waiting(&transaction, expired, Stop::Expired, None),
        join_all(statements.iter().map(|statement| statement.run(&transaction))),
        lanes::next_due(&transaction, &lanes),
        transaction.send_commit(),
    );
    begun?;
    let all = async {
        stopped?;
        let mut rows = Vec::new();
        for (statement, found) in statements.iter().zip(found) {
            for row in found? {
                rows.push(statement.read(&row)?);
            }
        }
        Ok(Round { rows, next_due: next_due? })
    };
    let round = all.await.inspect_err(|_: &QueueError| transaction_ended(&mut transaction, &committed))?;
    committed?;
    transaction.give_back();
    Ok(round)
}

impl Statement {
    async fn run(&self, transaction: &Transaction) -> Result<Vec<Row>, QueueError> {
        let database = transaction.database();
        match self {
            Self::Due(group) => {
                let (mut lanes, mut levels, mut limits, mut leases) = (vec![], vec![], vec![], vec![]);
                for one in group {
                    if let Claim::Due { lane, priority, limit, lease } = one.claim {
                        lanes.push(lane.number());
                        levels.push(code(level(priority)));
                        limits.push(small(limit));
                        leases.push(length(lease));
                    }
                }
                let columns: [&dyn super::Value; 6] =
                    [&database.given_now(), &lanes, &levels, &limits, &leases, &database.worker()];
                transaction.query(include_str!("sql/claim_due.sql"), &columns).await
            }
            Self::Probe(one) => {
                let (outage, lease) = match one.claim {
                    Claim::Probe { outage, lease, .. } => (outage, lease),
                    Claim::Due { lease, .. } => (Epoch(0), lease),
                };
                let columns: [&dyn super::Value; 5] = [
                    &database.given_now(),
                    &one.lane(),
                    &number(outage.0),
                    &length(lease),
                    &database.worker(),
                ];
                transaction.query(include_str!("sql/claim_probe.sql"), &columns).await
            }
        }
    }

    fn read(&self, row: &Row) -> Result<Found, QueueError> {
        let place = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0).saturating_sub(1);
        let nth = match self {
            Self::Due(group) => group.get(place).map_or(0, |one| one.nth),
            Self::Probe(one) => one.nth,
        };
        let delivery: i64 = get(row, 1)?;
        if get(row, 2)? {
            return Ok(Found::Expired { nth, delivery });
        }
        let delivery = DeliveryId(id(delivery));
        let lease = Lease(get::<Option<i64>>(row, 3)?.unwrap_or_default());
        Ok(match leased(row, delivery, lease) {
            Ok(leased) => Found::Leased { nth, leased: Box::new(leased) },
            Err(error) => Found::Unreadable { nth, delivery, lease, error: error.to_string() },
        })
    }
}

/// Reads a leased delivery. The error concerns this row alone.
fn leased(
    row: &Row,
    delivery: DeliveryId,
    lease: Lease,
) -> Result<Leased, Box<dyn std::error::Error + Send + Sync>> {
    let event: i64 = row.try_get(4)?;
    let kind: &str = row.try_get::<_, Option<&str>>(11)?.ok_or("its event is missing")?;
    let payload: Vec<u8> = row.try_get::<_, Option<Vec<u8>>>(14)?.ok_or("its payload is missing")?;
    let tenant: &str = row.try_get::<_, Option<&str>>(10)?.ok_or("its tenant is missing")?;
    let reminder: Option<i64> = row.try_get(15)?;
    Ok(Leased {
        id: delivery,
        lease,
        lane: LaneId(id(row.try_get(5)?)),
        tenant: tenant.parse()?,
        event: EventId(id(event)),
        kind: kind.parse()?,
        payload: Bytes::from(payload),
        content_type: content_type_of(row.try_get(12)?),
        priority: priority(row.try_get::<_, i16>(6)?.into()),
        attempts: unsigned(row.try_get(7)?),
        url: row.try_get::<_, Option<&str>>(13)?.map(Arc::from),
        run: reminder.map(|reminder| leased_run(row, reminder)).transpose()?,
        pulled_from: row.try_get::<_, Option<i64>>(19)?.map(time),
        created_at: id(event).made_at(),
        expires_at: row.try_get::<_, Option<i64>>(9)?.map(time),
    })
}

/// Reads the reminder run that a delivery belongs to.
fn leased_run(row: &Row, reminder: i64) -> Result<LeasedRun, tokio_postgres::Error> {
    let number = u32::try_from(row.try_get::<_, i64>(16)?).unwrap_or(u32::MAX);
    let run = RunId { reminder: ReminderId(id(reminder)), number };
    // A run that was already sent keeps the occurrence that it stood for at that time.
    let was_sent = row.try_get::<_, i32>(8)? > 0;
    let settings = row.try_get::<_, Option<&str>>(18)?.filter(|_| !was_sent);
    // A schedule that can't be read stops the reminder; the run continues, for the occurrence that it was fired for.
    let latest_of = settings.and_then(|text| StoredReminder::read(text).ok());
    let latest_of = latest_of.map(|stored| Arc::new(stored.schedule));
    Ok(LeasedRun { id: run, scheduled_at: time(row.try_get(17)?), latest_of })
}

/// Converts the duration of a lease to microseconds.
fn length(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX >> 1)
}
