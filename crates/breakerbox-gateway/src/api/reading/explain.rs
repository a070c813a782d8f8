//! Explains parse errors: parses an invalid JSON value a second time, to find what is wrong and where.
//!
//! The parser's own errors are sentences. This module returns the same error as a value: the path to the field, and
//! whether the field is unknown, missing or invalid. The second parse is slower, and happens only after an error.

use std::fmt::{self, Display};

use breakerbox_core::nearest;
use serde::de::value::StringDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::api::problem::{Code, Problem};

/// Returns the reason why this value can't be parsed as a `T`. `None` if it can.
pub(super) fn fault<T: DeserializeOwned>(value: Value) -> Option<Fault> {
    T::deserialize(Explained(value)).err()
}

/// A parse error and its location.
#[derive(Debug)]
pub(super) struct Fault {
    /// The path to the invalid value, from the innermost step to the outermost.
    path: Vec<Step>,
    code: Code,
    why: String,
}

#[derive(Debug)]
enum Step {
    Field(String),
    Index(usize),
}

impl Fault {
    fn new(code: Code, why: String) -> Self {
        Self { path: Vec::new(), code, why }
    }

    fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    /// Converts the error to a problem. `code_of_values` replaces the code `invalid_field`.
    pub(super) fn into_problem(self, code_of_values: Code) -> Problem {
        let mut field = String::new();
        for step in self.path.iter().rev() {
            match step {
                Step::Field(name) if field.is_empty() => field.push_str(name),
                Step::Field(name) => {
                    field.push('.');
                    field.push_str(name);
                }
                Step::Index(index) => field.push_str(&format!("[{index}]")),
            }
        }
        let code = if self.code == Code::InvalidField { code_of_values } else { self.code };
        if field.is_empty() {
            return Problem::new(code, format!("the body {}", self.why));
        }
        // Some types name the field and its part in the error, but not the container.
        let (outer, name) = field.rsplit_once('.').unwrap_or(("", &field));
        if let Some(part) = self.why.split(": ").next().filter(|part| is_within(part, name)) {
            let problem = Problem::new(code, self.why.clone()).of_field(part);
            return if outer.is_empty() { problem } else { problem.within(outer) };
        }
        Problem::new(code, format!("{field}: {}", self.why)).of_field(&field)
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(why: T) -> Self {
        Self::new(Code::InvalidField, why.to_string())
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(Code::InvalidField, format!("must be {}, but is {}", plain(expected), kind_of(found)))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            de::Unexpected::Unsigned(number) => number.to_string(),
            de::Unexpected::Signed(number) => number.to_string(),
            other => kind_of(other).to_owned(),
        };
        Self::new(Code::InvalidField, format!("must be {}, but is {found}", plain(expected)))
    }

    fn invalid_length(found: usize, expected: &dyn de::Expected) -> Self {
        Self::new(Code::InvalidField, format!("must be {}, but has length {found}", plain(expected)))
    }

    fn unknown_variant(_found: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Code::InvalidField, format!("must be {}", listed(expected, "or")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let why = match nearest(field, expected.iter().copied()) {
            Some(near) => format!("is not a field; did you mean `{near}`?"),
            None if expected.is_empty() => "is not a field; no fields are allowed here".to_owned(),
            None => format!("is not a field; the fields are {}", listed(expected, "and")),
        };
        Self::new(Code::UnknownField, why).within(Step::Field(field.to_owned()))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Code::MissingField, "is missing".to_owned()).within(Step::Field(field.to_owned()))
    }
}

/// Returns whether a path leads to this field or into it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Describes the expected value in plain words, since derived types use Rust's names.
fn plain(expected: &dyn de::Expected) -> String {
    let named = expected.to_string();
    let within = |least: &dyn Display, most: &dyn Display| format!("a whole number from {least} to {most}");
    match named.as_str() {
        "u8" => within(&u8::MIN, &u8::MAX),
        "u16" => within(&u16::MIN, &u16::MAX),
        "u32" => within(&u32::MIN, &u32::MAX),
        "u64" | "u128" | "usize" => "a whole number from 0 on".to_owned(),
        "i8" => within(&i8::MIN, &i8::MAX),
        "i16" => within(&i16::MIN, &i16::MAX),
        "i32" => within(&i32::MIN, &i32::MAX),
        "i64" | "i128" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        name if name.starts_with("struct ") => "an object".to_owned(),
        _ => named,
    }
}

/// Describes a value by its kind. The value itself is omitted, because it may be secret or long.
fn kind_of(found: de::Unexpected<'_>) -> &'static str {
    match found {
        de::Unexpected::Bool(_) => "true or false",
        de::Unexpected::Unsigned(_) | de::Unexpected::Signed(_) | de::Unexpected::Float(_) => "a number",
        de::Unexpected::Char(_) | de::Unexpected::Str(_) => "a string",
        de::Unexpected::Unit | de::Unexpected::Option => "null",
        de::Unexpected::Seq => "a list",
        de::Unexpected::Map => "an object",
        _ => "something else",
    }
}

fn listed(names: &[&str], last: &str) -> String {
    match names {
        [] => "nothing".to_owned(),
        [only] => format!("`{only}`"),
        [first @ .., end] => format!("`{}` {last} `{end}`", first.join("`, `")),
    }
}

/// A value whose deserializer records where an error occurred.
struct Explained(Value);

impl<'de> Deserializer<'de> for Explained {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (None, Some(value)) => visitor.visit_i64(value),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::INFINITY)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(Items { left: items.into_iter(), index: 0 }),
            Value::Object(fields) => visitor.visit_map(Fields::new(fields)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(name) => {
                let name: StringDeserializer<Fault> = name.into_deserializer();
                visitor.visit_enum(name)
            }
            _ => Err(de::Error::custom("must be a string")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items {
    left: std::vec::IntoIter<Value>,
    index: usize,
}

impl<'de> de::SeqAccess<'de> for Items {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(value) = self.left.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(Explained(value)).map(Some).map_err(|fault| fault.within(Step::Index(index)))
    }
}

struct Fields {
    left: serde_json::map::IntoIter,
    current: Option<(String, Value)>,
}

impl Fields {
    fn new(fields: Map<String, Value>) -> Self {
        Self { left: fields.into_iter(), current: None }
    }
}

impl<'de> de::MapAccess<'de> for Fields {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        self.current = Some((name.clone(), value));
        let name: StringDeserializer<Fault> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (name, value) = self.current.take().unwrap_or_default();
        seed.deserialize(Explained(value)).map_err(|fault| fault.within(Step::Field(name)))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        name: String,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        count: u32,
        way: Option<Way>,
    }

    /// Has a field for each numeric type.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Numbers {
        a: Option<u8>,
        b: Option<u16>,
        c: Option<u32>,
        d: Option<u64>,
        e: Option<usize>,
        f: Option<i8>,
        g: Option<i16>,
        h: Option<i32>,
        i: Option<i64>,
        j: Option<f32>,
        k: Option<f64>,
        l: Option<Inner>,
    }

    #[test]
    fn types_of_the_program_are_not_named() {
        for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
            let fault = fault::<Numbers>(json!({ name: "x" })).expect("a string is no number and no object");
            let expected = match name {
                "l" => "must be an object",
                "j" | "k" => "must be a number",
                _ => "must be a whole number",
            };
            assert!(
                fault.why.starts_with(expected) && fault.why.ends_with(", but is a string"),
                "{name}: {fault}"
            );
        }
        let too_large = fault::<Numbers>(json!({ "b": 70_000 })).expect("it is too large");
        assert_eq!(too_large.why, "must be a whole number from 0 to 65535, but is 70000");
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        Left,
        Right,
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let table = [
            (
                json!({"name": "a", "inner": [{"count": 1}, {"count": "x"}]}),
                "inner[1].count",
                "must be a whole number from 0 to 4294967295, but is a string",
            ),
            (json!({"nam": "a"}), "nam", "is not a field; did you mean `name`?"),
            (json!({"name": "a", "zzz": 1}), "zzz", "is not a field; the fields are `name` and `inner`"),
            (json!({"inner": []}), "name", "is missing"),
            (json!({"name": "a", "inner": [{}]}), "inner[0].count", "is missing"),
            (
                json!({"name": "a", "inner": [{"count": 1, "way": "up"}]}),
                "inner[0].way",
                "must be `left` or `right`",
            ),
            (json!({"name": "a", "inner": [{"count": 1, "way": 3}]}), "inner[0].way", "must be a string"),
            (
                json!({"name": "a", "inner": [{"count": -1}]}),
                "inner[0].count",
                "must be a whole number from 0 to 4294967295, but is -1",
            ),
        ];
        for (value, field, why) in table {
            let problem =
                fault::<Outer>(value.clone()).expect("it is wrong").into_problem(Code::InvalidField);
            assert_eq!(problem.field(), Some(field), "{value}");
            let detail = problem.detail();
            assert!(
                detail.strip_prefix(field).is_some_and(|rest| rest.starts_with(&format!(": {why}"))),
                "{detail}"
            );
        }
        assert!(fault::<Outer>(json!({"name": "a"})).is_none());
        let problem = fault::<Outer>(json!([])).expect("it is wrong").into_problem(Code::InvalidField);
        assert_eq!(problem.field(), None);
    }
}
