//! Renders the document as an HTML page, without scripts or external resources. Every operation, schema and problem
//! has an anchor.

mod fields;
mod text;

use std::fmt::Write;

use serde_json::Value;

use self::fields::{kind, schema, table};
use self::text::{escaped, prose, text};
use super::curl;
use crate::api::problem::Code;

const STYLE: &str = include_str!("page.css");

/// Allows the page's inline style and nothing else.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Renders the document as HTML.
pub(super) fn page(document: &Value) -> String {
    let mut html = String::with_capacity(512 * 1024);
    let info = &document["info"];
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>\
         <p>Version {version} · <a href=\"openapi.json\">openapi.json</a></p><p>{about}</p>",
        title = escaped(text(&info["title"])),
        version = escaped(text(&info["version"])),
        about = prose(text(&info["description"])),
    );
    html.push_str(
        "<p>Send an API key with each request: <code>Authorization: Bearer bbx_...</code>. A key has scopes: \
         <code>admin</code> includes all others, <code>manage</code> includes <code>read</code>. To run the commands on \
         this page, set the gateway's address and the key: <code>export URL=... KEY=bbx_...</code>; replace the IDs \
         with those of your resources.</p>",
    );
    contents(&mut html, document);
    for tag in tags(document) {
        section(&mut html, document, tag);
    }
    problems(&mut html);
    html.push_str("<section><h2 id=\"schemas\"><a href=\"#schemas\">schemas</a></h2>");
    html.push_str("<p>Fields marked with <span class=\"required\"></span> are required.</p>");
    for (name, component) in document["components"]["schemas"].as_object().into_iter().flatten() {
        schema(&mut html, document, name, component);
    }
    html.push_str("</section></main></body></html>");
    html
}

fn tags(document: &Value) -> impl Iterator<Item = &Value> {
    document["tags"].as_array().into_iter().flatten()
}

/// Returns the operations with this tag: path, method and operation.
fn operations<'d>(
    document: &'d Value,
    tag: &'d Value,
) -> impl Iterator<Item = (&'d str, &'d str, &'d Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| METHODS.map(|method| (path.as_str(), method, &item[method])));
    all.filter(|(_, _, operation)| operation["tags"][0] == tag["name"])
}

fn contents(html: &mut String, document: &Value) {
    html.push_str("<nav aria-label=\"Contents\">");
    for tag in tags(document) {
        let name = escaped(text(&tag["name"]));
        let _ = write!(html, "<details><summary><a href=\"#{name}\">{name}</a></summary><ul>");
        for (_, _, operation) in operations(document, tag) {
            let id = escaped(text(&operation["operationId"]));
            let _ = write!(html, "<li><a href=\"#{id}\">{}</a></li>", escaped(text(&operation["summary"])));
        }
        html.push_str("</ul></details>");
    }
    html.push_str("<p><a href=\"#problems\">problems</a></p><details><summary><a href=\"#schemas\">schemas</a></summary><ul>");
    for name in document["components"]["schemas"].as_object().into_iter().flat_map(|all| all.keys()) {
        let _ = write!(html, "<li><a href=\"#schema-{name}\">{name}</a></li>", name = escaped(name));
    }
    html.push_str("</ul></details></nav>");
}

fn section(html: &mut String, document: &Value, tag: &Value) {
    let _ = write!(
        html,
        "<section><h2 id=\"{name}\"><a href=\"#{name}\">{name}</a></h2><p>{}</p>",
        prose(text(&tag["description"])),
        name = escaped(text(&tag["name"]))
    );
    for (path, method, operation) in operations(document, tag) {
        render_operation(html, document, path, method, operation);
    }
    html.push_str("</section>");
}

fn render_operation(html: &mut String, document: &Value, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        html,
        "<article><h3 id=\"{id}\"><a href=\"#{id}\">{}</a></h3>\
         <p class=\"path\"><span class=\"method {method}\">{}</span> {}",
        escaped(text(&operation["summary"])),
        method.to_uppercase(),
        escaped(path),
        id = escaped(text(&operation["operationId"])),
    );
    let scopes = operation["security"].as_array().into_iter().flatten().map(|one| text(&one["api_key"][0]));
    for scope in scopes.filter(|scope| !scope.is_empty()) {
        let _ = write!(html, " <span class=\"scope\">{}</span>", escaped(scope));
    }
    html.push_str("</p>");
    let description = text(&operation["description"]);
    if !description.is_empty() {
        let _ = write!(html, "<p>{}</p>", prose(description));
    }
    let _ = write!(html, "<pre tabindex=\"0\">{}</pre>", escaped(&curl::command(path, method, operation)));
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let rows = parameters.map(|parameter| {
        let required = parameter["required"] == true;
        let place = format!("{}, {}", escaped(text(&parameter["in"])), kind(&parameter["schema"]));
        (required, text(&parameter["name"]), place, text(&parameter["description"]))
    });
    table(html, "Parameters", rows.collect());
    let body = &operation["requestBody"];
    let sent = &body["content"]["application/json"]["schema"];
    if !sent.is_null() {
        let optional = if body["required"] == true { "" } else { ", optional" };
        let title = format!("Body{optional}: {}", kind(sent));
        table(html, &title, fields::rows(document, sent));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        render_response(html, status, response);
    }
    html.push_str("</article>");
}

fn render_response(html: &mut String, status: &str, response: &Value) {
    let content = response["content"].as_object().and_then(|all| all.iter().next());
    let is_problem = content.is_some_and(|(media, _)| media == "application/problem+json");
    if is_problem {
        return;
    }
    let _ = write!(html, "<p>Response {}: {}", escaped(status), prose(text(&response["description"])));
    let Some((media, content)) = content else {
        html.push_str("</p>");
        return;
    };
    let shown = match &content["example"] {
        Value::String(example) => example.clone(),
        example => serde_json::to_string_pretty(example).unwrap_or_default(),
    };
    let kind = match kind(&content["schema"]) {
        kind if media == "application/json" => kind,
        _ => format!("<code>{}</code>", escaped(media)),
    };
    let _ = write!(
        html,
        " · {kind}</p><details><summary>Example of response {}</summary><pre tabindex=\"0\">{}</pre></details>",
        escaped(status),
        escaped(&shown)
    );
}

fn problems(html: &mut String) {
    html.push_str(
        "<section><h2 id=\"problems\"><a href=\"#problems\">problems</a></h2><p>Error responses have the content type \
         <code>application/problem+json</code> and the schema <a href=\"#schema-Problem\">Problem</a>.</p>\
         <table><thead><tr><th scope=\"col\">code</th>\
         <th scope=\"col\">status</th><th scope=\"col\">meaning</th></tr></thead><tbody>",
    );
    for code in Code::ALL {
        let _ = write!(
            html,
            "<tr id=\"{name}\"><th scope=\"row\"><a href=\"#{name}\"><code>{name}</code></a></th><td>{}</td><td>{}</td></tr>",
            code.status(),
            prose(code.title()),
            name = code.name(),
        );
    }
    html.push_str("</tbody></table></section>");
}
