//! A process's last reports if it does not close its registry, but drops the last handle or shuts down the background
//! tasks' runtime. This module detects both, and reports the unreported outcomes within a flush's time limit.
//!
//! Neither case can wait like a task: a runtime with a single thread stops while a drop blocks it, and a runtime that
//! shuts down closes the store's connections. So the last flush has its own thread and runtime, and [its own
//! connections](crate::store::Store::reopen) if the store uses any. The dropping thread waits for it, at most for the
//! time limit, and not at all if all outcomes have been reported.
//!
//! Two cases are not covered: a registry in a `static`, which is never dropped, in a program without a runtime; and
//! requests that a blocked runtime's task has in flight. Outcomes that are lost this way are counted as
//! [unanswered_reports](crate::Counts::unanswered_reports), if a handle is left to read the counters. With a
//! [spawner](crate::BreakerboxBuilder::spawner), dropping the last handle starts the flush there and does not wait, and tasks
//! that are dropped count as killed.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

use super::{Fleet, FlushError};
use crate::fleet::Shared;

/// The time that a thread may take to start and to end, in addition to the flush timeout.
const THREAD_OVERHEAD: Duration = Duration::from_millis(100);

/// Reports all outcomes when the last handle is dropped. Blocks, except with a custom spawner.
#[cold]
pub(crate) fn last_handle(shared: &Arc<Shared>) {
    let Some(fleet) = &shared.fleet else { return };
    let is_over = fleet.is_closed() || fleet.runtime.has_moved();
    if is_over || !shared.has_unreported(fleet) {
        return;
    }
    if fleet.runtime.is_custom() {
        let task = shared.for_task();
        // The spawner is user code, and a drop must not panic.
        return shared.observers.guard(|| {
            fleet.runtime.spawn(async move {
                // There is no caller left to receive the result.
                let _ = task.report_everything(&task, true).await;
            });
        });
    }
    flush_and_wait(shared, fleet, !fleet.runtime.stops_with_this_thread());
}

/// A guard in the background tasks that detects the shutdown of their runtime. If the runtime shuts down, the guard is
/// dropped without having been disarmed, and flushes.
pub(super) struct ShutdownGuard {
    shared: Weak<Shared>,
    is_armed: bool,
}

impl ShutdownGuard {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let is_custom = shared.fleet.as_ref().is_none_or(|fleet| fleet.runtime.is_custom());
        Self { shared: Arc::downgrade(shared), is_armed: !is_custom }
    }

    /// Disarms the guard, because the task ends normally.
    pub(super) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade().filter(|_| self.is_armed) else { return };
        let Some(fleet) = &shared.fleet else { return };
        if !fleet.is_closed() && !fleet.runtime.has_moved() && shared.has_unreported(fleet) {
            flush_and_wait(&shared, fleet, false);
        }
    }
}

fn flush_and_wait(shared: &Arc<Shared>, fleet: &Fleet, heeds_others: bool) {
    let (report_result, told) = sync_channel(1);
    let limit = fleet.flush_limit() + THREAD_OVERHEAD;
    flush_on_a_thread(shared, heeds_others, move |done| _ = report_result.send(done));
    // An error cannot be handled here; unreported outcomes are counted.
    let _ = told.recv_timeout(limit);
}

/// Flushes in a separate thread, with separate connections. `report_result` receives the result. If the flush cannot
/// run, `report_result` is dropped without being called.
pub(super) fn flush_on_a_thread(
    shared: &Arc<Shared>,
    heeds_others: bool,
    report_result: impl FnOnce(Result<(), FlushError>) + Send + 'static,
) {
    let task = shared.for_task();
    let flush = move || {
        let Some(fleet) = &task.fleet else { return };
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        if !fleet.runtime.move_to(runtime.handle().clone()) {
            return;
        }
        let done = runtime.block_on(async {
            fleet.store.reopen();
            task.report_everything(&task, heeds_others).await
        });
        drop(runtime);
        drop(task);
        report_result(done);
    };
    // If no thread can be started, the sender is dropped, which wakes the waiting caller.
    drop(thread::Builder::new().name("breakerbox-flush".into()).spawn(flush));
}
