//! The priority that a task carries with it: whoever takes a request in says once how important it is, and every call that
//! is made for it is as important, however deep in the code.

use std::future::Future;

use breakerbox_core::throttle::Priority;

tokio::task_local! {
    static PRIORITY: Priority;
}

/// Runs a future all of whose throttled calls have this priority, whatever they say themselves. A task that it spawns is
/// another task and does not inherit it.
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

/// The same for code that is not async.
pub fn with_priority_blocking<R>(priority: Priority, work: impl FnOnce() -> R) -> R {
    PRIORITY.sync_scope(priority, work)
}

/// The priority that the current task carries.
#[must_use]
pub fn context_priority() -> Option<Priority> {
    PRIORITY.try_with(|priority| *priority).ok()
}
