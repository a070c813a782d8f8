//! The circuit of a request's key, as a tower layer.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`CircuitLayer`] | holds the registry, the key extractor and the classifier |
//! | [`CircuitService`] | acquires a permit before each call |
//! | [`ResponseFuture`] | makes the call, aborts a probe at its deadline, settles the permit |
//! | [`Error`] | the reason why there is no response |
//!
//! Guaranteed: a request that is refused never reaches the inner service; a permit is settled once, before the response
//! is returned; a panic in the extractor or the classifier leaves the circuit working.

mod error;
mod future;
mod layer;
mod service;

pub use error::Error;
pub use future::ResponseFuture;
pub use layer::CircuitLayer;
pub use service::CircuitService;
