//! Ends leases, many in one transaction and one round trip: settled, handed back, reclaimed. Operations with outdated leases
//! change nothing.

use std::collections::HashSet;

use breakerbox_model::delivery::{Fault, NextStep};
use breakerbox_model::objects::{DeliveryId, FailReason};
use breakerbox_storage::stored::codes::{self, CANCELLED, DELIVERED, FAILED, WAITING, micros, number};
use breakerbox_storage::{Lease, QueueError, Settled, Settlement};

use super::batcher::{Caller, Handed, Job};
use super::database::Transaction;
use super::database::{Database, transaction_ended};
use super::error::{get, is_of_values, is_transient};
use super::rows::code;

/// The number that is added to the slot of counters that settlements use, so that they never wait for accepts.
const SLOT_OF_SETTLEMENTS: i16 = 8;

/// The end of a lease.
pub(crate) enum Ending {
    /// The delivery was attempted.
    Settled(Box<Settlement>),
    /// The delivery waits again at its old position. `may_be_sent` is whether a request may have been made; if not, a
    /// delivery that was brought forward for a probe may be brought forward again.
    WaitsAgain { delivery: DeliveryId, lease: Lease, may_be_sent: bool },
    /// The delivery can't be read, so it fails without an attempt.
    Unreadable { delivery: DeliveryId, lease: Lease },
}

impl Ending {
    fn key(&self) -> (i64, i64) {
        match self {
            Self::Settled(settlement) => (settlement.id.number(), settlement.lease.0),
            Self::WaitsAgain { delivery, lease, .. } | Self::Unreadable { delivery, lease } => {
                (delivery.number(), lease.0)
            }
        }
    }
}

/// A job that ends a lease, and the channel to its caller.
pub(crate) struct EndJob {
    pub(crate) ending: Ending,
    pub(crate) caller: Caller<Settled, QueueError>,
}

impl Job for EndJob {
    fn bytes(&self) -> usize {
        match &self.ending {
            Ending::Settled(settlement) => settlement.attempt.response.len(),
            _ => 0,
        }
    }
}

/// Ends the leases of a group of jobs, and sends the results.
pub(crate) async fn run(database: &Database, group: Vec<EndJob>) {
    let (endings, callers): (Vec<Ending>, Vec<_>) =
        group.into_iter().map(|job| (job.ending, job.caller)).unzip();
    let mut result = attempt(database, &endings).await;
    if result.as_ref().is_err_and(is_transient) {
        result = attempt(database, &endings).await;
    }
    match result {
        Ok(settled) => {
            for (caller, settled) in callers.into_iter().zip(settled) {
                // The caller may be gone.
                let _ = caller.send(Ok(Handed::plain(settled)));
            }
        }
        Err(error) if is_of_values(&error) => {
            // Nothing was written. One of them may be the reason, so that each is tried alone.
            for (ending, caller) in endings.iter().zip(callers) {
                let settled = attempt(database, std::slice::from_ref(ending)).await;
                let settled = settled.map(|settled| settled.first().copied().unwrap_or(Settled::Fenced));
                let _ = caller.send(settled.map(Handed::plain));
            }
        }
        Err(error) => {
            tracing::warn!(%error, jobs = callers.len(), "can't settle deliveries");
            for caller in callers {
                let _ = caller.send(Err(error.clone()));
            }
        }
    }
}

async fn attempt(database: &Database, endings: &[Ending]) -> Result<Vec<Settled>, QueueError> {
    database
        .within(async {
            let mut transaction = database.lend().await?;
            let mut seen = HashSet::new();
            // Of two operations with the same lease, the first one ends it.
            let first: Vec<bool> = endings.iter().map(|ending| seen.insert(ending.key())).collect();
            let rows =
                EndRows::of(endings.iter().zip(&first).filter(|(_, first)| **first).map(|(one, _)| one));
            let (begun, ended, committed) = tokio::join!(
                biased;
                transaction.run(database.begin_sql()),
                rows.end(&transaction),
                transaction.send_commit(),
            );
            begun?;
            let ended = ended.inspect_err(|_| transaction_ended(&mut transaction, &committed))?;
            committed?;
            transaction.give_back();
            let current: HashSet<(i64, i64)> = ended.iter().map(|ended| rows.keys[ended.nth]).collect();
            let settled = endings.iter().zip(first).map(|(ending, first)| {
                if first && current.contains(&ending.key()) { Settled::Done } else { Settled::Fenced }
            });
            Ok(settled.collect())
        })
        .await
}

/// A lease that was current and has ended.
pub(crate) struct Ended {
    nth: usize,
    pub(crate) lane: i64,
    pub(crate) tenant: i64,
}

/// The parameters of the statement that ends leases, column by column.
#[derive(Default)]
pub(crate) struct EndRows<'e> {
    keys: Vec<(i64, i64)>,
    ids: Vec<i64>,
    leases: Vec<i64>,
    steps: Vec<i16>,
    reasons: Vec<Option<i16>>,
    due_at: Vec<Option<i64>>,
    uses: Vec<i32>,
    makes: Vec<i32>,
    failed_probes: Vec<Option<i64>>,
    stays_pulled: Vec<bool>,
    started_at: Vec<Option<i64>>,
    latencies: Vec<i64>,
    statuses: Vec<Option<i32>>,
    faults: Vec<Option<&'e str>>,
    details: Vec<Option<String>>,
    probes: Vec<bool>,
    responses: Vec<Option<&'e [u8]>>,
    late: LateRows,
}

/// Runs that were sent late, column by column.
#[derive(Default)]
struct LateRows {
    ids: Vec<i64>,
    leases: Vec<i64>,
    at: Vec<i64>,
    skipped: Vec<i64>,
}

impl<'e> EndRows<'e> {
    /// Collects the parameters. A delivery and lease may occur only once.
    pub(crate) fn of(endings: impl Iterator<Item = &'e Ending>) -> Self {
        let mut rows = Self::default();
        endings.for_each(|ending| rows.push(ending));
        rows
    }

    fn push(&mut self, ending: &'e Ending) {
        let (id, lease) = ending.key();
        self.keys.push((id, lease));
        self.ids.push(id);
        self.leases.push(lease);
        let (step, reason, due_at, uses, failed_probe, stays_pulled) = match ending {
            Ending::Settled(settlement) => match settlement.next {
                NextStep::Delivered => (DELIVERED, None, None, true, None, true),
                NextStep::Failed(why) => (FAILED, Some(why), None, true, None, true),
                NextStep::Retry { due_at, uses_attempt, failed_probe } => {
                    (WAITING, None, Some(due_at), uses_attempt, failed_probe, !uses_attempt)
                }
            },
            Ending::WaitsAgain { may_be_sent, .. } => (WAITING, None, None, false, None, *may_be_sent),
            Ending::Unreadable { .. } => (FAILED, Some(FailReason::Unreadable), None, false, None, true),
        };
        let attempt = match ending {
            Ending::Settled(settlement) => Some(&settlement.attempt),
            _ => None,
        };
        self.steps.push(code(step));
        self.reasons.push(reason.map(|reason| code(codes::reason(reason))));
        self.due_at.push(due_at.map(micros));
        self.uses.push(i32::from(uses));
        self.makes.push(i32::from(attempt.is_some()));
        self.failed_probes.push(failed_probe.map(|epoch| number(epoch.0)));
        self.stays_pulled.push(stays_pulled);
        self.started_at.push(attempt.map(|attempt| micros(attempt.started_at)));
        let latency = attempt.map_or(0, |attempt| attempt.latency.as_micros());
        self.latencies.push(i64::try_from(latency).unwrap_or(i64::MAX));
        self.statuses.push(attempt.and_then(|attempt| attempt.status).map(i32::from));
        self.faults.push(attempt.and_then(|attempt| attempt.fault).map(Fault::name));
        // Text in Postgres can't contain zero bytes.
        let detail = attempt.and_then(|attempt| attempt.detail.as_ref());
        self.details.push(detail.map(|detail| detail.replace('\0', "\u{fffd}")));
        self.probes.push(attempt.is_some_and(|attempt| attempt.probe));
        let response = attempt.map(|attempt| &attempt.response[..]);
        self.responses.push(response.filter(|response| !response.is_empty()));
        if let Ending::Settled(settlement) = ending
            && let Some(missed) = settlement.stands_for
        {
            self.late.ids.push(id);
            self.late.leases.push(lease);
            self.late.at.push(micros(missed.latest));
            // This also counts the occurrence that the run was fired for.
            self.late.skipped.push(i64::from(missed.skipped) + 1);
        }
    }

    /// Ends the leases, and returns those that were current.
    pub(crate) async fn end(&self, transaction: &Transaction) -> Result<Vec<Ended>, QueueError> {
        if self.ids.is_empty() {
            return Ok(Vec::new());
        }
        let database = transaction.database();
        let waits = self.steps.contains(&code(WAITING));
        let (locked, late, ended) = tokio::join!(
            biased;
            async {
                if !waits {
                    return Ok(Vec::new());
                }
                transaction.query(include_str!("sql/lock_reminders_of.sql"), &[&self.ids]).await
            },
            self.late.stand_for(transaction),
            async {
                transaction.query(
                    include_str!("sql/settle_if_leased.sql"),
                    &[
                        &database.given_now(),
                        &(database.slot() + SLOT_OF_SETTLEMENTS),
                        &self.ids,
                        &self.leases,
                        &self.steps,
                        &self.reasons,
                        &self.due_at,
                        &self.uses,
                        &self.makes,
                        &self.failed_probes,
                        &self.stays_pulled,
                        &self.started_at,
                        &self.latencies,
                        &self.statuses,
                        &self.faults,
                        &self.details,
                        &self.probes,
                        &self.responses,
                    ],
                ).await
            },
        );
        locked?;
        late?;
        let ended = ended?;
        let read = |row: &tokio_postgres::Row| {
            let nth = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0).saturating_sub(1);
            Ok(Ended { nth, lane: get(row, 1)?, tenant: get(row, 2)? })
        };
        ended.iter().map(read).collect()
    }
}

impl LateRows {
    async fn stand_for(&self, transaction: &Transaction) -> Result<(), QueueError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let sql = include_str!("sql/stand_for_if_leased.sql");
        transaction.query(sql, &[&self.ids, &self.leases, &self.at, &self.skipped]).await.map(drop)
    }
}

/// Why waiting deliveries end without an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Expired,
    Cancelled,
}

/// Ends waiting deliveries without an attempt, at a time; `None`: now. Returns how many of them were waiting.
pub(crate) async fn stop_waiting(
    transaction: &Transaction,
    deliveries: &Vec<i64>,
    stop: Stop,
    at: Option<i64>,
) -> Result<u64, QueueError> {
    if deliveries.is_empty() {
        return Ok(0);
    }
    let (state, reason) = match stop {
        Stop::Expired => (FAILED, Some(code(codes::reason(FailReason::Expired)))),
        Stop::Cancelled => (CANCELLED, None),
    };
    let database = transaction.database();
    let slot = database.slot() + SLOT_OF_SETTLEMENTS;
    let columns: [&dyn super::Value; 6] =
        [deliveries, &code(state), &reason, &at, &slot, &database.given_now()];
    let rows = transaction.query(include_str!("sql/stop_if_waiting.sql"), &columns).await?;
    Ok(rows.len() as u64)
}
