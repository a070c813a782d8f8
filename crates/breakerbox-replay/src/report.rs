//! The output of a replay: one JSON line for each transition and, optionally, for each call.
//!
//! Each line is assembled first and then written at once, so that no partial lines are written.

use std::io::{self, Write};

use breakerbox_core::{Cause, Change, Decision, Timestamp};
use serde::Serialize;

use super::clock::{Times, Utc};

/// Writes transitions and, optionally, the decision about each call.
pub struct Report<'w> {
    output: Box<dyn Write + 'w>,
    decisions: bool,
    line: Vec<u8>,
    outlives_output: bool,
    closed: bool,
}

#[derive(Serialize)]
struct TransitionLine<'a> {
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Utc>,
    key: &'a str,
    from: &'static str,
    to: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Utc>,
}

#[derive(Serialize)]
struct DecisionLine<'a> {
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Utc>,
    key: &'a str,
    decision: &'static str,
}

impl<'w> Report<'w> {
    /// Creates a report that writes to `output`, which should be buffered. If `decisions` is set, the report also has a
    /// line for each call.
    pub fn new(output: impl Write + 'w, decisions: bool) -> Self {
        Self { output: Box::new(output), decisions, line: Vec::new(), outlives_output: false, closed: false }
    }

    /// Sets whether the replay continues after the reader of the output has closed it. Nothing more is printed then.
    #[must_use]
    pub fn outlives_output(mut self, goes_on: bool) -> Self {
        self.outlives_output = goes_on;
        self
    }

    pub(super) fn transition(&mut self, key: &str, change: &Change, times: Times) -> io::Result<()> {
        let at_ms = change.at.as_millis_ceil();
        let retry_at_ms = change.retry_at.map(Timestamp::as_millis_ceil);
        let line = TransitionLine {
            at_ms,
            at: times.utc(at_ms),
            key,
            from: change.from.name(),
            to: change.to.name(),
            rule: rule_name(&change.cause),
            retry_at_ms,
            retry_at: retry_at_ms.and_then(|at_ms| times.utc(at_ms)),
        };
        self.write(&line)
    }

    pub(super) fn decision(
        &mut self,
        key: &str,
        decision: &Decision,
        now: Timestamp,
        times: Times,
    ) -> io::Result<()> {
        if !self.decisions {
            return Ok(());
        }
        let decision = match decision {
            Decision::Admitted(permit) if permit.is_probe() => "probe",
            Decision::Admitted(_) => "admitted",
            Decision::Refused(refusal) => refusal.name(),
        };
        let at_ms = now.as_millis_ceil();
        self.write(&DecisionLine { at_ms, at: times.utc(at_ms), key, decision })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.output.flush();
        self.unless_closed(flushed)
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        let written = self.output.write_all(&self.line);
        self.unless_closed(written)
    }

    fn unless_closed(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.outlives_output => {
                self.closed = true;
                Ok(())
            }
            other => other,
        }
    }
}

/// Returns the name of the rule that opened the circuit, or `probe` or `recovery_rate` if a half-open circuit opened
/// again. `None` for every other cause.
pub(super) fn rule_name(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::Rule(rule) => Some(rule.name()),
        Cause::ProbeFailed => Some("probe"),
        Cause::RecoveryRateMissed => Some("recovery_rate"),
        _ => None,
    }
}
