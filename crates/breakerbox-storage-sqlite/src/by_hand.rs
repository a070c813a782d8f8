//! Operations on single deliveries: cancel a waiting one, resend a finished one. For jobs of the records.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Backlog, DeliveryId, LaneId};
use breakerbox_storage::{QueueError, WaitingLane};
use rusqlite::{OptionalExtension, params};

use super::columns::{CANCELLED, DELIVERED, WAITING, micros, priority, whole};
use super::lanes;
use super::settle::stop_waiting;
use super::transaction::WriteTransaction;
use crate::error::JobError;

impl WriteTransaction<'_> {
    /// Returns the unfinished work of a tenant, in this transaction.
    #[must_use]
    pub fn unfinished(&self, tenant_row: i64) -> Backlog {
        let unfinished = self.writer_state.unfinished(tenant_row);
        Backlog { count: unfinished.count, bytes: unfinished.bytes }
    }

    /// Returns the unfinished work of a lane, in this transaction.
    #[must_use]
    pub fn unfinished_in(&self, lane: LaneId) -> Backlog {
        let unfinished = self.writer_state.unfinished_in(lane.number());
        Backlog { count: unfinished.count, bytes: unfinished.bytes }
    }

    /// Returns the lane of a dynamic URL's circuit, and creates it if there is none.
    ///
    /// # Errors
    /// If the database fails.
    pub fn lane_of(&mut self, tenant_row: i64, key: &str) -> Result<LaneId, JobError<QueueError>> {
        let lane = lanes::of_key(self.connection, self.writer_state, tenant_row, key, self.wall)?;
        Ok(LaneId(super::columns::id(lane)))
    }

    /// Cancels a waiting delivery. False: it does not wait.
    ///
    /// # Errors
    /// If the database fails.
    pub fn cancel(&mut self, delivery: DeliveryId) -> Result<bool, JobError<QueueError>> {
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

    /// Makes a finished delivery pending again in this lane, due now, with all its attempts. Returns the lane to wake,
    /// or `None` if the delivery is not finished or does not exist. The caller checks limits and whether its endpoint
    /// still exists.
    ///
    /// # Errors
    /// If the database fails.
    pub fn resend(
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
                     finished_at = NULL, reason = NULL
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
