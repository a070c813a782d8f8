//! A background task that is aborted when its owner is dropped.

use tokio::task::JoinHandle;

/// A task that is aborted when the handle is dropped.
#[derive(Debug)]
pub struct Task(JoinHandle<()>);

impl Task {
    /// Starts the task. Must be called within a tokio runtime.
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Task {
    /// Returns whether the task has ended without being aborted. The store's tasks run forever, so they end
    /// only with their runtime.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
