//! `cargo xtask prove` and `cargo xtask sim`: builds the proofs in release, then runs them.

use anyhow::Result;

use crate::steps::{cargo, succeed};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let prove = ["run", "--release", "--locked", "--quiet", "--package", "breakerbox-proofs", "--"];
    succeed(cargo(&prove).args(arguments))
}
