//! JSON lines input: one object per line.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;

use breakerbox_core::{FileValue, Sample};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::fields::{
    CALL_FIELDS, Fault, Fields, SAMPLE_FIELDS, SampleFields, check_key, count, fault, millis, outcome,
    status, time, twice, unknown,
};
use super::lines::Lines;
use super::results::ResultTable;
use super::{Input, Line, ReadError};

pub(super) struct JsonLines<'r> {
    lines: Lines<'r>,
    table: &'r dyn ResultTable,
}

impl<'r> JsonLines<'r> {
    pub(super) const fn new(input: Input<'r>, lines_before: u64, table: &'r dyn ResultTable) -> Self {
        Self { lines: Lines::new(input, lines_before), table }
    }

    /// Returns the next line that is not blank.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, Line<'_>)>, ReadError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let number = self.lines.number();
        let line = self.lines.text().and_then(parse).and_then(|fields| fields.finish(self.table));
        line.map(|line| Some((number, line))).map_err(|fault| fault.at_line(number))
    }
}

fn parse(text: &str) -> Result<Fields<'_>, Fault> {
    let faults = Faults::default();
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(LineVisitor(&faults))
        .and_then(|fields| json.end().map(|()| fields))
        .map_err(|error| faults.explain(&error))
}

/// Collects the errors that the visitors find, because serde's own errors contain only text.
#[derive(Default)]
struct Faults {
    /// The field whose value is being parsed.
    field: Cell<Option<&'static str>>,
    fault: RefCell<Option<Fault>>,
}

impl Faults {
    fn put<E: serde::de::Error>(&self, fault: Fault) -> E {
        *self.fault.borrow_mut() = Some(fault);
        E::custom("")
    }

    fn explain(&self, error: &serde_json::Error) -> Fault {
        if let Some(fault) = self.fault.take() {
            return fault;
        }
        let text = error.to_string();
        // The parser gets one line only, so its line number is meaningless.
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        if error.is_data() {
            return match self.field.get() {
                Some(field) => Fault::new(field, reason),
                None => Fault::of_line(reason),
            };
        }
        let hint = if error.is_eof() { "; each line must be a complete object" } else { "" };
        Fault::of_line(format!("is not JSON: {reason} (column {}){hint}", error.column()))
    }
}

struct LineVisitor<'f>(&'f Faults);

impl<'de> Visitor<'de> for LineVisitor<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with at_ms, key and outcome, or with at_ms and samples")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let Self(faults) = self;
        let known = || CALL_FIELDS.into_iter().chain(["samples"]);
        let mut fields = Fields::default();
        while let Some(name) = map.next_key_seed(Text)? {
            let field = known().find(|field| *field == name);
            faults.field.set(field);
            let map = &mut map;
            let refuse = |fault| faults.put(fault);
            match field {
                Some("at_ms") => take(map, &name, &mut fields.at_ms, millis, refuse)?,
                Some("at") => take(map, &name, &mut fields.at, time, refuse)?,
                Some("status") => take(map, &name, &mut fields.status, status, refuse)?,
                Some("fault") => take(map, &name, &mut fields.fault, fault, refuse)?,
                Some("outcome") => take(map, &name, &mut fields.outcome, outcome, refuse)?,
                Some("latency_ms") => take(map, &name, &mut fields.latency_ms, millis, refuse)?,
                Some("retry_after_ms") => take(map, &name, &mut fields.retry_after_ms, millis, refuse)?,
                Some("key") => {
                    let key = map.next_value_seed(Text)?;
                    check_key(&name, &key).map_err(refuse)?;
                    put_once(&name, &mut fields.key, key).map_err(refuse)?;
                }
                Some(_) => {
                    let samples = map.next_value_seed(SamplesSeed(faults))?;
                    put_once(&name, &mut fields.samples, samples).map_err(refuse)?;
                }
                None => return Err(refuse(unknown(&name, known()))),
            }
        }
        Ok(fields)
    }
}

/// Parses a value into its field. The value must have the right type, and the field must occur only once.
fn take<'de, A: MapAccess<'de>, T>(
    map: &mut A,
    name: &str,
    place: &mut Option<T>,
    read: fn(&str, &FileValue) -> Result<T, Fault>,
    refuse: impl FnOnce(Fault) -> A::Error,
) -> Result<(), A::Error> {
    let found = map.next_value()?;
    read(name, &found).and_then(|value| put_once(name, place, value)).map_err(refuse)
}

fn put_once<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(name)),
    }
}

/// Deserializes the samples of a tick: `{"e1": {"successes": 9, ...}, ...}`.
struct SamplesSeed<'f>(&'f Faults);

impl<'de> DeserializeSeed<'de> for SamplesSeed<'_> {
    type Value = Vec<(String, Sample)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SamplesSeed<'_> {
    type Value = Vec<(String, Sample)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the totals of each key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self(faults) = self;
        let mut samples = Vec::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            check_key("samples: a key", &key).map_err(|fault| faults.put(fault))?;
            let sample = map.next_value_seed(SampleSeed { key: &key, faults })?;
            if !seen.insert(key.clone()) {
                return Err(faults.put(twice(&format!("samples.{key}"))));
            }
            samples.push((key, sample));
        }
        Ok(samples)
    }
}

/// Deserializes one key's sample: `{"successes": 9, "failures": 3, "latency_sum_ms": 840}`.
struct SampleSeed<'f> {
    key: &'f str,
    faults: &'f Faults,
}

impl SampleSeed<'_> {
    /// Records the error, with the full path of its field.
    fn put<E: serde::de::Error>(&self, fault: Fault) -> E {
        self.faults.put(fault.below(&format!("samples.{}", self.key)))
    }
}

impl<'de> DeserializeSeed<'de> for SampleSeed<'_> {
    type Value = Sample;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Sample, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SampleSeed<'_> {
    type Value = Sample;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with successes and failures for the key {:?}", self.key)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sample, A::Error> {
        let mut fields = SampleFields::default();
        while let Some(name) = map.next_key_seed(Text)? {
            let refuse = |fault| self.put(fault);
            match &*name {
                "successes" => take(&mut map, &name, &mut fields.successes, count, refuse)?,
                "failures" => take(&mut map, &name, &mut fields.failures, count, refuse)?,
                "latency_sum_ms" => take(&mut map, &name, &mut fields.latency_sum_ms, millis, refuse)?,
                other => return Err(refuse(unknown(other, SAMPLE_FIELDS))),
            }
        }
        fields.finish().map_err(|fault| self.put(fault))
    }
}

/// Deserializes a string, borrowed from the line if possible.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
