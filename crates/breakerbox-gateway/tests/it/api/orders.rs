//! Circuits: how they are shown, and operator overrides.

use breakerbox_model::objects::Scope;
use http::Method;
use serde_json::{Value, json};

use super::site::Site;

#[tokio::test]
async fn orders_are_followed_in_the_callers_name() {
    let site = Site::start().await;
    let endpoint = site.endpoint("acme").await;
    let manager = site.key(&[Scope::Manage], Some("acme")).await;
    let shown = site.get(&format!("/v1/endpoints/{endpoint}"), &manager).await.expect(200).json();
    let path = format!("/v1/circuits/{}", shown["circuit"]["id"].as_str().unwrap());

    let untouched = site.get(&path, &manager).await.expect(200).json();
    assert_eq!((&untouched["state"], &untouched["changed_at"]), (&json!("closed"), &Value::Null));
    assert_eq!((&untouched["window"]["calls"], &untouched["policy"]["window"]), (&json!(0), &json!("1m")));
    assert!(site.circuits.find("acme https://hooks.acme.example/in").is_none(), "looking makes none");

    for (order, state, mode) in [
        ("force_open", "open", "forced_open"),
        ("force_closed", "closed", "forced_closed"),
        ("disable", "disabled", "disabled"),
        ("enable", "open", "automatic"),
        ("force_open", "open", "forced_open"),
        ("release", "open", "automatic"),
        ("reset", "closed", "automatic"),
    ] {
        let body = json!({ "reason": format!("trying {order}") });
        let after = site.post(&format!("{path}/{order}"), &manager, body).await.expect(200).json();
        assert_eq!((&after["state"], &after["mode"]["name"]), (&json!(state), &json!(mode)), "{order}");
        if mode != "automatic" {
            assert!(after["mode"]["actor"].as_str().unwrap().starts_with("key_"));
            assert_eq!(after["mode"]["reason"], format!("trying {order}"));
        }
        assert_eq!(after["cause"], order);
    }
    for body in [
        json!({}),
        json!({ "reason": "" }),
        json!({ "reason": "a\nb" }),
        json!({ "reason": "x".repeat(2_000) }),
    ] {
        let said = site.post(&format!("{path}/reset"), &manager, body).await.expect(422);
        assert_eq!(said.json()["field"], "reason");
    }
}

#[tokio::test]
async fn an_endpoint_shows_that_its_circuit_is_disabled_and_enabling_clears_it() {
    let site = Site::start().await;
    let endpoint = site.endpoint("acme").await;
    let path = format!("/v1/endpoints/{endpoint}");
    let shown = site.get(&path, &site.admin).await.expect(200).json();
    let circuit = format!("/v1/circuits/{}", shown["circuit"]["id"].as_str().unwrap());
    site.post(&format!("{circuit}/disable"), &site.admin, json!({ "reason": "broken" })).await.expect(200);
    for listed in [
        site.get(&path, &site.admin).await.expect(200).json(),
        site.get("/v1/endpoints", &site.admin).await.expect(200).json()["items"][0].clone(),
    ] {
        assert_eq!((&listed["enabled"], &listed["disabled_reason"]), (&json!(false), &json!("circuit")));
        assert_eq!(listed["circuit"]["state"], "disabled");
    }
    let enabled =
        site.request(Method::POST, &format!("{path}/enable"), &site.admin, None).await.expect(200).json();
    assert_eq!((&enabled["enabled"], &enabled["disabled_reason"]), (&json!(true), &Value::Null));
    assert_ne!(enabled["circuit"]["state"], "disabled");
    let after = site.get(&circuit, &site.admin).await.expect(200).json();
    assert_eq!(after["mode"]["name"], "automatic");
}

#[tokio::test]
async fn circuits_are_listed_by_state_and_tenant() {
    let site = Site::start().await;
    site.post("/v1/tenants", &site.admin, json!({ "id": "acme-2" })).await.expect(201);
    for (tenant, order) in [("acme", "force_open"), ("acme-2", "disable"), ("other", "force_closed")] {
        let endpoint = site.endpoint(tenant).await;
        let shown = site.get(&format!("/v1/endpoints/{endpoint}"), &site.admin).await.expect(200).json();
        let circuit = shown["circuit"]["id"].as_str().unwrap();
        let path = format!("/v1/circuits/{circuit}/{order}");
        site.post(&path, &site.admin, json!({ "reason": "test" })).await.expect(200);
    }
    let by_tenant = "/v1/tenants/acme";
    site.request(Method::PATCH, by_tenant, &site.admin, Some(json!({ "circuit_by": "tenant" })))
        .await
        .expect(200);
    // The circuit of the whole tenant, whose key is the tenant's name: `cir_` and the base64 of `acme`.
    site.post("/v1/circuits/cir_YWNtZQ/force_open", &site.admin, json!({ "reason": "test" }))
        .await
        .expect(200);
    let keys = |listed: Value| -> Vec<String> {
        let mut keys: Vec<_> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["key"].as_str().unwrap().to_owned())
            .collect();
        keys.sort();
        keys
    };
    let (a, b, o) = (
        "acme https://hooks.acme.example/in",
        "acme-2 https://hooks.acme-2.example/in",
        "other https://hooks.other.example/in",
    );
    for (query, expected) in [
        ("", vec!["acme", a, b, o]),
        ("?state=open", vec!["acme", a]),
        ("?state=disabled", vec![b]),
        ("?state=half_open", vec![]),
        ("?tenant=acme", vec!["acme", a]),
        ("?tenant=acme&state=disabled", vec![]),
        ("?tenant=acme-2", vec![b]),
    ] {
        let listed = site.get(&format!("/v1/circuits{query}"), &site.admin).await.expect(200).json();
        assert_eq!(keys(listed), expected, "{query}");
    }
    let bound = site.key(&[Scope::Read], Some("acme")).await;
    let listed = site.get("/v1/circuits", &bound).await.expect(200).json();
    assert_eq!(keys(listed), ["acme", a], "not those of acme-2");
}
