//! Adds what all operations have in common: the possible problems, and the headers of every response.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Header, OpenApi, Ref, RefOr, Response, ResponseBuilder};

use crate::api::idempotency::{IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};
use crate::api::problem::{Code, PROBLEM_JSON, Problem};

/// Completes all operations.
pub(super) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            complete_operation(path, method, operation);
        }
    }
}

/// Returns a path's operations and their HTTP methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    [
        ("get", &mut item.get),
        ("post", &mut item.post),
        ("put", &mut item.put),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

fn complete_operation(path: &str, method: &str, operation: &mut Operation) {
    let has_body = operation.request_body.is_some();
    let parameters = serde_json::to_value(&operation.parameters).unwrap_or_default();
    let any = |name: &str, value: &str| {
        parameters.as_array().is_some_and(|all| all.iter().any(|parameter| parameter[name] == value))
    };
    let (has_query, has_header) = (any("in", "query"), any("in", "header"));
    let if_match = any("name", "if-match");
    let is_open = path == "/healthz" || path == "/readyz";
    let changes = matches!(method, "post" | "patch" | "delete");
    for status in [400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 429, 500, 503, 507] {
        let can_be = match status {
            400 => has_body || has_query || has_header,
            401 | 403 | 429 => !is_open,
            404 => path.contains('{') || has_body || has_query,
            408 | 413 | 415 => has_body,
            422 => has_body || path.starts_with("/v1/circuits") && changes,
            409 | 507 => changes,
            412 => if_match,
            _ => true,
        };
        if can_be {
            let responses = &mut operation.responses.responses;
            responses.entry(status.to_string()).or_insert_with(|| RefOr::T(problems(status)));
        }
    }
    let is_keyed = any("name", IDEMPOTENCY_KEY.as_str());
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if let Some(etag) = response.headers.get_mut("etag") {
            *etag = header(Type::String, "The revision of the resource, for `if-match`").into();
        }
        let mut add = |name: &str, about: &str| {
            response.headers.insert(name.to_owned(), header(Type::String, about).into());
        };
        add("x-request-id", "The request's id, also in the gateway's log");
        if is_keyed && status.starts_with('2') {
            let about = "`true` if this is the response to an earlier request with the same key";
            add(IDEMPOTENCY_REPLAYED.as_str(), about);
        }
    }
}

/// Builds the response for this status, with a description that lists its problem codes.
fn problems(status: u16) -> Response {
    let codes: Vec<_> = Code::ALL.iter().filter(|code| code.status() == status).collect();
    let about: Vec<_> = codes.iter().map(|code| format!("`{}`: {}", code.name(), code.title())).collect();
    let example = codes.first().map(|code| Problem::new(**code, code.title()).to_json());
    let content =
        ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).example(example).build();
    let mut response = ResponseBuilder::new().description(about.join("; ")).content(PROBLEM_JSON, content);
    if matches!(status, 429 | 503) {
        let about = "The time to wait before a retry, in seconds, at least 1";
        response = response.header("retry-after", header(Type::Integer, about));
    }
    if status == 401 {
        response = response.header("www-authenticate", header(Type::String, "How to authenticate"));
    }
    response.build()
}

fn header(schema_type: Type, about: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(schema_type);
    HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
}
