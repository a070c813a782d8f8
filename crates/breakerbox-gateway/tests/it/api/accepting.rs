//! Submitting events: byte for byte, once, and within limits.

use std::time::Duration;

use breakerbox_gateway::api::Limits;
use breakerbox_model::objects::{Priority, Scope};
use breakerbox_storage::{QueueError, SubmitError};
use http::{Method, Request};
use serde_json::{Value, json};

use super::site::{Said, Site};

fn with_key(site: &Site, idempotency_key: &str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .header("authorization", format!("Bearer {}", site.admin))
        .header("content-type", "application/json; charset=utf-8")
        .header("idempotency-key", idempotency_key)
}

#[tokio::test]
async fn payloads_are_kept_byte_for_byte() {
    let site = Site::start().await;
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let payloads = [
        &deep,
        "{ \"b\" : 1.10,\n\t\"a\":\"\\u00e9\u{e9}\", \"b\": 2 }",
        "null",
        "1e400",
        "\"text\"",
        "[ ]",
        "123456789012345678901234567890",
    ];
    for payload in payloads {
        let body = format!("{{\"payload\": {payload} , \"type\":\"a.b\"}}");
        let request = Request::builder()
            .method(Method::POST)
            .header("authorization", format!("bearer {}", site.admin))
            .header("content-type", "application/json");
        let id = site.send(request, "/v1/events", body).await.expect(202).json()["id"].clone();
        let kept = site.stand_in.batches.lock().unwrap().last().unwrap().events[0].clone();
        assert_eq!(kept.payload, payload);
        assert_eq!(&*kept.content_type, "application/json");
        let shown = site.get(&format!("/v1/events/{}", id.as_str().unwrap()), &site.admin).await.expect(200);
        assert!(String::from_utf8_lossy(&shown.body).contains(payload), "{payload}");
    }
    let raw = json!({ "type": "a", "payload_base64": "AP8=", "content_type": "image/png" });
    let id = site.post("/v1/events", &site.admin, raw).await.expect(202).json()["id"].clone();
    let kept = site.stand_in.batches.lock().unwrap().last().unwrap().events[0].clone();
    assert_eq!((&kept.payload[..], &*kept.content_type), (&[0, 255][..], "image/png"));
    let shown =
        site.get(&format!("/v1/events/{}", id.as_str().unwrap()), &site.admin).await.expect(200).json();
    assert_eq!((&shown["payload_base64"], shown.get("payload")), (&json!("AP8="), None));
}

#[tokio::test]
async fn what_is_said_of_an_event_reaches_the_queue() {
    let site = Site::start().await;
    let body = json!({
        "type": "a", "payload": 1, "priority": "high", "url": "https://one.example/in?x=1",
        "not_before": "2030-01-01T00:00:00Z", "expires_after": "1h",
    });
    let accepted = site.post("/v1/events", &site.admin, body).await.expect(202).json();
    assert_eq!(accepted["deliveries"], 1);
    let batch = site.stand_in.batches.lock().unwrap()[0].clone();
    let event = &batch.events[0];
    assert_eq!(batch.tenant.as_str(), "default");
    assert_eq!(event.priority, Priority::High);
    assert_eq!(event.url.as_ref().unwrap().as_str(), "https://one.example/in?x=1");
    let not_before = event.not_before.unwrap();
    assert_eq!(not_before.as_micros(), 1_893_456_000_000_000);
    assert_eq!(
        event.expires_at.unwrap().since(not_before),
        Duration::from_secs(3_600),
        "counted from when it may go"
    );
}

#[tokio::test]
async fn a_repetition_gets_the_same_answer_and_nothing_twice() {
    let site = Site::start().await;
    let endpoint = site.endpoint("default").await;
    let body = r#"{"type":"a","payload":{"n":1}}"#;
    let first = site.send(with_key(&site, "order-1"), "/v1/events", body).await.expect(202);
    assert_eq!(first.header("idempotency-replayed"), "");
    let second = site.send(with_key(&site, "order-1"), "/v1/events", body).await.expect(202);
    assert_eq!((second.header("idempotency-replayed"), &second.body), ("true", &first.body));
    let other = site.send(with_key(&site, "order-1"), "/v1/events", r#"{"type":"b","payload":1}"#).await;
    assert_eq!(other.expect(409).code(), "idempotency_key_reused");
    let batch =
        site.send(with_key(&site, "order-1"), "/v1/events/batch", r#"{"events":[{"type":"b","payload":1}]}"#);
    assert_eq!(batch.await.expect(409).code(), "idempotency_key_reused");
    let listed =
        site.get(&format!("/v1/deliveries?endpoint={endpoint}"), &site.admin).await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    // Another tenant's idempotency key, for another request.
    let theirs = site.key(&[Scope::Send], Some("acme")).await;
    let request = Request::builder()
        .method(Method::POST)
        .header("authorization", format!("Bearer {theirs}"))
        .header("content-type", "application/json")
        .header("idempotency-key", "order-1");
    let fresh = site.send(request, "/v1/events", body).await.expect(202);
    assert_eq!(fresh.header("idempotency-replayed"), "");

    let long = "x".repeat(256);
    for key in ["", "two words", "\u{e9}", &long] {
        let refused = site.send(with_key(&site, key), "/v1/events", body).await.expect(400);
        assert_eq!(
            (refused.code(), &refused.json()["field"]),
            ("invalid_header".to_owned(), &json!("idempotency-key"))
        );
    }
}

#[tokio::test]
async fn a_batch_is_accepted_whole_or_not_at_all() {
    let site = Site::start().await;
    site.endpoint("acme").await;
    let sender = site.key(&[Scope::Send], Some("acme")).await;
    let events: Vec<Value> = (0..1_000).map(|n| json!({ "type": "n", "payload": n })).collect();
    let accepted =
        site.post("/v1/events/batch", &sender, json!({ "events": events })).await.expect(202).json();
    assert_eq!(accepted["events"].as_array().unwrap().len(), 1_000);
    assert_eq!(accepted["events"][999]["deliveries"], 1);
    let kept = site.stand_in.batches.lock().unwrap()[0].clone();
    assert_eq!((kept.events.len(), &kept.events[999].payload[..]), (1_000, &b"999"[..]));

    let mut one_too_many = events.clone();
    one_too_many.push(json!({ "type": "n", "payload": 1 }));
    let ten_thousand = vec![json!(0); 20_000];
    let wrong = |at: usize, event: Value| {
        let mut events = events.clone();
        events[at] = event;
        json!({ "events": events })
    };
    let table = [
        (json!({ "events": [] }), "invalid_field", "events"),
        (json!({ "events": one_too_many }), "invalid_field", "events"),
        (json!({ "events": ten_thousand }), "invalid_field", "events"),
        (json!({ "events": 3 }), "invalid_field", "events"),
        (json!({ "events": { "0": 1 } }), "invalid_field", "events"),
        (json!({}), "missing_field", "events"),
        (json!({ "event": [] }), "unknown_field", "event"),
        (json!({ "events": [1] }), "invalid_field", "events[0]"),
        (json!({ "events": [{ "type": "a", "payload": 1 }], "tenant": "a b" }), "invalid_field", "tenant"),
        (
            json!({ "events": [{ "type": "a", "payload": 1, "tenant": "acme" }] }),
            "invalid_field",
            "events[0].tenant",
        ),
        (
            wrong(3, json!({ "type": "n", "payload": 1, "priority": "urgent" })),
            "invalid_field",
            "events[3].priority",
        ),
        (wrong(999, json!({ "type": "n" })), "missing_field", "events[999].payload"),
        (
            wrong(7, json!({ "type": "n", "payload": 1, "priorty": "low" })),
            "unknown_field",
            "events[7].priorty",
        ),
        (wrong(7, json!({ "payload": 1 })), "missing_field", "events[7].type"),
        (
            wrong(5, json!({ "type": "n", "payload": 1, "url": "ftp://x.example" })),
            "invalid_field",
            "events[5].url",
        ),
        (
            wrong(5, json!({ "type": "n", "payload_base64": "%" })),
            "invalid_field",
            "events[5].payload_base64",
        ),
    ];
    for (body, code, field) in table {
        let refused = site.post("/v1/events/batch", &sender, body).await.expect(422);
        assert_eq!((refused.code().as_str(), &refused.json()["field"]), (code, &json!(field)));
        assert!(refused.json()["detail"].as_str().unwrap().starts_with(field), "{}", refused.json());
    }
    let listed = site.get("/v1/deliveries?limit=500", &site.admin).await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 500, "there are more, and none of the refused");
    assert_eq!(site.stand_in.batches.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn payloads_and_bodies_have_limits() {
    let site = Site::start().await;
    let text = |length: usize| json!({ "type": "a", "payload": "x".repeat(length - 2) });
    let limit = 256 * 1024;
    site.post("/v1/events", &site.admin, text(limit)).await.expect(202);
    let refused = site.post("/v1/events", &site.admin, text(limit + 1)).await.expect(413);
    assert_eq!(
        (refused.code(), &refused.json()["field"]),
        ("payload_too_large".to_owned(), &json!("payload"))
    );
    let refused = site.post("/v1/events", &site.admin, text(4 * limit)).await.expect(413);
    assert_eq!(refused.code(), "body_too_large");
    let events = vec![text(limit); 20];
    let refused = site.post("/v1/events/batch", &site.admin, json!({ "events": events })).await.expect(413);
    assert_eq!(refused.code(), "body_too_large");
    let second = json!({ "events": [{ "type": "a", "payload": 1 }, text(limit + 1)] });
    let refused = site.post("/v1/events/batch", &site.admin, second).await.expect(413);
    assert_eq!(
        (refused.code(), &refused.json()["field"]),
        ("payload_too_large".to_owned(), &json!("events[1].payload"))
    );
}

#[tokio::test]
async fn a_tenant_submits_at_its_rate() {
    let site = Site::start().await;
    let change = json!({ "ingest_rate": { "per_second": 0.01, "burst": 3 } });
    site.request(Method::PATCH, "/v1/tenants/acme", &site.admin, Some(change)).await.expect(200);
    let event = |tenant: &str| json!({ "tenant": tenant, "type": "a", "payload": 1 });
    for _ in 0..2 {
        site.post("/v1/events", &site.admin, event("acme")).await.expect(202);
    }
    let two = json!({ "tenant": "acme", "events": vec![json!({ "type": "a", "payload": 1 }); 2] });
    let refused = site.post("/v1/events/batch", &site.admin, two).await.expect(429);
    assert_eq!(refused.code(), "rate_limited");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((90..=100).contains(&wait), "{wait} s");
    site.post("/v1/events", &site.admin, event("acme")).await.expect(202);
    site.post("/v1/events", &site.admin, event("acme")).await.expect(429);
    site.post("/v1/events", &site.admin, event("other")).await.expect(202);
}

#[tokio::test]
async fn what_the_queue_refuses_is_said_clearly() {
    let site = Site::start().await;
    let secret = || {
        QueueError::Database(std::sync::Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(
            "no such table: hunter2",
        )))
    };
    let table: [(SubmitError, u16, &str, bool); 6] = [
        (SubmitError::BacklogFull { waiting: 7, bytes: 900 }, 429, "backlog_full", true),
        (SubmitError::DiskReserve { free: 1, reserve: 2 }, 507, "disk_reserve", false),
        (SubmitError::Queue(QueueError::Busy), 503, "overloaded", true),
        (SubmitError::Queue(QueueError::Closed), 503, "unavailable", true),
        (SubmitError::Queue(QueueError::DiskFull), 507, "disk_reserve", false),
        (SubmitError::Queue(secret()), 503, "unavailable", true),
    ];
    for (refusal, status, code, retry) in table {
        *site.stand_in.refusal.lock().unwrap() = Some(refusal);
        let said: Said =
            site.post("/v1/events", &site.admin, json!({ "type": "a", "payload": 1 })).await.expect(status);
        assert_eq!((said.code().as_str(), said.headers.contains_key("retry-after")), (code, retry));
        assert!(!String::from_utf8_lossy(&said.body).contains("hunter2"));
    }
}

#[tokio::test]
async fn all_bodies_together_have_a_limit() {
    let limits = Limits { bodies: 8 * 1024, tenant_share: 100, ..Limits::default() };
    let site = Site::with(limits).await;
    let body = json!({ "type": "a", "payload": "x".repeat(16 * 1024) });
    let refused = site.post("/v1/events", &site.admin, body).await.expect(503);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("overloaded", "1"));
    for _ in 0..20 {
        // The memory is released.
        site.post("/v1/events", &site.admin, json!({ "type": "a", "payload": "x".repeat(6 * 1024) }))
            .await
            .expect(202);
    }
}
