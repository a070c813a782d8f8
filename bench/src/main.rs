//! Figures, each beside what it is compared to, in one run. Call it as `cargo xtask bench`, which builds everything in
//! release first.

mod figures;
mod replay;

use clap::Parser;

/// Measure, and print figures with what they are compared to.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
enum What {
    /// Replay 10 million calls over 10,000 keys, beside merely reading their JSON
    Replay(replay::Arguments),
}

fn main() -> anyhow::Result<()> {
    match What::parse() {
        What::Replay(arguments) => replay::run(&arguments),
    }
}
