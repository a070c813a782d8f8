//! The future that makes the call, until it ends or is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::error::Error;
use crate::http::{BoxError, classify_for_throttle};
use crate::throttle::{Classify, Pass};

pin_project! {
    /// The response future. If it is dropped, the call counts as neither accepted nor rejected.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<F, D, C: 'static> {
        #[pin]
        state: State<F, D, C>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, D, C: 'static> {
        Running {
            #[pin]
            call: F,
            pass: Option<Pass<'static, C>>,
            classify: Arc<D>,
        },
        NotSent { error: Option<Error> },
        Over,
    }
}

impl<F, D, C> ResponseFuture<F, D, C> {
    pub(super) const fn of_call(call: F, pass: Pass<'static, C>, classify: Arc<D>) -> Self {
        Self { state: State::Running { call, pass: Some(pass), classify } }
    }

    pub(super) const fn of_error(error: Error) -> Self {
        Self { state: State::NotSent { error: Some(error) } }
    }
}

impl<F, T, E, D, C> Future for ResponseFuture<F, D, C>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    D: Classify<T, BoxError>,
{
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let result = match state.as_mut().project() {
            StateProjection::Running { call, pass, classify } => {
                let result = ready!(call.poll(context)).map_err(Into::into);
                let signal = classify_for_throttle(&**classify, &result);
                if let Some(pass) = pass.take() {
                    pass.settle(signal);
                }
                result.map_err(Error::Inner)
            }
            StateProjection::NotSent { error } => {
                Err(error.take().expect("taken only here, and then it is over"))
            }
            StateProjection::Over => panic!("polled again after it was ready"),
        };
        state.set(State::Over);
        Poll::Ready(result)
    }
}
