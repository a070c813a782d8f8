//! The OpenAPI document describes all routes, and nothing else.

use std::collections::BTreeSet;

use breakerbox_gateway::api::{self, Code};
use serde_json::Value;

use super::site::Site;

fn document() -> Value {
    api::document()
}

#[tokio::test]
async fn the_document_and_its_page_are_served_without_a_key() {
    let site = Site::start().await;
    let served = site.get("/openapi.json", "").await.expect(200);
    assert_eq!(served.json(), document());
    assert!(served.json()["openapi"].as_str().unwrap().starts_with("3.1"));
    let page = site.get("/docs", "").await.expect(200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    for never in ["<script", "http://", "//cdn", "src="] {
        assert!(!html.contains(never), "{never}: nothing from elsewhere");
    }
    for (path, _) in document()["paths"].as_object().unwrap() {
        assert!(html.contains(&path.replace('<', "&lt;")), "{path}");
    }
    for code in Code::ALL {
        assert!(html.contains(&format!("id=\"{}\"", code.name())), "{}: problems lead there", code.name());
    }
}

#[tokio::test]
async fn the_root_leads_to_the_page() {
    let site = Site::start().await;
    let root = site.get("/", "").await.expect(307);
    assert_eq!(root.header("location"), "/docs");
}

/// Returns the values of an attribute in HTML.
fn attributes<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let opening = format!(" {name}=\"");
    let rest = html.split(&opening).skip(1).collect::<Vec<_>>();
    rest.into_iter().map(|rest| rest.split('"').next().unwrap()).collect()
}

#[tokio::test]
async fn the_page_has_an_anchor_and_a_command_for_everything() {
    let site = Site::start().await;
    let page = site.get("/docs", "").await.expect(200);
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    let ids = attributes(&html, "id");
    let anchors: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(anchors.len(), ids.len(), "each anchor is there once");
    for link in attributes(&html, "href").into_iter().filter_map(|link| link.strip_prefix('#')) {
        assert!(anchors.contains(link), "{link} leads nowhere");
    }
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(anchors.contains(id), "{id}");
            let article = html.split(&format!("<h3 id=\"{id}\">")).nth(1).unwrap();
            let article = article.split("</article>").next().unwrap();
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let filled = parameters.fold(path.clone(), |path, parameter| {
                let (name, example) = (parameter["name"].as_str().unwrap(), parameter["example"].as_str());
                path.replace(&format!("{{{name}}}"), example.unwrap_or_default())
            });
            assert!(article.contains(&format!("$URL{filled}")), "{id}: {article}");
            assert_eq!(article.contains("--json"), !operation["requestBody"].is_null(), "{id}");
            let is_open = operation["responses"]["401"].is_null();
            assert_eq!(article.contains("Authorization: Bearer $KEY"), !is_open, "{id}");
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(anchors.contains(format!("schema-{name}").as_str()), "{name}");
    }
    let event = html.split("<h3 id=\"schema-NewEvent\">").nth(1).unwrap();
    let (required, optional) =
        (event.find("<code class=\"required\">type<").unwrap(), event.find("<code>content_type<"));
    assert!(required < optional.unwrap(), "required fields come first");
}

/// Returns every path of the router, from its debug output.
fn routed(site: &Site) -> BTreeSet<String> {
    let shown = format!("{:?}", api::router(site.services.clone()));
    let quoted = shown.split('"').skip(1).step_by(2);
    // The output also contains the fallback.
    quoted
        .filter(|text| text.starts_with('/') && *text != "/" && !text.contains("axum"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_route_is_in_the_document_and_the_reverse() {
    let site = Site::start().await;
    let mut described: BTreeSet<String> = document()["paths"].as_object().unwrap().keys().cloned().collect();
    // These two serve the document itself.
    described.extend(["/openapi.json".to_owned(), "/docs".to_owned()]);
    assert_eq!(routed(&site), described);
    for (path, item) in document()["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "patch", "delete"] {
            let filled = path.replace(['{', '}'], "");
            let said = site.request(method.to_uppercase().parse().unwrap(), &filled, "", None).await;
            let is_there = said.status != 405;
            assert_eq!(is_there, !item[method].is_null(), "{method} {path}: {}", said.status);
        }
    }
}

#[test]
fn every_operation_has_its_problems_and_headers() {
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let about = format!("{method} {path}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{about}");
            let open = ["/healthz", "/readyz"].contains(&path.as_str());
            for status in ["401", "403", "429"] {
                assert_eq!(responses.contains_key(status), !open, "{about} {status}");
            }
            for (status, response) in responses {
                assert!(response["headers"]["x-request-id"].is_object(), "{about} {status}");
                if status.starts_with(['4', '5']) && !open {
                    let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/Problem", "{about} {status}");
                }
            }
        }
    }
    // All references resolve.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
}
