//! The command line. Each command reads its arguments, does its work, and says what went wrong in one line.
//!
//! Exit codes: 0, all went well; 1, something around us failed (a file that can't be read or written); 2, the input
//! or the arguments are wrong, and the message says what to change.

mod flags;
mod policy;
mod replay;
mod report_file;
mod serve;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "breakerbox",
    version,
    about = "One circuit breaker per endpoint, shared by the whole fleet"
)]
#[command(arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Replay(replay::Arguments),
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The input or the arguments are wrong.
    Input(String),
    /// Several things are wrong, each with a line of its own.
    Inputs(Vec<String>),
    /// Something around us failed.
    Environment(String),
    /// Whoever read our output went away, as `head` does. Nothing is wrong.
    OutputClosed,
}

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Replay(arguments) => replay::run(&arguments),
    };
    match result {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Environment(message)) => {
            say(&format!("breakerbox: {}", one_line(&message)));
            ExitCode::from(1)
        }
        Err(Failure::Input(message)) => {
            say(&format!("breakerbox: {}", one_line(&message)));
            ExitCode::from(2)
        }
        Err(Failure::Inputs(messages)) => {
            messages.iter().for_each(|message| say(&format!("breakerbox: {}", one_line(message))));
            ExitCode::from(2)
        }
    }
}

/// Prints to standard error. If nobody can hear us, that is no reason to fail.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A message that can't disturb a terminal and is not longer than anybody reads, whatever input it quotes.
fn one_line(message: &str) -> String {
    const LONGEST: usize = 600;
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let mut line: String = message.chars().take(LONGEST).map(escaped).collect();
    if message.chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

/// What it means that standard output can't be written to.
fn output_failed(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Environment(format!("can't write to standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_can_not_disturb_a_terminal() {
        assert_eq!(one_line("a\u{1b}[31m\nb é"), "a\\u{1b}[31m\\nb é");
        assert_eq!(one_line(&"x".repeat(1_000_000)).chars().count(), 601);
    }
}
