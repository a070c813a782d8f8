//! A task's priority: the code that receives a request sets it once, and it applies to every call made for that
//! request, however deep in the code.

use std::future::Future;

use breakerbox_core::throttle::Priority;

tokio::task_local! {
    static PRIORITY: Priority;
}

/// Runs a future, and uses this priority for all of its throttled calls, whatever priority they pass themselves. Tasks
/// that the future spawns do not inherit the priority.
///
/// ```
/// use breakerbox::throttle::{Priority, context_priority, with_priority};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let inside = with_priority(Priority::LOW, async { context_priority() }).await;
/// assert_eq!(inside, Some(Priority::LOW));
/// assert_eq!(context_priority(), None);
/// # });
/// ```
pub fn with_priority<F: Future>(priority: Priority, future: F) -> impl Future<Output = F::Output> {
    PRIORITY.scope(priority, future)
}

/// Runs blocking code with a priority for all of its throttled calls, as [`with_priority`] does for a future.
pub fn with_priority_blocking<R>(priority: Priority, work: impl FnOnce() -> R) -> R {
    PRIORITY.sync_scope(priority, work)
}

/// Returns the current task's priority; `None` if the task has no priority.
#[must_use]
pub fn context_priority() -> Option<Priority> {
    PRIORITY.try_with(|priority| *priority).ok()
}
