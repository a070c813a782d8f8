//! The product's guarantees, at about a twentieth of the full size. `cargo xtask prove` runs the same tests in
//! full.

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

/// Returns the path of the binary that runs proofs and workers.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_breakerbox-proofs"))
}
