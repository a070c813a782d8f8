//! `cargo xtask prove` and `cargo xtask sim`: build the proofs in release mode, then run them.

use anyhow::Result;

use crate::steps::{cargo, succeed};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let prove = ["run", "--release", "--locked", "--quiet", "--package", "breakerbox-proofs", "--"];
    succeed(cargo(&prove).args(arguments))
}
