//! `FIELD=VALUE` arguments, converted to JSON for the API. The names are the API's, so that every API field can be set.

use std::str::FromStr;

use serde_json::{Map, Value};

/// One field of a request body.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    name: String,
    value: Value,
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("must be FIELD=VALUE, such as enabled=false")?;
        if name.is_empty() {
            return Err("must be FIELD=VALUE, such as enabled=false".into());
        }
        // A value that looks like JSON is meant as JSON. A typo in it must not turn it into a string.
        let looks_like_json = value.starts_with(['{', '[', '"']);
        let value = match serde_json::from_str(value) {
            Ok(value) => value,
            Err(error) if looks_like_json => return Err(format!("{name}: is not JSON: {error}")),
            Err(_) => Value::String(value.into()),
        };
        Ok(Self { name: name.into(), value })
    }
}

/// Builds a request body from these fields, which override those from other arguments.
pub(super) fn body<'f>(
    given: impl IntoIterator<Item = (&'static str, Option<Value>)>,
    fields: impl IntoIterator<Item = &'f Field>,
) -> Value {
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut body: Map<String, Value> = given.collect();
    body.extend(fields.into_iter().map(|field| (field.name.clone(), field.value.clone())));
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_json_or_else_text() {
        for (text, expected) in [
            ("enabled=false", json!({"enabled": false})),
            ("max_in_flight=8", json!({"max_in_flight": 8})),
            ("timeout=15s", json!({"timeout": "15s"})),
            ("policy={\"window\":\"5m\"}", json!({"policy": {"window": "5m"}})),
            ("description=a=b", json!({"description": "a=b"})),
            ("retry=null", json!({"retry": null})),
            ("name=", json!({"name": ""})),
        ] {
            assert_eq!(body([], &[text.parse().unwrap()]), expected, "{text}");
        }
        for text in ["enabled", "=1", "policy={window:1}", "types=[a]"] {
            assert!(text.parse::<Field>().is_err(), "{text}");
        }
    }
}
