//! Effective policies: how they are shown, the origin of each value, and changes to single values.

use breakerbox_core::{POLICY_BOUNDS, POLICY_KEYS};
use breakerbox_model::objects::Scope;
use http::{Method, Request};
use serde_json::{Value, json};

use super::site::{Said, Site};

const TENANT: &str = "/v1/tenants/acme/policy";

async fn patch(site: &Site, path: &str, change: Value) -> Said {
    site.request(Method::PATCH, path, &site.admin, Some(change)).await
}

/// Returns the value, the default and the origin for a name.
fn of<'v>(policy: &'v Value, name: &str) -> (&'v Value, &'v Value, &'v str) {
    let found = &policy["policy"][name];
    (&found["value"], &found["default"], found["origin"].as_str().unwrap())
}

#[tokio::test]
async fn every_value_is_shown_with_its_default_and_origin() {
    let site = Site::start().await;
    let shown = site.get(TENANT, &site.admin).await.expect(200).json();
    let names: Vec<&String> = shown["policy"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), POLICY_KEYS.len());
    assert_eq!(of(&shown, "window"), (&json!("1m"), &json!("1m"), "default"));
    assert_eq!(of(&shown, "failures"), (&json!("off"), &json!("off"), "default"));
    assert_eq!(of(&shown, "probe_timeout"), (&json!("17s"), &json!("17s"), "timeout"));
    assert_eq!(of(&shown, "preset"), (&Value::Null, &Value::Null, "default"));
    assert_eq!((&shown["own"], &shown["circuit_by"]), (&Value::Null, &json!("endpoint")));

    let change = json!({ "mean_latency": "5s", "failures": 20, "cool_off": "5m" });
    let changed = patch(&site, TENANT, change.clone()).await.expect(200);
    assert_eq!(changed.header("etag"), "\"2\"");
    let changed = changed.json();
    assert_eq!(of(&changed, "failures"), (&json!(20), &json!("off"), "tenant"));
    assert_eq!(of(&changed, "window"), (&json!("1m"), &json!("1m"), "default"));
    assert_eq!(changed["own"], change);
    assert_eq!(site.get(TENANT, &site.admin).await.expect(200).json(), changed);

    let endpoint = site.endpoint("acme").await;
    let path = format!("/v1/endpoints/{endpoint}/policy");
    let inherited = site.get(&path, &site.admin).await.expect(200).json();
    assert_eq!(of(&inherited, "failures"), (&json!(20), &json!(20), "tenant"));
    assert_eq!((&inherited["decided_by"], &inherited["own"]), (&Value::Null, &Value::Null));
    let own = patch(&site, &path, json!({ "failures": 3, "window": "2m" })).await.expect(200).json();
    assert_eq!(of(&own, "failures"), (&json!(3), &json!(20), "endpoint"));
    assert_eq!(of(&own, "cool_off"), (&json!("5m"), &json!("5m"), "tenant"));
    assert_eq!((&own["decided_by"], &own["endpoint"]), (&json!(endpoint), &json!(endpoint)));
    let timed = json!({ "timeout": "3s" });
    site.request(Method::PATCH, &format!("/v1/endpoints/{endpoint}"), &site.admin, Some(timed))
        .await
        .expect(200);
    let timed = site.get(&path, &site.admin).await.expect(200).json();
    assert_eq!(of(&timed, "probe_timeout"), (&json!("5s"), &json!("5s"), "timeout"));

    let preset = patch(&site, TENANT, json!({ "preset": "stoplight" })).await.expect(200).json();
    assert_eq!(of(&preset, "preset"), (&json!("stoplight"), &Value::Null, "tenant"));
    assert_eq!(of(&preset, "consecutive_failures"), (&json!(3), &json!(5), "preset stoplight"));
    assert_eq!(of(&preset, "failure_rate"), (&json!("off"), &json!(50), "preset stoplight"));
    assert_eq!(of(&preset, "failures"), (&json!(20), &json!("off"), "tenant"), "what it said stays said");
}

#[tokio::test]
async fn a_change_leaves_the_rest_and_null_brings_back_what_is_below() {
    let site = Site::start().await;
    patch(&site, TENANT, json!({ "failures": 20, "window": "2m" })).await.expect(200);
    let changed = patch(&site, TENANT, json!({ "failures": null, "probes": 2 })).await.expect(200).json();
    assert_eq!(of(&changed, "failures"), (&json!("off"), &json!("off"), "default"));
    assert_eq!(changed["own"], json!({ "window": "2m", "probes": 2 }));
    let shown = site.get("/v1/tenants/acme", &site.admin).await.expect(200).json();
    assert_eq!(shown["policy"], changed["own"], "it is the same policy");
    let none = patch(&site, TENANT, json!({ "window": null, "probes": null })).await.expect(200).json();
    assert_eq!(none["own"], Value::Null);
    let nothing = patch(&site, TENANT, json!({})).await.expect(200);
    assert_eq!(nothing.header("etag"), "\"4\"", "nothing changed");

    let stale = Request::builder()
        .method(Method::PATCH)
        .header("authorization", format!("Bearer {}", site.admin))
        .header("content-type", "application/json")
        .header("if-match", "\"2\"");
    let refused = site.send(stale, TENANT, r#"{"probes":9}"#).await.expect(412);
    assert_eq!(refused.code(), "revision_mismatch");
}

#[tokio::test]
async fn what_does_not_fit_is_named_and_nothing_changes() {
    let site = Site::start().await;
    let endpoint = site.endpoint("acme").await;
    let of_endpoint = format!("/v1/endpoints/{endpoint}/policy");
    patch(&site, &of_endpoint, json!({ "cool_off": "5m" })).await.expect(200);
    let before = site.get(TENANT, &site.admin).await.expect(200).json();
    let fits = "change that policy first";
    for (path, change, code, field, says) in [
        (TENANT, json!({ "failurs": 3 }), "unknown_field", "failurs", "did you mean `failures`?"),
        (TENANT, json!({ "failurs": null }), "unknown_field", "failurs", "did you mean `failures`?"),
        (TENANT, json!({ "failures": 0 }), "invalid_field", "failures", "must be 1 to 1000000000"),
        (TENANT, json!({ "failures": "many" }), "invalid_field", "failures", "a whole number or \"off\""),
        (TENANT, json!({ "window": "off" }), "invalid_field", "window", "can't be \"off\""),
        (TENANT, json!({ "window": "1 fortnight" }), "invalid_field", "window", "such as \"30s\""),
        (TENANT, json!({ "preset": "convy" }), "invalid_field", "preset", "did you mean convoy?"),
        (TENANT, json!({ "slow_rate": 5 }), "invalid_field", "slow_rate", "needs slow_call"),
        (
            TENANT,
            json!({ "failure_rate": "off", "consecutive_failures": "off" }),
            "invalid_field",
            "policy",
            "at least one",
        ),
        (TENANT, json!({ "cool_off": "1s", "cool_off_max": "1m" }), "invalid_field", "policy.cool_off", fits),
        (&of_endpoint, json!({ "cool_off_max": "1m" }), "invalid_field", "cool_off", "at most cool_off_max"),
        (&of_endpoint, json!({ "jiter": 3 }), "unknown_field", "jiter", "did you mean `jitter`?"),
    ] {
        let said = patch(&site, path, change.clone()).await.expect(422);
        let problem = said.json();
        assert_eq!((said.code().as_str(), &problem["field"]), (code, &json!(field)), "{change}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{change}: {problem}");
    }
    for wrong in ["[]", "7", "null", r#"{"window":"1m","window":"2m"}"#] {
        let request = Request::builder()
            .method(Method::PATCH)
            .header("authorization", format!("Bearer {}", site.admin))
            .header("content-type", "application/json");
        site.send(request, TENANT, wrong).await.expect(422);
    }
    assert_eq!(site.get(TENANT, &site.admin).await.expect(200).json(), before);
}

/// The core's bounds apply to every notation of a number.
#[tokio::test]
async fn numbers_beyond_their_bounds_are_refused() {
    let site = Site::start().await;
    let reminders = "/v1/tenants/acme/reminders/policy";
    let of_endpoint = format!("/v1/endpoints/{}/policy", site.endpoint("acme").await);
    for (name, bounds) in POLICY_BOUNDS {
        for path in [TENANT, reminders, &of_endpoint] {
            patch(&site, path, json!({ "slow_call": "2s", *name: bounds.end() })).await.expect(200);
            let said = patch(&site, path, json!({ *name: bounds.end() + 1 })).await.expect(422).json();
            assert_eq!(said["field"], *name, "{path}: {said}");
            patch(&site, path, json!({ "slow_call": null, *name: null })).await.expect(200);
        }
        let policy = json!({ "policy": { *name: bounds.end() + 1 } });
        let said =
            site.request(Method::PATCH, "/v1/tenants/acme", &site.admin, Some(policy)).await.expect(422);
        assert_eq!(said.json()["field"], format!("policy.{name}"));
    }
}

#[tokio::test]
async fn managers_look_and_admins_change() {
    let site = Site::start().await;
    let endpoint = site.endpoint("acme").await;
    let (manager, admin) =
        (site.key(&[Scope::Manage], Some("acme")).await, site.key(&[Scope::Admin], Some("acme")).await);
    for path in [TENANT.to_owned(), format!("/v1/endpoints/{endpoint}/policy")] {
        site.get(&path, &manager).await.expect(200);
        let change = || Some(json!({ "probes": 2 }));
        let said = site.request(Method::PATCH, &path, &manager, change()).await.expect(403);
        assert_eq!(said.code(), "scope_missing");
        site.request(Method::PATCH, &path, &admin, change()).await.expect(200);
    }
    site.get("/v1/tenants/other/policy", &manager).await.expect(404);
}

#[tokio::test]
async fn where_a_circuit_is_shared_one_decides_and_it_is_said_which() {
    let site = Site::start().await;
    // Two endpoints with the same URL share a circuit.
    let (older, newer) = (site.endpoint("acme").await, site.endpoint("acme").await);
    let paths = [&older, &newer].map(|id| format!("/v1/endpoints/{id}/policy"));
    let decided = async |path: &str| {
        let shown = site.get(path, &site.admin).await.expect(200).json();
        (shown["decided_by"].clone(), of(&shown, "failures").0.clone())
    };
    patch(&site, &paths[1], json!({ "failures": 7 })).await.expect(200);
    for path in &paths {
        assert_eq!(decided(path).await, (json!(newer), json!(7)), "the only one with its own");
    }
    patch(&site, &paths[0], json!({ "failures": 5 })).await.expect(200);
    patch(&site, &paths[1], json!({ "failures": 9 })).await.expect(200);
    for path in &paths {
        assert_eq!(decided(path).await, (json!(older), json!(5)), "the oldest, whoever was changed last");
    }
    for by in ["host", "tenant"] {
        let change = Some(json!({ "circuit_by": by }));
        site.request(Method::PATCH, "/v1/tenants/acme", &site.admin, change).await.expect(200);
        for path in &paths {
            assert_eq!(decided(path).await, (Value::Null, json!("off")), "{by}: the tenant's holds");
        }
    }
    let change = Some(json!({ "circuit_by": "endpoint" }));
    site.request(Method::PATCH, "/v1/tenants/acme", &site.admin, change).await.expect(200);
    site.request(Method::DELETE, &format!("/v1/endpoints/{older}"), &site.admin, None).await.expect(200);
    assert_eq!(decided(&paths[1]).await, (json!(newer), json!(9)), "and then the next");
}

#[tokio::test]
async fn reminders_have_a_policy_of_their_own() {
    let site = Site::start().await;
    let path = "/v1/tenants/acme/reminders/policy";
    let shown = site.get(path, &site.admin).await.expect(200).json();
    assert_eq!((&shown["purpose"], &shown["circuit_by"]), (&json!("reminders"), &json!("host")));
    assert_eq!(of(&shown, "preset"), (&json!("reminders"), &json!("reminders"), "default"));
    assert_eq!(of(&shown, "mean_latency"), (&json!("5s"), &json!("5s"), "preset reminders"));
    assert_eq!(of(&shown, "cool_off").2, "preset reminders");

    patch(&site, TENANT, json!({ "failures": 30 })).await.expect(200);
    let changed = patch(&site, path, json!({ "mean_latency": "2s" })).await.expect(200);
    assert_eq!(changed.header("etag"), "\"3\"");
    let changed = changed.json();
    assert_eq!(of(&changed, "mean_latency"), (&json!("2s"), &json!("5s"), "reminders"));
    let preset = (&json!(20), &json!(20), "preset reminders");
    assert_eq!(of(&changed, "failures"), preset, "the tenant's other policy is for deliveries");
    assert_eq!(changed["own"], json!({ "mean_latency": "2s" }));
    let deliveries = site.get(TENANT, &site.admin).await.expect(200).json();
    assert_eq!(
        of(&deliveries, "mean_latency"),
        (&json!("off"), &json!("off"), "default"),
        "those go on as before"
    );

    let said = patch(&site, path, json!({ "cool_of": "1m" })).await.expect(422);
    assert_eq!((said.code().as_str(), &said.json()["field"]), ("unknown_field", &json!("cool_of")));
    let said = patch(&site, path, json!({ "probes": 0 })).await.expect(422);
    assert_eq!(said.json()["field"], "probes");
    // The reminders' cool-off is longer than that, and does not change.
    patch(&site, TENANT, json!({ "cool_off_max": "1m" })).await.expect(200);
    let after = site.get(path, &site.admin).await.expect(200).json();
    assert_eq!(of(&after, "mean_latency"), (&json!("2s"), &json!("5s"), "reminders"));
}
