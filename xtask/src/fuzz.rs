//! `cargo xtask fuzz`: runs coverage-guided fuzzing for a limited time.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::steps::{cargo, output, succeed};

/// The names of all fuzz targets in `fuzz/fuzz_targets`.
const TARGETS: [&str; 5] =
    ["policy_file", "replay_input", "endpoint_identity", "target_url", "custom_headers"];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Target to run: policy_file, replay_input, endpoint_identity, target_url or custom_headers; by default
    /// all of them
    target: Option<String>,
    /// Duration for each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    output(&mut cargo(&["fuzz", "--version"])).context("cargo-fuzz is missing; cargo install cargo-fuzz")?;
    let targets = match &arguments.target {
        None => TARGETS.to_vec(),
        Some(target) => match TARGETS.iter().find(|known| *known == target) {
            Some(target) => vec![*target],
            None => bail!("{target} is no fuzz target; there are {}", TARGETS.join(", ")),
        },
    };
    for target in targets {
        // New inputs that the fuzzer finds are stored in fuzz/corpus, which is not committed; it also starts
        // from the seeds.
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(&corpus)?;
        let limit = format!("-max_total_time={}", arguments.seconds);
        // Without a sanitizer, the stable compiler can build it; the code under test has no unsafe code anyway.
        let mut fuzz = cargo(&["fuzz", "run", "--sanitizer", "none", target, &corpus, &seeds]);
        succeed(fuzz.args(["--", &limit, "-max_len=65536"]))?;
    }
    Ok(())
}
