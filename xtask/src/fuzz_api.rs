//! `cargo xtask fuzz-api`: runs schemathesis, which sends valid and invalid requests generated from the API's
//! OpenAPI document.
//!
//! It takes minutes and requires Python, so it is not part of `cargo xtask test`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::steps::{cargo, step, succeed};

/// The schemathesis version that this command is tested with.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The directory for schemathesis's virtual environment. The command changes nothing outside this directory.
const HOME: &str = "target/schemathesis";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Duration after the first round, in seconds
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Number of requests for each operation in a round
    #[arg(long, default_value_t = 20)]
    examples: u32,
    /// Seed, to repeat an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = Path::new(HOME).join("bin/schemathesis");
    if !program.exists() {
        step("schemathesis", || {
            succeed(Command::new("python3").args(["-m", "venv", HOME]))
                .context("python3 with venv is missing")?;
            let pip = Path::new(HOME).join("bin/pip");
            succeed(Command::new(pip).args(["install", "--quiet", SCHEMATHESIS]))
        })?;
    }
    let mut options = format!(
        "--checks all --phases examples,coverage,fuzzing --continue-on-failure --max-examples {} --max-time {} \
         --warnings off",
        arguments.examples, arguments.seconds
    );
    if let Some(seed) = arguments.seed {
        options += &format!(" --seed {seed}");
    }
    let mut test = cargo(&["test", "--package", "breakerbox-gateway", "--test", "it", "--locked"]);
    test.args([
        "--",
        "--ignored",
        "--exact",
        "--nocapture",
        "api::schemathesis::everything_is_as_the_document_says",
    ]);
    test.env("BREAKERBOX_SCHEMATHESIS", std::fs::canonicalize(program)?);
    succeed(test.env("BREAKERBOX_SCHEMATHESIS_ARGUMENTS", options))
}
