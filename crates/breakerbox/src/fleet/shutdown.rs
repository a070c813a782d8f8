//! The last reports of a process that does not close its registry: it drops the last handle, or shuts down the runtime
//! of the background tasks. This module detects both, and reports the unreported outcomes within the time limit of a
//! flush.
//!
//! Neither can wait as tasks do: a runtime with a single thread stops while a drop blocks it, and one that is shut down
//! closes the store's connections. So the last flush has a thread and a runtime of its own, and [connections of its
//! own](crate::store::Store::reopen) if the store has any. The dropping thread waits for it, at most for the limit; if
//! there is nothing to report, it does not wait.
//!
//! It can't report for a registry in a `static`, which is never dropped, in a program without a runtime; nor can it
//! report what a task of a blocked runtime has in flight. Outcomes that are lost this way are counted as
//! [unanswered_reports](crate::Counts::unanswered_reports), if a handle is left to read the counters. With a
//! [spawner](crate::Builder::spawner) a dropped handle starts the flush there and does not wait, and tasks that are
//! dropped count as killed.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

use super::{Fleet, FlushError};
use crate::fleet::Shared;

/// How long a thread may take to start and to end, beyond the limit of its flush.
const THREAD_OVERHEAD: Duration = Duration::from_millis(100);

/// Reports everything, because the last handle is dropped.
#[cold]
pub(crate) fn last_handle(shared: &Arc<Shared>) {
    let Some(fleet) = &shared.fleet else { return };
    let is_over = fleet.is_closed() || fleet.runtime.has_moved();
    if is_over || !shared.has_unreported(fleet) {
        return;
    }
    if fleet.runtime.is_custom() {
        let task = shared.for_task();
        // The spawner is code of the user, and a drop must not panic.
        return shared.observers.guard(|| {
            fleet.runtime.spawn(async move {
                // There is no caller left to receive the result.
                let _ = task.report_everything(&task, true).await;
            });
        });
    }
    flush_and_wait(shared, fleet, !fleet.runtime.stops_with_this_thread());
}

/// Detects the shutdown of the runtime of the background tasks: then it is dropped without having been disarmed.
pub(super) struct ShutdownGuard {
    shared: Weak<Shared>,
    is_armed: bool,
}

impl ShutdownGuard {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let is_custom = shared.fleet.as_ref().is_none_or(|fleet| fleet.runtime.is_custom());
        Self { shared: Arc::downgrade(shared), is_armed: !is_custom }
    }

    /// Disarms the guard, because the task ends by itself.
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
    // An error can't be handled here: unreported outcomes are counted.
    let _ = told.recv_timeout(limit);
}

/// Flushes on a thread of its own, with connections of its own. `report_result` is dropped if no thread can be started.
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
    // Without a thread, the dropped sender notifies the waiting caller.
    drop(thread::Builder::new().name("breakerbox-flush".into()).spawn(flush));
}
