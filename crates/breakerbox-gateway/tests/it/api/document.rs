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
fn every_operation_says_enough() {
    let document = document();
    let mut operation_ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let about = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{about}");
            assert!(
                operation_ids.insert(operation["operationId"].to_string()),
                "{about}: {}",
                operation["operationId"]
            );
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
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let description = parameter["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{about}: {}", parameter["name"]);
            }
        }
    }
    assert!(!document.to_string().contains(":null"), "nothing is there without a value");
    // All references resolve.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
}
