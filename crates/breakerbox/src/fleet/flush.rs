//! Reports all unreported outcomes to the store, including the consequences: if a report leads to a trip, the trip is
//! confirmed and swapped in before the flush ends.
//!
//! A flush runs in the background, so it completes even if its caller stops waiting. It never takes longer than
//! [`Fleet::flush_limit`], never reports an outcome twice, and does not wait for outcomes that are settled after it
//! began.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Pending;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::report::Reply;
use super::running_tasks::TaskRef;
use super::shutdown::flush_on_a_thread;
use super::{BATCH, Fleet};
use crate::cell::Cell;
use crate::fleet::Shared;

/// The reason why a flush could not report all outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// The store did not respond, rejected the report, or has a record that cannot be read.
    #[error(
        "the store did not accept the outcomes of {circuits} circuits; see store_health() for the reason"
    )]
    NotReported {
        /// The number of circuits with unreported outcomes, as far as this process knows.
        circuits: usize,
    },
    /// The flush exceeded its timeout.
    #[error("not everything was reported within {limit:?}")]
    TimedOut {
        /// The timeout, which is four times `store_timeout`, plus the time that other processes have to report before a
        /// trip.
        limit: Duration,
    },
    /// The registry was closed before these outcomes were settled.
    #[error("the registry is closed")]
    Closed,
    /// The background tasks' tokio runtime was shut down, and no replacement could be started.
    #[error("the tokio runtime in which the registry was built is shut down; flush or close before that")]
    RuntimeGone,
}

/// The interval at which a flush checks whether another task's report has received its response.
const RECHECK_AFTER: Duration = Duration::from_millis(5);

/// The number of circuits to examine before yielding to other tasks.
const YIELD_EVERY: usize = 1_024;

/// The number of store timeouts that a flush may take, in addition to the wait for a trip's confirmation. Reading the
/// record, reporting and swapping take one each, and one is in reserve.
const STORE_TIMEOUTS: u32 = 4;

/// A circuit whose outcomes have not all been reported to the store.
struct Unreported {
    cell: Arc<Cell>,
    /// Whether this flush has already reported the circuit's outcomes. If true, the remaining unreported outcomes were
    /// settled later, and need not be reported by this flush.
    was_reported: bool,
}

impl Fleet {
    /// Returns the maximum duration of a flush.
    pub(super) fn flush_limit(&self) -> Duration {
        self.waits().confirm + self.settings.store_timeout * STORE_TIMEOUTS
    }
}

impl Shared {
    /// Reports all outcomes that were settled before this call.
    pub(crate) async fn flush(self: &Arc<Self>) -> Result<(), FlushError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        if fleet.is_closed() {
            let is_reported = self.unreported().await.is_empty();
            return if is_reported { Ok(()) } else { Err(FlushError::Closed) };
        }
        let (sender, receiver) = oneshot::channel();
        let task = self.for_task();
        fleet.runtime.spawn(async move {
            let done = task.report_everything(&task, true).await;
            // The caller may have stopped waiting.
            let _ = sender.send(done);
        });
        match receiver.await {
            Ok(done) => done,
            // The task was dropped, together with its runtime.
            Err(_) => {
                let (sender, receiver) = oneshot::channel();
                flush_on_a_thread(self, false, move |done| _ = sender.send(done));
                receiver.await.unwrap_or(Err(FlushError::RuntimeGone))
            }
        }
    }

    /// Reports all outcomes within the flush timeout. `task` is the caller's own background task, and `wait_for_others`
    /// states whether to wait for other tasks' requests.
    pub(super) async fn report_everything(
        self: &Arc<Self>,
        task: &TaskRef,
        wait_for_others: bool,
    ) -> Result<(), FlushError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let limit = fleet.flush_limit();
        let reporting = async {
            let done = self.report_until_done(fleet, task, wait_for_others).await;
            if wait_for_others && done.is_ok() {
                // Waits for single outcomes in flight, probe results, and records that are published again.
                fleet.running_tasks.ended(0, task.id()).await;
            }
            done
        };
        timeout(limit, reporting).await.unwrap_or(Err(FlushError::TimedOut { limit }))
    }

    async fn report_until_done(
        self: &Arc<Self>,
        fleet: &Fleet,
        task: &TaskRef,
        wait_for_others: bool,
    ) -> Result<(), FlushError> {
        let mut left = self.unreported().await;
        let (mut lost, mut rejoined) = (0, false);
        loop {
            let mut pending = Vec::with_capacity(left.len());
            left.retain(|unreported| {
                let next = unreported.next(self, wait_for_others);
                pending.extend(next);
                next.is_some()
            });
            if left.is_empty() {
                return if lost > 0 { Err(FlushError::NotReported { circuits: lost }) } else { Ok(()) };
            }
            let indices = |wanted: fn(&Pending) -> bool| {
                let indices = pending.iter().enumerate().filter(move |(_, pending)| wanted(pending));
                indices.map(|(index, _)| index).collect::<Vec<_>>()
            };
            let apart = indices(|pending| *pending == Pending::Rejoin);
            if !apart.is_empty() {
                let cells: Vec<_> = apart.iter().map(|&index| Arc::clone(&left[index].cell)).collect();
                if rejoined || !self.read_batches(fleet, &cells).await {
                    return Err(FlushError::NotReported { circuits: cells.len() + lost });
                }
                rejoined = true;
            }
            let mut wait: Option<Duration> = None;
            for indices in indices(|pending| matches!(pending, Pending::Report { .. })).chunks(BATCH) {
                let cells: Vec<_> = indices.iter().map(|&index| Arc::clone(&left[index].cell)).collect();
                // This includes outcomes that would not need a report.
                for cell in &cells {
                    cell.step(&self.times, |member, at| member.request_report(at.store_time));
                }
                let replies = self.report_to_store(fleet, &cells).await;
                let unanswered = replies.iter().filter(|reply| **reply == Reply::Unanswered).count();
                if unanswered > 0 {
                    // The next batch would wait just as long without success.
                    return Err(FlushError::NotReported { circuits: unanswered + lost });
                }
                for (&index, reply) in indices.iter().zip(replies) {
                    match reply {
                        Reply::Answered { again_in } => {
                            left[index].was_reported = true;
                            wait = wait.into_iter().chain(again_in).min();
                        }
                        Reply::Unreadable => {
                            left[index].was_reported = true;
                            lost += 1;
                        }
                        Reply::Nothing | Reply::Unanswered => {}
                    }
                }
            }
            // Waits for the resulting trips, and for decisions that were made without the store.
            fleet.running_tasks.ended(task.id(), task.id()).await;
            if left.iter().any(|unreported| unreported.next(self, wait_for_others).is_some()) {
                sleep(wait.unwrap_or(RECHECK_AFTER)).await;
            }
        }
    }

    async fn read_batches(self: &Arc<Self>, fleet: &Fleet, cells: &[Arc<Cell>]) -> bool {
        for cells in cells.chunks(BATCH) {
            if !self.read_and_learn(fleet, cells).await {
                return false;
            }
        }
        true
    }

    /// Returns all circuits with outcomes that have not been reported to the store.
    async fn unreported(&self) -> Vec<Unreported> {
        let mut unreported = Vec::new();
        for cells in self.registry.by_parts() {
            for cells in cells.chunks(YIELD_EVERY) {
                let is_pending = |cell: &&Arc<Cell>| cell.pending(&self.times) != Pending::Nothing;
                let pending = cells.iter().filter(is_pending).cloned();
                unreported.extend(pending.map(|cell| Unreported { cell, was_reported: false }));
                yield_now().await;
            }
        }
        unreported
    }

    /// Returns whether a flush would have work to do.
    pub(super) fn has_unreported(&self, fleet: &Fleet) -> bool {
        let is_pending = |cell: Arc<Cell>| cell.pending(&self.times) != Pending::Nothing;
        !fleet.running_tasks.is_empty() || self.registry.by_parts().flatten().any(is_pending)
    }

    /// Flushes, then stops all background tasks. From then on, circuits are not shared.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), FlushError> {
        let done = self.flush().await;
        if let Some(fleet) = self.fleet.as_ref().filter(|fleet| !fleet.is_closed()) {
            fleet.stop();
            for cell in self.registry.by_parts().flatten() {
                self.step_member(&cell, None, |member, _| member.leave());
                self.waiters.wake_one(&cell);
            }
        }
        done
    }
}

impl Unreported {
    /// Returns the work that this flush still has to do for the circuit; `None` if no work remains.
    fn next(&self, shared: &Shared, wait_for_others: bool) -> Option<Pending> {
        let pending = self.cell.pending(&shared.times);
        let is_left = match pending {
            Pending::Nothing => false,
            Pending::Report { pending_trip } => pending_trip || !self.was_reported,
            // A trip that awaits confirmation is completed, whichever task sent the request. The flush does not wait
            // for a report by a task that cannot continue.
            Pending::Answer { pending_trip } => pending_trip || (wait_for_others && !self.was_reported),
            Pending::Rejoin => !self.was_reported,
        };
        is_left.then_some(pending)
    }
}
