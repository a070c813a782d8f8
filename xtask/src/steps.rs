//! Running other programs, one step at a time.

use std::env;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// `cargo` with these arguments, the same cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs one step and says how long it took.
pub(crate) fn step(title: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {title}");
    let start = Instant::now();
    work().with_context(|| format!("{title} failed"))?;
    println!("== {title}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command to its end, which must be a good one.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't run {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// What a command prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
