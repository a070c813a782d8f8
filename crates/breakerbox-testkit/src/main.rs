//! Proves a part of the product in simulation. Call it as `cargo xtask prove`, which builds it in release first.

use anyhow::bail;
use breakerbox_testkit::overload::print_proofs;
use clap::{Args, Parser};

/// Prove a part of the product in simulation.
#[derive(Parser)]
#[command(name = "cargo xtask prove")]
enum What {
    /// The throttle: every overload scenario against its targets
    Throttle(Throttle),
}

#[derive(Args)]
struct Throttle {
    /// Over how many seeds the means are taken
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> anyhow::Result<()> {
    match What::parse() {
        What::Throttle(arguments) => throttle(&arguments),
    }
}

fn throttle(arguments: &Throttle) -> anyhow::Result<()> {
    let missed = print_proofs(&arguments.only, arguments.seeds)?;
    if !missed.is_empty() {
        bail!("targets missed in {}", missed.join(", "));
    }
    Ok(())
}
