//! A throttle, or one for each key, as a tower layer.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`ThrottleLayer`] | has the throttles, the default priority and the classifier |
//! | [`ThrottleService`] | asks for a pass before each call |
//! | [`ResponseFuture`] | makes the call and settles the pass |
//! | [`Error`] | why there is no response |
//!
//! How important a request is: the priority that the request carries as an extension; else the one that the task
//! [carries](crate::throttle::with_priority); else the layer's default.
//!
//! What is guaranteed: a request that is shed never reaches the service inside; nothing is queued; a response future that
//! is dropped, and a panic in the extractor or the classifier, count as neither accepted nor rejected.

mod error;
mod future;
mod layer;
mod service;

pub use error::Error;
pub use future::ResponseFuture;
pub use layer::ThrottleLayer;
pub use service::ThrottleService;
