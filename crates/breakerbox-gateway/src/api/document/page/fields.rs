//! Tables of fields and parameters, and the names of their types. Required fields come first.

use std::fmt::Write;

use serde_json::Value;

use super::text::{escaped, prose, text};
use crate::api::document::schemas::referenced;

/// A row of a table: whether the field is required, its name, its type in HTML, and its description.
type Row<'d> = (bool, &'d str, String, &'d str);

/// Renders a table of fields, required ones first. Without rows, only the title is shown if it names a type.
pub(super) fn table(html: &mut String, title: &str, mut rows: Vec<Row<'_>>) {
    if rows.is_empty() {
        if title.contains("<a ") {
            let _ = write!(html, "<p>{title}</p>");
        }
        return;
    }
    rows.sort_by_key(|(required, ..)| !required);
    let _ = write!(html, "<table><caption>{title}</caption><tbody>");
    for (required, name, kind, description) in rows {
        let class = if required { " class=\"required\"" } else { "" };
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><code{class}>{}</code><span>{kind}</span></th><td>{}</td></tr>",
            escaped(name),
            prose(description)
        );
    }
    html.push_str("</tbody></table>");
}

/// Renders one schema.
pub(super) fn schema(html: &mut String, document: &Value, name: &str, component: &Value) {
    let _ = write!(
        html,
        "<article><h3 id=\"schema-{name}\"><a href=\"#schema-{name}\">{name}</a></h3><p>{}</p>",
        prose(text(&component["description"])),
        name = escaped(name),
    );
    let rows = rows(document, component);
    if rows.is_empty() {
        let _ = write!(html, "<p>{}</p>", kind(component));
    }
    table(html, "Fields", rows);
    html.push_str("</article>");
}

/// Returns a row for each field of a schema.
pub(super) fn rows<'d>(document: &'d Value, schema: &'d Value) -> Vec<Row<'d>> {
    let schema = resolved(document, schema);
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let mut all: Vec<_> = parts.flat_map(|part| rows(document, part)).collect();
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|one| one == name);
        all.push((is_required, name, kind(field), text(&field["description"])));
    }
    all
}

/// Describes the type of a field in HTML: a link to its schema, its values, or its type and range.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = referenced(&schema["$ref"]) {
        return format!("<a href=\"#schema-{name}\">{name}</a>", name = escaped(name));
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| format!("<code>{}</code>", escaped(text(value))));
        return values.collect::<Vec<_>>().join(", ");
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        let kinds: Vec<_> = parts.iter().map(kind).collect();
        return kinds.join(" or ");
    }
    // A variant of a schema with several: an object with one field.
    if let Some((name, field)) =
        schema["properties"].as_object().filter(|all| all.len() == 1).and_then(|all| all.iter().next())
    {
        return format!("<code>{}</code>: {}", escaped(name), kind(field));
    }
    let named = |one: &Value| match text(one) {
        "array" => format!("list of {}", kind(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        "string" if is_duration(schema) => "duration".to_owned(),
        "" => "any JSON".to_owned(),
        other => other.to_owned(),
    };
    let kinds = match &schema["type"] {
        Value::Array(types) => types.iter().map(named).collect::<Vec<_>>().join(" or "),
        one => named(one),
    };
    format!("{kinds}{}", range(schema))
}

/// Returns whether a string is a duration such as `30s`.
fn is_duration(schema: &Value) -> bool {
    text(&schema["pattern"]).contains("(d|h|m|s|ms)")
}

/// Describes the range of a number, the length of a string or the number of items in a list.
fn range(schema: &Value) -> String {
    let bounds = |least: &str, most: &str, unit: &str| match (&schema[least], &schema[most]) {
        (Value::Null, Value::Null) => String::new(),
        (Value::Null, most) => format!(", at most {most}{unit}"),
        (least, Value::Null) => format!(", at least {least}{unit}"),
        (least, most) => format!(", {least} to {most}{unit}"),
    };
    [
        bounds("minimum", "maximum", ""),
        bounds("minLength", "maxLength", " characters"),
        bounds("minItems", "maxItems", " items"),
    ]
    .concat()
}

/// Returns the schema that a reference points to.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    referenced(&schema["$ref"]).map_or(schema, |name| &document["components"]["schemas"][name])
}
