//! The command line. Each command parses its arguments, does its work, and reports an error in one line.
//!
//! | part | what it does |
//! | --- | --- |
//! | `serve`, `flags` | runs the gateway, with a flag for each of its settings |
//! | `listen` | a local receiver, for testing |
//! | `send`, `tenants`, `endpoints`, `events`, `deliveries`, `lanes`, `resends` | commands that call the API |
//! | `reminders`, `circuits`, `notifications`, `keys` | commands that call the API |
//! | `watch` | prints the changes of deliveries and circuits as they happen |
//! | `names` | finds the resource that a name means: an ID, the end of an ID, a URL, a reference or a key |
//! | `times` | times and durations as people write and read them |
//! | `policies` | shows and changes the policy of a tenant's or an endpoint's circuits |
//! | `payload` | reads payloads from an argument, a file or standard input |
//! | `client` | the API client |
//! | `migrate` | shows and migrates the schema of a gateway's database |
//! | `backup` | backs up and restores a gateway's database |
//! | `replay`, `policy`, `report_file` | runs past traffic in virtual time |
//! | `output`, `failure`, `refusal` | output formats, exit codes, and the gateway's error responses |
//! | `limit` | the `--limit` of listings |
//! | `usage` | reports invalid arguments |
//!
//! Exit codes: 0, success; 1, the environment failed; 2, the input or the arguments are invalid, and the message states
//! what to change; 3, the gateway can't be reached; 4, the gateway refused the request.

mod backup;
mod circuits;
mod client;
mod completions;
mod deliveries;
mod delivery_filter;
mod endpoints;
mod events;
mod failure;
mod fields;
mod flags;
mod keys;
mod lanes;
mod limit;
mod listen;
mod migrate;
mod names;
mod notifications;
mod output;
mod payload;
mod policies;
mod policy;
mod refusal;
mod reminders;
mod replay;
mod report_file;
mod resends;
mod result_table;
mod send;
mod serve;
mod short_id;
mod tenants;
mod times;
mod usage;
mod watch;

use std::process::ExitCode;

use breakerbox_storage::clock::Clocks;
use clap::{CommandFactory, Parser, Subcommand};

use failure::{Failure, output_failed, say};
use output::Output;

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

    #[command(flatten)]
    output: Output,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Listen(listen::Arguments),
    Send(send::Arguments),
    Tenants(tenants::Arguments),
    Endpoints(endpoints::Arguments),
    Events(events::Arguments),
    Deliveries(deliveries::Arguments),
    Lanes(lanes::Arguments),
    Resends(resends::Arguments),
    Reminders(Box<reminders::Arguments>),
    Circuits(circuits::Arguments),
    Notifications(notifications::Arguments),
    Keys(keys::Arguments),
    Migrate(migrate::Arguments),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Replay(replay::Arguments),
    Completions(completions::Arguments),
}

/// Runs the command given on the command line.
#[must_use]
pub fn run() -> ExitCode {
    run_with(&Clocks::system())
}

/// Like [`run`], with other clocks for `serve`. For tests that set the wall clock of a running gateway.
#[must_use]
pub fn run_with(clocks: &Clocks) -> ExitCode {
    let Arguments { command, output } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::report(&error),
    };
    let result = match command {
        Command::Serve(arguments) => serve::run(*arguments, output, clocks),
        Command::Listen(arguments) => listen::run(&arguments, output),
        Command::Send(arguments) => send::run(&arguments, output),
        Command::Tenants(arguments) => tenants::run(&arguments, output),
        Command::Endpoints(arguments) => endpoints::run(&arguments, output),
        Command::Events(arguments) => events::run(&arguments, output),
        Command::Deliveries(arguments) => deliveries::run(&arguments, output),
        Command::Lanes(arguments) => lanes::run(&arguments, output),
        Command::Resends(arguments) => resends::run(&arguments, output),
        Command::Reminders(arguments) => reminders::run(&arguments, output),
        Command::Circuits(arguments) => circuits::run(&arguments, output),
        Command::Notifications(arguments) => notifications::run(&arguments, output),
        Command::Keys(arguments) => keys::run(&arguments, output),
        Command::Migrate(arguments) => migrate::run(&arguments, output),
        Command::Backup(arguments) => backup::backup(&arguments, output),
        Command::Restore(arguments) => backup::restore(&arguments, output),
        Command::Replay(arguments) => replay::run(&arguments, output.quiet),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(output.json),
    }
}
