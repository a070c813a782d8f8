//! The throttle layer, with the settings that all its services share.

use std::sync::Arc;

use breakerbox_core::throttle::Priority;
use tower::Layer;

use super::service::ThrottleService;
use crate::http::{HttpOverload, PriorityFromExtension};
use crate::throttle::{Choice, DEFAULT_PRIORITY, OneForAll, Overload, Throttle, Throttles};

/// Puts one throttle, or one per key, in front of a service.
///
/// The layer has its own classifier. The throttle's classifier applies to calls made through the throttle itself.
///
/// ```
/// use breakerbox::throttle::{Priority, Throttle};
/// use breakerbox::tower::throttle::ThrottleLayer;
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let layer = ThrottleLayer::new(Throttle::default()).default_priority(Priority::LOW);
/// let client = layer.layer(service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(()))));
///
/// let mut request = Request::get("https://api.example.com/orders").body(())?;
/// request.extensions_mut().insert(Priority::HIGH);
/// assert_eq!(client.oneshot(request).await?.status(), 200);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ThrottleLayer<K = OneForAll, D = HttpOverload, P = PriorityFromExtension, C = Overload> {
    choice: Arc<Choice<K, C>>,
    classify: Arc<D>,
    priority: Arc<P>,
    default_priority: Priority,
}

impl<C> ThrottleLayer<OneForAll, HttpOverload, PriorityFromExtension, C> {
    /// Creates a layer with one throttle for all requests.
    pub fn new(throttle: Throttle<C>) -> Self {
        Self::with(Choice::One(throttle))
    }
}

impl<K, C> ThrottleLayer<K, HttpOverload, PriorityFromExtension, C> {
    /// Creates a layer with a throttle for each key that [`key`](crate::ExtractKey) extracts from a request.
    pub fn keyed(throttles: Throttles<C>, key: K) -> Self {
        Self::with(Choice::Keyed(throttles, key))
    }

    fn with(choice: Choice<K, C>) -> Self {
        Self {
            choice: Arc::new(choice),
            classify: Arc::new(HttpOverload::new()),
            priority: Arc::new(PriorityFromExtension),
            default_priority: DEFAULT_PRIORITY,
        }
    }
}

impl<K, D, P, C> ThrottleLayer<K, D, P, C> {
    /// Sets another [classifier](crate::throttle::Classify). Default: [`HttpOverload`].
    pub fn classify_by<E>(self, classify: E) -> ThrottleLayer<K, E, P, C> {
        let Self { choice, priority, default_priority, .. } = self;
        ThrottleLayer { choice, classify: Arc::new(classify), priority, default_priority }
    }

    /// Sets another [extractor](crate::ExtractPriority) for a request's priority. Default: [`PriorityFromExtension`].
    pub fn priority_by<Q>(self, priority: Q) -> ThrottleLayer<K, D, Q, C> {
        let Self { choice, classify, default_priority, .. } = self;
        ThrottleLayer { choice, classify, priority: Arc::new(priority), default_priority }
    }

    /// Sets the priority for requests without one, in tasks without one. Default: [`Priority::MEDIUM`].
    #[must_use]
    pub fn default_priority(self, default_priority: Priority) -> Self {
        Self { default_priority, ..self }
    }
}

impl<S, K, D, P, C> Layer<S> for ThrottleLayer<K, D, P, C> {
    type Service = ThrottleService<S, K, D, P, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { choice, classify, priority, default_priority } = self.clone();
        ThrottleService { inner, choice, classify, priority, default_priority }
    }
}

impl<K, D, P, C> Clone for ThrottleLayer<K, D, P, C> {
    fn clone(&self) -> Self {
        Self {
            choice: Arc::clone(&self.choice),
            classify: Arc::clone(&self.classify),
            priority: Arc::clone(&self.priority),
            default_priority: self.default_priority,
        }
    }
}
