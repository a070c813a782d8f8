//! Cancels waiting deliveries, and makes finished ones pending again. It always runs on the writer, which updates the
//! backlogs in the same transaction: first it checks whether the operation is possible, then it changes the row.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Delivery, DeliveryId, DeliveryState, EndpointId, LaneId, Priority, Purpose};
use breakerbox_storage::{Directory, QueueError, RecordsError, WaitingLane};
use rusqlite::{OptionalExtension, params};

use super::SqliteRecords;
use super::deliveries::{DELIVERY, show};
use crate::WriteTransaction;
use crate::columns::{CANCELLED, DELIVERED, WAITING, id, level, micros, priority, state, time, whole};
use crate::error::JobError;
use crate::lanes;
use crate::settle::stop_waiting;

/// The columns of a delivery that are needed to cancel or resend it.
struct Moved {
    tenant: i64,
    lane: i64,
    state: DeliveryState,
    /// The time to live that the event set, counted from the earliest time at which the event could be sent.
    /// `None`: the event set none.
    lives_for: Option<Duration>,
    url: Option<String>,
    /// The purpose of the delivery's circuit.
    purpose: Purpose,
    bytes: u64,
}

/// The result of making a delivery pending again.
pub(super) enum Resent {
    /// The delivery waits in this lane.
    Waits(WaitingLane),
    /// The delivery does not exist.
    Missing,
    /// The delivery is not finished.
    Unfinished(DeliveryState),
    /// The delivery's endpoint or tenant was deleted.
    EndpointGone(EndpointId),
    /// The tenant has reached its backlog limit.
    BacklogFull(RecordsError),
}

impl SqliteRecords {
    pub(super) async fn cancel_one(&self, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
        self.database
            .write(move |transaction| {
                let state = shown(transaction, wanted)?.state;
                if !state.is_finished() && transaction.cancel(wanted)? {
                    return shown(transaction, wanted);
                }
                let state = state.name();
                Err(RecordsError::State { id: wanted, state, verb: "cancelled" }.into())
            })
            .await
    }

    pub(super) async fn resend_one(&self, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
        let records = self.clone();
        self.database
            .write(move |transaction| match resend(transaction, &records.directory, wanted, None)? {
                Resent::Waits(lane) => {
                    let directory = Arc::clone(&records.directory);
                    transaction.after_commit(move || directory.woken(&lane));
                    shown(transaction, wanted)
                }
                Resent::Missing => Err(RecordsError::missing(DELIVERY, wanted).into()),
                Resent::Unfinished(state) => {
                    Err(RecordsError::State { id: wanted, state: state.name(), verb: "resent" }.into())
                }
                Resent::EndpointGone(endpoint) => Err(RecordsError::missing("endpoint", endpoint).into()),
                Resent::BacklogFull(error) => Err(error.into()),
            })
            .await
    }
}

/// Makes a finished delivery pending again, with this priority or, if it is `None`, its old one. The caller wakes the
/// lane.
pub(super) fn resend(
    transaction: &mut WriteTransaction<'_>,
    directory: &Directory,
    wanted: DeliveryId,
    priority: Option<Priority>,
) -> Result<Resent, JobError<RecordsError>> {
    let Some(moved) = find(transaction, wanted)? else { return Ok(Resent::Missing) };
    // A delivery that waits in a closed lane counts as cancelled, because its endpoint was deleted.
    if !moved.state.is_finished() && !transaction.writer_state.is_closed(moved.lane) {
        return Ok(Resent::Unfinished(moved.state));
    }
    let name = transaction.writer_state.tenant(transaction.connection, moved.tenant)?;
    let lane = LaneId(id(moved.lane));
    let gone = Resent::EndpointGone(EndpointId(lane.0));
    // Another tenant may have the same name by now.
    let Some(tenant) = directory.tenant(&name).filter(|entry| entry.row == moved.tenant) else {
        return Ok(gone);
    };
    let (lane, expires_after) = match &moved.url {
        Some(url) => {
            let lane = transaction.lane_of(moved.tenant, &tenant.key_of(moved.purpose, url)?)?;
            // The reminder, not the tenant, determines how long a run may wait.
            let expires_after = tenant.expires_after.filter(|_| moved.purpose == Purpose::Deliveries);
            (lane, expires_after)
        }
        None => match directory.endpoint(lane) {
            Some(endpoint) => (lane, endpoint.expires_after),
            None => return Ok(gone),
        },
    };
    let now = transaction.unfinished(moved.tenant);
    if now.count >= tenant.backlog.count || now.bytes.saturating_add(moved.bytes) > tenant.backlog.bytes {
        return Ok(Resent::BacklogFull(RecordsError::BacklogFull {
            tenant: name,
            waiting: now.count,
            bytes: now.bytes,
        }));
    }
    if let Some(priority) = priority {
        transaction
            .connection()
            .prepare_cached("UPDATE deliveries SET priority = ?2 WHERE id = ?1 AND state >= ?3")?
            .execute(params![wanted.number(), level(priority), DELIVERED])?;
    }
    // The delivery's time to live starts over each time it is resent.
    let expires_at = moved.lives_for.or(expires_after).map(|lives_for| transaction.now() + lives_for);
    Ok(transaction.wait_again(wanted, lane, expires_at)?.map_or(Resent::Missing, Resent::Waits))
}

impl WriteTransaction<'_> {
    /// Cancels a delivery if it is waiting. Returns whether it was cancelled.
    pub(crate) fn cancel(&mut self, delivery: DeliveryId) -> Result<bool, JobError<QueueError>> {
        let state: Option<i64> = self
            .connection
            .prepare_cached("SELECT state FROM deliveries WHERE id = ?1")?
            .query_row([delivery.number()], |row| row.get(0))
            .optional()?;
        let bounded_waits = state == Some(WAITING);
        if bounded_waits {
            stop_waiting(self, delivery.number(), CANCELLED, None, self.wall)?;
        }
        Ok(bounded_waits)
    }

    /// Makes a finished delivery pending again in this lane, due now and with no attempt used. Returns the lane to
    /// wake, or `None` if the delivery is not finished or does not exist. The caller checks the limits and that the
    /// endpoint still exists.
    fn wait_again(
        &mut self,
        delivery: DeliveryId,
        lane: LaneId,
        expires_at: Option<Timestamp>,
    ) -> Result<Option<WaitingLane>, JobError<QueueError>> {
        let found = self
            .connection
            .prepare_cached(
                "SELECT d.tenant, d.priority, e.size FROM deliveries d JOIN events e ON e.id = d.event
                 WHERE d.id = ?1 AND d.state >= ?2",
            )?
            .query_row(params![delivery.number(), DELIVERED], |row| {
                Ok((row.get::<_, i64>(0)?, priority(row.get(1)?), row.get::<_, i64>(2)?))
            })
            .optional()?;
        let Some((tenant, priority, size)) = found else { return Ok(None) };
        self.connection
            .prepare_cached(
                "UPDATE deliveries SET state = ?2, lane = ?3, due_at = ?4, expires_at = ?5, attempts = 0, failed_probe = 0,
                     pulled = 0, finished_at = NULL, reason = NULL
                 WHERE id = ?1",
            )?
            .execute(params![
                delivery.number(),
                WAITING,
                lane.number(),
                micros(self.now),
                expires_at.map(micros),
            ])?;
        self.writer_state.begun(tenant, lane.number(), whole(size));
        let mut next_due = [None; 4];
        next_due[priority.index()] = Some(self.now);
        Ok(Some(WaitingLane {
            lane,
            tenant: self.writer_state.tenant(self.connection, tenant)?,
            dynamic: lanes::key(self.connection, lane.number())?,
            next_due,
            count: 1,
        }))
    }
}

fn find(transaction: &WriteTransaction<'_>, wanted: DeliveryId) -> rusqlite::Result<Option<Moved>> {
    transaction
        .connection()
        .prepare_cached(
            "SELECT d.tenant, d.lane, d.state, d.reason, d.attempts, e.expires_at, e.not_before, e.url, e.size, e.reminder
             FROM deliveries d JOIN events e ON e.id = d.event WHERE d.id = ?1",
        )?
        .query_row([wanted.number()], |row| {
            let made_at = wanted.0.made_at();
            let start = row.get::<_, Option<i64>>(6)?.map_or(made_at, |at| time(at).max(made_at));
            Ok(Moved {
                tenant: row.get(0)?,
                lane: row.get(1)?,
                state: state(row.get(2)?, row.get(3)?, row.get(4)?),
                lives_for: row.get::<_, Option<i64>>(5)?.map(|at| time(at).since(start)),
                url: row.get(7)?,
                purpose: match row.get::<_, Option<i64>>(9)? {
                    Some(_) => Purpose::Reminders,
                    None => Purpose::Deliveries,
                },
                bytes: whole(row.get(8)?),
            })
        })
        .optional()
}

fn shown(transaction: &WriteTransaction<'_>, wanted: DeliveryId) -> Result<Delivery, JobError<RecordsError>> {
    let found = show(transaction.connection(), wanted.number())?;
    found.ok_or_else(|| RecordsError::missing(DELIVERY, wanted).into())
}
