//! The circuit layer, with the settings that all its services share.

use std::sync::Arc;

use tower::Layer;

use super::service::CircuitService;
use crate::breakerbox::Breakerbox;
use crate::http::HttpOutcomes;

/// Puts a circuit for each key in front of a service.
///
/// ```
/// use breakerbox::tower::circuit::CircuitLayer;
/// use breakerbox::{Breakerbox, Key, by_result};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let by_warehouse = |request: &(&str, u32)| Key::new(request.0);
/// let layer = CircuitLayer::new(Breakerbox::builder().build(), by_warehouse).classify_by(by_result);
/// let stock = layer.layer(service_fn(async |(_, item): (&str, u32)| Ok::<_, std::io::Error>(item * 2)));
/// assert_eq!(stock.oneshot(("north", 21)).await?, 42);
/// # Ok::<(), breakerbox::tower::circuit::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CircuitLayer<K, C = HttpOutcomes> {
    breakers: Breakerbox,
    key: Arc<K>,
    classify: Arc<C>,
}

impl<K> CircuitLayer<K> {
    /// Creates a layer with circuits from this registry, by the key that [`key`](crate::ExtractKey) extracts from a
    /// request. [`HttpOutcomes`] classifies responses. For another classifier, or for services other than HTTP, see
    /// [`classify_by`](Self::classify_by).
    pub fn new(breakers: Breakerbox, key: K) -> Self {
        Self { breakers, key: Arc::new(key), classify: Arc::new(HttpOutcomes::new()) }
    }
}

impl<K, C> CircuitLayer<K, C> {
    /// Sets another [classifier](crate::ClassifyResponse). Default: [`HttpOutcomes`].
    pub fn classify_by<D>(self, classify: D) -> CircuitLayer<K, D> {
        CircuitLayer { breakers: self.breakers, key: self.key, classify: Arc::new(classify) }
    }
}

impl<S, K, C> Layer<S> for CircuitLayer<K, C> {
    type Service = CircuitService<S, K, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { breakers, key, classify } = self.clone();
        CircuitService { inner, breakers, key, classify }
    }
}

impl<K, C> Clone for CircuitLayer<K, C> {
    fn clone(&self) -> Self {
        let Self { breakers, key, classify } = self;
        Self { breakers: breakers.clone(), key: Arc::clone(key), classify: Arc::clone(classify) }
    }
}
