//! Invalid reminders: each refusal names the field, and states what to do.

use http::Method;
use serde_json::{Value, json};

use super::site::{Said, Site};

fn reminder(more: Value) -> Value {
    let mut reminder = json!({ "url": "https://calls.example.com/in", "payload": 1 });
    for (name, value) in more.as_object().unwrap() {
        reminder[name] = value.clone();
    }
    reminder
}

#[track_caller]
fn check(said: &Said, body: &Value, code: &str, field: &str, words: &str) {
    let problem = said.json();
    let shown: String = body.to_string().chars().take(200).collect();
    assert_eq!(
        (problem["code"].as_str(), problem["field"].as_str()),
        (Some(code), Some(field)),
        "{shown}: {problem}"
    );
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with(field) && detail.contains(words), "{shown}: {detail}");
    assert!(detail.len() < 1_000, "{detail}");
    assert_eq!(said.header("content-type"), "application/problem+json");
}

/// Returns invalid schedules, each with the expected code, field and part of the detail.
fn wrong_times() -> Vec<(Value, &'static str, &'static str, &'static str)> {
    let (future, past) = ("2099-01-01T00:00:00Z", "2001-01-01T00:00:00Z");
    vec![
        (json!({}), "missing_field", "at", "every or cron"),
        (json!({ "at": "tomorrow" }), "invalid_field", "at", "2026-01-31"),
        (json!({ "at": "2099-01-01T00:00:00" }), "invalid_field", "at", "such as"),
        (json!({ "at": 5 }), "invalid_field", "at", "must be a string, but is a number"),
        (json!({ "at": "9999-12-30T00:00:00Z" }), "invalid_field", "at", "9999"),
        (json!({ "every": "1 day" }), "invalid_field", "every", "unit"),
        (json!({ "every": "10ms" }), "invalid_field", "every", "from 1s to 1825d, but is 10ms"),
        (json!({ "every": "0s" }), "invalid_field", "every", "longer than zero"),
        (json!({ "every": "2000d" }), "invalid_field", "every", "1825d"),
        (json!({ "every": 3600 }), "invalid_field", "every", "write \"3600s\" for 3600 seconds"),
        (json!({ "every": "1h", "cron": "@daily" }), "invalid_field", "every", "omit one"),
        (
            json!({ "cron": "0 25 * * *" }),
            "invalid_field",
            "cron",
            "field 2 (hour): \"25\" is out of range; write 0 to 23",
        ),
        (json!({ "cron": "0 9 * *" }), "invalid_field", "cron", "five"),
        (json!({ "cron": "0 9 * * MOO" }), "invalid_field", "cron", "field 5 (weekday): \"MOO\""),
        (json!({ "cron": "0 0 30 2 *" }), "invalid_field", "cron", "never happens"),
        (json!({ "cron": "@dayly" }), "invalid_field", "cron", "@daily"),
        (json!({ "cron": "" }), "invalid_field", "cron", "five"),
        (json!({ "cron": "*".repeat(10_000) }), "invalid_field", "cron", "256"),
        (
            json!({ "cron": "@daily", "time_zone": "Europe/Berlim" }),
            "invalid_field",
            "time_zone",
            "did you mean \"Europe/Berlin\"?",
        ),
        (
            json!({ "cron": "@daily", "time_zone": "x".repeat(10_000) }),
            "invalid_field",
            "time_zone",
            "is unknown",
        ),
        (
            json!({ "cron": "@daily", "time_zone": "../../etc/passwd" }),
            "invalid_field",
            "time_zone",
            "is unknown",
        ),
        (
            json!({ "every": "1h", "time_zone": "UTC" }),
            "invalid_field",
            "time_zone",
            "is allowed with cron only",
        ),
        (
            json!({ "at": future, "time_zone": "UTC" }),
            "invalid_field",
            "time_zone",
            "is allowed with cron only",
        ),
        (json!({ "every": "1h", "ends_at": past }), "invalid_field", "ends_at", "is in the past"),
        (
            json!({ "every": "1h", "at": future, "ends_at": "2098-01-01T00:00:00Z" }),
            "invalid_field",
            "ends_at",
            "first run",
        ),
        (
            json!({ "cron": "0 0 29 2 *", "at": "2097-01-01T00:00:00Z", "ends_at": "2103-01-01T00:00:00Z" }),
            "invalid_field",
            "ends_at",
            "first run, 2104-02-29",
        ),
        (json!({ "every": "1h", "ends_at": "never" }), "invalid_field", "ends_at", "such as"),
        (
            json!({ "at": future, "ends_at": future }),
            "invalid_field",
            "ends_at",
            "is allowed with every or cron only",
        ),
        (
            json!({ "at": future, "max_runs": 3 }),
            "invalid_field",
            "max_runs",
            "is allowed with every or cron only",
        ),
        (json!({ "every": "1h", "max_runs": 0 }), "invalid_field", "max_runs", "at least 1"),
        (json!({ "every": "1h", "max_runs": -1 }), "invalid_field", "max_runs", "whole number"),
        (json!({ "every": "1h", "max_runs": 1.5 }), "invalid_field", "max_runs", "whole number"),
        (json!({ "every": "1h", "max_runs": 4_294_967_296_u64 }), "invalid_field", "max_runs", "4294967295"),
        (json!({ "evry": "1h" }), "unknown_field", "evry", "did you mean `every`?"),
        (
            json!({ "every": "1h", "timezone": "UTC" }),
            "unknown_field",
            "timezone",
            "did you mean `time_zone`?",
        ),
    ]
}

#[tokio::test]
async fn schedules_that_will_not_do() {
    let site = Site::start().await;
    for (times, code, field, words) in wrong_times() {
        let body = reminder(times.clone());
        check(
            &site.post("/v1/reminders", &site.admin, body.clone()).await.expect(422),
            &body,
            code,
            field,
            words,
        );
        let said = site.post("/v1/reminders/preview", &site.admin, times.clone()).await.expect(422);
        check(&said, &times, code, field, words);
    }
    for (count, words) in [(json!(0), "1 to 50"), (json!(51), "1 to 50"), (json!("3"), "whole number")] {
        let body = json!({ "every": "1h", "count": count });
        let said = site.post("/v1/reminders/preview", &site.admin, body.clone()).await.expect(422);
        check(&said, &body, "invalid_field", "count", words);
    }
}

#[tokio::test]
async fn changes_that_will_not_do() {
    let site = Site::start().await;
    let path = format!("/v1/reminders/{}", site.reminder("default").await);
    let shown = site.get(&path, &site.admin).await.expect(200);
    let mut refused = wrong_times();
    // These are valid with the existing schedule, or mean something else.
    let fine = |times: &Value| {
        times.as_object().unwrap().is_empty()
            || *times == json!({ "at": "2099-01-01T00:00:00Z", "max_runs": 3 })
            || *times == json!({ "at": "2099-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z" })
            || (times.get("ends_at").is_some_and(|end| end == "2103-01-01T00:00:00Z"))
    };
    refused.retain(|(times, ..)| !fine(times));
    refused.extend([
        (json!({ "every": null }), "missing_field", "at", "every or cron"),
        (json!({ "tenant": "default" }), "invalid_field", "tenant", "can't be changed"),
        (json!({ "url": "gopher://a.example" }), "invalid_field", "url", "http://"),
        (json!({ "content_type": "text/plain" }), "missing_field", "payload", "payload_base64"),
        (json!({ "payload": 1, "payload_base64": "AA==" }), "invalid_field", "payload_base64", "combined"),
        (json!({ "reference": "" }), "invalid_field", "reference", "1 to 200"),
        (json!({ "catch_up": "some" }), "invalid_field", "catch_up", "all or latest"),
        (json!({ "state": "paused" }), "unknown_field", "state", "the fields are"),
    ]);
    for (change, code, field, words) in refused {
        let said = site.request(Method::PATCH, &path, &site.admin, Some(change.clone())).await.expect(422);
        check(&said, &change, code, field, words);
    }
    let after = site.get(&path, &site.admin).await.expect(200);
    assert_eq!((after.json(), after.header("etag")), (shown.json(), "\"1\""), "nothing of it was done");
}

#[tokio::test]
async fn other_fields_that_will_not_do() {
    let site = Site::start().await;
    let long = "x".repeat(100_000);
    let table: Vec<(Value, &str, &str, &str)> = vec![
        (json!({ "url": "http://u:hunter2@a.example" }), "invalid_field", "url", "password"),
        (json!({ "url": "file:///etc/passwd" }), "invalid_field", "url", "http://"),
        (json!({ "url": format!("https://a.example/{long}") }), "invalid_field", "url", "at most"),
        (json!({ "url": null }), "missing_field", "url", "is missing"),
        (json!({ "url": 7 }), "invalid_field", "url", "must be a string"),
        (json!({ "payload_base64": "AA==" }), "invalid_field", "payload_base64", "combined"),
        (json!({ "content_type": "text/plain" }), "invalid_field", "content_type", "payload_base64"),
        (json!({ "priority": "urgent" }), "invalid_field", "priority", "high, important"),
        (json!({ "catch_up": "none" }), "invalid_field", "catch_up", "all or latest"),
        (json!({ "catch_up": true }), "invalid_field", "catch_up", "must be a string"),
        (json!({ "reference": "" }), "invalid_field", "reference", "1 to 200"),
        (
            json!({ "reference": "x".repeat(201) }),
            "invalid_field",
            "reference",
            "must have 1 to 200 characters, but has 201",
        ),
        (json!({ "reference": "a\nb" }), "invalid_field", "reference", "one line"),
        (json!({ "expires_after": "soon" }), "invalid_field", "expires_after", "unit"),
        (json!({ "tenant": "a/b" }), "invalid_field", "tenant", "characters"),
        (json!({ "retry": ["1s"] }), "unknown_field", "retry", "the fields are"),
    ];
    for (more, code, field, words) in table {
        let mut body = reminder(json!({ "every": "1h" }));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check(&site.post("/v1/reminders", &site.admin, body).await.expect(422), &more, code, field, words);
    }
    let no_payload = json!({ "url": "https://a.example", "every": "1h" });
    let said = site.post("/v1/reminders", &site.admin, no_payload.clone()).await.expect(422);
    check(&said, &no_payload, "missing_field", "payload", "payload_base64");
    let said =
        site.post("/v1/reminders", &site.admin, reminder(json!({ "every": "1h", "tenant": "never" }))).await;
    assert_eq!(said.expect(404).code(), "tenant_not_found");
    let large = json!({ "url": "https://a.example", "every": "1h", "payload": "x".repeat(300_000) });
    assert_eq!(site.post("/v1/reminders", &site.admin, large).await.expect(413).code(), "payload_too_large");
    for body in ["[]", "null", "7", "[null,\"https://a.example\"]"] {
        let body: Value = serde_json::from_str(body).unwrap();
        let said = site.post("/v1/reminders", &site.admin, body).await.expect(422);
        assert_eq!(said.code(), "invalid_field");
    }
    let twice =
        site.post("/v1/reminders", &site.admin, reminder(json!({ "every": "1h", "reference": "r" }))).await;
    twice.expect(201);
    let body = reminder(json!({ "every": "1h", "reference": "r" }));
    let said = site.post("/v1/reminders", &site.admin, body).await.expect(409);
    assert_eq!((said.code().as_str(), &said.json()["field"]), ("already_exists", &json!("reference")));
    for path in ["/v1/reminders/rem_1", "/v1/reminders/evt_0000000000007", "/v1/reminders/x/runs"] {
        assert_eq!(site.get(path, &site.admin).await.expect(404).code(), "not_found");
    }
}

#[tokio::test]
async fn rules_of_a_tenant_that_will_not_do() {
    let site = Site::start().await;
    let table: [(Value, &str, &str, &str); 15] = [
        (json!({ "policy": { "window": "0s" } }), "invalid_field", "reminders.policy.window", "window"),
        (json!({ "policy": 7 }), "invalid_field", "reminders.policy", "object"),
        (json!({ "circuit_by": "url" }), "invalid_field", "reminders.circuit_by", "`tenant`"),
        (json!({ "retry": ["1 m"] }), "invalid_field", "reminders.retry[0]", "unit"),
        (json!({ "retry": ["1ms"] }), "invalid_field", "reminders.retry[0]", "from 10ms"),
        (json!({ "retry": vec!["1s"; 51] }), "invalid_field", "reminders.retry", "at most 50"),
        (
            json!({ "response_rules": { "404": { "action": "lost" } } }),
            "invalid_field",
            "reminders.response_rules.404.action",
            "retry",
        ),
        (json!({ "when_failed": "panic" }), "invalid_field", "reminders.when_failed", "stop or next_run"),
        (json!({ "catch_up": "none" }), "invalid_field", "reminders.catch_up", "all or latest"),
        (json!({ "timeout": "1h" }), "invalid_field", "reminders.timeout", "100ms to 5m"),
        (json!({ "max_in_flight": 0 }), "invalid_field", "reminders.max_in_flight", "1 to 10000"),
        (json!({ "limit": { "count": 0, "bytes": 1 } }), "invalid_field", "reminders.limit.count", "1 to"),
        (json!({ "limit": { "count": 1 } }), "missing_field", "reminders.limit.bytes", "is missing"),
        (json!({ "retri": [] }), "unknown_field", "reminders.retri", "did you mean `retry`?"),
        (json!([]), "invalid_field", "reminders", "an object"),
    ];
    for (rules, code, field, words) in table {
        let body = json!({ "reminders": rules });
        let said = site.request(Method::PATCH, "/v1/tenants/acme", &site.admin, Some(body.clone())).await;
        check(&said.expect(422), &body, code, field, words);
    }
}
