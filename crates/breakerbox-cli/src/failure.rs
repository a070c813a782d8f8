//! Failures of commands, and their exit codes. `docs/guide/cli.md` lists the codes, whose meaning never changes.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::refusal::Refusal;

/// The reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The input or an argument is invalid.
    Input(String),
    /// Several inputs are invalid. Each has its own line.
    Inputs(Vec<String>),
    /// The environment failed, for example a file or the network.
    Environment(String),
    /// The gateway can't be reached.
    Unreachable(String),
    /// A name means no resource, or several.
    Name {
        /// `not_found` or `ambiguous`.
        code: &'static str,
        detail: String,
        /// The line before the candidates.
        next: Option<&'static str>,
        candidates: Vec<String>,
    },
    /// The gateway refused the request.
    Refused(Box<Refusal>),
    /// The reader of standard output closed it, as `head` does. This is not an error.
    OutputClosed,
}

impl Failure {
    /// Reports the failure on standard error, and returns the exit code.
    pub(super) fn report(&self, as_json: bool) -> ExitCode {
        let code = self.code();
        if as_json && let Some(problem) = self.as_json() {
            say(&problem.to_string());
        } else {
            self.lines().iter().for_each(|line| say(&format!("breakerbox: {}", one_line(line))));
        }
        ExitCode::from(code)
    }

    fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Environment(_) => 1,
            Self::Input(_) | Self::Inputs(_) => 2,
            Self::Unreachable(_) => 3,
            // As if the gateway had responded with 404 or with 400.
            Self::Name { code, .. } => {
                if *code == "not_found" {
                    4
                } else {
                    2
                }
            }
            Self::Refused(refusal) => match refusal.status {
                400 | 413 | 415 | 422 => 2,
                500.. => 1,
                _ => 4,
            },
        }
    }

    /// Returns what went wrong, in one line.
    pub(super) fn first_line(&self) -> String {
        one_line(self.lines().first().map_or("", String::as_str))
    }

    fn lines(&self) -> Vec<String> {
        match self {
            Self::OutputClosed => vec![],
            Self::Input(line) | Self::Environment(line) | Self::Unreachable(line) => vec![line.clone()],
            Self::Inputs(lines) => lines.clone(),
            Self::Name { detail, next, candidates, .. } => {
                let heading = next.map_or_else(|| detail.clone(), |next| format!("{detail}; {next}"));
                let candidates = candidates.iter().map(|candidate| format!("  {candidate}"));
                std::iter::once(heading).chain(candidates).collect()
            }
            Self::Refused(refusal) => refusal.lines(),
        }
    }

    /// Returns the failure as JSON: the gateway's problem, or an object with the same fields.
    fn as_json(&self) -> Option<Value> {
        let own = |code: &str, lines: &[String]| json!({ "code": code, "detail": lines.join("; ") });
        let lines = self.lines();
        Some(match self {
            Self::OutputClosed => return None,
            Self::Refused(refusal) => refusal.problem.clone(),
            Self::Name { code, detail, candidates, .. } => {
                json!({ "code": code, "detail": detail, "candidates": candidates })
            }
            Self::Input(_) | Self::Inputs(_) => own("input", &lines),
            Self::Environment(_) => own("failed", &lines),
            Self::Unreachable(_) => own("unreachable", &lines),
        })
    }
}

/// Formats an error and all its sources in one line.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let said = inner.to_string();
        // Some errors already include their source's message.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = inner.source();
    }
    text
}

/// Prints a line to standard error. A write error is ignored, because there is nowhere left to report it.
pub(super) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Formats a message for a terminal. Control characters are escaped and the length is limited, because the message may
/// quote untrusted input.
pub(super) fn one_line(message: &str) -> String {
    const LONGEST: usize = 600;
    let mut line = printable(message.chars().take(LONGEST));
    if message.chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

/// Escapes control characters in an untrusted string, so that it can't move the cursor or change colours.
pub(super) fn printable(text: impl Iterator<Item = char>) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.map(escaped).collect()
}

/// Maps a write error on standard output to a failure. A closed pipe is [`Failure::OutputClosed`].
pub(super) fn output_failed(error: &io::Error) -> Failure {
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

    #[test]
    fn exit_codes_keep_their_meaning() {
        let name = |code| Failure::Name { code, detail: String::new(), next: None, candidates: vec![] };
        let refused = |status| Failure::Refused(Box::new(Refusal { status, ..Refusal::default() }));
        for (failure, code) in [
            (Failure::OutputClosed, 0),
            (Failure::Environment(String::new()), 1),
            (Failure::Input(String::new()), 2),
            (Failure::Inputs(vec![]), 2),
            (Failure::Unreachable(String::new()), 3),
            (name("not_found"), 4),
            (name("ambiguous"), 2),
            (refused(400), 2),
            (refused(422), 2),
            (refused(401), 4),
            (refused(403), 4),
            (refused(404), 4),
            (refused(409), 4),
            (refused(429), 4),
            (refused(302), 4),
            (refused(500), 1),
            (refused(503), 1),
            (refused(507), 1),
        ] {
            assert_eq!(failure.code(), code, "{failure:?}");
        }
    }
}
