//! Reports counts to the store, in batches, and applies the responses. Only circuits whose report is due are visited:
//! a healthy circuit never is.

use std::sync::{Arc, Weak};
use std::time::Duration;

use breakerbox_core::fleet::{Delta, ReportDue};
use tokio::task::yield_now;

use super::running_tasks::TaskRef;
use super::{BATCH, Fleet};
use crate::cell::Cell;
use crate::clock::Clock;
use crate::fleet::Shared;

/// The maximum time that the reporter sleeps while no report is due, after which it checks whether the registry was
/// dropped.
const IDLE_WAIT: Duration = Duration::from_secs(1);

/// The number of responses to apply before yielding to other tasks.
const YIELD_EVERY: usize = 64;

pub(super) async fn keep_reporting(shared: Weak<Shared>) {
    loop {
        let Some(held) = TaskRef::of(&shared) else { return };
        let Some(fleet) = &held.fleet else { return };
        let now = held.times.now();
        let cells = fleet.queue.take(now, BATCH);
        if !cells.is_empty() {
            held.report_to_store(fleet, &cells).await;
            // A memory store responds at once, but other tasks need the thread too.
            yield_now().await;
            continue;
        }
        let wait = fleet.queue.next().map_or(IDLE_WAIT, |due| due.since(now)).min(IDLE_WAIT);
        let earlier = fleet.queue.earlier();
        // Do not keep the registry alive while waiting.
        drop(held);
        let _ = tokio::time::timeout(wait, earlier.notified()).await;
    }
}

/// The result of reporting one circuit's counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// There were no counts to report, or a report was in flight.
    Nothing,
    /// The store responded to the report.
    Answered {
        /// The time after which to report again, because a trip awaits confirmation; `None` if no trip does.
        again_in: Option<Duration>,
    },
    /// The store did not respond. The outcomes may be lost.
    Unanswered,
    /// The store's record cannot be read.
    Unreadable,
}

impl Shared {
    /// Reports these circuits' counts to the store. Returns the results in the same order.
    pub(super) async fn report_to_store(self: &Arc<Self>, fleet: &Fleet, cells: &[Arc<Cell>]) -> Vec<Reply> {
        let mut replies = vec![Reply::Nothing; cells.len()];
        // These circuits were forgotten while a call was in flight: its outcome has no epoch until the record has
        // been read.
        let unread: Vec<_> = cells.iter().filter(|cell| cell.is_unread(&self.times)).cloned().collect();
        if !unread.is_empty() && !self.read_and_learn(fleet, &unread).await {
            for (cell, reply) in cells.iter().zip(&mut replies) {
                if cell.is_unread(&self.times) {
                    *reply = Reply::Unanswered;
                }
            }
        }
        let (reported, deltas) = self.deltas_of(cells);
        if deltas.is_empty() {
            return replies;
        }
        let unanswered = Unanswered { shared: self, cells, reported: &reported };
        let answer = self.write_store(fleet, fleet.store.merge(&deltas)).await;
        let Ok(answer) = answer else {
            reported.iter().for_each(|&index| replies[index] = Reply::Unanswered);
            return replies;
        };
        unanswered.was_answered();
        let mut wanted_reports = Vec::new();
        for (count, ((&index, delta), merged)) in reported.iter().zip(&deltas).zip(&answer.value).enumerate()
        {
            if count % YIELD_EVERY == YIELD_EVERY - 1 {
                yield_now().await;
            }
            let cell = &cells[index];
            let merged = match merged {
                Ok(merged) => merged,
                Err(unreadable) => {
                    self.step_member(cell, None, |member, at| member.report_unanswered(at.now));
                    self.can_not_read(fleet, cell, unreadable);
                    replies[index] = Reply::Unreadable;
                    continue;
                }
            };
            if merged.late {
                self.count_late(delta.calls());
            }
            let reported = self.step_member(cell, Some(answer.now), |member, at| member.reported(merged, at));
            self.apply_learnt(cell, reported.learnt);
            if reported.call_for_reports {
                wanted_reports.push(Arc::clone(&delta.key));
            }
            // Whether the confirmation continues or has ended, a waiting caller may be affected.
            self.waiters.wake_one(cell);
            let again_in = if let ReportDue::In(wait) = reported.report { Some(wait) } else { None };
            replies[index] = Reply::Answered { again_in };
            self.report(cell, reported.report);
        }
        if !wanted_reports.is_empty() && !fleet.health.is_lost() {
            // If the message is lost, the process with the pending trip calls again, so an error has no effect.
            let call = fleet.store.call_for_reports(&wanted_reports);
            let _ = tokio::time::timeout(fleet.settings.store_timeout, call).await;
        }
        replies
    }

    /// Returns the deltas to report, and the indices of their circuits. Circuits that no longer need a report are left
    /// out. Circuits that are due later are queued again.
    fn deltas_of(&self, cells: &[Arc<Cell>]) -> (Vec<usize>, Vec<Delta>) {
        let report = |(index, cell): (usize, &Arc<Cell>)| {
            let (delta, due) = cell.visit(&self.store_key(cell), &self.times);
            self.queue_report(cell, &due);
            Some((index, delta?))
        };
        cells.iter().enumerate().filter_map(report).unzip()
    }

    /// Handles another process's request for reports on these circuits.
    pub(super) fn report_called(&self, keys: &[Arc<str>]) {
        for cell in keys.iter().filter_map(|key| self.cell_of(key)) {
            self.step_member(&cell, None, |member, at| member.handle_report_call(at.policy, at.now));
        }
    }
}

/// A guard for a report that awaits its response. If the guard is dropped, because the store did not respond or the
/// task ended, the report counts as unanswered.
struct Unanswered<'t> {
    shared: &'t Arc<Shared>,
    cells: &'t [Arc<Cell>],
    reported: &'t [usize],
}

impl Unanswered<'_> {
    fn was_answered(mut self) {
        self.reported = &[];
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        for cell in self.reported.iter().map(|&index| &self.cells[index]) {
            shared.count_unanswered();
            shared.step_member(cell, None, |member, at| member.report_unanswered(at.now));
            shared.waiters.wake_one(cell);
        }
    }
}
