//! Middleware with one circuit per key.

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use super::{Error, Outgoing};
use crate::breakerbox::Breakerbox;
use crate::circuit::CallError;
use crate::extract::{ClassifyResponse, ExtractKey};
use crate::http::{HttpOutcomes, classify_for_circuit};

/// Puts a circuit for each key in front of a client. See the [module](super) for an example.
#[derive(Clone, Debug)]
pub struct CircuitMiddleware<K, C = HttpOutcomes> {
    breakers: Breakerbox,
    key: K,
    classify: C,
}

impl<K> CircuitMiddleware<K> {
    /// Creates middleware with circuits from this registry, by the key that [`key`](crate::ExtractKey) extracts from an
    /// [`Outgoing`] request. [`HttpOutcomes`] classifies responses.
    pub const fn new(breakers: Breakerbox, key: K) -> Self {
        Self { breakers, key, classify: HttpOutcomes::new() }
    }
}

impl<K, C> CircuitMiddleware<K, C> {
    /// Sets another [classifier](crate::ClassifyResponse). Default: [`HttpOutcomes`].
    pub fn classify_by<D>(self, classify: D) -> CircuitMiddleware<K, D> {
        CircuitMiddleware { breakers: self.breakers, key: self.key, classify }
    }
}

#[async_trait::async_trait]
impl<K, C> Middleware for CircuitMiddleware<K, C>
where
    K: for<'a> ExtractKey<Outgoing<'a>> + Send + Sync + 'static,
    C: ClassifyResponse<Response, reqwest_middleware::Error> + Send + Sync + 'static,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let key = self.key.key(&Outgoing::new(&request, extensions)).map_err(Error::Key)?;
        let circuit = self.breakers.circuit_of(&key);
        let answer = circuit
            .call_classified(
                |result| classify_for_circuit(&self.classify, result),
                next.run(request, extensions),
            )
            .await;
        answer.map_err(|error| match error {
            CallError::Refused(refusal) => Error::Refused { key, refusal }.into(),
            CallError::ProbeTimedOut(timeout) => Error::ProbeTimedOut { key, timeout }.into(),
            CallError::Failed(error) => error,
        })
    }
}
