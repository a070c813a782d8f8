//! A throttle, or one for each key, as a tower layer.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`ThrottleLayer`] | holds the throttles, the default priority and the classifier |
//! | [`ThrottleService`] | acquires a pass before each call |
//! | [`ResponseFuture`] | makes the call and settles the pass |
//! | [`Error`] | the reason why there is no response |
//!
//! The priority of a request is the one that it carries as an extension; else that of the
//! [task](crate::throttle::with_priority); else the layer's default.
//!
//! Guaranteed: a request that is shed never reaches the inner service; nothing is queued; a response future that is
//! dropped, and a panic in the extractor or the classifier, count as neither accepted nor rejected.

mod error;
mod future;
mod layer;
mod service;

pub use error::Error;
pub use future::ResponseFuture;
pub use layer::ThrottleLayer;
pub use service::ThrottleService;
