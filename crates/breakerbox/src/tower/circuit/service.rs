//! The service, which acquires a permit before each call.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::Service;

use super::error::Error;
use super::future::ResponseFuture;
use crate::breakerbox::Breakerbox;
use crate::circuit::OwnedPermit;
use crate::extract::{ClassifyResponse, ExtractKey};
use crate::http::BoxError;

/// A service behind circuits, created by a [`CircuitLayer`](super::CircuitLayer).
#[derive(Debug)]
pub struct CircuitService<S, K, C> {
    pub(super) inner: S,
    pub(super) breakers: Breakerbox,
    pub(super) key: Arc<K>,
    pub(super) classify: Arc<C>,
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
    type Future = ResponseFuture<S, R, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context).map_err(|error| Error::Inner(error.into()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let classify = Arc::clone(&self.classify);
        let key = match self.key.key(&request) {
            Ok(key) => key,
            Err(error) => {
                self.take_ready();
                return ResponseFuture::of_error(Error::Key(error), classify);
            }
        };
        let circuit = self.breakers.circuit_of(&key);
        let said = circuit
            .acquire_at_once()
            .map(|said| said.map(|permit| OwnedPermit::new(circuit.clone(), permit)));
        match said {
            Ok(Ok(permit)) => {
                let future = ResponseFuture::of_permit(permit, key, classify, || self.inner.call(request));
                if !future.is_running() {
                    self.take_ready();
                }
                future
            }
            Ok(Err(refusal)) => {
                self.take_ready();
                ResponseFuture::of_error(Error::Refused { key, refusal }, classify)
            }
            Err(_) => ResponseFuture::acquire_first(circuit, key, classify, self.take_ready(), request),
        }
    }
}

impl<S: Clone, K, C> CircuitService<S, K, C> {
    /// Takes the ready service, and leaves a new clone in its place. A ready service may hold a slot that other callers
    /// wait for. It is therefore not kept for the next call, which may come much later.
    fn take_ready(&mut self) -> S {
        let next = self.inner.clone();
        std::mem::replace(&mut self.inner, next)
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
