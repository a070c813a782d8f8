//! A tower layer with one circuit per key.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`CircuitLayer`] | holds the registry, the key extractor and the classifier |
//! | [`CircuitService`] | acquires a permit before each call |
//! | [`ResponseFuture`] | makes the call, aborts a probe at its deadline, settles the permit |
//! | [`Error`] | the reason why there was no response |
//!
//! Guaranteed: a refused request never reaches the inner service; a permit is settled once, before the response is
//! returned; the circuit still works after a panic in the extractor or the classifier.

mod error;
mod future;
mod layer;
mod service;

pub use error::Error;
pub use future::ResponseFuture;
pub use layer::CircuitLayer;
pub use service::CircuitService;
