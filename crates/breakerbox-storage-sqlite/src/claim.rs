//! Leases waiting deliveries. Each query seeks directly in the index of waiting deliveries: rows of other lanes, rows
//! that are due later and finished rows are never read.
//!
//! Expired deliveries are never leased. Instead, a claim fails those that it finds, a bounded number of them.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::delivery::ProbeChoice;
use breakerbox_model::objects::{DeliveryId, EventId, LaneId, ReminderId, RunId};
use breakerbox_storage::{Claim, Claimed, Lease, Leased, LeasedRun, QueueError};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::abandoned::AbandonedResults;
use super::columns::{
    LEASED, content_type_of, id, is_unreadable, level, micros, number, parsed, priority, time,
};
use super::job::Command;
use super::lanes;
use super::reminders::stored::StoredReminder;
use super::settle::{give_up_expired, give_up_unreadable};
use super::transaction::WriteTransaction;
use super::writer_state::Held;
use crate::error::JobError;

/// The maximum number of times that a claim is repeated because all deliveries that it found had expired.
const ROUNDS: u32 = 4;

/// Selects the due deliveries of one priority, longest due first.
pub(super) const DUE: &str = "SELECT id, expires_at FROM deliveries INDEXED BY waiting
    WHERE state = 0 AND lane = ?1 AND priority = ?2 AND due_at <= ?3 ORDER BY due_at LIMIT ?4";

/// Selects the longest due delivery of one priority that has not failed a probe in an outage.
pub(super) const PROBE_DUE: &str = "SELECT id, due_at, expires_at FROM deliveries INDEXED BY waiting
    WHERE state = 0 AND lane = ?1 AND priority = ?2 AND due_at <= ?3 AND failed_probe <> ?4 ORDER BY due_at LIMIT 1";

/// Selects the next delivery to become due that backs off, was not brought forward in this wait, and has not failed a
/// probe in an outage.
pub(super) const PROBE_LATER: &str = "SELECT id, due_at, expires_at FROM deliveries INDEXED BY pullable
    WHERE state = 0 AND attempts > 0 AND pulled = 0 AND lane = ?1 AND due_at > ?2 AND failed_probe <> ?3
    ORDER BY due_at LIMIT 1";

/// An outage in which no delivery has failed a probe.
const NO_OUTAGE: i64 = -1;

pub(super) const WHOLE: &str =
    "SELECT d.event, d.tenant, d.lane, d.priority, d.attempts, d.requests, d.expires_at,
        e.kind, e.content_type, e.url, p.payload, e.reminder, e.run, e.scheduled_at,
        CASE WHEN e.latest THEN (SELECT settings FROM reminders WHERE id = e.reminder) END
    FROM deliveries d JOIN events e ON e.id = d.event JOIN payloads p ON p.event = d.event WHERE d.id = ?1";

pub(super) struct ClaimAll {
    pub(super) claims: Vec<Claim>,
    pub(super) abandoned: AbandonedResults,
}

impl Command for ClaimAll {
    type Output = Vec<Claimed>;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<Vec<Claimed>, JobError<QueueError>> {
        let one = |claim: &Claim| claim_one(transaction, *claim);
        Ok(self.claims.iter().map(one).collect::<Result<_, _>>()?)
    }

    fn on_caller_gone(&mut self, answer: Vec<Claimed>) {
        for claimed in answer {
            self.abandoned.add(&claimed.deliveries, Vec::new());
        }
    }
}

fn claim_one(transaction: &mut WriteTransaction<'_>, claim: Claim) -> rusqlite::Result<Claimed> {
    let (Claim::Due { lane, .. } | Claim::Probe { lane, .. }) = claim;
    let lane = lane.number();
    if transaction.writer_state.is_closed(lane) {
        return Ok(Claimed::default());
    }
    let mut claimed = match claim {
        Claim::Due { priority, limit, lease, .. } => due(transaction, lane, level(priority), limit, lease)?,
        Claim::Probe { outage, lease, .. } => probe(transaction, lane, outage, lease)?,
    };
    claimed.next_due = lanes::next_due(transaction.connection, lane)?;
    Ok(claimed)
}

fn due(
    transaction: &mut WriteTransaction<'_>,
    lane: i64,
    level: i64,
    limit: u32,
    lease: Duration,
) -> rusqlite::Result<Claimed> {
    let now = transaction.now;
    let mut claimed = Claimed::default();
    for _ in 0..ROUNDS {
        let wanted = limit as usize - claimed.deliveries.len();
        let mut statement = transaction.connection.prepare_cached(DUE)?;
        let found = statement
            .query_map(params![lane, level, micros(now), number(wanted as u64)], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let is_last = found.len() < wanted;
        for (delivery, expires_at) in found {
            if has_expired(expires_at, now) {
                give_up_expired(transaction, delivery)?;
            } else {
                add(&mut claimed, take(transaction, delivery, lease, None)?);
            }
        }
        if is_last || claimed.deliveries.len() >= limit as usize {
            break;
        }
    }
    Ok(claimed)
}

/// Adds a leased delivery to the result, or counts it as unreadable if it is `None`.
fn add(claimed: &mut Claimed, taken: Option<Leased>) {
    match taken {
        Some(leased) => claimed.deliveries.push(leased),
        None => claimed.unreadable += 1,
    }
}

/// A delivery that may be used for a probe.
struct Candidate {
    delivery: i64,
    due_at: i64,
    expires_at: Option<i64>,
}

impl Candidate {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { delivery: row.get(0)?, due_at: row.get(1)?, expires_at: row.get(2)? })
    }
}

fn probe(
    transaction: &mut WriteTransaction<'_>,
    lane: i64,
    outage: Epoch,
    lease: Duration,
) -> rusqlite::Result<Claimed> {
    let now = transaction.now;
    let mut claimed = Claimed::default();
    let mut looked = 0;
    while let Some(found) = candidate(transaction.connection, lane, outage, now)? {
        if has_expired(found.expires_at, now) {
            give_up_expired(transaction, found.delivery)?;
        } else {
            let due_at = time(found.due_at);
            add(&mut claimed, take(transaction, found.delivery, lease, (due_at > now).then_some(due_at))?);
        }
        looked += 1;
        if !claimed.deliveries.is_empty() || looked > 16 * ROUNDS {
            break;
        }
    }
    Ok(claimed)
}

/// Finds the delivery with the lowest [rank](breakerbox_model::delivery::ProbeRank) for a probe.
fn candidate(
    connection: &Connection,
    lane: i64,
    outage: Epoch,
    now: Timestamp,
) -> rusqlite::Result<Option<Candidate>> {
    let (now, outage) = (micros(now), number(outage.0));
    let due = |outage: i64| {
        let mut statement = connection.prepare_cached(PROBE_DUE)?;
        for level in 0..4 {
            let found = statement.query_row(params![lane, level, now, outage], Candidate::of).optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    };
    let later = |outage: i64| {
        let mut statement = connection.prepare_cached(PROBE_LATER)?;
        statement.query_row(params![lane, now, outage], Candidate::of).optional()
    };
    for choice in ProbeChoice::ALL {
        let found = match choice {
            ProbeChoice::FreshDue => due(outage),
            ProbeChoice::FreshLater => later(outage),
            ProbeChoice::Due => due(NO_OUTAGE),
            ProbeChoice::Later => later(NO_OUTAGE),
        }?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn has_expired(expires_at: Option<i64>, now: Timestamp) -> bool {
    expires_at.is_some_and(|at| time(at) <= now)
}

/// Reads the reminder run that a delivery belongs to.
fn leased_run(row: &Row<'_>, reminder: i64) -> rusqlite::Result<LeasedRun> {
    let run = RunId { reminder: ReminderId(id(reminder)), number: row.get(12)? };
    // A run that was already sent keeps the occurrence that it stood for at that time.
    let schedule = row.get_ref(14)?.as_str_or_null()?.filter(|_| row.get(5).is_ok_and(|sent: u32| sent == 0));
    // A schedule that can't be read stops the reminder; the run continues, for the occurrence that it was fired for.
    let latest_of = schedule.and_then(|text| StoredReminder::read(text).ok());
    let latest_of = latest_of.map(|stored| Arc::new(stored.schedule));
    Ok(LeasedRun { id: run, scheduled_at: time(row.get(13)?), latest_of })
}

/// Leases one delivery, or returns `None` if it can't be read and was failed.
fn take(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    lease: Duration,
    pulled_from: Option<Timestamp>,
) -> rusqlite::Result<Option<Leased>> {
    let connection = transaction.connection;
    let mut held = Held {
        lease: Lease(0),
        until: transaction.now + lease,
        lane: 0,
        tenant: 0,
        bytes: 0,
        requests: 0,
        reminder: None,
    };
    let leased = connection
        .prepare_cached(WHOLE)?
        .query_row([delivery], |row| {
            let payload: Vec<u8> = row.get(10)?;
            (held.tenant, held.lane, held.requests) = (row.get(1)?, row.get(2)?, row.get(5)?);
            held.bytes = payload.len() as u64;
            held.reminder = row.get(11)?;
            let event = id(row.get(0)?);
            Ok(Leased {
                id: DeliveryId(id(delivery)),
                lease: Lease(0),
                lane: LaneId(id(held.lane)),
                tenant: transaction.writer_state.tenant(connection, held.tenant)?,
                event: EventId(event),
                kind: parsed(7, row.get_ref(7)?.as_str()?)?,
                payload: Bytes::from(payload),
                content_type: content_type_of(row.get(8)?),
                priority: priority(row.get(3)?),
                attempts: row.get(4)?,
                url: row.get(9)?,
                run: held.reminder.map(|reminder| leased_run(row, reminder)).transpose()?,
                pulled_from,
                created_at: event.made_at(),
                expires_at: row.get::<_, Option<i64>>(6)?.map(time),
            })
        })
        .optional();
    let mut leased = match leased {
        Ok(Some(leased)) => leased,
        Ok(None) => {
            give_up_unreadable(transaction, delivery, "its event or its payload is missing")?;
            return Ok(None);
        }
        Err(error) if is_unreadable(&error) => {
            give_up_unreadable(transaction, delivery, &error.to_string())?;
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    connection
        .prepare_cached("UPDATE deliveries SET state = ?2, pulled = pulled OR ?3 WHERE id = ?1")?
        .execute(params![delivery, LEASED, leased.pulled_from.is_some()])?;
    leased.lease = transaction.writer_state.hold(delivery, held);
    Ok(Some(leased))
}
