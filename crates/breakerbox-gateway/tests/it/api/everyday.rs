//! Everyday use of the API, from end to end.

use breakerbox_model::objects::Scope;
use breakerbox_storage::records::Resends;
use http::Method;
use serde_json::{Value, json};

use super::site::Site;

#[tokio::test]
async fn a_tenant_from_beginning_to_end() {
    let site = Site::start().await;
    let admin = &site.admin;
    let body = json!({
        "id": "shop", "name": "The shop", "policy": { "window": "2m", "failures": 9 }, "circuit_by": "host",
        "retry": ["1s", "1m"], "backlog": { "count": 10, "bytes": 1000 }, "ingest_rate": { "per_second": 5, "burst": 2 },
        "expires_after": "72h", "response_rules": { "404": { "action": "fail" } },
    });
    let created = site.post("/v1/tenants", admin, body).await.expect(201);
    assert_eq!(created.header("etag"), "\"1\"");
    let shown = site.get("/v1/tenants/shop", admin).await.expect(200).json();
    assert_eq!(shown, created.json());
    assert_eq!(shown["policy"], json!({ "window": "2m", "failures": 9 }));
    assert_eq!((&shown["retry"], &shown["expires_after"]), (&json!(["1s", "1m"]), &json!("72h")));
    assert_eq!(shown["response_rules"]["404"]["action"], "fail");

    site.post("/v1/tenants", admin, json!({ "id": "shop" })).await.expect(409);
    let change = json!({ "name": "A shop", "policy": null, "enabled": false });
    let changed = site.request(Method::PATCH, "/v1/tenants/shop", admin, Some(change)).await.expect(200);
    assert_eq!(changed.header("etag"), "\"2\"");
    let changed = changed.json();
    assert_eq!((&changed["name"], &changed["policy"]), (&json!("A shop"), &Value::Null));
    assert_eq!(
        (&changed["enabled"], &changed["circuit_by"]),
        (&json!(false), &json!("host")),
        "what is left out stays"
    );

    let old = http::Request::builder()
        .method(Method::PATCH)
        .header("authorization", format!("Bearer {admin}"))
        .header("content-type", "application/json")
        .header("if-match", "\"1\"");
    let refused = site.send(old, "/v1/tenants/shop", r#"{"name":"mine"}"#).await.expect(412);
    assert_eq!(refused.code(), "revision_mismatch");

    let ids = |list: Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tenant| tenant["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        ids(site.get("/v1/tenants", admin).await.expect(200).json()),
        ["acme", "default", "other", "shop"]
    );
    let first = site.get("/v1/tenants?limit=3", admin).await.expect(200).json();
    let rest =
        site.get(&format!("/v1/tenants?limit=3&cursor={}", first["next"].as_str().unwrap()), admin).await;
    assert_eq!(ids(rest.expect(200).json()), ["shop"]);

    site.request(Method::DELETE, "/v1/tenants/shop", admin, None).await.expect(204);
    assert_eq!(site.get("/v1/tenants/shop", admin).await.expect(404).code(), "not_found");
    let endpoint = site.endpoint("acme").await;
    let in_use = site.request(Method::DELETE, "/v1/tenants/acme", admin, None).await.expect(409);
    assert_eq!(in_use.code(), "invalid_state", "it has {endpoint}");
}

#[tokio::test]
async fn an_endpoint_from_beginning_to_end() {
    let site = Site::start().await;
    let admin = &site.admin;
    let body = json!({
        "tenant": "acme", "url": "HTTPS://Hooks.Example.com/in?a=1", "description": "billing", "types": ["invoice.*"],
        "headers": { "Authorization": "Bearer hunter2" }, "timeout": "3s", "max_in_flight": 4,
        "rate": { "per_second": 0.5, "burst": 3 }, "policy": { "failures": 3 },
    });
    let created = site.post("/v1/endpoints", admin, body).await.expect(201).json();
    assert!(created["secret"].as_str().unwrap().starts_with("whsec_"));
    let id = created["id"].as_str().unwrap();
    let path = format!("/v1/endpoints/{id}");
    let shown = site.get(&path, admin).await.expect(200);
    assert!(!String::from_utf8_lossy(&shown.body).contains("hunter2"), "header values are not shown");
    let shown = shown.json();
    assert_eq!(shown["secret"], Value::Null, "nor the secret");
    assert_eq!(shown["header_names"], json!(["authorization"]));
    assert_eq!((&shown["enabled"], &shown["types"]), (&json!(true), &json!(["invoice.*"])));
    assert_eq!(shown["circuit"]["key"], "acme https://hooks.example.com/in");
    assert_eq!(shown["circuit"]["state"], "closed");

    let change = json!({ "url": "https://new.example.com/", "rate": null, "types": [] });
    let changed = site.request(Method::PATCH, &path, admin, Some(change)).await.expect(200).json();
    assert_eq!(changed["circuit"]["key"], "acme https://new.example.com");
    assert_eq!(
        (&changed["rate"], &changed["timeout"], &changed["types"]),
        (&Value::Null, &json!("3s"), &json!([]))
    );

    let secrets = site.get(&format!("{path}/secrets"), admin).await.expect(200);
    assert_eq!(secrets.header("cache-control"), "no-store");
    assert_eq!(secrets.json()["secrets"][0]["secret"], created["secret"]);
    let rotated =
        site.request(Method::POST, &format!("{path}/secrets/rotate"), admin, None).await.expect(200).json();
    assert_eq!(rotated["secrets"].as_array().unwrap().len(), 2);
    assert_eq!(rotated["secrets"][1]["secret"], created["secret"]);
    let null = site.post(&format!("{path}/secrets/rotate"), admin, serde_json::Value::Null).await;
    assert_eq!(null.expect(422).code(), "invalid_field", "a body may be omitted, but not null");
    let own = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let body = json!({ "secret": own, "overlap": "0s" });
    let leaked = site.post(&format!("{path}/secrets/rotate"), admin, body).await.expect(200).json();
    assert_eq!(leaked["secrets"].as_array().unwrap().len(), 1);
    assert_eq!(leaked["secrets"][0]["secret"], own);

    let tested =
        site.post(&format!("{path}/test"), admin, json!({ "payload": [1] })).await.expect(200).json();
    assert_eq!(
        (&tested["ok"], &tested["status"], &tested["latency_ms"]),
        (&json!(false), &json!(418), &json!(12))
    );
    assert_eq!(tested["response"], format!("I am {id}"));
    assert_eq!(site.stand_in.tested.lock().unwrap()[0].payload, "[1]");

    let disabled =
        site.request(Method::POST, &format!("{path}/disable"), admin, None).await.expect(200).json();
    assert_eq!((&disabled["enabled"], &disabled["disabled_reason"]), (&json!(false), &json!("owner")));
    site.event("acme").await;
    let parked = site.get(&format!("/v1/deliveries?endpoint={id}"), admin).await.expect(200).json();
    assert_eq!(
        (&parked["items"][0]["state"], &parked["items"][0]["parked"]),
        (&json!("pending"), &json!(true))
    );
    let enabled = site.request(Method::POST, &format!("{path}/enable"), admin, None).await.expect(200).json();
    assert_eq!((&enabled["enabled"], &enabled["disabled_reason"]), (&json!(true), &Value::Null));

    let listed = site.get("/v1/endpoints?tenant=acme", admin).await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(site.get("/v1/endpoints?tenant=other", admin).await.expect(200).json()["items"], json!([]));
    let deleted = site.request(Method::DELETE, &path, admin, None).await.expect(200).json();
    assert_eq!(deleted["cancelled"], 1);
    site.get(&path, admin).await.expect(404);
}

#[tokio::test]
async fn deliveries_are_found_cancelled_and_resent() {
    let site = Site::start().await;
    let admin = &site.admin;
    let endpoint = site.endpoint("acme").await;
    let events = [site.event("acme").await, site.event("acme").await];
    let all = site.get("/v1/deliveries?tenant=acme", admin).await.expect(200).json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let one = site.get(&format!("/v1/deliveries?event={}", events[0]), admin).await.expect(200).json();
    let delivery = one["items"][0].clone();
    assert_eq!((&delivery["endpoint"], &delivery["state"]), (&json!(endpoint), &json!("pending")));
    assert_eq!((&delivery["attempts"], &delivery["parked"]), (&json!(0), &json!(false)));
    for (filter, found) in [
        ("state=pending", 2),
        ("state=failed", 0),
        ("type=invoice.paid", 2),
        ("type=user.created", 0),
        ("from=2020-01-01T00:00:00Z", 2),
        ("until=2020-01-01T00:00:00Z", 0),
        ("tenant=other", 0),
    ] {
        let listed = site.get(&format!("/v1/deliveries?{filter}"), admin).await.expect(200).json();
        assert_eq!(listed["items"].as_array().unwrap().len(), found, "{filter}");
    }
    let path = format!("/v1/deliveries/{}", delivery["id"].as_str().unwrap());
    assert_eq!(site.get(&path, admin).await.expect(200).json(), delivery);
    assert_eq!(site.get(&format!("{path}/attempts"), admin).await.expect(200).json()["items"], json!([]));

    let early = site.request(Method::POST, &format!("{path}/resend"), admin, None).await.expect(409);
    assert_eq!(early.code(), "invalid_state");
    let cancelled =
        site.request(Method::POST, &format!("{path}/cancel"), admin, None).await.expect(200).json();
    assert_eq!(cancelled["state"], "cancelled");
    assert!(cancelled["finished_at"].is_string());
    site.request(Method::POST, &format!("{path}/cancel"), admin, None).await.expect(409);
    let again = site.request(Method::POST, &format!("{path}/resend"), admin, None).await.expect(200).json();
    assert_eq!((&again["state"], &again["finished_at"]), (&json!("pending"), &Value::Null));

    let shown = site.get(&format!("/v1/events/{}", events[0]), admin).await.expect(200).json();
    assert_eq!((&shown["type"], &shown["payload"]), (&json!("invoice.paid"), &json!({ "n": 7 })));
}

/// Submits an event, cancels its delivery, and returns the delivery's id.
async fn cancelled_delivery(site: &Site, tenant: &str) -> String {
    let event = site.event(tenant).await;
    let listed = site.get(&format!("/v1/deliveries?event={event}"), &site.admin).await.expect(200).json();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    site.request(Method::POST, &format!("/v1/deliveries/{id}/cancel"), &site.admin, None).await.expect(200);
    id
}

async fn states(site: &Site, deliveries: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in deliveries {
        let shown = site.get(&format!("/v1/deliveries/{id}"), &site.admin).await.expect(200).json();
        states.push(shown["state"].as_str().unwrap().to_owned());
    }
    states
}

#[tokio::test]
async fn a_resend_by_filter_is_a_job() {
    let site = Site::start().await;
    let manager = site.key(&[Scope::Manage], Some("acme")).await;
    let (endpoint, _) = (site.endpoint("acme").await, site.endpoint("other").await);
    let mut deliveries = Vec::new();
    for _ in 0..3 {
        deliveries.push(cancelled_delivery(&site, "acme").await);
    }
    let others = [cancelled_delivery(&site, "other").await];
    let body = json!({ "endpoint": endpoint, "state": "cancelled", "from": "2026-01-01T00:00:00Z" });
    let job = site.post("/v1/resends", &manager, body.clone()).await.expect(201).json();
    assert_eq!(
        (&job["state"], &job["resent"], &job["processed_until"]),
        (&json!("running"), &json!(0), &Value::Null)
    );
    assert_eq!((&job["filter"]["tenant"], &job["filter"]["state"]), (&json!("acme"), &json!("cancelled")));
    assert!(job["created_by"].as_str().unwrap().starts_with("key_"));
    let path = format!("/v1/resends/{}", job["id"].as_str().unwrap());
    assert_eq!(site.get(&path, &manager).await.expect(200).json(), job);
    let listed = site.get("/v1/resends", &manager).await.expect(200).json();
    assert_eq!(listed["items"][0]["id"], job["id"]);

    // In steps, as maintenance does: oldest first.
    assert_eq!(site.records.step_resends(1).await.unwrap().done, 1);
    assert_eq!(states(&site, &deliveries).await, ["pending", "cancelled", "cancelled"]);
    let begun = site.get(&path, &manager).await.expect(200).json();
    assert_eq!((&begun["state"], &begun["resent"]), (&json!("running"), &json!(1)));
    assert!(begun["processed_until"].is_string(), "{begun}");
    while site.records.step_resends(1).await.unwrap().more {}
    assert_eq!(states(&site, &deliveries).await, ["pending"; 3]);
    assert_eq!(states(&site, &others).await, ["cancelled"], "it is another tenant's");
    let done = site.get(&path, &manager).await.expect(200).json();
    assert_eq!(
        (&done["state"], &done["resent"], &done["skipped"]),
        (&json!("done"), &json!(3), &json!(0)),
        "{done}"
    );
    assert!(done["finished_at"].is_string());

    let another = site.post("/v1/resends", &manager, body).await.expect(201).json();
    let path = format!("/v1/resends/{}/cancel", another["id"].as_str().unwrap());
    let cancelled = site.request(Method::POST, &path, &manager, None).await.expect(200).json();
    assert_eq!(cancelled["state"], "cancelled");
}

#[tokio::test]
async fn a_resend_says_whose_deliveries_it_takes() {
    let site = Site::start().await;
    let (endpoint, event) = (site.endpoint("acme").await, site.event("acme").await);
    // A listing without a tenant covers all tenants. A resend must not silently choose one of them.
    for body in
        [json!({}), json!({ "from": "2026-01-01T00:00:00Z" }), json!({ "state": "failed", "type": "a" })]
    {
        let said = site.post("/v1/resends", &site.admin, body).await.expect(422);
        assert_eq!((said.code().as_str(), &said.json()["field"]), ("missing_field", &json!("tenant")));
        assert!(said.json()["detail"].as_str().unwrap().contains("`endpoint` or `event`"), "{said:?}");
    }
    for body in [json!({ "tenant": "acme" }), json!({ "endpoint": endpoint }), json!({ "event": event })] {
        let job = site.post("/v1/resends", &site.admin, body).await.expect(201).json();
        assert_eq!(job["filter"]["tenant"], "acme");
    }
    for body in
        [json!({ "tenant": "other", "endpoint": endpoint }), json!({ "tenant": "other", "event": event })]
    {
        assert_eq!(site.post("/v1/resends", &site.admin, body).await.expect(404).code(), "not_found");
    }
    let own = site.key(&[Scope::Manage], Some("acme")).await;
    let job = site.post("/v1/resends", &own, json!({ "type": "a" })).await.expect(201).json();
    assert_eq!(job["filter"]["tenant"], "acme");
}

#[tokio::test]
async fn keys_are_shown_once_and_revoked_at_once() {
    let site = Site::start().await;
    let admin = &site.admin;
    let body = json!({ "name": "billing", "scopes": ["send", "read"], "tenant": "acme" });
    let created = site.post("/v1/keys", admin, body).await.expect(201);
    assert_eq!(created.header("cache-control"), "no-store");
    let created = created.json();
    let key = created["key"].as_str().unwrap();
    assert!(key.starts_with("bbx_"));
    let path = format!("/v1/keys/{}", created["id"].as_str().unwrap());
    let shown = site.get(&path, admin).await.expect(200);
    let all = site.get("/v1/keys", admin).await.expect(200);
    for said in [&shown, &all] {
        assert!(!String::from_utf8_lossy(&said.body).contains(&key[4..]), "it is shown once");
    }
    assert_eq!(shown.json()["scopes"], json!(["read", "send"]));

    let event = json!({ "type": "a", "payload": 1 });
    site.post("/v1/events", key, event.clone()).await.expect(202);
    site.request(Method::POST, &format!("{path}/revoke"), admin, None).await.expect(200);
    assert_eq!(site.post("/v1/events", key, event).await.expect(401).code(), "unauthenticated");

    let past = json!({ "name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z" });
    assert_eq!(site.post("/v1/keys", admin, past).await.expect(422).json()["field"], "expires_at");
    let of_nobody = json!({ "name": "x", "scopes": ["read"], "tenant": "nobody" });
    site.post("/v1/keys", admin, of_nobody).await.expect(404);
}

#[tokio::test]
async fn health_says_what_is_wrong() {
    let site = Site::start().await;
    assert_eq!(site.get("/healthz", "").await.expect(200).json()["status"], "ok");
    assert_eq!(site.get("/readyz", "").await.expect(200).json()["status"], "ok");
    site.stand_in.health.lock().unwrap().degraded.push("store: does not answer".to_owned());
    let degraded = site.get("/readyz", "").await.expect(200).json();
    assert_eq!(
        (&degraded["status"], &degraded["degraded"][0]),
        (&json!("degraded"), &json!("store: does not answer"))
    );
    site.stand_in.health.lock().unwrap().ready = false;
    assert_eq!(site.get("/readyz", "").await.expect(503).json()["status"], "unavailable");

    assert_eq!(site.get("/metrics", "").await.expect(401).code(), "unauthenticated");
    let metrics = site.get("/metrics", &site.admin).await.expect(200);
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(!String::from_utf8(metrics.body.to_vec()).unwrap().contains("# EOF"));
    let bound = site.key(&[Scope::Admin], Some("acme")).await;
    assert_eq!(site.get("/metrics", &bound).await.expect(403).code(), "tenant_mismatch");
}

#[tokio::test]
async fn events_are_listed_without_their_payloads_and_a_tenant_sees_its_own() {
    let site = Site::start().await;
    for tenant in ["acme", "other"] {
        site.endpoint(tenant).await;
        site.event(tenant).await;
        let body = json!({ "tenant": tenant, "type": "x.y", "payload": [1, 2], "url": "https://dynamic.example/x", "priority": "high" });
        site.post("/v1/events", &site.admin, body).await.expect(202);
    }
    // The run of a reminder is not a submitted event.
    site.reminder("acme").await;
    site.fire().await;
    let mut path = "/v1/events?limit=3".to_owned();
    let mut found = Vec::new();
    loop {
        let page = site.get(&path, &site.admin).await.expect(200).json();
        found.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/events?limit=3&cursor={next}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    let newest = &found[0];
    assert_eq!(
        (&newest["tenant"], &newest["type"], &newest["priority"]),
        (&json!("other"), &json!("x.y"), &json!("high"))
    );
    assert_eq!((&newest["payload_bytes"], &newest["deliveries"]), (&json!(5), &json!(1)));
    assert_eq!((&newest["url"], newest.get("payload")), (&json!("https://dynamic.example/x"), None));
    let shown = site
        .get(&format!("/v1/events/{}", newest["id"].as_str().unwrap()), &site.admin)
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&shown["accepted_at"], &shown["content_type"]),
        (&newest["accepted_at"], &newest["content_type"])
    );

    let acme = site.key(&[Scope::Read], Some("acme")).await;
    let own = site.get("/v1/events?type=x.y", &acme).await.expect(200).json();
    let own = own["items"].as_array().unwrap();
    assert_eq!((own.len(), &own[0]["tenant"]), (1, &json!("acme")));
    site.get("/v1/events?tenant=other", &acme).await.expect(403);
    site.get("/v1/events?cursor=nonsense", &site.admin).await.expect(400);
    let later = site.get("/v1/events?from=2999-01-01T00:00:00Z", &site.admin).await.expect(200).json();
    assert_eq!(later["items"], json!([]));
    let sender = site.key(&[Scope::Send], Some("acme")).await;
    site.get("/v1/events", &sender).await.expect(403);
}
