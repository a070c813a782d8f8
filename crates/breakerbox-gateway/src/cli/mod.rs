//! The command line. Each command reads its arguments, does its work, and says what went wrong in one line.
//!
//! Exit codes: 0, all went well; 1, something around us failed (a file that can't be read or written); 2, the input
//! or the arguments are wrong, and the message says what to change.

mod policy;
mod replacement;
mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One circuit breaker per endpoint, shared by the whole fleet.
#[derive(Parser)]
#[command(name = "breakerbox", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Replay(replay::Arguments),
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The input or the arguments are wrong.
    Input(String),
    /// Something around us failed.
    Environment(String),
    /// Whoever read our output went away, as `head` does. Nothing is wrong.
    OutputClosed,
}

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Replay(arguments) => replay::run(&arguments),
    };
    match result {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Environment(message)) => {
            eprintln!("breakerbox: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Input(message)) => {
            eprintln!("breakerbox: {message}");
            ExitCode::from(2)
        }
    }
}
