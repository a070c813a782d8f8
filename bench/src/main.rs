//! Benchmarks that measure values and their baselines in the same run. Start them with `cargo xtask bench`,
//! which builds everything in release mode first.

mod circuit;
mod figures;
mod fleet;
mod gateway;
mod interleave;
mod peers;
mod replay;
mod throttle;

use clap::Parser;

/// Run a benchmark, and print its results with their baselines.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
enum Benchmark {
    /// Measure one call through a circuit, compared with other crates and the limits of the machine
    Circuit(circuit::Arguments),
    /// Measure one call through a throttle, compared with reading the time, and run every overload scenario
    /// against its targets
    Throttle(throttle::Arguments),
    /// Measure circuits that a fleet shares through Redis, compared with process-local ones, one PING and one
    /// message
    Fleet(fleet::Arguments),
    /// Run a process that observes trips (internal: started by the fleet benchmark)
    #[command(hide = true)]
    FleetListener(fleet::ListenerArguments),
    /// Run a process that puts load on a store (internal: started by the fleet benchmark)
    #[command(hide = true)]
    FleetCaller(fleet::CallerArguments),
    /// Measure the gateway's throughput, latency, CPU time and memory, compared with direct load on the
    /// receiver and one durable commit
    Gateway(gateway::Arguments),
    /// Measure a replay of 10 million calls over 10,000 keys, compared with only parsing their JSON
    Replay(replay::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Benchmark::parse() {
        Benchmark::Circuit(arguments) => circuit::run(&arguments),
        Benchmark::Throttle(arguments) => throttle::run(&arguments),
        Benchmark::Fleet(arguments) => fleet::run(&arguments),
        Benchmark::FleetListener(arguments) => fleet::listen(&arguments),
        Benchmark::FleetCaller(arguments) => fleet::call(&arguments),
        Benchmark::Gateway(arguments) => gateway::run(&arguments),
        Benchmark::Replay(arguments) => replay::run(&arguments),
    }
}
