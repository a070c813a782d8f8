//! Runs other programs, one step at a time.

use std::env;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Returns a `cargo` command with these arguments. Uses the same cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs one step and prints its duration.
pub(crate) fn step(title: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {title}");
    let start = Instant::now();
    work().with_context(|| format!("{title} failed"))?;
    println!("== {title}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command until it exits. Returns an error if the command fails.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't run {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Runs a command and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
