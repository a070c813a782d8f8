//! The service, which acquires a pass before each call.

use std::sync::Arc;
use std::task::{Context, Poll};

use breakerbox_core::throttle::Priority;
use tower::Service;

use super::error::Error;
use super::future::ResponseFuture;
use crate::extract::{ExtractKey, ExtractPriority};
use crate::http::BoxError;
use crate::throttle::{Choice, Classify};

/// A service behind one throttle, or one per key, created by a [`ThrottleLayer`](super::ThrottleLayer).
#[derive(Debug)]
pub struct ThrottleService<S, K, D, P, C> {
    pub(super) inner: S,
    pub(super) choice: Arc<Choice<K, C>>,
    pub(super) classify: Arc<D>,
    pub(super) priority: Arc<P>,
    pub(super) default_priority: Priority,
}

impl<R, S, K, D, P, C> Service<R> for ThrottleService<S, K, D, P, C>
where
    S: Service<R> + Clone,
    S::Error: Into<BoxError>,
    K: ExtractKey<R>,
    D: Classify<S::Response, BoxError>,
    P: ExtractPriority<R>,
    C: 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, D, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context).map_err(|error| Error::Inner(error.into()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        match self.choice.try_acquire(&request, self.priority.priority(&request), self.default_priority) {
            Ok(pass) => ResponseFuture::of_call(self.inner.call(request), pass, Arc::clone(&self.classify)),
            Err(why) => {
                // The ready service may hold a slot that other callers wait for, and the next call may come much
                // later.
                self.inner = self.inner.clone();
                ResponseFuture::of_error(why.into())
            }
        }
    }
}

impl<S: Clone, K, D, P, C> Clone for ThrottleService<S, K, D, P, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            choice: Arc::clone(&self.choice),
            classify: Arc::clone(&self.classify),
            priority: Arc::clone(&self.priority),
            default_priority: self.default_priority,
        }
    }
}
