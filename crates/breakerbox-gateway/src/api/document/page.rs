//! Renders the document as an HTML page, without scripts or external resources.

use std::fmt::Write;

use serde_json::Value;

use crate::api::problem::Code;

const STYLE: &str = include_str!("page.css");

/// Allows the page's inline style and nothing else.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Renders the document as HTML.
pub(super) fn page(document: &Value) -> String {
    let mut html = String::with_capacity(256 * 1024);
    let info = &document["info"];
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><main><h1>{title}</h1><p>Version {version} · <a href=\"openapi.json\">openapi.json</a></p><p>{about}</p>",
        title = escaped(text(&info["title"])),
        version = escaped(text(&info["version"])),
        about = prose(text(&info["description"])),
    );
    html.push_str(
        "<p>Send an API key with each request: <code>authorization: Bearer bbx_...</code>. A key has scopes: \
         <code>admin</code> includes all others, <code>manage</code> includes <code>read</code>.</p>",
    );
    let tags = document["tags"].as_array().cloned().unwrap_or_default();
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for tag in &tags {
        let name = escaped(text(&tag["name"]));
        let _ = write!(html, "<li><a href=\"#{name}\">{name}</a></li>");
    }
    html.push_str("<li><a href=\"#problems\">problems</a></li></ul></nav>");
    for tag in &tags {
        section(&mut html, document, tag);
    }
    problems(&mut html);
    html.push_str("</main></body></html>");
    html
}

fn section(html: &mut String, document: &Value, tag: &Value) {
    let name = text(&tag["name"]);
    let _ = write!(
        html,
        "<section><h2 id=\"{name}\">{name}</h2><p>{}</p>",
        prose(text(&tag["description"])),
        name = escaped(name)
    );
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for method in METHODS {
            let operation = &item[method];
            if operation["tags"][0] == name {
                operation_of(html, document, path, method, operation);
            }
        }
    }
    html.push_str("</section>");
}

fn operation_of(html: &mut String, document: &Value, path: &str, method: &str, operation: &Value) {
    let scope = text(&operation["security"][0]["api_key"][0]);
    let _ = write!(
        html,
        "<details><summary><span class=\"method\">{}</span> <span class=\"path\">{}</span> {}",
        method.to_uppercase(),
        escaped(path),
        escaped(text(&operation["summary"])),
    );
    if !scope.is_empty() {
        let _ = write!(html, " <span class=\"scope\">{}</span>", escaped(scope));
    }
    let _ = write!(html, "</summary><p>{}</p>", prose(text(&operation["description"])));
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    if !parameters.is_empty() {
        html.push_str("<table><caption>Parameters</caption><tbody>");
        for parameter in &parameters {
            let required = if parameter["required"] == true { " class=\"required\"" } else { "" };
            let _ = write!(
                html,
                "<tr><th scope=\"row\"><code{required}>{}</code></th><td>{}</td><td>{}</td></tr>",
                escaped(text(&parameter["name"])),
                escaped(text(&parameter["in"])),
                prose(text(&parameter["description"])),
            );
        }
        html.push_str("</tbody></table>");
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        fields(html, document, "Body", body);
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        if !status.starts_with('2') {
            continue;
        }
        let title = format!("Response {status}: {}", text(&response["description"]));
        let schema =
            response["content"].as_object().and_then(|all| all.values().next()).map(|one| &one["schema"]);
        match schema {
            Some(schema) => fields(html, document, &title, schema),
            None => {
                let _ = write!(html, "<p>{}</p>", prose(&title));
            }
        }
    }
    html.push_str("</details>");
}

/// Renders a table of a schema's fields.
fn fields(html: &mut String, document: &Value, title: &str, schema: &Value) {
    let _ = write!(html, "<table><caption>{}</caption><tbody>", prose(title));
    rows(html, document, schema, "", 0);
    html.push_str("</tbody></table>");
    let example = &resolved(document, schema)["example"];
    if !example.is_null() {
        let _ = write!(
            html,
            "<pre>{}</pre>",
            escaped(&serde_json::to_string_pretty(example).unwrap_or_default())
        );
    }
}

fn rows(html: &mut String, document: &Value, schema: &Value, within: &str, depth: usize) {
    let schema = resolved(document, schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        rows(html, document, part, within, depth);
    }
    for part in schema["oneOf"].as_array().into_iter().flatten() {
        rows(html, document, part, within, depth);
    }
    if schema["type"] == "array" || schema["items"].is_object() {
        return rows(html, document, &schema["items"], &format!("{within}[]"), depth);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let full = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
        let class = if required.iter().any(|one| one == name) { " class=\"required\"" } else { "" };
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><code{class}>{}</code></th><td>{}</td><td>{}</td></tr>",
            escaped(&full),
            escaped(&kind(document, field)),
            prose(text(&field["description"])),
        );
        if depth < 2 {
            rows(html, document, field, &full, depth + 1);
        }
    }
}

/// Describes the type of a field in a few words.
fn kind(document: &Value, schema: &Value) -> String {
    let schema = resolved(document, schema);
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(text).filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        let kinds: Vec<_> = parts.iter().map(|part| kind(document, part)).collect();
        return kinds.join(" or ");
    }
    match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" or "),
        one => text(one).to_owned(),
    }
}

/// Returns the schema that a reference points to.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    let pointer = text(&schema["$ref"]).strip_prefix('#').and_then(|pointer| document.pointer(pointer));
    pointer.unwrap_or(schema)
}

fn problems(html: &mut String) {
    html.push_str(
        "<section><h2 id=\"problems\">problems</h2><p>Error responses have the content type \
         <code>application/problem+json</code>.</p><table><thead><tr><th scope=\"col\">code</th>\
         <th scope=\"col\">status</th><th scope=\"col\">meaning</th></tr></thead><tbody>",
    );
    for code in Code::ALL {
        let _ = write!(
            html,
            "<tr id=\"{name}\"><th scope=\"row\"><code>{name}</code></th><td>{}</td><td>{}</td></tr>",
            code.status(),
            prose(code.title()),
            name = code.name(),
        );
    }
    html.push_str("</tbody></table></section>");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Renders text, with `code` where it has backticks.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in text.split('`').enumerate() {
        if place % 2 == 1 {
            let _ = write!(html, "<code>{}</code>", escaped(part));
        } else {
            html.push_str(&escaped(part));
        }
    }
    html
}
