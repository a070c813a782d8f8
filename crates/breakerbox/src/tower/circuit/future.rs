//! The future that makes the call, until it ends, a probe's deadline passes, or it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use breakerbox_core::{Key, Outcome, Refusal};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower::Service;

use super::error::Error;
use crate::circuit::Circuit;
use crate::circuit::OwnedPermit;
use crate::circuit::call;
use crate::extract::ClassifyResponse;
use crate::fleet::Settling;
use crate::http::{BoxError, classify_for_circuit};
use crate::probe_timeout::ProbeTimeout;

pin_project! {
    /// The response future. Dropping it drops the permit, which counts as a cancellation within the policy's
    /// `cancel_grace`, and as a failure later.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<S, R, C>
    where
        S: Service<R>,
    {
        #[pin]
        state: State<S, R>,
        classify: Arc<C>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = StateTaken]
    enum State<S, R>
    where
        S: Service<R>,
    {
        // Waiting for a permit from the store.
        Acquiring { acquiring: Acquiring, key: Key, inner: S, request: R },
        Running {
            #[pin]
            call: S::Future,
            permit: OwnedPermit,
            key: Key,
            deadline: Deadline,
        },
        // Waiting until the outcome has been reported to the store.
        Settling { settling: Pin<Box<dyn Future<Output = ()> + Send>>, result: Result<S::Response, Error> },
        Ended { result: Result<S::Response, Error> },
        Over,
    }
}

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedPermit, Refusal>> + Send>>;

impl<S: Service<R>, R, C> ResponseFuture<S, R, C> {
    pub(super) fn of_error(error: Error, classify: Arc<C>) -> Self {
        Self { state: State::Ended { result: Err(error) }, classify }
    }

    pub(super) fn of_permit(
        permit: OwnedPermit,
        key: Key,
        classify: Arc<C>,
        call: impl FnOnce() -> S::Future,
    ) -> Self {
        Self { state: State::with_permit(permit, key, call), classify }
    }

    /// Returns whether the inner service has been called.
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Creates a future that first acquires a permit from the store.
    pub(super) fn acquire_first(circuit: Circuit, key: Key, classify: Arc<C>, inner: S, request: R) -> Self {
        let acquiring = Box::pin(async move {
            let permit = circuit.acquire().await?;
            Ok(OwnedPermit::new(circuit.clone(), permit))
        });
        Self { state: State::Acquiring { acquiring, key, inner, request }, classify }
    }
}

impl<S: Service<R>, R> State<S, R> {
    fn with_permit(permit: OwnedPermit, key: Key, call: impl FnOnce() -> S::Future) -> Self {
        if permit.circuit().limit(permit.time_left()) == Some(Duration::ZERO) {
            permit.ignored();
            return Self::Ended { result: Err(Error::ProbeTimedOut { key, timeout: ProbeTimeout }) };
        }
        Self::Running { call: call(), permit, key, deadline: Deadline::NotLookedAt }
    }

    fn settled(settling: Settling, result: Result<S::Response, Error>) -> Self {
        match settling {
            Settling::Known(_) => Self::Ended { result },
            in_flight @ Settling::InFlight(_) => {
                let settling = Box::pin(async move { _ = in_flight.settled().await });
                Self::Settling { settling, result }
            }
        }
    }
}

impl<S, R, C> Future for ResponseFuture<S, R, C>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
    C: ClassifyResponse<S::Response, BoxError>,
{
    type Output = Result<S::Response, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut state = this.state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Acquiring { acquiring, .. } => {
                    let asked = ready!(acquiring.as_mut().poll(context));
                    let StateTaken::Acquiring { key, mut inner, request, .. } =
                        state.as_mut().project_replace(State::Over)
                    else {
                        unreachable!("nobody else touches it");
                    };
                    match asked {
                        Ok(permit) => State::with_permit(permit, key, || inner.call(request)),
                        Err(refusal) => State::Ended { result: Err(Error::Refused { key, refusal }) },
                    }
                }
                StateProjection::Running { call, permit, key, deadline } => match call.poll(context) {
                    Poll::Ready(result) => {
                        let result = result.map_err(Into::into);
                        let classification = classify_for_circuit(&**this.classify, &result);
                        let settling = call::settle(permit.lend(), classification);
                        State::settled(settling, result.map_err(Error::Inner))
                    }
                    Poll::Pending => {
                        ready!(deadline.poll(permit, context));
                        let settling = permit.lend().settling(Outcome::failure);
                        let error = Error::ProbeTimedOut { key: key.clone(), timeout: ProbeTimeout };
                        State::settled(settling, Err(error))
                    }
                },
                StateProjection::Settling { settling, .. } => {
                    ready!(settling.as_mut().poll(context));
                    let StateTaken::Settling { result, .. } = state.as_mut().project_replace(State::Over)
                    else {
                        unreachable!("nobody else touches it");
                    };
                    State::Ended { result }
                }
                StateProjection::Ended { .. } => {
                    let StateTaken::Ended { result } = state.as_mut().project_replace(State::Over) else {
                        unreachable!("nobody else touches it");
                    };
                    return Poll::Ready(result);
                }
                StateProjection::Over => panic!("polled again after it was ready"),
            };
            state.set(next);
        }
    }
}

/// The time at which a probe is aborted. The timer is created only when the call's first poll returns pending, because
/// many calls complete at their first poll.
enum Deadline {
    NotLookedAt,
    /// The call is not a probe, or there is no timer. Without a timer a probe continues, and has failed if it ends
    /// after its deadline.
    Never,
    At(Pin<Box<Sleep>>),
}

impl Deadline {
    /// Returns ready once a probe's deadline has passed.
    fn poll(&mut self, permit: &OwnedPermit, context: &mut Context<'_>) -> Poll<()> {
        if let Self::NotLookedAt = self {
            *self = match permit.circuit().limit(permit.time_left()) {
                Some(limit) if call::has_timer() => Self::At(Box::pin(tokio::time::sleep(limit))),
                _ => Self::Never,
            };
        }
        match self {
            Self::At(deadline) => deadline.as_mut().poll(context),
            Self::NotLookedAt | Self::Never => Poll::Pending,
        }
    }
}
