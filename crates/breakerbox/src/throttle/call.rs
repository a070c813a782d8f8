//! Whole calls: acquire, make the call, settle.
//!
//! If the future is dropped or the call panics, the pass is dropped, and the call counts as neither accepted nor
//! rejected. The pass is settled before a fallback runs.

use std::error::Error;
use std::future::Future;

use breakerbox_core::throttle::{LoadSignal, Priority, Shed};

use super::classify::Classify;
use super::handle::Throttle;
use super::signs::was_never_sent;

/// The reason why a call returned no result.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The call was not made, because the throttle shed it.
    #[error("the throttle kept the call back")]
    Shed(#[source] Shed),
    /// The call was made and returned this error.
    #[error("the throttled call failed")]
    Failed(#[source] E),
}

impl<E> CallError<E> {
    /// Returns whether the throttle shed the call, so that the destination never received it.
    pub const fn is_local(&self) -> bool {
        self.shed().is_some()
    }

    /// Returns the reason why the call was shed; `None` if it was made.
    pub const fn shed(&self) -> Option<&Shed> {
        match self {
            Self::Shed(shed) => Some(shed),
            Self::Failed(_) => None,
        }
    }
}

impl<C> Throttle<C> {
    /// Makes a call if the throttle admits it, and classifies the result with the throttle's classifier.
    ///
    /// # Errors
    /// If the call was shed or failed.
    pub async fn call<T, E>(
        &self,
        priority: Priority,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, CallError<E>>
    where
        C: Classify<T, E>,
    {
        self.call_classified(priority, |result| self.classifier().classify(result), call).await
    }

    /// Makes a call and classifies its result with `classify` instead of the throttle's classifier. The counterpart for
    /// circuits is [`Circuit::call_classified`](crate::Circuit::call_classified). Pass an existing classifier as
    /// `|result| existing.classify(result)`.
    ///
    /// ```
    /// use breakerbox::throttle::{Priority, Throttle, LoadSignal};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let throttle = Throttle::default();
    /// let classify = |status: &Result<u16, String>| match status {
    ///     Ok(429 | 503) => LoadSignal::Reject,
    ///     _ => LoadSignal::Accept,
    /// };
    /// let answer = throttle.call_classified(Priority::LOW, classify, async { Ok(200) }).await;
    /// assert_eq!(answer, Ok(200));
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the call was shed or failed.
    pub async fn call_classified<T, E>(
        &self,
        priority: Priority,
        classify: impl FnOnce(&Result<T, E>) -> LoadSignal,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, CallError<E>> {
        let pass = self.try_acquire(priority).map_err(CallError::Shed)?;
        let result = call.await;
        pass.settle(classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Makes a call. If the call was shed or failed, calls `fallback` with the error. The error for a shed call [is
    /// local](CallError::is_local).
    ///
    /// # Errors
    /// The fallback's error.
    pub async fn call_or_else<T, E, F, O>(
        &self,
        priority: Priority,
        call: impl Future<Output = Result<T, E>>,
        fallback: impl FnOnce(CallError<E>) -> O,
    ) -> Result<T, F>
    where
        C: Classify<T, E>,
        O: Future<Output = Result<T, F>>,
    {
        match self.call(priority, call).await {
            Ok(answer) => Ok(answer),
            Err(error) => fallback(error).await,
        }
    }

    /// Makes a blocking call in this thread.
    ///
    /// # Errors
    /// If the call was shed or failed.
    pub fn call_blocking<T, E>(
        &self,
        priority: Priority,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, CallError<E>>
    where
        C: Classify<T, E>,
    {
        let pass = self.try_acquire(priority).map_err(CallError::Shed)?;
        let result = call();
        pass.settle(self.classifier().classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Takes a retry from the retry budget, for a call that failed with this error. Returns true if the caller may
    /// retry. Returns false, and takes nothing, if the call was never sent or the budget is used up.
    ///
    /// A call that was shed, that a circuit refused or that has no valid key was never sent. A retry would fail again
    /// at once, and the budget is for calls that a retry may help. Such an error is found however deeply it is nested.
    /// If your error type does not implement [`Error`], check it yourself and call [`take_retry`](Self::take_retry).
    ///
    /// ```
    /// use breakerbox::throttle::{CallError, Priority, Throttle};
    /// use std::io;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # async fn send() -> io::Result<()> { Ok(()) }
    /// # let throttle = Throttle::default();
    /// let answer = loop {
    ///     match throttle.call(Priority::MEDIUM, send()).await {
    ///         Err(error) if throttle.may_retry(&error) => {} // Wait a little here.
    ///         answer => break answer,
    ///     }
    /// };
    /// # assert!(answer.is_ok());
    /// # });
    /// ```
    #[must_use]
    pub fn may_retry<E: Error + 'static>(&self, error: &CallError<E>) -> bool {
        !was_never_sent(error) && self.take_retry()
    }
}
