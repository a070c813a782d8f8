//! Tests of the product's guarantees ("proofs"). The binary behind `cargo xtask prove` runs them in full;
//! `cargo test` runs about a twentieth.

pub mod fleet;
pub mod gateway;
pub mod leaders;
pub mod outages;
pub mod powercut;
pub mod sampling;
