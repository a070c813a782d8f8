//! The project's development commands: `cargo xtask test`, `prove`, `sim`, `bench`, `effect`, `fuzz`,
//! `graph`, `package`, `public-api`. CI calls only these.

mod bench;
mod debian_packages;
mod effect;
mod fuzz;
mod fuzz_api;
mod graph;
mod language;
mod package;
mod prove;
mod public_api;
mod steps;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's development commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check: format, lints, tests, documentation, examples
    Test,
    /// Run a proof (a test of a guarantee at full size), and fail if a target is missed
    Prove {
        /// Proof to run, and its options; use --help to list them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Simulate a fleet, one seed after another, and fail if an invariant is violated
    Sim {
        /// Number of seeds, or one seed; use --help to list the options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Run a benchmark, and print its results with their baselines
    Bench {
        /// Benchmark to run, and its options; use --help to list them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Simulate a sender's day through several breakers, write docs/effect.md, and fail if a target is missed
    Effect {
        /// Options; use --help to list them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Run the fuzz targets for a limited time (needs cargo-fuzz)
    Fuzz(fuzz::Arguments),
    /// Test the gateway's API with requests generated from its OpenAPI document (needs Python)
    FuzzApi(fuzz_api::Arguments),
    /// Write the graph of crates and modules to ARCHITECTURE.md; fail on a cycle
    Graph(graph::Arguments),
    /// Package the published crates, and use the packages in a program outside the workspace
    Package,
    /// List the public API of the published crates in xtask/public-api
    PublicApi(public_api::Arguments),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    // Cargo starts this program in the caller's directory; all paths below are relative to the root of the
    // repository.
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
    match Arguments::parse().command {
        Command::Test => test::run(),
        Command::Prove { what } => prove::run(&what),
        Command::Sim { what } => prove::run(&[&["sim".to_owned()], &what[..]].concat()),
        Command::Bench { what } => bench::run(&what),
        Command::Effect { what } => effect::run(&what),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::FuzzApi(arguments) => fuzz_api::run(&arguments),
        Command::Graph(arguments) => graph::run(&arguments),
        Command::Package => package::run(),
        Command::PublicApi(arguments) => public_api::run(&arguments),
    }
}
