//! Values that are refused on creation because they could never be used: addresses that are never called, and names
//! that no path can contain.

use http::Method;
use serde_json::{Value, json};

use super::site::Site;

const PRIVATE: &str = "http://10.0.0.7/in";

/// Checks that a URL is refused as a private address, with the field and advice.
#[track_caller]
fn is_refused(problem: &Value, field: &str) {
    let detail = problem["detail"].as_str().unwrap();
    assert_eq!((&problem["code"], &problem["field"]), (&json!("invalid_field"), &json!(field)), "{detail}");
    assert!(detail.contains("10.0.0.7 is a private address (10.0.0.0/8)"), "{detail}");
    assert!(detail.contains("--allow 10.0.0.7"), "{detail}");
}

#[tokio::test]
async fn an_address_that_is_never_called_is_refused_wherever_a_url_is_given() {
    let site = Site::start().await;
    let endpoint = format!("/v1/endpoints/{}", site.endpoint("acme").await);
    let reminder = format!("/v1/reminders/{}", site.reminder("acme").await);
    let event = json!({ "type": "a.b", "payload": 1, "url": PRIVATE });
    let remind = json!({ "url": PRIVATE, "payload": 1, "at": "2099-01-01T00:00:00Z" });
    let targets = json!([{ "kind": "webhook", "url": PRIVATE }]);
    for (method, path, body, field) in [
        (Method::POST, "/v1/endpoints", json!({ "url": PRIVATE }), "url"),
        (Method::PATCH, &*endpoint, json!({ "url": PRIVATE }), "url"),
        (Method::POST, "/v1/events", event.clone(), "url"),
        (Method::POST, "/v1/events/batch", json!({ "events": [event] }), "events[0].url"),
        (Method::POST, "/v1/reminders", remind.clone(), "url"),
        (Method::POST, "/v1/reminders/batch", json!({ "reminders": [remind] }), "reminders[0].url"),
        (Method::PATCH, &*reminder, json!({ "url": PRIVATE }), "url"),
        (
            Method::POST,
            "/v1/tenants",
            json!({ "id": "new", "notification_targets": targets }),
            "notification_targets[0].url",
        ),
        (
            Method::PATCH,
            "/v1/tenants/acme",
            json!({ "notification_targets": targets }),
            "notification_targets[0].url",
        ),
    ] {
        let said = site.request(method, path, &site.admin, Some(body)).await.expect(422);
        is_refused(&said.json(), field);
    }
    // An address that the operator allows, and a host name, whatever it resolves to.
    for url in ["http://127.0.0.1:9/in", "https://localhost/in"] {
        site.post("/v1/endpoints", &site.admin, json!({ "url": url })).await.expect(201);
    }
}

#[tokio::test]
async fn a_tenant_can_not_have_a_name_of_dots() {
    let site = Site::start().await;
    for id in [".", "..", "..."] {
        let said = site.post("/v1/tenants", &site.admin, json!({ "id": id })).await.expect(422);
        assert_eq!(said.json()["field"], "id", "{id}");
    }
    for id in [".a", "a.", "-", "a..b"] {
        site.post("/v1/tenants", &site.admin, json!({ "id": id })).await.expect(201);
        site.request(Method::DELETE, &format!("/v1/tenants/{id}"), &site.admin, None).await.expect(204);
    }
}
