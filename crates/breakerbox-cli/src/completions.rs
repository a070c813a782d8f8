//! `breakerbox completions`: completions of commands and flags for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::failure::Failure;
use super::output::print;

/// Print a completion script for a shell.
///
///   breakerbox completions bash > /etc/bash_completion.d/breakerbox
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Shell to complete for
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = vec![];
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "breakerbox", &mut script);
    print(&String::from_utf8_lossy(&script))
}
