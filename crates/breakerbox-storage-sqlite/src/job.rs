//! The writer's jobs: hot-path commands, and closures from other callers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use breakerbox_storage::QueueError;
use tokio::sync::oneshot;

use super::transaction::WriteTransaction;
use crate::error::JobError;

/// A unit of work that runs in a transaction, alone or in a group.
pub(super) trait Job: Send {
    /// Runs the job. If it returns an error, the whole transaction is rolled back.
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), JobError<QueueError>>;

    /// Called after the job's work was rolled back. Returns whether the job can run again.
    fn undo(&mut self) -> bool;

    /// Sends the result to the caller.
    fn answer(self: Box<Self>, outcome: Result<(), QueueError>);

    /// Returns the approximate number of bytes that the job writes.
    fn bytes(&self) -> usize;
}

/// A hot-path command. A command that rejects its input does so before it writes anything, and reports the
/// rejection in its output rather than as an error. So a command needs no savepoint, and can run again.
pub(super) trait Command: Send + 'static {
    type Output: Send + 'static;

    /// Runs the command. If it returns an error, the whole transaction is rolled back.
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<Self::Output, JobError<QueueError>>;

    /// Called when the command's work, or a part of it, did not become durable.
    fn on_rollback(&mut self) {}

    /// Called when the command's work is durable, but the caller is gone. This method may be called on any thread.
    fn on_caller_gone(&mut self, answer: Self::Output) {
        drop(answer);
    }

    /// Returns the approximate number of bytes that the command writes.
    fn bytes(&self) -> usize {
        0
    }
}

/// A command with the channel to its caller.
pub(super) struct CommandJob<C: Command> {
    command: C,
    answer: Option<C::Output>,
    caller: oneshot::Sender<Result<CommandResult<C>, QueueError>>,
}

/// A result on its way to the caller. If it is dropped before it is taken, the caller did not receive it.
pub(super) struct CommandResult<C: Command> {
    command: C,
    answer: Option<C::Output>,
}

impl<C: Command> CommandResult<C> {
    pub(super) fn answer(mut self) -> Option<C::Output> {
        self.answer.take()
    }
}

impl<C: Command> Drop for CommandResult<C> {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.command.on_caller_gone(answer);
        }
    }
}

impl<C: Command> CommandJob<C> {
    #[allow(clippy::type_complexity, reason = "it is a pair")]
    pub(super) fn new(command: C) -> (Box<Self>, oneshot::Receiver<Result<CommandResult<C>, QueueError>>) {
        let (caller, answered) = oneshot::channel();
        (Box::new(Self { command, answer: None, caller }), answered)
    }
}

impl<C: Command> Job for CommandJob<C> {
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), JobError<QueueError>> {
        self.answer = Some(self.command.run(transaction)?);
        Ok(())
    }

    fn undo(&mut self) -> bool {
        self.answer = None;
        self.command.on_rollback();
        true
    }

    fn answer(self: Box<Self>, outcome: Result<(), QueueError>) {
        let Self { command, answer, caller } = *self;
        // The caller may be gone.
        let _ = caller.send(outcome.map(|()| CommandResult { command, answer }));
    }

    fn bytes(&self) -> usize {
        self.command.bytes()
    }
}

/// A closure with the channel to its caller. It runs once, in a savepoint.
pub(super) struct ClosureJob<F, T, E> {
    closure: Option<F>,
    answer: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> ClosureJob<F, T, E> {
    pub(super) fn new(closure: F) -> (Box<Self>, oneshot::Receiver<Result<T, E>>) {
        let (caller, answered) = oneshot::channel();
        (Box::new(Self { closure: Some(closure), answer: None, caller }), answered)
    }
}

impl<F, T, E> Job for ClosureJob<F, T, E>
where
    F: FnOnce(&mut WriteTransaction<'_>) -> Result<T, JobError<E>> + Send,
    T: Send,
    E: From<QueueError> + Send,
{
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), JobError<QueueError>> {
        let Some(closure) = self.closure.take() else { return Ok(()) };
        let (mark, hooks) = (transaction.writer_state.mark(), transaction.hooks.len());
        transaction.connection.prepare_cached("SAVEPOINT job")?.execute([])?;
        let answer = match catch_unwind(AssertUnwindSafe(|| closure(transaction))) {
            Ok(answer) => answer.map_err(|JobError(error)| error),
            Err(panic) => Err(QueueError::Panicked(text_of(&*panic)).into()),
        };
        if answer.is_err() {
            transaction.writer_state.undo_to(mark);
            transaction.hooks.truncate(hooks);
            self.answer = Some(answer);
            // A full disk may have ended the whole transaction, including the savepoint.
            transaction.connection.prepare_cached("ROLLBACK TO job")?.execute([])?;
        } else {
            self.answer = Some(answer);
        }
        transaction.connection.prepare_cached("RELEASE job")?.execute([])?;
        Ok(())
    }

    fn undo(&mut self) -> bool {
        if self.answer.as_ref().is_some_and(Result::is_ok) {
            self.answer = None;
        }
        self.closure.is_some()
    }

    fn answer(self: Box<Self>, outcome: Result<(), QueueError>) {
        // The job's own refusal is more specific than the transaction's error.
        let answer = match (self.answer, outcome) {
            (Some(Err(refused)), _) => Err(refused),
            (_, Err(error)) => Err(error.into()),
            (Some(answer), Ok(())) => answer,
            (None, Ok(())) => Err(QueueError::Closed.into()),
        };
        let _ = self.caller.send(answer);
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Returns a panic's message.
pub(super) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
