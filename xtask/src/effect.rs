//! `cargo xtask effect`: builds the simulation of a sender's day in release mode, then runs it.

use anyhow::Result;

use crate::steps::{cargo, succeed};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let effect = ["run", "--release", "--locked", "--quiet", "--package", "breakerbox-effect", "--"];
    succeed(cargo(&effect).args(arguments))
}
