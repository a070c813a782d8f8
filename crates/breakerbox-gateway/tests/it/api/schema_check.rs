//! Checks JSON values against the schemas of the document: types, enums, required fields and unknown fields.

use serde_json::{Value, json};

/// Returns what is wrong with a value, with its path. Empty if the value fits the schema.
pub(super) fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, "$", &mut found);
    found
}

pub(super) fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// Returns the objects that a schema consists of: itself, or the parts of `allOf`.
fn parts<'d>(document: &'d Value, schema: &'d Value) -> Vec<&'d Value> {
    let schema = resolved(document, schema);
    match schema["allOf"].as_array() {
        Some(all) => all.iter().flat_map(|part| parts(document, part)).collect(),
        None => vec![schema],
    }
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let schema = resolved(document, schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        let all: Vec<_> = choices.iter().map(|choice| faults(document, choice, value)).collect();
        if !all.iter().any(Vec::is_empty) {
            found.push(format!("{at}: fits no alternative: {all:?}"));
        }
        return;
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        found.push(format!("{at}: {value} is not one of {values:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one],
        _ => Vec::new(),
    };
    let is = |one: &&str| match *one {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    if !types.is_empty() && !types.iter().any(is) {
        found.push(format!("{at}: {value} is not {types:?}"));
    }
    let minimum = schema["minimum"].as_f64().zip(value.as_f64());
    let maximum = schema["maximum"].as_f64().zip(value.as_f64());
    if minimum.is_some_and(|(least, is)| is < least) || maximum.is_some_and(|(most, is)| is > most) {
        found.push(format!("{at}: {value} is out of range"));
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        check(document, &schema["items"], item, &format!("{at}[{place}]"), found);
    }
    let parts = parts(document, schema);
    let has_fields = parts.iter().any(|part| part["properties"].is_object());
    let Some(fields) = value.as_object().filter(|_| has_fields) else { return };
    for required in parts.iter().flat_map(|part| part["required"].as_array().into_iter().flatten()) {
        if !fields.contains_key(required.as_str().unwrap()) {
            found.push(format!("{at}: {required} is missing"));
        }
    }
    for (name, field) in fields {
        match parts.iter().find_map(|part| part["properties"].get(name)) {
            Some(schema) => check(document, schema, field, &format!("{at}.{name}"), found),
            None => found.push(format!("{at}: {name} is not in the schema")),
        }
    }
}

#[test]
fn a_wrong_value_is_found() {
    let schema = json!({
        "type": "object", "required": ["a"],
        "properties": {
            "a": { "type": ["integer", "null"], "minimum": 1 },
            "b": { "type": "array", "items": { "enum": ["x"] } },
            "c": { "oneOf": [{ "type": "null" }, { "type": "string" }] },
        },
    });
    for (value, wrong) in [
        (json!({ "a": 1, "b": ["x"], "c": "y" }), ""),
        (json!({ "a": null, "c": null }), ""),
        (json!({ "a": 0 }), "$.a: 0 is out of range"),
        (json!({ "a": "1" }), "$.a: \"1\" is not [\"integer\", \"null\"]"),
        (json!({}), "$: \"a\" is missing"),
        (json!({ "a": 1, "b": ["y"] }), "$.b[0]: \"y\" is not one of"),
        (json!({ "a": 1, "c": 3 }), "$.c: fits no alternative"),
        (json!({ "a": 1, "d": 3 }), "$: d is not in the schema"),
    ] {
        let found = faults(&Value::Null, &schema, &value).join("; ");
        assert!(
            if wrong.is_empty() { found.is_empty() } else { found.starts_with(wrong) },
            "{value}: {found}"
        );
    }
}
