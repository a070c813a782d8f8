//! Runs one proof, a test of a guarantee. Start it with `cargo xtask prove` or `cargo xtask sim`, which build
//! it in release mode first.

mod fleet_proofs;
mod gateway_proofs;
mod sim;

use std::process::ExitCode;

use anyhow::bail;
use breakerbox_proofs::fleet::Kind;
use breakerbox_proofs::fleet::worker;
use breakerbox_proofs::gateway::neighbours::names;
use breakerbox_proofs::gateway::{clock_file, lossy_gateway};
use breakerbox_proofs::leaders::{self, pause_leaders};
use breakerbox_proofs::outages::{self, Case, Setting, Size};
use breakerbox_proofs::powercut::witness;
use breakerbox_proofs::sampling;
use breakerbox_testkit::overload;
use breakerbox_testkit::recovery::{self, ProbeEnd};
use clap::{Args, Parser};

/// Test the product's guarantees at full size.
#[derive(Parser)]
#[command(name = "cargo xtask prove")]
enum Command {
    /// Run every overload scenario for the throttle and compare the results with the targets
    Throttle(Throttle),
    /// Check that only one probe runs at a time during a recovery, with concurrent callers and probe failures
    Recovery(Recovery),
    /// Kill, pause, empty, fail over or disconnect the store and check the library's behaviour
    Outages(Outages),
    /// Run separate processes that share a store and recover together
    Fleet(fleet_proofs::Fleet),
    #[command(flatten)]
    Gateway(gateway_proofs::Proof),
    /// Run a worker in a fleet (internal: started by the fleet proof)
    #[command(hide = true)]
    Worker(worker::Settings),
    /// Run a gateway that stores nothing (internal: started by a test)
    #[command(hide = true)]
    LossyGateway(lossy_gateway::Settings),
    /// Run a gateway that resolves test host names (internal: started by the neighbours proof)
    #[command(hide = true)]
    Named(names::Settings),
    /// Write data until a simulated power failure (internal: started by a test)
    #[command(hide = true)]
    Witness(witness::Settings),
    /// Simulate a fleet with injected faults, one seed after another
    Sim(sim::Arguments),
    /// Run a sampling agent (internal: started by the leaders proof)
    #[command(hide = true)]
    Agent(leaders::agent::Settings),
    /// Sample many circuits in one tick and check that no caller waits for it
    Sampling(sampling::Sizes),
    /// Pause sampling leaders for longer than their term
    Leaders(Leaders),
}

#[derive(Args)]
struct Throttle {
    /// Number of seeds to average over
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Run only the scenarios whose name contains this string
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Args)]
struct Recovery {
    /// Number of recoveries for each way that a probe can end
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

#[derive(Args)]
struct Leaders {
    /// Number of leaders to pause in parallel
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[derive(Args)]
struct Outages {
    /// Run only with this store
    #[arg(long, value_enum)]
    store: Option<Kind>,
    /// Run only the cases whose name contains this string
    #[arg(long, default_value = "")]
    only: String,
    /// Use few circuits and processes, and do not check durations; for a busy machine
    #[arg(long)]
    small: bool,
}

fn main() -> ExitCode {
    // This program is also the gateway under test, so the gateway is never an outdated build.
    if std::env::args().nth(1).is_some_and(|command| command == "serve") {
        return match clock_file::clocks() {
            Ok(clocks) => breakerbox_cli::run_with(&clocks),
            Err(error) => {
                eprintln!("Error: {error:?}");
                ExitCode::FAILURE
            }
        };
    }
    match prove(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn prove(what: Command) -> anyhow::Result<()> {
    match what {
        Command::Throttle(arguments) => throttle(&arguments),
        Command::Recovery(arguments) => recovery(&arguments),
        Command::Outages(arguments) => outages(&arguments),
        Command::Fleet(arguments) => arguments.run(),
        Command::Gateway(proof) => proof.run(),
        Command::Worker(settings) => worker::work(&settings),
        Command::LossyGateway(settings) => lossy_gateway::run(&settings),
        Command::Named(settings) => names::run(&settings),
        Command::Witness(settings) => witness::run(&settings),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Sampling(sizes) => prove_sampling(sizes),
        Command::Agent(settings) => leaders::agent::run(&settings),
        Command::Leaders(arguments) => prove_leaders(&arguments),
    }
}

/// Runs the sampling test on a Tokio runtime, and prints its measurements.
#[tokio::main]
async fn prove_sampling(sizes: sampling::Sizes) -> anyhow::Result<()> {
    let seen = sampling::see(sizes).await?;
    println!("{seen}");
    let misses = seen.misses();
    if !misses.is_empty() {
        bail!("{}", misses.join("; "));
    }
    Ok(())
}

#[tokio::main]
async fn prove_leaders(arguments: &Leaders) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let mut faults = Vec::new();
    for kind in Kind::ALL {
        let paused = pause_leaders(&program, kind, arguments.rounds).await?;
        println!("{paused}");
        faults.extend(paused.faults(true));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("; "));
    }
    Ok(())
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
    for probe_end in ProbeEnd::ALL {
        let proof = recovery::prove(probe_end, arguments.rounds)?;
        println!("{proof}");
        if !proof.faults().is_empty() {
            faulty.push(format!("a probe that {probe_end}"));
        } else if !proof.is_worth_something() {
            bail!("the askers hardly ever met; try again when the machine has cores to spare");
        }
    }
    if !faulty.is_empty() {
        bail!("not as it should be with {}", faulty.join(", "));
    }
    Ok(())
}

fn outages(arguments: &Outages) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let size = if arguments.small { Size::SMALL } else { Size::FULL };
    println!("{}", outages::Report::head());
    let mut faults = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| arguments.store.is_none_or(|only| only == *kind)) {
        for &case in Case::of(kind).iter().filter(|case| case.name().contains(&arguments.only)) {
            let proof = outages::prove(&program, kind, case, &Setting::ALL, size);
            let reports = match runtime.block_on(proof) {
                Ok(reports) => reports,
                // For example, the loss of the store was never reported. The other cases still run.
                Err(error) => {
                    let fault = format!("{}, {}: {error:#}", kind.name(), case.name());
                    println!("{fault}");
                    faults.push(fault);
                    continue;
                }
            };
            for report in reports {
                println!("{report}");
                faults.extend(report.faults().into_iter().map(|fault| format!("{}: {fault}", report.name())));
            }
        }
    }
    if !faults.is_empty() {
        bail!("promises were broken:\n{}", faults.join("\n"));
    }
    Ok(())
}
