//! Proofs of the product's guarantees. The binary behind `cargo xtask prove` runs them in full; the tests run about a
//! twentieth.

pub mod fleet;
pub mod gateway;
pub mod leaders;
pub mod outages;
pub mod powercut;
pub mod sampling;
