//! What is promised, at about a twentieth. `cargo xtask prove` runs the same in full.

#![allow(clippy::unwrap_used)]

mod fleet;
mod gateway;
mod outages;
mod powercut;
mod promises;
mod reminders;
mod rig;
mod sampling;

use std::path::Path;

/// The binary that is a proof or a worker.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_breakerbox-proofs"))
}
