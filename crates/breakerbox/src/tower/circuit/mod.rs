//! The circuit of a request's key, as a tower layer.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`CircuitLayer`] | has the registry, the key extractor and the classifier |
//! | [`CircuitService`] | asks for a permit before each call |
//! | [`ResponseFuture`] | makes the call, ends a probe at its deadline, settles the permit |
//! | [`Error`] | why there is no response |
//!
//! What is guaranteed: a request that is refused never reaches the service inside; a permit is settled once, before the
//! response is handed out; a panic in the extractor or the classifier leaves the circuit working.

mod error;
mod future;
mod layer;
mod service;

pub use error::Error;
pub use future::ResponseFuture;
pub use layer::CircuitLayer;
pub use service::CircuitService;
