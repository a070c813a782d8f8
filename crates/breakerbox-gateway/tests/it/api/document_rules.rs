//! The rules of the document, so that readers find what they need and client generators understand it.

use std::collections::BTreeSet;

use breakerbox_gateway::api;
use serde_json::{Value, json};

use super::schema_check;

/// Words of which the description of a number has at least one: its unit, or what it counts.
const UNITS: [&str; 8] =
    ["number", "milliseconds", "seconds", "bytes", "status", "percent", "factor", "per second"];
/// Words of which the description of an optional field in a request has at least one: what happens without it.
const DEFAULTS: [&str; 7] = ["Default", "default to", "Only ", "Omit", "may omit", "either", "one of"];

/// The names of durations, which have a pattern.
const DURATIONS: [&str; 4] = ["timeout", "expires_after", "every", "overlap"];

/// A document, and what breaks its rules.
struct Rules<'d> {
    document: &'d Value,
    faults: Vec<String>,
}

fn faults(document: &Value) -> Vec<String> {
    let mut rules = Rules { document, faults: Vec::new() };
    rules.operations();
    rules.schemas();
    rules.faults
}

fn said(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn any_of(text: &str, words: &[&str]) -> bool {
    let text = text.replace('\n', " ");
    words.iter().any(|word| text.contains(word))
}

fn is_snake_case(id: &str) -> bool {
    let words: Vec<_> = id.split('_').collect();
    words.len() > 1
        && words.iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Returns whether an example is there, and has no empty string in the place of a value.
fn is_example(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        value => !value.to_string().contains("\"\""),
    }
}

impl Rules<'_> {
    fn check(&mut self, holds: bool, at: &str, rule: &str) {
        if !holds {
            self.faults.push(format!("{at}: {rule}"));
        }
    }

    fn operations(&mut self) {
        let mut ids = BTreeSet::new();
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let at = format!("{method} {path}");
                let id = said(&operation["operationId"]);
                self.check(is_snake_case(id), &at, "has no operationId in snake case");
                self.check(ids.insert(id), &at, "has the operationId of another operation");
                self.check(!said(&operation["summary"]).is_empty(), &at, "has no summary");
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    self.parameter(&at, parameter);
                }
                let body = &operation["requestBody"]["content"];
                self.contents(&format!("{at} body"), body);
                for (status, response) in operation["responses"].as_object().unwrap() {
                    self.contents(&format!("{at} {status}"), &response["content"]);
                }
            }
        }
    }

    fn parameter(&mut self, at: &str, parameter: &Value) {
        let at = format!("{at} {}", said(&parameter["name"]));
        let description = said(&parameter["description"]);
        self.check(!description.is_empty(), &at, "has no description");
        match said(&parameter["in"]) {
            "path" => self.check(is_example(&parameter["example"]), &at, "has no example"),
            "query" => {
                self.check(any_of(description, &DEFAULTS), &at, "does not say what happens without it");
            }
            _ => {}
        }
        self.number(&at, &parameter["schema"], description, true);
        self.shape(&at, &parameter["schema"]);
    }

    fn contents(&mut self, at: &str, content: &Value) {
        for (media, described) in content.as_object().into_iter().flatten() {
            let (schema, example) = (&described["schema"], &described["example"]);
            self.check(is_example(example), at, "has no example");
            let wrong = schema_check::faults(self.document, schema, example);
            self.check(wrong.is_empty(), at, &format!("has an example that does not fit: {wrong:?}"));
            let is_named = schema["$ref"].is_string() || !media.ends_with("json");
            self.check(is_named, at, "does not refer to a schema");
        }
    }

    fn schemas(&mut self) {
        let requests = self.in_requests();
        for (name, schema) in self.document["components"]["schemas"].as_object().unwrap() {
            self.check(!said(&schema["description"]).is_empty(), name, "has no description");
            self.shape(name, schema);
            self.fields(name, schema, requests.contains(name));
            let parts =
                ["allOf", "oneOf"].into_iter().flat_map(|key| schema[key].as_array().into_iter().flatten());
            for part in parts {
                self.fields(name, part, requests.contains(name));
            }
        }
    }

    fn fields(&mut self, name: &str, schema: &Value, is_request: bool) {
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (field, is) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{name}.{field}");
            let description = said(&is["description"]);
            self.check(!description.is_empty(), &at, "has no description");
            // The Python client uses the name of the schema for a variable beside those of the fields.
            self.check(field.replace('_', "") != name.to_lowercase(), &at, "has the name of its schema");
            self.number(&at, is, description, is_request);
            self.shape(&at, is);
            let is_duration =
                DURATIONS.contains(&field.as_str()) && is["type"].to_string().contains("string");
            let has_pattern = said(&is["pattern"]).contains("(d|h|m|s|ms)");
            self.check(!is_duration || has_pattern, &at, "is a duration without a pattern");
            let is_inline = is["properties"].is_object() || is["enum"].is_array();
            self.check(!is_inline, &at, "has an inline schema");
            let is_required = required.iter().any(|one| one == field);
            let is_change = name.ends_with("Change");
            if is_request && !is_required && !is_change {
                self.check(any_of(description, &DEFAULTS), &at, "does not say what happens without it");
            }
            let nullable = schema_check::faults(self.document, is, &Value::Null).is_empty();
            let is_any = is["type"].is_null() && is["oneOf"].is_null() && is["$ref"].is_null();
            if !is_request && nullable && !is_any {
                self.check(is_required, &at, "is always there, and not required");
            }
        }
    }

    fn number(&mut self, at: &str, schema: &Value, description: &str, is_request: bool) {
        let types = schema["type"].to_string();
        if !types.contains("integer") && !types.contains("number") {
            return;
        }
        self.check(any_of(description, &UNITS), at, "is a number without a unit");
        let is_larger = schema["maximum"].as_f64().is_some_and(|most| most > f64::from(i32::MAX));
        self.check(
            !is_larger || schema["format"] != "int32",
            at,
            "has a maximum that its format does not allow",
        );
        let has_end = !is_request || !schema["maximum"].is_null() || description.contains("at least");
        self.check(!schema["minimum"].is_null() && has_end, at, "is a number without a range");
    }

    /// Checks the forms that client generators don't understand.
    fn shape(&mut self, at: &str, schema: &Value) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            let is_part = part["$ref"].is_string() || part["properties"].is_object();
            self.check(is_part, at, "has an allOf with a part that is no object");
        }
        let items = &schema["items"];
        let is_inline =
            items["properties"].is_object() || items["enum"].is_array() || items["oneOf"].is_array();
        self.check(!is_inline, at, "has inline items");
    }

    /// Returns the names of the schemas that requests use.
    fn in_requests(&self) -> BTreeSet<String> {
        let paths = self.document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|item| item.as_object().unwrap().values());
        let mut open: Vec<String> =
            operations.flat_map(|operation| references(&operation["requestBody"])).collect();
        let mut names = BTreeSet::new();
        while let Some(name) = open.pop() {
            if names.insert(name.clone()) {
                open.extend(references(&self.document["components"]["schemas"][&name]));
            }
        }
        names
    }
}

fn references(value: &Value) -> Vec<String> {
    let text = value.to_string();
    let named = text.split("\"#/components/schemas/").skip(1);
    named.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn the_document_keeps_its_rules() {
    let faults = faults(&api::document());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Breaks each rule once.
#[test]
fn a_broken_rule_is_found() {
    let document = api::document();
    let submit = "/paths/~1v1~1events/post";
    let delivery = "/components/schemas/Delivery/properties";
    for (at, put, expected) in [
        (format!("{submit}/operationId"), json!("submit"), "has no operationId in snake case"),
        (format!("{submit}/operationId"), json!("send_event"), ""),
        (
            format!("{submit}/operationId"),
            json!("list_deliveries"),
            "has the operationId of another operation",
        ),
        (format!("{submit}/summary"), json!(""), "has no summary"),
        (format!("{submit}/requestBody/content/application~1json/example"), Value::Null, "has no example"),
        (
            format!("{submit}/requestBody/content/application~1json/example"),
            json!({ "type": 7 }),
            "has an example that does not fit",
        ),
        (
            format!("{submit}/requestBody/content/application~1json/schema"),
            json!({ "oneOf": [{ "$ref": "#/components/schemas/NewEvent" }, { "type": "null" }] }),
            "does not refer to a schema",
        ),
        (format!("{submit}/responses/202/content/application~1json/example"), Value::Null, "has no example"),
        (format!("{delivery}/attempts/description"), json!(""), "has no description"),
        (format!("{delivery}/attempts/description"), json!("What was tried"), "is a number without a unit"),
        (format!("{delivery}/attempts/minimum"), Value::Null, "is a number without a range"),
        (
            format!("{delivery}/state"),
            json!({ "allOf": [{ "enum": ["pending"] }, { "description": "The state." }], "description": "The state." }),
            "has an allOf with a part that is no object",
        ),
        (
            format!("{delivery}/state"),
            json!({ "enum": ["delivered"], "description": "The state." }),
            "has an inline schema",
        ),
        (
            "/components/schemas/NewReminder/properties/max_runs/format".to_owned(),
            json!("int32"),
            "has a maximum that its format does not allow",
        ),
        (
            "/components/schemas/Endpoint/properties/timeout/pattern".to_owned(),
            Value::Null,
            "is a duration without a pattern",
        ),
        (
            "/components/schemas/Page_Delivery/properties/items/items".to_owned(),
            document["components"]["schemas"]["Delivery"].clone(),
            "has inline items",
        ),
        ("/components/schemas/Delivery/required".to_owned(), json!([]), "is always there, and not required"),
        (
            "/components/schemas/NewEvent/properties/not_before/description".to_owned(),
            json!("The earliest time."),
            "does not say what happens without it",
        ),
        (
            "/components/schemas/Delivery/properties".to_owned(),
            json!({ "delivery": { "type": "string", "description": "Delivery ID." } }),
            "has the name of its schema",
        ),
        ("/components/schemas/DeliveryState/description".to_owned(), json!(""), "has no description"),
    ] {
        let mut broken = document.clone();
        *broken.pointer_mut(&at).unwrap_or_else(|| panic!("{at} is not there")) = put;
        let found = faults(&broken).join("\n");
        assert!(
            if expected.is_empty() { found.is_empty() } else { found.contains(expected) },
            "{at}: {found}"
        );
    }
}
