//! Maintenance in bounded pieces: ended leases, expired deliveries, closed lanes.

use std::collections::BTreeMap;

use breakerbox_storage::{Batch, QueueError};
use rusqlite::{OptionalExtension, params};

use super::columns::{CANCELLED, micros, number, time};
use super::job::Command;
use super::lanes;
use super::settle::{give_up_expired, hand_back, stop_waiting};
use super::unheard::{Answers, Unheard};
use super::writer::Writing;
use crate::error::JobError;

/// Makes deliveries wait again whose lease has ended, or whose holder never received them.
pub(super) struct Reclaim {
    pub(super) limit: usize,
    pub(super) unheard: Unheard,
    pub(super) answers: Answers,
}

impl Command for Reclaim {
    type Answer = Batch;

    fn run(&mut self, writing: &mut Writing<'_>) -> Result<Batch, JobError<QueueError>> {
        self.answers = self.unheard.take();
        let mut ended = writing.ledger.overdue(writing.now, self.limit);
        let more = ended.len() == self.limit;
        ended.extend(self.answers.leases.iter().map(|(delivery, lease)| (delivery.number(), *lease)));
        let mut batch = Batch { done: 0, woken: self.answers.woken.clone(), more };
        let mut woken = BTreeMap::new();
        for (delivery, lease) in ended {
            if let Some(held) = hand_back(writing, delivery, lease)? {
                batch.done += 1;
                woken.insert(held.lane, held.tenant);
            }
        }
        for (lane, tenant) in woken {
            if !writing.ledger.is_closed(lane) {
                let tenant = writing.ledger.tenant(writing.connection, tenant)?;
                batch.woken.push(lanes::waiting(writing.connection, tenant, lane)?);
            }
        }
        Ok(batch)
    }

    fn undone(&mut self) {
        self.unheard.put_back(std::mem::take(&mut self.answers));
    }

    fn unheard(&mut self, answer: Batch) {
        self.unheard.add(&[], answer.woken);
    }
}

/// Waiting deliveries that have expired, the longest ago first.
pub(super) const EXPIRED: &str = "SELECT id FROM deliveries INDEXED BY expiring
    WHERE state = 0 AND expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

/// Fails waiting deliveries that have expired.
pub(super) struct Expire {
    pub(super) limit: usize,
}

impl Command for Expire {
    type Answer = Batch;

    fn run(&mut self, writing: &mut Writing<'_>) -> Result<Batch, JobError<QueueError>> {
        let expired = writing
            .connection
            .prepare_cached(EXPIRED)?
            .query_map(params![micros(writing.now), number(self.limit as u64)], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?;
        for delivery in &expired {
            give_up_expired(writing, *delivery)?;
        }
        Ok(Batch { done: expired.len() as u64, woken: Vec::new(), more: expired.len() == self.limit })
    }
}

/// The waiting deliveries of one lane, in any order.
pub(super) const IN_LANE: &str =
    "SELECT id FROM deliveries INDEXED BY waiting WHERE state = 0 AND lane = ?1 LIMIT ?2";

/// Cancels the waiting deliveries of closed lanes.
pub(super) struct CancelClosed {
    pub(super) limit: usize,
}

impl Command for CancelClosed {
    type Answer = Batch;

    fn run(&mut self, writing: &mut Writing<'_>) -> Result<Batch, JobError<QueueError>> {
        let mut batch = Batch::default();
        let mut left = self.limit;
        let mut after = -1;
        while let Some(lane) = writing.ledger.closed_after(after) {
            if left == 0 {
                batch.more = true;
                break;
            }
            after = lane;
            let waiting = writing
                .connection
                .prepare_cached(IN_LANE)?
                .query_map(params![lane, number(left as u64)], |row| row.get(0))?
                .collect::<Result<Vec<i64>, _>>()?;
            let closed_at: Option<i64> = writing
                .connection
                .prepare_cached("SELECT nullif(closed_at, 0) FROM closed_lanes WHERE lane = ?1")?
                .query_row([lane], |row| row.get(0))
                .optional()?
                .flatten();
            let at = closed_at.map_or(writing.wall, time);
            for delivery in &waiting {
                stop_waiting(writing, *delivery, CANCELLED, None, at)?;
            }
            let is_empty = waiting.len() < left;
            left -= waiting.len();
            batch.done += waiting.len() as u64;
            if !is_empty {
                batch.more = true;
            } else if !writing.ledger.holds_any_of(lane) {
                writing.ledger.forget_closed(writing.connection, lane)?;
            }
        }
        Ok(batch)
    }
}
