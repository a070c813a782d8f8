//! Authorization: every route in the document with every scope, and with another tenant's resources.

use breakerbox_gateway::api;
use breakerbox_model::objects::{Scope, Scopes};
use http::Method;
use serde_json::{Value, json};

use super::site::Site;
use super::things::Things;

/// Returns every operation in the document: method, path, and scopes of which one is needed.
pub(super) fn operations() -> Vec<(Method, String, Vec<String>)> {
    let document = api::document();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let ways = operation["security"].as_array().into_iter().flatten();
            let scopes = ways.filter_map(|way| way["api_key"][0].as_str().map(str::to_owned)).collect();
            operations.push((method.to_uppercase().parse().unwrap(), path.clone(), scopes));
        }
    }
    assert!(operations.len() > 40, "{}", operations.len());
    operations
}

/// Returns a valid body for the route.
pub(super) fn body_for(method: &Method, path: &str) -> Option<Value> {
    if path.starts_with("/v1/circuits/") && *method == Method::POST {
        return Some(json!({ "reason": "test" }));
    }
    (*method == Method::PATCH).then(|| json!({}))
}

#[tokio::test]
async fn each_route_needs_the_scope_that_the_document_says() {
    let site = Site::start().await;
    let things = Things::of(&site, "acme").await;
    let mut refused = 0;
    for (method, path, scopes) in operations() {
        if scopes.is_empty() {
            assert!(["/healthz", "/readyz"].contains(&path.as_str()), "{path} is open");
            continue;
        }
        let wanted: Vec<Scope> =
            Scope::ALL.into_iter().filter(|one| scopes.iter().any(|name| one.name() == name)).collect();
        assert_eq!(wanted.len(), scopes.len(), "{method} {path}: {scopes:?}");
        let filled = things.fill(&path);
        let unknown = site.request(method.clone(), &filled, "", body_for(&method, &path)).await;
        assert!([401, 429].contains(&unknown.status.as_u16()), "{method} {path}: {unknown:?}");
        for given in Scope::ALL {
            let key = site.key(&[given], None).await;
            if wanted.iter().any(|wanted| Scopes::of(&[given]).allow(*wanted)) {
                // If one of several scopes is enough, each of them is.
                if wanted.len() > 1 {
                    let said = site.request(method.clone(), &filled, &key, body_for(&method, &path)).await;
                    assert_ne!(said.code(), "scope_missing", "{method} {path} with {}", given.name());
                }
                continue;
            }
            let said = site.request(method.clone(), &filled, &key, body_for(&method, &path)).await;
            assert_eq!(said.status, 403, "{method} {path} with {}: {said:?}", given.name());
            assert_eq!(said.code(), "scope_missing");
            let detail = said.json()["detail"].as_str().unwrap().to_owned();
            let named = scopes.iter().all(|scope| detail.contains(&format!("`{scope}`")));
            assert!(named, "{method} {path}: {detail}");
            refused += 1;
        }
    }
    assert!(refused > 70, "{refused}");
}

#[tokio::test]
async fn another_tenants_things_are_not_there() {
    let site = Site::start().await;
    let theirs = Things::of(&site, "other").await;
    let never = Things(vec![
        ("{tenant}", "never".to_owned()),
        ("{endpoint}", "ep_0000000000007".to_owned()),
        ("{event}", "evt_0000000000007".to_owned()),
        ("{delivery}", "dlv_0000000000007".to_owned()),
        ("{circuit}", "cir_bmV2ZXIgaHR0cHM6Ly9hLmV4YW1wbGU".to_owned()),
        ("{resend}", "job_0000000000007".to_owned()),
        ("{reminder}", "rem_0000000000007".to_owned()),
        ("{key}", "key_0000000000007".to_owned()),
    ]);
    let ours = site.key(&[Scope::Admin], Some("acme")).await;
    let mut tried = 0;
    for (method, path, _) in operations() {
        if !path.contains('{') {
            continue;
        }
        let mut answers = Vec::new();
        for things in [&theirs, &never] {
            let filled = things.fill(&path);
            let said = site.request(method.clone(), &filled, &ours, body_for(&method, &path)).await;
            assert_eq!(
                (said.status.as_u16(), said.code().as_str()),
                (404, "not_found"),
                "{method} {filled}: {said:?}"
            );
            let id = filled.split('/').nth(3).unwrap();
            answers.push(said.json()["detail"].as_str().unwrap().replace(id, "ID"));
        }
        assert_eq!(answers[0], answers[1], "{method} {path}: it shows that there is one");
        tried += 1;
    }
    assert!(tried > 25, "{tried}");
    // None of the requests had an effect.
    let endpoint = theirs.fill("/v1/endpoints/{endpoint}");
    let shown = site.get(&endpoint, &site.admin).await.expect(200).json();
    assert_eq!((&shown["enabled"], &shown["circuit"]["state"]), (&json!(true), &json!("closed")));
    let delivery = site.get(&theirs.fill("/v1/deliveries/{delivery}"), &site.admin).await.expect(200).json();
    assert_eq!(delivery["state"], "pending");
    let reminder = site.get(&theirs.fill("/v1/reminders/{reminder}"), &site.admin).await.expect(200);
    assert_eq!((reminder.json()["state"].as_str(), reminder.header("etag")), (Some("active"), "\"1\""));
    assert_eq!(site.get(&theirs.fill("/v1/keys/{key}"), &site.admin).await.json()["revoked_at"], Value::Null);
}

#[tokio::test]
async fn listings_show_ones_own_and_naming_another_tenant_is_refused() {
    let site = Site::start().await;
    Things::of(&site, "other").await;
    let ours = site.key(&[Scope::Admin], Some("acme")).await;
    for path in ["endpoints", "deliveries", "resends", "reminders", "circuits", "changes"] {
        let listed = site.get(&format!("/v1/{path}"), &ours).await.expect(200).json();
        assert_eq!(listed["items"], json!([]), "{path}");
        for tenant in ["other", "never"] {
            let said = site.get(&format!("/v1/{path}?tenant={tenant}"), &ours).await.expect(403);
            assert_eq!(said.code(), "tenant_mismatch", "{path}");
        }
        site.get(&format!("/v1/{path}?tenant=acme"), &ours).await.expect(200);
    }
    let tenants = site.get("/v1/tenants", &ours).await.expect(200).json();
    assert_eq!((tenants["items"].as_array().unwrap().len(), &tenants["items"][0]["id"]), (1, &json!("acme")));
    let keys = site.get("/v1/keys", &ours).await.expect(200).json();
    assert!(keys["items"].as_array().unwrap().iter().all(|key| key["tenant"] == "acme"));

    for (path, body) in [
        ("/v1/events", json!({ "tenant": "other", "type": "a", "payload": 1 })),
        ("/v1/events/batch", json!({ "tenant": "other", "events": [{ "type": "a", "payload": 1 }] })),
        ("/v1/endpoints", json!({ "tenant": "other", "url": "https://a.example" })),
        ("/v1/resends", json!({ "tenant": "other" })),
        (
            "/v1/reminders",
            json!({ "tenant": "other", "url": "https://a.example", "payload": 1, "every": "1h" }),
        ),
        (
            "/v1/reminders/batch",
            json!({ "tenant": "other", "reminders": [{ "url": "https://a.example", "payload": 1, "every": "1h" }] }),
        ),
        ("/v1/keys", json!({ "tenant": "other", "name": "x", "scopes": ["read"] })),
    ] {
        let said = site.post(path, &ours, body).await.expect(403);
        assert_eq!(
            (said.code().as_str(), &said.json()["field"]),
            ("tenant_mismatch", &json!("tenant")),
            "{path}"
        );
    }
    assert_eq!(
        site.post("/v1/tenants", &ours, json!({ "id": "mine" })).await.expect(403).code(),
        "tenant_mismatch"
    );
    let own =
        site.post("/v1/keys", &ours, json!({ "name": "x", "scopes": ["admin"] })).await.expect(201).json();
    assert_eq!(own["tenant"], "acme", "nobody gives away more than they have");
}

#[tokio::test]
async fn other_tenants_ids_in_bodies_and_queries_lead_nowhere() {
    let site = Site::start().await;
    let theirs = Things::of(&site, "other").await;
    let ours = site.key(&[Scope::Manage], Some("acme")).await;
    let endpoint = theirs.fill("{endpoint}");
    let event = theirs.fill("{event}");
    for query in [format!("endpoint={endpoint}"), format!("event={event}")] {
        let listed = site.get(&format!("/v1/deliveries?{query}"), &ours).await.expect(200).json();
        assert_eq!(listed["items"], json!([]), "{query}");
    }
    for body in [json!({ "endpoint": endpoint }), json!({ "event": event })] {
        let said = site.post("/v1/resends", &ours, body.clone()).await;
        assert_eq!(said.status, 404, "{body}: {said:?}");
    }
}

#[tokio::test]
async fn only_admins_change_policy_circuit_by_limits_and_response_rules() {
    let site = Site::start().await;
    let manager = site.key(&[Scope::Manage], Some("acme")).await;
    let change = json!({ "name": "Acme", "enabled": true, "retry": ["1s"], "expires_after": "1h",
        "reminders": { "retry": ["1s"], "when_failed": "next_run", "catch_up": "latest", "timeout": "3s", "max_in_flight": 3 } });
    site.request(Method::PATCH, "/v1/tenants/acme", &manager, Some(change)).await.expect(200);
    for (field, value) in [
        ("policy", json!({ "failures": 3 })),
        ("policy", Value::Null),
        ("circuit_by", json!("tenant")),
        ("backlog", json!({ "count": 9, "bytes": 9 })),
        ("ingest_rate", Value::Null),
        ("response_rules", json!({})),
        ("reminders", Value::Null),
        ("reminders", json!({ "policy": { "failures": 3 } })),
        ("reminders", json!({ "circuit_by": "host" })),
        ("reminders", json!({ "response_rules": {} })),
        ("reminders", json!({ "limit": null })),
    ] {
        let said =
            site.request(Method::PATCH, "/v1/tenants/acme", &manager, Some(json!({ field: value }))).await;
        let said = said.expect(403);
        assert_eq!(said.code(), "scope_missing");
        assert!(said.json()["detail"].as_str().unwrap().contains(field));
    }
    let body = json!({ "url": "https://a.example", "policy": { "failures": 3 } });
    site.post("/v1/endpoints", &manager, body).await.expect(403);
    let created =
        site.post("/v1/endpoints", &manager, json!({ "url": "https://a.example" })).await.expect(201).json();
    let path = format!("/v1/endpoints/{}", created["id"].as_str().unwrap());
    site.request(Method::PATCH, &path, &manager, Some(json!({ "policy": null }))).await.expect(403);
    site.request(Method::PATCH, &path, &manager, Some(json!({ "timeout": "9s" }))).await.expect(200);
}
