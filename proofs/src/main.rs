//! Proves a part of the product. Call it as `cargo xtask prove` or `cargo xtask sim`, which build it in release first.

mod sim;

use anyhow::bail;
use breakerbox_testkit::overload;
use breakerbox_testkit::recovery::{self, Fate};
use clap::{Args, Parser};

/// Prove a part of the product.
#[derive(Parser)]
#[command(name = "cargo xtask prove")]
enum What {
    /// The throttle: every overload scenario against its targets
    Throttle(Throttle),
    /// Recoveries: one probe at a time, whoever asks and whatever becomes of the probes
    Recovery(Recovery),
    /// A fleet, simulated: seed after seed, with whatever can fail
    Sim(sim::Arguments),
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

#[derive(Args)]
struct Recovery {
    /// How many recoveries for each fate of a probe
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

fn main() -> anyhow::Result<()> {
    match What::parse() {
        What::Throttle(arguments) => throttle(&arguments),
        What::Recovery(arguments) => recovery(&arguments),
        What::Sim(arguments) => sim::run(&arguments),
    }
}

fn throttle(arguments: &Throttle) -> anyhow::Result<()> {
    let missed = overload::print_proofs(&arguments.only, arguments.seeds)?;
    if !missed.is_empty() {
        bail!("targets missed in {}", missed.join(", "));
    }
    Ok(())
}

fn recovery(arguments: &Recovery) -> anyhow::Result<()> {
    println!("{}", recovery::Proof::head());
    let mut faulty = Vec::new();
    for fate in Fate::ALL {
        let proof = recovery::prove(fate, arguments.rounds)?;
        println!("{proof}");
        if !proof.faults().is_empty() {
            faulty.push(format!("a probe that {fate}"));
        } else if !proof.is_worth_something() {
            bail!("the askers hardly ever met; try again when the machine has cores to spare");
        }
    }
    if !faulty.is_empty() {
        bail!("not as it should be with {}", faulty.join(", "));
    }
    Ok(())
}
