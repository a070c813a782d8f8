//! The call itself: to its end, or a probe's deadline, or until nobody wants it any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use breakerbox_core::Key;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::error::Error;
use crate::call;
use crate::http::{BoxError, judge};
use crate::permit::OwnedPermit;
use crate::probe_timeout::ProbeTimeout;
use crate::questions::ClassifyResponse;

pin_project! {
    /// The response to come. Dropped, it drops its permit: within the policy's `cancel_grace` the call was cancelled, later
    /// it has failed.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<F, C> {
        #[pin]
        state: State<F, C>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, C> {
        Running {
            #[pin]
            call: F,
            permit: OwnedPermit,
            key: Key,
            deadline: Deadline,
            classify: Arc<C>,
        },
        NotSent { error: Option<Error> },
        Over,
    }
}

impl<F, C> ResponseFuture<F, C> {
    pub(super) const fn of_call(call: F, permit: OwnedPermit, key: Key, classify: Arc<C>) -> Self {
        Self { state: State::Running { call, permit, key, deadline: Deadline::NotLookedAt, classify } }
    }

    pub(super) const fn of_error(error: Error) -> Self {
        Self { state: State::NotSent { error: Some(error) } }
    }
}

impl<F, T, E, C> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    C: ClassifyResponse<T, BoxError>,
{
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let result = match state.as_mut().project() {
            StateProjection::Running { call, permit, key, deadline, classify } => match call.poll(context) {
                Poll::Ready(result) => {
                    let result = result.map_err(Into::into);
                    let judgement = judge(&**classify, &result);
                    call::settle(permit.lend(), judgement);
                    result.map_err(Error::Inner)
                }
                Poll::Pending => {
                    ready!(deadline.poll(permit, context));
                    permit.lend().failure();
                    Err(Error::ProbeTimedOut { key: key.clone(), timeout: ProbeTimeout })
                }
            },
            StateProjection::NotSent { error } => {
                Err(error.take().expect("taken only here, and then it is over"))
            }
            StateProjection::Over => panic!("polled again after it was ready"),
        };
        state.set(State::Over);
        Poll::Ready(result)
    }
}

/// When a call is given up. Looked at when the call is first found to be under way, because many are over at once.
enum Deadline {
    NotLookedAt,
    /// It is no probe, or there is no timer: the probe is left to run, and has failed if it ends too late.
    Never,
    At(Pin<Box<Sleep>>),
}

impl Deadline {
    /// Ready when a probe's time is over.
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
