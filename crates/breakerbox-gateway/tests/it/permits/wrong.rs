//! Invalid requests, and permits of other tenants.

use http::Method;
use serde_json::{Value, json};

use super::rig::{Rig, URL};

async fn problem(rig: &Rig, path: &str, body: &Value) -> (u16, String, String) {
    let (status, problem) = rig.request_with(&rig.key, Method::POST, path, body).await;
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    (status, text("code"), text("field"))
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let rig = Rig::start(json!({})).await;
    let id = rig.permit(URL).await["id"].clone();
    let acquire = "/v1/circuits/acquire";
    let settle = "/v1/permits/settle";
    let long = "k".repeat(1_100);
    let table = [
        (acquire, json!({}), 422, "missing_field", "url"),
        (acquire, json!({ "url": URL, "key": "k" }), 422, "invalid_field", "key"),
        (acquire, json!({ "url": "ftp://example.com" }), 422, "invalid_field", "url"),
        (acquire, json!({ "url": "https://user:secret@example.com" }), 422, "invalid_field", "url"),
        (acquire, json!({ "key": "" }), 422, "invalid_field", "key"),
        (acquire, json!({ "key": " k" }), 422, "invalid_field", "key"),
        (acquire, json!({ "key": "a\u{0}b" }), 422, "invalid_field", "key"),
        (acquire, json!({ "key": long }), 422, "invalid_field", "key"),
        (acquire, json!({ "url": URL, "priority": "urgent" }), 422, "invalid_field", "priority"),
        (acquire, json!({ "url": URL, "priority": 7 }), 422, "invalid_field", "priority"),
        (acquire, json!({ "url": URL, "timeout": "2h" }), 422, "invalid_field", "timeout"),
        (acquire, json!({ "url": URL, "timeout": "0s" }), 422, "invalid_field", "timeout"),
        (acquire, json!({ "url": URL, "timeout": 30 }), 422, "invalid_field", "timeout"),
        (acquire, json!({ "url": URL, "tenant": "nobody" }), 404, "tenant_not_found", "tenant"),
        (acquire, json!({ "url": URL, "tenant": "a/b" }), 422, "invalid_field", "tenant"),
        (acquire, json!({ "url": URL, "priorty": "low" }), 422, "unknown_field", "priorty"),
        (acquire, json!([]), 422, "invalid_field", ""),
        (settle, json!({ "id": id }), 422, "missing_field", "outcome"),
        (settle, json!({ "outcome": "success" }), 422, "missing_field", "id"),
        (settle, json!({ "id": id, "outcome": "good" }), 422, "invalid_field", "outcome"),
        (settle, json!({ "id": id, "outcome": "success", "status": 200 }), 422, "invalid_field", "status"),
        (settle, json!({ "id": id, "status": 200, "fault": "dns" }), 422, "invalid_field", "fault"),
        (settle, json!({ "id": id, "status": 42 }), 422, "invalid_field", "status"),
        (settle, json!({ "id": id, "status": 70_000 }), 422, "invalid_field", "status"),
        (settle, json!({ "id": id, "fault": "rain" }), 422, "invalid_field", "fault"),
        (settle, json!({ "id": id, "status": 500, "overloaded": true }), 422, "invalid_field", "overloaded"),
        (
            settle,
            json!({ "id": id, "outcome": "success", "retry_after_ms": 5 }),
            422,
            "invalid_field",
            "retry_after_ms",
        ),
        (
            settle,
            json!({ "id": id, "outcome": "success", "latency_ms": -1 }),
            422,
            "invalid_field",
            "latency_ms",
        ),
        (
            settle,
            json!({ "id": id, "outcome": "success", "latency_ms": 86_400_001 }),
            422,
            "invalid_field",
            "latency_ms",
        ),
        (settle, json!({ "id": "", "outcome": "success" }), 422, "invalid_field", "id"),
        (settle, json!({ "id": "p".repeat(5_000), "outcome": "success" }), 422, "invalid_field", "id"),
        (settle, json!({ "id": "per_AAAA", "outcome": "success" }), 404, "not_found", "id"),
        ("/v1/circuits/acquire/batch", json!({ "items": [] }), 422, "invalid_field", "items"),
        ("/v1/circuits/acquire/batch", json!({}), 422, "missing_field", "items"),
        ("/v1/circuits/acquire/batch", json!({ "items": 7 }), 422, "invalid_field", "items"),
        ("/v1/circuits/acquire/batch", json!({ "items": [], "tenant": "x" }), 422, "unknown_field", "tenant"),
        ("/v1/permits/settle/batch", json!({ "items": vec![0; 1_001] }), 422, "invalid_field", "items"),
        ("/v1/permits/settle/batch", json!({ "items": vec![0; 150_000] }), 422, "invalid_field", "items"),
    ];
    for (path, body, status, code, field) in table {
        let shown: String = body.to_string().chars().take(100).collect();
        let expected = (status, code.to_owned(), field.to_owned());
        assert_eq!(problem(&rig, path, &body).await, expected, "{path} {shown}");
    }
    // None of these settled the permit.
    assert_eq!(rig.settled(&json!({ "id": id }), json!({ "outcome": "success" })).await, "counted");
}

#[tokio::test]
async fn forged_changed_and_foreign_ids_settle_nothing() {
    let rig = Rig::start(json!({})).await;
    let elsewhere = Rig::start(json!({})).await;
    let permit = rig.permit(URL).await;
    let id = permit["id"].as_str().unwrap();
    let mut ids = vec![elsewhere.permit(URL).await["id"].as_str().unwrap().to_owned(), "per_".to_owned()];
    ids.extend([
        id.to_uppercase(),
        format!("{id}A"),
        id[..id.len() - 4].to_owned(),
        id.replacen("per_", "", 1),
    ]);
    for at in (4..id.len()).step_by(7) {
        let other = if &id[at..=at] == "x" { "y" } else { "x" };
        ids.push(format!("{}{other}{}", &id[..at], &id[at + 1..]));
    }
    for id in ids {
        let body = json!({ "id": id, "outcome": "failure" });
        let (status, problem) = rig.request_with(&rig.key, Method::POST, "/v1/permits/settle", &body).await;
        assert_eq!((status, &problem["field"]), (404, &json!("id")), "{id}");
    }
    assert_eq!(rig.circuit(&permit).await["window"]["calls"], 0);
    assert_eq!(rig.settled(&permit, json!({ "outcome": "success" })).await, "counted");
}

async fn key_of(rig: &Rig, tenant: &str, scopes: &[&str]) -> String {
    let body = json!({ "name": "worker", "scopes": scopes, "tenant": tenant });
    rig.request(Method::POST, "/v1/keys", body).await["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_tenants_key_is_for_its_own_permits() {
    let rig = Rig::start(json!({})).await;
    for tenant in ["acme", "other"] {
        rig.request(Method::POST, "/v1/tenants", json!({ "id": tenant })).await;
    }
    let acme = key_of(&rig, "acme", &["send"]).await;
    let other = key_of(&rig, "other", &["send"]).await;
    let reader = key_of(&rig, "acme", &["read"]).await;
    let post =
        async |key: &str, path: &str, body: Value| rig.request_with(key, Method::POST, path, &body).await;

    let (status, answer) = post(&acme, "/v1/circuits/acquire", json!({ "url": URL })).await;
    assert_eq!(status, 200, "{answer}");
    let permit = answer["permit"].clone();
    assert_eq!(rig.circuit(&permit).await["tenant"], "acme");
    let (status, problem) =
        post(&acme, "/v1/circuits/acquire", json!({ "url": URL, "tenant": "other" })).await;
    assert_eq!((status, &problem["code"]), (403, &json!("tenant_mismatch")));
    let report = json!({ "id": permit["id"], "outcome": "failure" });
    let (status, problem) = post(&other, "/v1/permits/settle", report.clone()).await;
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")), "as if it were none at all");
    for path in [
        "/v1/circuits/acquire",
        "/v1/permits/settle",
        "/v1/circuits/acquire/batch",
        "/v1/permits/settle/batch",
    ] {
        let (status, problem) = post(&reader, path, report.clone()).await;
        assert_eq!((status, &problem["code"]), (403, &json!("scope_missing")), "{path}");
    }
    assert_eq!(post(&acme, "/v1/permits/settle", report).await.1["settled"], "counted");
    // The same destination of another tenant has another circuit.
    let (_, answer) = post(&other, "/v1/circuits/acquire", json!({ "url": URL })).await;
    assert_ne!(answer["permit"]["circuit"], permit["circuit"]);
}

#[tokio::test]
async fn each_item_of_a_batch_is_answered_at_its_place() {
    let rig = Rig::start(json!({ "cool_off": "60s" })).await;
    rig.trip(URL).await;
    let items = json!([
        { "key": "a" }, { "url": URL }, { "priority": "low" }, 7, { "key": "b", "tenant": "nobody" },
        { "key": "b", "timeout": "soon" }, { "key": "b" },
    ]);
    let answer = rig.request(Method::POST, "/v1/circuits/acquire/batch", json!({ "items": items })).await;
    let answers = answer["items"].as_array().unwrap();
    assert_eq!(answers.len(), 7);
    assert!(answers[0]["permit"]["id"].is_string() && answers[6]["permit"]["id"].is_string(), "{answer}");
    assert_eq!(answers[1]["refusal"]["reason"], "open");
    for (at, status, field) in [
        (2, 422, "items[2].url"),
        (3, 422, "items[3]"),
        (4, 404, "items[4].tenant"),
        (5, 422, "items[5].timeout"),
    ] {
        let problem = &answers[at]["problem"];
        assert_eq!((&problem["status"], &problem["field"]), (&json!(status), &json!(field)), "{problem}");
    }
    let (a, b) = (&answers[0]["permit"]["id"], &answers[6]["permit"]["id"]);
    let items = json!([
        { "id": a, "status": 200 }, { "id": b, "fault": "timeout" }, { "id": a, "status": 500 },
        { "id": "per_x", "status": 200 }, { "id": b },
    ]);
    let answer = rig.request(Method::POST, "/v1/permits/settle/batch", json!({ "items": items })).await;
    let answers = answer["items"].as_array().unwrap();
    assert_eq!(answers[1]["settled"], "counted");
    assert_eq!([&answers[0]["settled"], &answers[2]["settled"]], ["counted", "counted"]);
    let repeated = [&answers[0]["repeated"], &answers[2]["repeated"]];
    assert_eq!(repeated.iter().filter(|it| ***it == true).count(), 1, "once in a batch too: {answer}");
    assert_eq!(answers[3]["problem"]["code"], "not_found");
    assert_eq!(answers[4]["problem"]["field"], "items[4].outcome");
}
