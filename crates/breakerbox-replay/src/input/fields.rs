//! The fields of a line, in any format: which values are accepted, and which fields are required.

use std::borrow::Cow;
use std::time::Duration;

use breakerbox_core::{FileValue, MAX_KEY_LENGTH, OutcomeKind, Sample, nearest};

use super::results::ResultTable;
use super::{Call, InputError, Line, MAX_MILLIS, ReadError, Tick};
use crate::clock::{self, TimeError, Times};

/// An error in a line: the field, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Fault {
    field: Option<String>,
    reason: String,
}

impl Fault {
    pub(super) fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: Some(field.into()), reason: reason.into() }
    }

    /// Creates an error about the line as a whole, without a field.
    pub(super) fn of_line(reason: impl Into<String>) -> Self {
        Self { field: None, reason: reason.into() }
    }

    /// Returns the same error, with `path` prepended to its field.
    pub(super) fn below(self, path: &str) -> Self {
        let field = self.field.map_or_else(|| path.to_owned(), |field| format!("{path}.{field}"));
        Self { field: Some(field), ..self }
    }

    pub(super) fn at_line(self, line: u64) -> ReadError {
        ReadError::Input(InputError { line, field: self.field, reason: self.reason })
    }
}

/// The fields of a call, in JSON and as CSV columns.
pub(super) const CALL_FIELDS: [&str; 8] =
    ["at_ms", "at", "key", "outcome", "status", "fault", "latency_ms", "retry_after_ms"];

/// The fields with the result of a call, of which a call has one.
pub(super) const RESULT_FIELDS: [&str; 3] = ["outcome", "status", "fault"];

/// The fields of a key's sample, in JSON and as CSV columns.
pub(super) const SAMPLE_FIELDS: [&str; 3] = ["successes", "failures", "latency_sum_ms"];

/// The fields of a line that have been parsed so far.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) at_ms: Option<u64>,
    /// The time in `at`, in milliseconds since 1970.
    pub(super) at: Option<u64>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) outcome: Option<OutcomeKind>,
    pub(super) status: Option<u16>,
    pub(super) fault: Option<String>,
    pub(super) latency_ms: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) samples: Option<Vec<(String, Sample)>>,
}

impl<'a> Fields<'a> {
    /// Returns the line, if all required fields are present.
    pub(super) fn finish(mut self, table: &dyn ResultTable) -> Result<Line<'a>, Fault> {
        let (at_ms, times) = self.time()?;
        if let Some(samples) = self.samples {
            let call_field = [
                ("key", self.key.is_some()),
                ("outcome", self.outcome.is_some()),
                ("status", self.status.is_some()),
                ("fault", self.fault.is_some()),
                ("latency_ms", self.latency_ms.is_some()),
                ("retry_after_ms", self.retry_after_ms.is_some()),
            ];
            return match call_field.iter().find(|(_, present)| *present) {
                Some((field, _)) => {
                    Err(Fault::new(field, "can't be combined with samples; a line is a call or a sample"))
                }
                None => Ok(Line::Tick(Tick { at_ms, times, samples })),
            };
        }
        let key = self.key.take().ok_or_else(|| missing("key"))?;
        let (outcome, probe_outcome, retry_after_ms) = self.result(table)?;
        let latency_ms = self.latency_ms.unwrap_or(0);
        Ok(Line::Call(Call { at_ms, times, key, outcome, probe_outcome, latency_ms, retry_after_ms }))
    }

    /// Returns the time in milliseconds, and how the line states it.
    pub(super) fn time(&self) -> Result<(u64, Times), Fault> {
        match (self.at_ms, self.at) {
            (Some(at_ms), None) => Ok((at_ms, Times::Elapsed)),
            (None, Some(at_ms)) => Ok((at_ms, Times::Clock)),
            (None, None) => Err(Fault::new("at_ms", "is missing; a line has at_ms or at")),
            (Some(_), Some(_)) => Err(both("at", "at_ms")),
        }
    }

    /// Returns the outcome of the call, its outcome if the call is a probe, and the delay that the destination asked
    /// for.
    fn result(&self, table: &dyn ResultTable) -> Result<(OutcomeKind, OutcomeKind, Option<u64>), Fault> {
        let counted = match (self.outcome, self.status, &self.fault) {
            (Some(outcome), None, None) => return Ok((outcome, outcome, self.retry_after_ms)),
            (None, Some(status), None) => {
                table.status(status, self.retry_after_ms.map(Duration::from_millis))
            }
            (None, None, Some(_)) if self.retry_after_ms.is_some() => {
                return Err(both("retry_after_ms", "fault"));
            }
            (None, None, Some(name)) => table.fault(name).ok_or_else(|| unknown_fault(name, table))?,
            (None, None, None) => {
                return Err(Fault::new("outcome", "is missing; a call has an outcome, a status or a fault"));
            }
            (Some(_), Some(_), _) => return Err(both("status", "outcome")),
            (Some(_), None, Some(_)) => return Err(both("fault", "outcome")),
            (None, Some(_), Some(_)) => return Err(both("fault", "status")),
        };
        let retry_after_ms =
            counted.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(MAX_MILLIS));
        Ok((counted.outcome, counted.probe_outcome, retry_after_ms))
    }
}

/// The fields of one key's sample that have been parsed so far.
#[derive(Default)]
pub(super) struct SampleFields {
    pub(super) successes: Option<u64>,
    pub(super) failures: Option<u64>,
    pub(super) latency_sum_ms: Option<u64>,
}

impl SampleFields {
    pub(super) fn finish(self) -> Result<Sample, Fault> {
        let successes = self.successes.ok_or_else(|| missing("successes"))?;
        // Files contain only the totals of each tick.
        let mut sample = Sample::new(successes, self.failures.ok_or_else(|| missing("failures"))?);
        sample.latency_sum = self.latency_sum_ms.map(Duration::from_millis);
        Ok(sample)
    }
}

pub(super) fn missing(field: &str) -> Fault {
    Fault::new(field, "is missing")
}

pub(super) fn both(field: &str, other: &str) -> Fault {
    Fault::new(field, format!("can't be combined with {other}; keep one"))
}

/// Parses an RFC 3339 time to milliseconds since 1970.
pub(super) fn time(field: &str, found: &FileValue) -> Result<u64, Fault> {
    let hint = match found {
        FileValue::Text(text) => match clock::parse(text) {
            Ok(at_ms) => return Ok(at_ms),
            Err(TimeError::NotATime) => "",
            Err(TimeError::NoOffset) => "; append the offset from UTC, such as Z",
            Err(TimeError::TooEarly) => {
                return Err(Fault::new(field, format!("must be in 1970 or later, but is {text}")));
            }
        },
        FileValue::Integer(_) | FileValue::Float(_) => "; for milliseconds, use at_ms",
        _ => "",
    };
    let expected = "must be an RFC 3339 time such as \"2026-01-31T12:00:00Z\"";
    Err(Fault::new(field, format!("{expected}, but is {found}{hint}")))
}

/// Parses an HTTP status.
pub(super) fn status(field: &str, found: &FileValue) -> Result<u16, Fault> {
    let expected = "must be an HTTP status, 100 to 999";
    let hint = match found {
        FileValue::Integer(number) => match u16::try_from(*number) {
            Ok(status @ 100..=999) => return Ok(status),
            Ok(0) => "; for a call without a response, use fault",
            _ => "",
        },
        FileValue::Null => "; omit it for a call without a response, and use fault",
        _ => "",
    };
    Err(Fault::new(field, format!("{expected}, but is {found}{hint}")))
}

/// Parses the name of a fault. [`Fields::finish`] checks whether there is a fault of this name.
pub(super) fn fault(field: &str, found: &FileValue) -> Result<String, Fault> {
    match found {
        FileValue::Text(name) => Ok(name.clone()),
        other => {
            Err(Fault::new(field, format!("must be the name of a fault such as \"timeout\", but is {other}")))
        }
    }
}

fn unknown_fault(name: &str, table: &dyn ResultTable) -> Fault {
    let names = table.fault_names();
    let hint = nearest(name, names.iter().copied())
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default();
    Fault::new("fault", format!("must be one of {}, but is {name:?}{hint}", names.join(", ")))
}

pub(super) fn millis(field: &str, found: &FileValue) -> Result<u64, Fault> {
    whole(field, found, "a whole number of milliseconds")
}

pub(super) fn count(field: &str, found: &FileValue) -> Result<u64, Fault> {
    whole(field, found, "a whole number")
}

fn whole(field: &str, found: &FileValue, expected: &str) -> Result<u64, Fault> {
    let number = match found {
        FileValue::Integer(number) => *number,
        // Many programs write whole numbers as 12.0.
        #[allow(clippy::cast_possible_truncation)] // Whole, and in range or refused below.
        FileValue::Float(number) if number.fract() == 0.0 => *number as i128,
        _ => {
            let is_time =
                matches!(found, FileValue::Text(text) if field == "at_ms" && clock::parse(text).is_ok());
            let hint = if is_time { "; for RFC 3339 times, use at" } else { "" };
            return Err(Fault::new(field, format!("must be {expected}, but is {found}{hint}")));
        }
    };
    let hint = if field == "at_ms" { "; check that it is in milliseconds" } else { "" };
    match u64::try_from(number) {
        Ok(number) if number <= MAX_MILLIS => Ok(number),
        _ if number < 0 => Err(Fault::new(field, format!("must not be negative, but is {number}"))),
        _ => Err(Fault::new(field, format!("must be at most {MAX_MILLIS}, but is {number}{hint}"))),
    }
}

pub(super) fn outcome(field: &str, found: &FileValue) -> Result<OutcomeKind, Fault> {
    const NAMES: [&str; 3] = ["success", "failure", "ignored"];
    let FileValue::Text(text) = found else {
        return Err(Fault::new(field, format!("must be success, failure or ignored, but is {found}")));
    };
    match text.as_str() {
        "success" => Ok(OutcomeKind::Success),
        "failure" => Ok(OutcomeKind::Failure),
        "ignored" => Ok(OutcomeKind::Ignored),
        other => {
            let hint =
                nearest(other, NAMES).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            Err(Fault::new(field, format!("must be success, failure or ignored, but is {other:?}{hint}")))
        }
    }
}

pub(super) fn check_key(field: &str, key: &str) -> Result<(), Fault> {
    if key.is_empty() {
        return Err(Fault::new(field, "must not be empty"));
    }
    if key.len() > MAX_KEY_LENGTH {
        return Err(Fault::new(
            field,
            format!("must be at most {MAX_KEY_LENGTH} bytes, but is {}", key.len()),
        ));
    }
    Ok(())
}

pub(super) fn unknown<'n>(name: &str, known: impl IntoIterator<Item = &'n str> + Clone) -> Fault {
    let shown: String = name.chars().take(64).collect();
    let all: Vec<_> = known.clone().into_iter().collect();
    let reason = match nearest(name, known) {
        Some(near) => format!("is not a known field; did you mean {near}?"),
        None => format!("is not a known field; the fields are {}", all.join(", ")),
    };
    Fault::new(&shown, reason)
}

pub(super) fn twice(field: &str) -> Fault {
    Fault::new(field, "is given twice; keep one")
}
