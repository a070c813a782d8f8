//! `breakerbox completions`: prints shell completions for commands and flags.

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::Failure;
use super::output::print;

/// Print a completion script for a shell.
///
///   breakerbox completions bash > /etc/bash_completion.d/breakerbox
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints completions for these commands.
pub(super) fn run(arguments: &Arguments, mut commands: Command) -> Result<(), Failure> {
    let mut script = vec![];
    clap_complete::generate(arguments.shell, &mut commands, "breakerbox", &mut script);
    print(&String::from_utf8_lossy(&script))
}
