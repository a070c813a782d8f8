//! Figures, each beside what it is compared to, in one run. Call it as `cargo xtask bench`, which builds everything in
//! release first.

mod circuit;
mod figures;
mod fleet;
mod gateway;
mod peers;
mod replay;
mod throttle;
mod turns;

use clap::Parser;

/// Measure, and print figures with what they are compared to.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
enum What {
    /// One call through a circuit, beside other crates and the limits of the machine
    Circuit(circuit::Arguments),
    /// One call through a throttle, beside reading the time, and every overload scenario against its targets
    Throttle(throttle::Arguments),
    /// Circuits that a fleet shares through Redis, beside one process's own, one PING and one message
    Fleet(fleet::Arguments),
    /// One of the processes that see trips
    #[command(hide = true)]
    FleetListener(fleet::ListenerArguments),
    /// One of the processes that load a store
    #[command(hide = true)]
    FleetCaller(fleet::CallerArguments),
    /// The gateway: throughput, latency, CPU and memory, beside a generator straight at the receiver and one durable commit
    Gateway(gateway::Arguments),
    /// Replay 10 million calls over 10,000 keys, beside merely reading their JSON
    Replay(replay::Arguments),
}

fn main() -> anyhow::Result<()> {
    match What::parse() {
        What::Circuit(arguments) => circuit::run(&arguments),
        What::Throttle(arguments) => throttle::run(&arguments),
        What::Fleet(arguments) => fleet::run(&arguments),
        What::FleetListener(arguments) => fleet::listen(&arguments),
        What::FleetCaller(arguments) => fleet::call(&arguments),
        What::Gateway(arguments) => gateway::run(&arguments),
        What::Replay(arguments) => replay::run(&arguments),
    }
}
