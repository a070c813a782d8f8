//! Maintenance in bounded batches: expired leases, expired deliveries, closed lanes.

use std::collections::BTreeMap;

use breakerbox_storage::{BatchResult, QueueError};
use rusqlite::{OptionalExtension, params};

use super::abandoned::{Abandoned, AbandonedResults};
use super::columns::{CANCELLED, micros, number, time};
use super::job::Command;
use super::lanes;
use super::settle::{give_up_expired, stop_waiting, wait_again};
use super::transaction::WriteTransaction;
use crate::error::JobError;

/// Makes leased deliveries wait again if their lease has expired or the caller that claimed them is gone.
pub(super) struct Reclaim {
    pub(super) limit: usize,
    pub(super) abandoned: AbandonedResults,
    pub(super) answers: Abandoned,
}

impl Command for Reclaim {
    type Output = BatchResult;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<BatchResult, JobError<QueueError>> {
        self.answers = self.abandoned.take();
        let mut ended = transaction.writer_state.overdue(transaction.now, self.limit);
        let more = ended.len() == self.limit;
        ended.extend(self.answers.leases.iter().map(|(delivery, lease)| (delivery.number(), *lease)));
        let mut batch = BatchResult { done: 0, woken: self.answers.woken.clone(), more };
        let mut woken = BTreeMap::new();
        for (delivery, lease) in ended {
            if let Some(held) = wait_again(transaction, delivery, lease, true)? {
                batch.done += 1;
                woken.insert(held.lane, held.tenant);
            }
        }
        for (lane, tenant) in woken {
            if !transaction.writer_state.is_closed(lane) {
                let tenant = transaction.writer_state.tenant(transaction.connection, tenant)?;
                batch.woken.push(lanes::waiting(transaction.connection, tenant, lane)?);
            }
        }
        Ok(batch)
    }

    fn on_rollback(&mut self) {
        self.abandoned.put_back(std::mem::take(&mut self.answers));
    }

    fn on_caller_gone(&mut self, answer: BatchResult) {
        self.abandoned.add(&[], answer.woken);
    }
}

/// Selects waiting deliveries that have expired, earliest first.
pub(super) const EXPIRED: &str = "SELECT id FROM deliveries INDEXED BY expiring
    WHERE state = 0 AND expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

/// Fails waiting deliveries that have expired.
pub(super) struct Expire {
    pub(super) limit: usize,
}

impl Command for Expire {
    type Output = BatchResult;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<BatchResult, JobError<QueueError>> {
        let expired = transaction
            .connection
            .prepare_cached(EXPIRED)?
            .query_map(params![micros(transaction.now), number(self.limit as u64)], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?;
        for delivery in &expired {
            give_up_expired(transaction, *delivery)?;
        }
        Ok(BatchResult { done: expired.len() as u64, woken: Vec::new(), more: expired.len() == self.limit })
    }
}

/// Selects waiting deliveries of one lane, in any order.
pub(super) const IN_LANE: &str =
    "SELECT id FROM deliveries INDEXED BY waiting WHERE state = 0 AND lane = ?1 LIMIT ?2";

/// Cancels waiting deliveries in closed lanes.
pub(super) struct CancelClosed {
    pub(super) limit: usize,
}

impl Command for CancelClosed {
    type Output = BatchResult;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<BatchResult, JobError<QueueError>> {
        let mut batch = BatchResult::default();
        let mut left = self.limit;
        let mut after = -1;
        while let Some(lane) = transaction.writer_state.closed_after(after) {
            if left == 0 {
                batch.more = true;
                break;
            }
            after = lane;
            let waiting = transaction
                .connection
                .prepare_cached(IN_LANE)?
                .query_map(params![lane, number(left as u64)], |row| row.get(0))?
                .collect::<Result<Vec<i64>, _>>()?;
            let closed_at: Option<i64> = transaction
                .connection
                .prepare_cached("SELECT nullif(closed_at, 0) FROM closed_lanes WHERE lane = ?1")?
                .query_row([lane], |row| row.get(0))
                .optional()?
                .flatten();
            let at = closed_at.map_or(transaction.wall, time);
            for delivery in &waiting {
                stop_waiting(transaction, *delivery, CANCELLED, None, at)?;
            }
            let is_empty = waiting.len() < left;
            left -= waiting.len();
            batch.done += waiting.len() as u64;
            if !is_empty {
                batch.more = true;
            } else if !transaction.writer_state.holds_any_of(lane) {
                transaction.writer_state.forget_closed(transaction.connection, lane)?;
            }
        }
        Ok(batch)
    }
}
