//! The effective settings of an endpoint, with their origins.

use http::Method;
use serde_json::{Value, json};

use super::site::Site;

async fn effective(site: &Site, endpoint: &str) -> Value {
    let path = format!("/v1/endpoints/{endpoint}");
    site.get(&path, &site.admin).await.expect(200).json()["effective"].clone()
}

async fn change(site: &Site, path: &str, body: Value) -> Value {
    site.request(Method::PATCH, path, &site.admin, Some(body)).await.expect(200).json()
}

#[track_caller]
fn same(effective: &Value, expected: &[(&str, Value, &str)]) {
    for (name, value, origin) in expected {
        let found = &effective[*name];
        assert_eq!((&found["value"], &found["origin"]), (value, &json!(origin)), "{name}");
    }
}

#[tokio::test]
async fn every_setting_has_its_value_and_its_origin() {
    let site = Site::start().await;
    let endpoint = site.endpoint("acme").await;
    let retry = json!(["5s", "5m", "30m", "2h", "5h", "10h", "10h"]);
    same(
        &effective(&site, &endpoint).await,
        &[
            ("timeout", json!("15s"), "default"),
            ("max_in_flight", json!(64), "default"),
            ("rate", Value::Null, "default"),
            ("retry", retry, "default"),
            ("expires_after", Value::Null, "default"),
            ("circuit_by", json!("endpoint"), "default"),
            ("response_rules", json!({}), "default"),
        ],
    );
    let rules = json!({ "404": { "action": "fail" } });
    let of_tenant = json!({
        "retry": ["1s"], "expires_after": "72h", "circuit_by": "host", "response_rules": rules,
        "policy": { "failures": 20 },
    });
    change(&site, "/v1/tenants/acme", of_tenant).await;
    let shown = effective(&site, &endpoint).await;
    same(
        &shown,
        &[
            ("timeout", json!("15s"), "default"),
            ("retry", json!(["1s"]), "tenant"),
            ("expires_after", json!("72h"), "tenant"),
            ("circuit_by", json!("host"), "tenant"),
            ("response_rules", rules, "tenant"),
        ],
    );
    same(
        &shown["policy"],
        &[
            ("failures", json!(20), "tenant"),
            ("window", json!("1m"), "default"),
            ("probe_timeout", json!("17s"), "timeout"),
        ],
    );
    change(&site, "/v1/tenants/acme", json!({ "circuit_by": "endpoint" })).await;
    let own = json!({
        "timeout": "3s", "max_in_flight": 2, "rate": { "per_second": 5.0, "burst": 1 }, "retry": [],
        "expires_after": "1h", "policy": { "preset": "stoplight" },
    });
    // The response to a change shows the result, too.
    let changed = change(&site, &format!("/v1/endpoints/{endpoint}"), own).await["effective"].clone();
    assert_eq!(changed, effective(&site, &endpoint).await);
    same(
        &changed,
        &[
            ("timeout", json!("3s"), "endpoint"),
            ("max_in_flight", json!(2), "endpoint"),
            ("rate", json!({ "per_second": 5.0, "burst": 1 }), "endpoint"),
            ("retry", json!([]), "endpoint"),
            ("expires_after", json!("1h"), "endpoint"),
        ],
    );
    same(
        &changed["policy"],
        &[("preset", json!("stoplight"), "endpoint"), ("probe_timeout", json!("5s"), "timeout")],
    );
    assert_eq!(changed["policy"]["consecutive_failures"]["origin"], "preset stoplight", "{changed}");
    let listed = site.get("/v1/endpoints", &site.admin).await.expect(200).json();
    assert!(listed["items"][0].get("effective").is_none(), "a listing stays short");
}
