//! The fields of a line, in any format: which values are accepted, and which fields are required.

use std::borrow::Cow;

use breakerbox_core::{FileValue, MAX_KEY_LENGTH, OutcomeKind, Sample, nearest};

use super::{Call, InputError, Line, MAX_MILLIS, ReadError, Tick};

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
pub(super) const CALL_FIELDS: [&str; 5] = ["at_ms", "key", "outcome", "latency_ms", "retry_after_ms"];

/// The fields of a key's sample, in JSON and as CSV columns.
pub(super) const SAMPLE_FIELDS: [&str; 3] = ["successes", "failures", "latency_sum_ms"];

/// The fields of a line that have been parsed so far.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) at_ms: Option<u64>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) outcome: Option<OutcomeKind>,
    pub(super) latency_ms: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) samples: Option<Vec<(String, Sample)>>,
}

impl<'a> Fields<'a> {
    /// Returns the line, if all required fields are present.
    pub(super) fn finish(self) -> Result<Line<'a>, Fault> {
        let at_ms = self.at_ms.ok_or_else(|| missing("at_ms"))?;
        if let Some(samples) = self.samples {
            let call_field = [
                ("key", self.key.is_some()),
                ("outcome", self.outcome.is_some()),
                ("latency_ms", self.latency_ms.is_some()),
                ("retry_after_ms", self.retry_after_ms.is_some()),
            ];
            return match call_field.iter().find(|(_, present)| *present) {
                Some((field, _)) => {
                    Err(Fault::new(field, "can't be combined with samples; a line is a call or a sample"))
                }
                None => Ok(Line::Tick(Tick { at_ms, samples })),
            };
        }
        Ok(Line::Call(Call {
            at_ms,
            key: self.key.ok_or_else(|| missing("key"))?,
            outcome: self.outcome.ok_or_else(|| missing("outcome"))?,
            latency_ms: self.latency_ms.unwrap_or(0),
            retry_after_ms: self.retry_after_ms,
        }))
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
        Ok(Sample {
            successes: self.successes.ok_or_else(|| missing("successes"))?,
            failures: self.failures.ok_or_else(|| missing("failures"))?,
            latency_sum: self.latency_sum_ms.map(std::time::Duration::from_millis),
            // Files contain only the totals of each tick.
            ..Sample::default()
        })
    }
}

pub(super) fn missing(field: &str) -> Fault {
    Fault::new(field, "is missing")
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
        _ => return Err(Fault::new(field, format!("must be {expected}, but is {found}"))),
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
