//! `cargo xtask bench`: builds the benchmarks in release mode, then runs them.

use anyhow::Result;

use crate::steps::{cargo, succeed};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    succeed(&mut cargo(&["build", "--release", "--locked"]))?;
    let generator = ["--package", "breakerbox-examples", "--example", "generate-traffic"];
    succeed(cargo(&["build", "--release", "--locked"]).args(generator))?;
    // Builds all programs in the package: one of them measures memory for another.
    succeed(&mut cargo(&["build", "--release", "--locked", "--package", "breakerbox-bench"]))?;
    let bench = ["run", "--release", "--locked", "--quiet", "--package", "breakerbox-bench", "--"];
    succeed(cargo(&bench).args(arguments))
}
