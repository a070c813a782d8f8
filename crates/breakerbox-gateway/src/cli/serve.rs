//! `breakerbox serve`: the gateway. Here its settings are put together; what it does is elsewhere.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::flags::Flags;
use super::{Failure, output_failed};
use crate::config::{self, Loaded, Sources};

/// Start the gateway: API, workers and dashboard in one process, with its database in one folder.
///
/// Settings come from a TOML file (--config, or breakerbox.toml in the current folder), from variables BREAKERBOX_..., and
/// from flags. A flag wins over a variable, a variable over the file.
///
/// The first start prints an admin key, once. SIGTERM stops the gateway: what is under way gets the grace time.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Read the settings from this file
    #[arg(long, value_name = "FILE", env = "BREAKERBOX_CONFIG")]
    config: Option<PathBuf>,

    /// Print the settings in force, each with where it is from, and stop
    #[arg(long)]
    print_config: bool,

    /// Print a commented file with every setting and its default, and stop
    #[arg(long, conflicts_with = "print_config")]
    example_config: bool,

    #[command(flatten)]
    flags: Flags,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.example_config {
        return print(&config::example());
    }
    let print_only = arguments.print_config;
    let loaded = load(arguments)?;
    if print_only {
        return print(&loaded.to_toml());
    }
    start(loaded)
}

fn load(arguments: Arguments) -> Result<Loaded, Failure> {
    // What is not UTF-8 can't be a setting's value; the variable's name says whether it should have been one.
    let variables = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    let sources = Sources::default().variables(variables);
    let sources = match arguments.config {
        Some(path) => sources.file(path),
        None => sources.file_if_in(Path::new("")),
    };
    arguments.flags.over(sources).load().map_err(|errors| Failure::Inputs(errors.lines()))
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| output_failed(&error))
}

/// Runs the gateway until it is told to stop.
fn start(loaded: Loaded) -> Result<(), Failure> {
    drop(loaded);
    Err(Failure::Environment("the gateway can't be started yet".into()))
}
