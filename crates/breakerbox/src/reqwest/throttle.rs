//! Middleware with one throttle, or one per key.

use breakerbox_core::throttle::Priority;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use super::{Error, Outgoing};
use crate::extract::{ExtractKey, ExtractPriority};
use crate::http::{HttpOverload, PriorityFromExtension, classify_for_throttle};
use crate::throttle::{Choice, Classify, DEFAULT_PRIORITY, OneForAll, Overload, Throttle, Throttles};

/// Puts one throttle, or one for each key, in front of a client. See the [module](super) for an example.
///
/// A request's priority is the first that is set: the [`Priority`] in its extensions, the [task's
/// priority](crate::throttle::with_priority), the default.
///
/// The middleware has its own classifier. The throttle's classifier applies to calls made through the throttle
/// itself.
#[derive(Debug)]
pub struct ThrottleMiddleware<K = OneForAll, D = HttpOverload, P = PriorityFromExtension, C = Overload> {
    choice: Choice<K, C>,
    classify: D,
    priority: P,
    default_priority: Priority,
}

impl<C> ThrottleMiddleware<OneForAll, HttpOverload, PriorityFromExtension, C> {
    /// Creates middleware with one throttle for all requests.
    #[must_use]
    pub fn new(throttle: Throttle<C>) -> Self {
        Self::with(Choice::One(throttle))
    }
}

impl<K, C> ThrottleMiddleware<K, HttpOverload, PriorityFromExtension, C> {
    /// Creates middleware with a throttle for each key that [`key`](crate::ExtractKey) extracts from an [`Outgoing`]
    /// request.
    pub fn keyed(throttles: Throttles<C>, key: K) -> Self {
        Self::with(Choice::Keyed(throttles, key))
    }

    fn with(choice: Choice<K, C>) -> Self {
        Self {
            choice,
            classify: HttpOverload::new(),
            priority: PriorityFromExtension,
            default_priority: DEFAULT_PRIORITY,
        }
    }
}

impl<K, D, P, C> ThrottleMiddleware<K, D, P, C> {
    /// Sets another [classifier](crate::throttle::Classify). Default: [`HttpOverload`].
    pub fn classify_by<E>(self, classify: E) -> ThrottleMiddleware<K, E, P, C> {
        let Self { choice, priority, default_priority, .. } = self;
        ThrottleMiddleware { choice, classify, priority, default_priority }
    }

    /// Sets another [extractor](crate::ExtractPriority) for an [`Outgoing`] request's priority. Default:
    /// [`PriorityFromExtension`].
    pub fn priority_by<Q>(self, priority: Q) -> ThrottleMiddleware<K, D, Q, C> {
        let Self { choice, classify, default_priority, .. } = self;
        ThrottleMiddleware { choice, classify, priority, default_priority }
    }

    /// Sets the priority for requests without one, in tasks without one. Default: [`Priority::MEDIUM`].
    #[must_use]
    pub fn default_priority(self, default_priority: Priority) -> Self {
        Self { default_priority, ..self }
    }
}

impl<K: Clone, D: Clone, P: Clone, C> Clone for ThrottleMiddleware<K, D, P, C> {
    fn clone(&self) -> Self {
        Self {
            choice: self.choice.clone(),
            classify: self.classify.clone(),
            priority: self.priority.clone(),
            default_priority: self.default_priority,
        }
    }
}

#[async_trait::async_trait]
impl<K, D, P, C> Middleware for ThrottleMiddleware<K, D, P, C>
where
    K: for<'a> ExtractKey<Outgoing<'a>> + Send + Sync + 'static,
    D: Classify<Response, reqwest_middleware::Error> + Send + Sync + 'static,
    P: for<'a> ExtractPriority<Outgoing<'a>> + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let outgoing = Outgoing::new(&request, extensions);
        let priority = self.priority.priority(&outgoing);
        let pass =
            self.choice.try_acquire(&outgoing, priority, self.default_priority).map_err(Error::from)?;
        let result = next.run(request, extensions).await;
        pass.settle(classify_for_throttle(&self.classify, &result));
        result
    }
}
