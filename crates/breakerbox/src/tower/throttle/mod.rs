//! A tower layer with one throttle, or one per key.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`ThrottleLayer`] | holds the throttles, the default priority and the classifier |
//! | [`ThrottleService`] | acquires a pass before each call |
//! | [`ResponseFuture`] | makes the call and settles the pass |
//! | [`Error`] | the reason why there was no response |
//!
//! A request's priority is the one in its extensions; otherwise the [task's](crate::throttle::with_priority);
//! otherwise the layer's default.
//!
//! Guaranteed: a shed request never reaches the inner service; requests are not queued; a response future that is
//! dropped, and a panic in the extractor or the classifier, count as neither accepted nor rejected.

mod error;
mod future;
mod layer;
mod service;

pub use error::Error;
pub use future::ResponseFuture;
pub use layer::ThrottleLayer;
pub use service::ThrottleService;
