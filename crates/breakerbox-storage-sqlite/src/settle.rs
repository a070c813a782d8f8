//! Ends leases and deliveries: settled, handed back, failed, cancelled. Operations with outdated leases are rejected.
//! The writer keeps the current leases in memory.

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::{LastAttempt, NextStep};
use breakerbox_model::objects::{Attempt, DeliveryId, FailReason};
use breakerbox_storage::{Lease, QueueError, Settled, Settlement};
use rusqlite::params;

use super::columns::{CANCELLED, DELIVERED, FAILED, WAITING, id, micros, number, reason, whole};
use super::job::Command;
use super::reminders::runs;
use super::transaction::WriteTransaction;
use super::writer_state::Held;
use crate::error::JobError;

impl Command for Settlement {
    type Output = Settled;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<Settled, JobError<QueueError>> {
        let delivery = self.id.number();
        let Some(held) = transaction.writer_state.release(delivery, self.lease) else {
            return Ok(Settled::Fenced);
        };
        note(transaction, delivery, held.requests, &self.attempt)?;
        let last = LastAttempt::from(&self.attempt);
        transaction.writer_state.note_attempt(transaction.connection, held.lane, last)?;
        if let (Some(reminder), Some(missed)) = (held.reminder, self.stands_for) {
            runs::stands_for(transaction.connection, reminder, delivery, missed)?;
        }
        match self.next {
            NextStep::Delivered => finish(transaction, delivery, &held, DELIVERED, None, 1)?,
            NextStep::Failed(why) => finish(transaction, delivery, &held, FAILED, Some(why), 1)?,
            NextStep::Retry { uses_attempt, .. } if transaction.writer_state.is_closed(held.lane) => {
                finish(transaction, delivery, &held, CANCELLED, None, u32::from(uses_attempt))?;
            }
            NextStep::Retry { uses_attempt, .. } if is_withdrawn(transaction, delivery, &held)? => {
                finish(transaction, delivery, &held, CANCELLED, None, u32::from(uses_attempt))?;
            }
            NextStep::Retry { due_at, uses_attempt, failed_probe } => {
                transaction
                    .connection
                    .prepare_cached(
                        "UPDATE deliveries SET state = ?2, due_at = ?3, attempts = attempts + ?4, requests = requests + 1,
                             failed_probe = coalesce(?5, failed_probe), pulled = pulled AND NOT ?4
                         WHERE id = ?1",
                    )?
                    .execute(params![
                        delivery,
                        WAITING,
                        micros(due_at),
                        uses_attempt,
                        failed_probe.map(|epoch| number(epoch.0)),
                    ])?;
            }
        }
        Ok(Settled::Done)
    }

    fn bytes(&self) -> usize {
        self.attempt.response.len()
    }
}

pub(super) struct HandBack {
    pub(super) delivery: DeliveryId,
    pub(super) lease: Lease,
}

impl Command for HandBack {
    type Output = Settled;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<Settled, JobError<QueueError>> {
        let found = wait_again(transaction, self.delivery.number(), self.lease, false)?;
        Ok(if found.is_some() { Settled::Done } else { Settled::Fenced })
    }
}

/// Makes a leased delivery wait again at its old position, or cancels it if its lane is closed or its reminder was
/// paused or cancelled in the meantime. Returns `None` if the lease is not current.
///
/// `may_be_sent` is whether a request may have been made. If not, a delivery that was brought forward for a probe may
/// be brought forward again.
pub(super) fn wait_again(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    lease: Lease,
    may_be_sent: bool,
) -> rusqlite::Result<Option<Held>> {
    let Some(held) = transaction.writer_state.release(delivery, lease) else { return Ok(None) };
    if transaction.writer_state.is_closed(held.lane) || is_withdrawn(transaction, delivery, &held)? {
        let Held { tenant, lane, bytes, reminder, .. } = held;
        let at = transaction.wall;
        stop(transaction, Stopped { delivery, tenant, lane, bytes, reminder, at }, CANCELLED, None)?;
    } else {
        transaction
            .connection
            .prepare_cached("UPDATE deliveries SET state = ?2, pulled = pulled AND ?3 WHERE id = ?1")?
            .execute(params![delivery, WAITING, may_be_sent])?;
    }
    Ok(Some(held))
}

/// Returns whether the delivery's reminder was paused or cancelled while the delivery was in flight. If so, the
/// delivery is not retried.
fn is_withdrawn(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    held: &Held,
) -> rusqlite::Result<bool> {
    held.reminder.map_or(Ok(false), |reminder| runs::is_withdrawn(transaction, reminder, delivery))
}

/// Fails a waiting delivery that has expired.
pub(super) fn give_up_expired(transaction: &mut WriteTransaction<'_>, delivery: i64) -> rusqlite::Result<()> {
    stop_waiting(transaction, delivery, FAILED, Some(FailReason::Expired), transaction.wall)
}

/// Fails a waiting delivery whose row, event or payload can't be read. Otherwise it would stay due and block others.
pub(super) fn give_up_unreadable(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    error: &str,
) -> rusqlite::Result<()> {
    let id = DeliveryId(id(delivery));
    tracing::error!(delivery = %id, error, "can't read a delivery; it fails");
    stop_waiting(transaction, delivery, FAILED, Some(FailReason::Unreadable), transaction.wall)
}

/// Ends a waiting delivery without an attempt, in the state `state` and with the reason `why`.
pub(super) fn stop_waiting(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    state: i64,
    why: Option<FailReason>,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let (tenant, lane, size, reminder) = transaction
        .connection
        .prepare_cached(
            "SELECT d.tenant, d.lane, coalesce(e.size, 0), e.reminder
             FROM deliveries d LEFT JOIN events e ON e.id = d.event WHERE d.id = ?1",
        )?
        .query_row([delivery], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    stop(transaction, Stopped { delivery, tenant, lane, bytes: whole(size), reminder, at }, state, why)
}

/// The data needed to end a delivery without an attempt.
struct Stopped {
    delivery: i64,
    tenant: i64,
    lane: i64,
    bytes: u64,
    reminder: Option<i64>,
    at: Timestamp,
}

fn stop(
    transaction: &mut WriteTransaction<'_>,
    stopped: Stopped,
    state: i64,
    why: Option<FailReason>,
) -> rusqlite::Result<()> {
    transaction
        .connection
        .prepare_cached("UPDATE deliveries SET state = ?2, finished_at = ?3, reason = ?4 WHERE id = ?1")?
        .execute(params![stopped.delivery, state, micros(stopped.at), why.map(reason)])?;
    transaction.writer_state.finished(stopped.tenant, stopped.lane, stopped.bytes);
    runs::ended(transaction.connection, stopped.reminder, stopped.delivery)
}

/// Ends a leased delivery after its last attempt, in the state `state` and with the reason `why`.
fn finish(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    held: &Held,
    state: i64,
    why: Option<FailReason>,
    attempts: u32,
) -> rusqlite::Result<()> {
    transaction
        .connection
        .prepare_cached(
            "UPDATE deliveries SET state = ?2, finished_at = ?3, reason = ?4, attempts = attempts + ?5,
                 requests = requests + 1
             WHERE id = ?1",
        )?
        .execute(params![delivery, state, micros(transaction.wall), why.map(reason), attempts])?;
    transaction.writer_state.finished(held.tenant, held.lane, held.bytes);
    runs::ended(transaction.connection, held.reminder, delivery)
}

/// Stores an attempt and its response. `requests` is the number of earlier requests for the delivery.
fn note(
    transaction: &mut WriteTransaction<'_>,
    delivery: i64,
    requests: u32,
    attempt: &Attempt,
) -> rusqlite::Result<()> {
    let response = (!attempt.response.is_empty()).then_some(&attempt.response[..]);
    let latency = i64::try_from(attempt.latency.as_micros()).unwrap_or(i64::MAX);
    transaction
        .connection
        .prepare_cached(
            "INSERT INTO attempts (delivery, number, started_at, latency, status, fault, detail, probe, response)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            delivery,
            requests + 1,
            micros(attempt.started_at),
            latency,
            attempt.status,
            attempt.fault.map(breakerbox_model::delivery::Fault::name),
            attempt.detail,
            attempt.probe,
            response,
        ])?;
    Ok(())
}
