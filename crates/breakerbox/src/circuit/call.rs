//! Whole calls: acquire, make the call, settle.
//!
//! No lock is held while the caller's code runs. The permit is settled before a fallback runs, so a slow fallback
//! does not delay recovery. A call that panics drops its permit, which counts like any dropped permit.

use std::cell::Cell;
use std::future::Future;
use std::panic::catch_unwind;
use std::time::Duration;

use breakerbox_core::{Outcome, OutcomeKind, Refusal};
use tokio::runtime::{Handle, Id};

use super::{Circuit, Permit};
use crate::clock::Clock;
use crate::fleet::Settling;
use crate::probe_timeout::ProbeTimeout;

/// The reason why a call returned no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The call was not made, because the circuit refused it.
    #[error("the call was refused ({})", .0.name())]
    Refused(#[source] Refusal),
    /// The call was a probe that exceeded its timeout, and was aborted.
    #[error("the call was given up")]
    ProbeTimedOut(#[source] ProbeTimeout),
    /// The call was made and returned this error.
    #[error("the call failed")]
    Failed(#[source] E),
}

impl<E> CallError<E> {
    /// Returns the refusal; `None` if the call was made.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::ProbeTimedOut(_) | Self::Failed(_) => None,
        }
    }
}

/// A call's outcome as a classifier derives it from the result: success, failure or ignored, without the latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classification {
    kind: OutcomeKind,
    retry_after: Option<Duration>,
}

impl Classification {
    /// The call succeeded, because the destination handled it correctly.
    pub const SUCCESS: Self = Self { kind: OutcomeKind::Success, retry_after: None };
    /// The call failed.
    pub const FAILURE: Self = Self { kind: OutcomeKind::Failure, retry_after: None };
    /// The result says nothing about the destination, and is not counted.
    pub const IGNORED: Self = Self { kind: OutcomeKind::Ignored, retry_after: None };

    /// Creates a failure for which the destination sent a retry-after.
    #[must_use]
    pub const fn failure_with_retry_after(retry_after: Duration) -> Self {
        Self { kind: OutcomeKind::Failure, retry_after: Some(retry_after) }
    }
}

/// Classifies `Ok` as a success and `Err` as a failure.
pub fn by_result<T, E>(result: &Result<T, E>) -> Classification {
    if result.is_ok() { Classification::SUCCESS } else { Classification::FAILURE }
}

impl Circuit {
    /// Makes a call if the circuit permits it. `Ok` counts as a success, `Err` as a failure.
    ///
    /// A probe is aborted at its deadline, which requires tokio's timer. Without a timer the probe continues, and
    /// counts as a failure if it ends after its deadline.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use breakerbox::{Breakerbox, CallError};
    ///
    /// let breakers = Breakerbox::builder().build();
    /// let circuit = breakers.circuit("https://api.example.com/orders").unwrap();
    /// let answer = circuit.call(async { Err::<(), _>("connection reset") }).await;
    /// assert_eq!(answer, Err(CallError::Failed("connection reset")));
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the call was refused, was aborted, or failed.
    pub async fn call<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E>> {
        self.call_classified(by_result, call).await
    }

    /// Makes a call and classifies its result with `classify`. The counterpart for throttles is
    /// [`Throttle::call_classified`](crate::throttle::Throttle::call_classified). Pass an existing
    /// [classifier](crate::ClassifyResponse) as `|result| existing.classify_response(result)`.
    ///
    /// # Errors
    /// If the call was refused, was aborted, or returned an error, regardless of the classification.
    pub async fn call_classified<T, E>(
        &self,
        classify: impl FnOnce(&Result<T, E>) -> Classification,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, CallError<E>> {
        let permit = self.acquire().await.map_err(CallError::Refused)?;
        let result = match self.limit(permit.time_left()) {
            None => call.await,
            Some(Duration::ZERO) => {
                // Acquiring the permit took so long that its time is over.
                let retry_at = self.clock().to_store_time(self.clock().now());
                permit.ignored();
                let refusal = Refusal::Probing { retry_at, retry_in: Duration::ZERO };
                self.clock().telemetry.refused(&refusal);
                return Err(CallError::Refused(refusal));
            }
            Some(_) if !has_timer() => call.await,
            Some(limit) => match tokio::time::timeout(limit, call).await {
                Ok(result) => result,
                Err(_) => {
                    permit.settling(Outcome::failure).settled().await;
                    return Err(CallError::ProbeTimedOut(ProbeTimeout));
                }
            },
        };
        settle(permit, classify(&result)).settled().await;
        result.map_err(CallError::Failed)
    }

    /// Makes a call. If the call was refused, aborted or failed, calls `fallback` with the error.
    ///
    /// # Errors
    /// The fallback's error.
    pub async fn call_or_else<T, E, F, O>(
        &self,
        call: impl Future<Output = Result<T, E>>,
        fallback: impl FnOnce(CallError<E>) -> O,
    ) -> Result<T, F>
    where
        O: Future<Output = Result<T, F>>,
    {
        match self.call(call).await {
            Ok(answer) => Ok(answer),
            Err(error) => fallback(error).await,
        }
    }

    /// Makes a blocking call in this thread. For a fallback, use [`Result::or_else`].
    ///
    /// # Errors
    /// If the call was refused or failed. A probe cannot be aborted here; if it ends after its deadline, it has
    /// failed.
    pub fn call_blocking<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_blocking_classified(by_result, call)
    }

    /// Makes a blocking call in this thread and classifies its result with `classify`.
    ///
    /// # Errors
    /// As [`call_blocking`](Self::call_blocking).
    pub fn call_blocking_classified<T, E>(
        &self,
        classify: impl FnOnce(&Result<T, E>) -> Classification,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        let permit = self.try_acquire().map_err(CallError::Refused)?;
        let result = call();
        settle(permit, classify(&result));
        result.map_err(CallError::Failed)
    }
}

/// Returns whether this thread is in a tokio runtime with its timer enabled. The only way to find out is to use the
/// timer, which panics if it is not enabled. The result is cached for each thread and runtime. A program that aborts on
/// panics must enable the timer.
pub(crate) fn has_timer() -> bool {
    thread_local! {
        static TRIED: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
    }
    let Ok(runtime) = Handle::try_current() else { return false };
    match TRIED.get() {
        Some((id, has_timer)) if id == runtime.id() => has_timer,
        _ => {
            let has_timer = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
            TRIED.set(Some((runtime.id(), has_timer)));
            has_timer
        }
    }
}

/// Settles the permit. A probe that ended after its deadline counts as a failure, whatever its result.
pub(crate) fn settle(permit: Permit<'_>, judgement: Classification) -> Settling {
    if permit.time_left() == Some(Duration::ZERO) {
        return permit.settling(Outcome::failure);
    }
    match judgement {
        Classification::SUCCESS => permit.succeed(),
        Classification { kind, retry_after } => {
            permit.settling(|latency| Outcome::new(kind, latency).with_retry_after(retry_after))
        }
    }
}
