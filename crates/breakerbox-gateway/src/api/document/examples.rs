//! Examples of requests and responses.
//!
//! An example is built from its schema, so that it always has the schema's fields. The values come from the first of
//! these: `examples.json`, for a field of this schema; the schema itself; `null`, if the field may be `null`;
//! `examples.json`, for all fields of this name; the first value of an enum, or the smallest number.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::schemas::{is_nullable, referenced};

/// The values of fields: by schema and field, and under `*` by field.
static VALUES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// The values of path parameters.
const PARAMETERS: [(&str, &str); 8] = [
    ("circuit", "cir_YWNtZSBodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2lu"),
    ("delivery", "dlv_01h5k2m8w4c7e"),
    ("endpoint", "ep_01h5k2m8w4c7e"),
    ("event", "evt_01h5k2m8w4c7e"),
    ("key", "key_01h5k2m8w4c7e"),
    ("reminder", "rem_01h5k2m8w4c7e"),
    ("resend", "job_01h5k2m8w4c7e"),
    ("tenant", "acme"),
];

/// Adds examples to all path parameters, request bodies and responses that have none.
pub(super) fn add(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
    for operation in items.flat_map(Map::values_mut) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten().filter(|parameter| parameter["in"] == "path") {
            if let Some((_, id)) = PARAMETERS.iter().find(|(name, _)| parameter["name"] == *name) {
                parameter["example"] = json!(id);
            }
        }
        let body = operation.get_mut("requestBody").and_then(|body| body.get_mut("content"));
        body.into_iter().for_each(|content| add_to_content(content, &schemas));
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        for response in responses.into_iter().flat_map(Map::values_mut) {
            response.get_mut("content").into_iter().for_each(|content| add_to_content(content, &schemas));
        }
    }
}

fn add_to_content(content: &mut Value, schemas: &Value) {
    for media in content.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if media["example"].is_null() {
            media["example"] = example(&media["schema"], schemas, "");
        }
    }
}

/// Returns an example of a schema. `owner` is the name of the schema that contains it.
fn example(schema: &Value, schemas: &Value, owner: &str) -> Value {
    if !schema["example"].is_null() {
        return schema["example"].clone();
    }
    if let Some(name) = referenced(&schema["$ref"]) {
        return example(&schemas[name], schemas, name);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let fields = parts.iter().map(|part| example(part, schemas, owner));
        return fields.filter_map(|part| part.as_object().cloned()).flatten().collect::<Map<_, _>>().into();
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let first = choices.iter().find(|choice| choice["type"] != "null");
        return first.map_or(Value::Null, |choice| example(choice, schemas, owner));
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.first().cloned().unwrap_or_default();
    }
    let kind = match &schema["type"] {
        Value::Array(types) => types.iter().find(|one| **one != "null"),
        one => Some(one),
    };
    match kind.and_then(Value::as_str).unwrap_or_default() {
        "object" => example_fields(schema, schemas, owner).into(),
        "array" => json!([example(&schema["items"], schemas, owner)]),
        "boolean" => json!(false),
        "integer" | "number" => {
            if schema["minimum"].is_null() {
                json!(0)
            } else {
                schema["minimum"].clone()
            }
        }
        "string" if schema["format"] == "date-time" => json!("2030-01-31T09:00:00Z"),
        // Has no example; the tests reject this.
        _ => json!(""),
    }
}

fn example_fields(schema: &Value, schemas: &Value, owner: &str) -> Map<String, Value> {
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let value = |name: &String, field: &Value| {
        let own = VALUES[owner].get(name);
        let general = || VALUES["*"].get(name).cloned();
        let by_schema = || match field {
            field if !field["example"].is_null() => Some(field["example"].clone()),
            field if is_nullable(field) => Some(Value::Null),
            _ => None,
        };
        match own {
            Some(own) => Some(own.clone()),
            None if !is_required(name) => None,
            None => by_schema().or_else(general).or_else(|| Some(example(field, schemas, owner))),
        }
    };
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.filter_map(|(name, field)| Some((name.clone(), value(name, field)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_for_a_field_that_exists() {
        let document = crate::api::document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let has = |schema: &Value, field: &str| {
            let parts = schema["allOf"].as_array().into_iter().flatten();
            parts.chain([schema]).any(|part| part["properties"].get(field).is_some())
        };
        for (name, fields) in VALUES.as_object().unwrap() {
            for field in fields.as_object().unwrap().keys() {
                let there = match name.as_str() {
                    "*" => schemas.values().any(|schema| has(schema, field)),
                    name => schemas.get(name).is_some_and(|schema| has(schema, field)),
                };
                assert!(there, "{name}.{field}");
            }
        }
    }
}
