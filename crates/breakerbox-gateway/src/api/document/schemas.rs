//! Corrects the schemas that the macros generate, so that client generators understand them.
//!
//! | the macros generate | the document has |
//! | --- | --- |
//! | parameters and bodies that may be `null` | parameters and bodies that may be omitted |
//! | the items of a generic type, inline | a reference to the items' schema |
//! | a description beside one of two alternatives | a description of the field |
//! | the format `int32` for unsigned numbers | `int64`, if the maximum does not fit into `int32` |
//! | nullable fields of responses as optional | nullable fields of responses as required, because they are always present |

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The prefix of references to schemas.
pub(super) const SCHEMAS: &str = "#/components/schemas/";

/// Corrects the whole document.
pub(super) fn correct(document: &mut Value) {
    for operation in operations_mut(document) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            parameter.get_mut("schema").into_iter().for_each(without_null);
        }
        let content = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut);
        for media in content.into_iter().flat_map(Map::values_mut) {
            media.get_mut("schema").into_iter().for_each(without_null);
        }
    }
    refer_to_items(document);
    raise_descriptions(document);
    widen_numbers(document);
    require_nullable(document);
}

/// Returns the operations of all paths.
fn operations_mut(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
    items.flat_map(Map::values_mut)
}

fn components_mut(document: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let components = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    components.into_iter().flatten()
}

fn without_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            schema["type"] = only.clone();
        }
    }
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.retain(|one| one["type"] != "null");
        if let [only] = &choices[..] {
            *schema = only.clone();
        }
    }
}

/// Replaces the inline items of generic types. The schema `Page_Delivery` is a page whose items are a `Delivery`.
fn refer_to_items(document: &mut Value) {
    let components = document["components"]["schemas"].clone();
    for (name, component) in components_mut(document) {
        let Some((_, of)) = name.split_once('_') else { continue };
        let fields = component.get_mut("properties").and_then(Value::as_object_mut);
        let items = fields.into_iter().flat_map(Map::values_mut).filter_map(|field| field.get_mut("items"));
        for items in items.filter(|items| **items == components[of]) {
            *items = json!({ "$ref": format!("{SCHEMAS}{of}") });
        }
    }
}

/// Moves the description of a nullable reference from the reference to the field.
fn raise_descriptions(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(raise_descriptions),
        Value::Object(fields) => {
            fields.values_mut().for_each(raise_descriptions);
            let Some(choices) = fields.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
            if !choices.iter().any(|choice| choice["type"] == "null") {
                return;
            }
            let mut choices = choices.iter_mut().filter_map(Value::as_object_mut);
            if let Some(description) = choices.find_map(|choice| choice.remove("description")) {
                fields.entry("description").or_insert(description);
            }
        }
        _ => {}
    }
}

/// Replaces the format `int32` of numbers whose maximum is larger.
fn widen_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(widen_numbers),
        Value::Object(fields) => {
            fields.values_mut().for_each(widen_numbers);
            let is_larger = fields
                .get("maximum")
                .and_then(Value::as_u64)
                .is_some_and(|most| i32::try_from(most).is_err());
            if is_larger && fields.get("format").is_some_and(|format| format == "int32") {
                fields.insert("format".to_owned(), json!("int64"));
            }
        }
        _ => {}
    }
}

/// Marks the nullable fields of schemas that occur only in responses as required. A field that may be absent is not
/// nullable.
fn require_nullable(document: &mut Value) {
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for operation in operations_mut(document) {
        collect_references(&operation["requestBody"], &mut asked);
        collect_references(&operation["responses"], &mut answered);
    }
    for names in [&mut asked, &mut answered] {
        let mut open: Vec<String> = names.iter().cloned().collect();
        while let Some(name) = open.pop() {
            let mut found = BTreeSet::new();
            collect_references(&document["components"]["schemas"][&name], &mut found);
            open.extend(found.into_iter().filter(|name| names.insert(name.clone())));
        }
    }
    for (name, component) in components_mut(document) {
        if !answered.contains(name) || asked.contains(name) {
            continue;
        }
        require_nullable_of(component);
        let parts = component.get_mut("allOf").and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(require_nullable_of);
    }
}

fn require_nullable_of(schema: &mut Value) {
    let fields = schema["properties"].as_object();
    let nullable: Vec<_> = fields
        .into_iter()
        .flatten()
        .filter(|(_, field)| is_nullable(field))
        .map(|(name, _)| json!(name))
        .collect();
    if nullable.is_empty() {
        return;
    }
    let Some(schema) = schema.as_object_mut() else { return };
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.extend(nullable);
    }
}

/// Returns whether a field may be `null`.
pub(super) fn is_nullable(field: &Value) -> bool {
    let is_null = |one: &Value| one == "null" || one["type"] == "null";
    let any = |name: &str| field[name].as_array().is_some_and(|all| all.iter().any(is_null));
    any("type") || any("oneOf")
}

/// Collects the names of the schemas that a value refers to.
fn collect_references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        Value::Object(fields) => {
            names.extend(fields.get("$ref").and_then(referenced).map(str::to_owned));
            fields.values().for_each(|field| collect_references(field, names));
        }
        _ => {}
    }
}

/// Returns the name of the schema that a reference points to.
pub(super) fn referenced(reference: &Value) -> Option<&str> {
    reference.as_str().and_then(|pointer| pointer.strip_prefix(SCHEMAS))
}
