//! Mistakes of the first hour: the answer states what to write instead.

use serde_json::{Value, json};

use super::site::Site;

#[tokio::test]
async fn a_url_without_a_scheme_is_told_to_add_one() {
    let site = Site::start().await;
    let tries = [
        ("/v1/endpoints", json!({})),
        ("/v1/events", json!({ "type": "a.b", "payload": 1 })),
        ("/v1/reminders", json!({ "payload": 1, "every": "1h" })),
    ];
    for (path, body) in tries {
        for url in ["example.com/hook", "localhost:8080/hook"] {
            let mut body = body.clone();
            body["url"] = json!(url);
            let refused = site.post(path, &site.admin, body).await.expect(422).json();
            let detail = "url: has no scheme; add https:// in front of it";
            assert_eq!((&refused["field"], &refused["detail"]), (&json!("url"), &json!(detail)), "{path}");
        }
    }
}

#[tokio::test]
async fn a_duration_without_a_unit_is_told_what_to_write() {
    let site = Site::start().await;
    let needs = |field: &str| {
        json!(format!("{field}: needs a unit; write \"5s\" for 5 seconds, or use the unit ms, m, h or d"))
    };
    for timeout in [json!(5), json!("5")] {
        let body = json!({ "url": "https://a.example/", "timeout": timeout });
        let refused = site.post("/v1/endpoints", &site.admin, body).await.expect(422).json();
        assert_eq!((&refused["field"], &refused["detail"]), (&json!("timeout"), &needs("timeout")));
        let body = json!({ "url": "https://a.example/", "payload": 1, "every": timeout });
        let refused = site.post("/v1/reminders", &site.admin, body).await.expect(422).json();
        assert_eq!((&refused["field"], &refused["detail"]), (&json!("every"), &needs("every")));
        let body = json!({ "id": "new", "policy": { "window": timeout } });
        let refused = site.post("/v1/tenants", &site.admin, body).await.expect(422).json();
        assert!(refused["detail"].as_str().unwrap().contains("write \"5s\" for 5 seconds"), "{refused}");
    }
    // Other types are named as before.
    for timeout in [json!(true), json!(-5), json!(0.5)] {
        let body = json!({ "url": "https://a.example/", "timeout": timeout });
        let refused = site.post("/v1/endpoints", &site.admin, body).await.expect(422).json();
        assert_eq!((&refused["code"], &refused["field"]), (&json!("invalid_field"), &json!("timeout")));
    }
}

#[tokio::test]
async fn a_listing_of_a_tenant_that_does_not_exist_says_so() {
    let site = Site::start().await;
    for path in [
        "/v1/endpoints",
        "/v1/deliveries",
        "/v1/lanes",
        "/v1/circuits",
        "/v1/changes",
        "/v1/reminders",
        "/v1/resends",
        "/v1/notifications",
        "/v1/keys",
    ] {
        let empty = site.get(&format!("{path}?tenant=other"), &site.admin).await.expect(200).json();
        assert_eq!(empty["items"], json!([]), "{path}");
        let refused = site.get(&format!("{path}?tenant=nobody"), &site.admin).await.expect(404).json();
        assert_eq!(
            (&refused["code"], &refused["field"], &refused["detail"]),
            (&json!("tenant_not_found"), &json!("tenant"), &json!("tenant: there is no tenant \"nobody\"")),
            "{path}"
        );
    }
    let event = json!({ "tenant": "nobody", "type": "a.b", "payload": Value::Null });
    assert_eq!(site.post("/v1/events", &site.admin, event).await.expect(404).code(), "tenant_not_found");
}
