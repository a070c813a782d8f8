//! Invalid arguments: reported by clap as text, or with `--json` as a problem like every other error.
//!
//! If the arguments can't be parsed, it is not known whether `--json` is among them, so the raw arguments are searched
//! for it.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Error;
use clap::error::ErrorKind;

use super::failure::{Failure, one_line};

/// Reports the error, and returns the exit code: 0 for `--help` and `--version`, else 2.
pub(super) fn report(error: &Error) -> ExitCode {
    let is_error = error.use_stderr();
    if is_error && asks_for_json(std::env::args_os().skip(1)) {
        return Failure::Input(detail(error)).report(true);
    }
    // If standard output or standard error is closed, there is no one to report to.
    let _ = error.print();
    if is_error { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Returns whether `--json` is among the options. Arguments after `--` are not options.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// Formats the error in one line: what is wrong and clap's tips, without the usage.
fn detail(error: &Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing; --help lists them".to_owned();
    }
    let text = error.render().to_string();
    let is_kept =
        |paragraph: &&str| !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information");
    let paragraphs = text.trim().split("\n\n").filter(is_kept);
    let lines = paragraphs.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let joined = lines.collect::<Vec<_>>().join("; ");
    one_line(joined.strip_prefix("error: ").unwrap_or(&joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_an_option_alone() {
        for (arguments, expected) in [
            (&["tenants", "list", "--json", "--limit"][..], true),
            (&["--json"], true),
            (&["send", "a", "--", "--json"], false),
            (&["send", "a", "--jsonx"], false),
            (&[], false),
        ] {
            assert_eq!(asks_for_json(arguments.iter().map(OsString::from)), expected, "{arguments:?}");
        }
    }
}
