//! What is promised, tried. The binary runs it in full, behind `cargo xtask prove`; the tests run a twentieth.

pub mod fleet;
pub mod gateway;
pub mod leaders;
pub mod outages;
pub mod powercut;
pub mod sampling;
