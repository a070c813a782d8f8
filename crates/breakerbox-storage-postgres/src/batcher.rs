//! A writer: a task that gathers the jobs that are waiting, runs them as one group, and then takes the next ones. While a
//! group is being committed, the next one gathers, so that a commit carries the more jobs the longer commits take. No timer is
//! involved.

use tokio::sync::{mpsc, oneshot};

use breakerbox_storage::QueueError;

/// The maximum number of jobs in one group. With more jobs, the first ones would wait too long.
const MAX_JOBS: usize = 512;
/// The maximum number of bytes in one group, not counting the last job.
const MAX_BYTES: usize = 4 << 20;

/// A job of a writer.
pub(crate) trait Job: Send + 'static {
    /// Returns the approximate number of bytes that the job writes.
    fn bytes(&self) -> usize {
        0
    }
}

/// Sends jobs to a writer.
pub(crate) struct Batcher<J>(mpsc::Sender<J>);

impl<J: Job> Batcher<J> {
    /// Starts a writer that runs groups of jobs, and ends when the batcher is dropped and no job waits. At most `room` jobs
    /// wait for it.
    pub(crate) fn start<F, R>(room: usize, mut run: F) -> Self
    where
        F: FnMut(Vec<J>) -> R + Send + 'static,
        R: Future<Output = ()> + Send,
    {
        let (sender, mut waiting) = mpsc::channel(room.max(1));
        tokio::spawn(async move {
            while let Some(first) = waiting.recv().await {
                run(gather(first, &mut waiting)).await;
            }
        });
        Self(sender)
    }

    /// Adds a job, after waiting for room if necessary.
    pub(crate) async fn add(&self, job: J) -> Result<(), QueueError> {
        self.0.send(job).await.map_err(|_| QueueError::Closed)
    }

    /// Adds a job, or returns an error if there is no room.
    pub(crate) fn try_add(&self, job: J) -> Result<(), QueueError> {
        self.0.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => QueueError::Busy,
            mpsc::error::TrySendError::Closed(_) => QueueError::Closed,
        })
    }
}

fn gather<J: Job>(first: J, waiting: &mut mpsc::Receiver<J>) -> Vec<J> {
    let mut bytes = first.bytes();
    let mut group = vec![first];
    while group.len() < MAX_JOBS && bytes < MAX_BYTES {
        let Ok(job) = waiting.try_recv() else { break };
        bytes += job.bytes();
        group.push(job);
    }
    group
}

/// A result on its way to the caller. If it is dropped before it is taken, the caller did not receive it.
pub(crate) struct Handed<T> {
    value: Option<T>,
    /// Called at the end with the value, or with `None` if the caller took it.
    end: Option<Box<dyn FnOnce(Option<T>) + Send>>,
}

impl<T> Handed<T> {
    /// Creates a result that may be dropped.
    pub(crate) fn plain(value: T) -> Self {
        Self { value: Some(value), end: None }
    }

    /// Creates a result whose value is passed to a function if the caller is gone.
    pub(crate) fn or_else(value: T, on_caller_gone: impl FnOnce(T) + Send + 'static) -> Self {
        let end = move |value: Option<T>| {
            if let Some(value) = value {
                on_caller_gone(value);
            }
        };
        Self { value: Some(value), end: Some(Box::new(end)) }
    }

    /// Creates a result with something that belongs to it. When the caller takes the result, `kept` gets it; if the
    /// caller is gone, `on_caller_gone` gets both.
    pub(crate) fn with<W: Send + 'static>(
        value: T,
        with: W,
        kept: impl FnOnce(W) + Send + 'static,
        on_caller_gone: impl FnOnce(T, W) + Send + 'static,
    ) -> Self {
        let end = move |value: Option<T>| match value {
            Some(value) => on_caller_gone(value, with),
            None => kept(with),
        };
        Self { value: Some(value), end: Some(Box::new(end)) }
    }
}

impl<T> Drop for Handed<T> {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end(self.value.take());
        }
    }
}

/// The channel to the caller of a job.
pub(crate) type Caller<T, E> = oneshot::Sender<Result<Handed<T>, E>>;

/// Waits for a job's result.
pub(crate) async fn received<T, E: From<QueueError>>(
    answer: oneshot::Receiver<Result<Handed<T>, E>>,
) -> Result<T, E> {
    let mut handed = answer.await.map_err(|_| QueueError::Closed)??;
    handed.value.take().ok_or_else(|| QueueError::Closed.into())
}
