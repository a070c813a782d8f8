//! The service: a permit before each call.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use breakerbox_core::Key;
use tower::Service;

use super::error::Error;
use super::future::ResponseFuture;
use crate::breakerbox::Breakerbox;
use crate::http::BoxError;
use crate::permit::OwnedPermit;
use crate::probe_timeout::ProbeTimeout;
use crate::questions::{ClassifyResponse, ExtractKey};

/// A service behind circuits. Made by a [`CircuitLayer`](super::CircuitLayer).
#[derive(Debug)]
pub struct CircuitService<S, K, C> {
    pub(super) inner: S,
    pub(super) breakers: Breakerbox,
    pub(super) key: Arc<K>,
    pub(super) classify: Arc<C>,
}

impl<S, K, C> CircuitService<S, K, C> {
    fn admit<R>(&self, request: &R) -> Result<(OwnedPermit, Key), Error>
    where
        K: ExtractKey<R>,
    {
        let key = self.key.key(request).map_err(Error::Key)?;
        let permit = match self.breakers.circuit_of(&key).ask_owned() {
            Ok(permit) => permit,
            Err(refusal) => return Err(Error::Refused { key, refusal }),
        };
        if permit.circuit().limit(permit.time_left()) == Some(Duration::ZERO) {
            permit.ignored();
            return Err(Error::ProbeTimedOut { key, timeout: ProbeTimeout });
        }
        Ok((permit, key))
    }
}

impl<R, S, K, C> Service<R> for CircuitService<S, K, C>
where
    S: Service<R> + Clone,
    S::Error: Into<BoxError>,
    K: ExtractKey<R>,
    C: ClassifyResponse<S::Response, BoxError>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = ResponseFuture<S::Future, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context).map_err(|error| Error::Inner(error.into()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        match self.admit(&request) {
            Ok((permit, key)) => {
                ResponseFuture::of_call(self.inner.call(request), permit, key, Arc::clone(&self.classify))
            }
            Err(error) => {
                // What is ready may hold a place that others wait for, and nobody knows when the next call comes.
                self.inner = self.inner.clone();
                ResponseFuture::of_error(error)
            }
        }
    }
}

impl<S: Clone, K, C> Clone for CircuitService<S, K, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            breakers: self.breakers.clone(),
            key: Arc::clone(&self.key),
            classify: Arc::clone(&self.classify),
        }
    }
}
