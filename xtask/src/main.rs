//! The project's own commands: `cargo xtask test`, `prove`, `sim`, `bench`, `fuzz`. CI calls these and nothing else.

mod bench;
mod fuzz;
mod fuzz_api;
mod packages;
mod prove;
mod steps;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check there is: format, lints, tests, documentation, examples
    Test,
    /// Simulate or try out, and fail if a target is missed
    Prove {
        /// What to prove, and its options; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Simulate a fleet, seed after seed, and fail if an invariant does not hold
    Sim {
        /// How many seeds, or which one; --help lists the options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Measure, and print figures with what they are compared to
    Bench {
        /// What to measure, and its options; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        what: Vec<String>,
    },
    /// Feed a fuzz target with hostile input for a while (needs cargo-fuzz)
    Fuzz(fuzz::Arguments),
    /// Try the gateway's API with clients made from its own document (needs Python)
    FuzzApi(fuzz_api::Arguments),
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
    // Cargo runs us in the caller's folder; all paths below are from the repository's root.
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
    match Arguments::parse().command {
        Command::Test => test::run(),
        Command::Prove { what } => prove::run(&what),
        Command::Sim { what } => prove::run(&[&["sim".to_owned()], &what[..]].concat()),
        Command::Bench { what } => bench::run(&what),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::FuzzApi(arguments) => fuzz_api::run(&arguments),
    }
}
