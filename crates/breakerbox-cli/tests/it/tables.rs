//! Every table of the command line with the longest values that occur: it fits 100 columns, and `--wide` and `--json`
//! show what was cut.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::api_commands::{against, answering};
use crate::command_line::listed;
use crate::fake_api::{Answer, FakeApi};

const ID: &str = "01h5k2m8w4c7e";

/// Every command that prints a table, with arguments.
const TABLES: &[&[&str]] = &[
    &["tenants", "list"],
    &["tenants", "policy", "acme"],
    &["endpoints", "list"],
    &["endpoints", "policy", "ep_01h5k2m8w4c7e"],
    &["events", "list"],
    &["deliveries", "list"],
    &["deliveries", "attempts", "dlv_01h5k2m8w4c7e"],
    &["lanes", "list"],
    &["resends", "list"],
    &["reminders", "list"],
    &["reminders", "runs", "rem_01h5k2m8w4c7e"],
    &["reminders", "preview", "--cron", "0 9 * * *"],
    &["circuits", "list"],
    &["circuits", "history"],
    &["notifications", "list"],
    &["notifications", "test", "acme"],
    &["notifications", "secrets", "acme"],
    &["keys", "list"],
];

fn id(prefix: &str) -> String {
    format!("{prefix}_{ID}")
}

fn url() -> String {
    format!(
        "https://hooks.a-customer-with-a-long-name.example.com/v2/tenants/{}/in?token=abc",
        "x".repeat(120)
    )
}

/// Returns an item that has every field of every listing, each with the longest value that occurs in practice.
fn worst(prefix: &str) -> Value {
    let tenant = "a-tenant-with-a-name-of-64-characters-which-is-the-maximum-of-it";
    assert_eq!(tenant.len(), 64);
    let past = (Timestamp::now() - SignedDuration::from_hours(24 * 90)).to_string();
    let future = (Timestamp::now() + SignedDuration::from_hours(24 * 90)).to_string();
    let key = format!("{tenant}/reminders {}", url());
    let mut item = json!({
        "id": id(prefix), "tenant": tenant, "name": "Ä Company with 漢字 and a Name of some Sixty Characters or more, Inc.",
        "enabled": false, "circuit_by": "endpoint", "backlog": {"count": 1_000_000_000_000_u64}, "created_at": past,
        "type": "billing.invoices.recurring.payment_failed_permanently.v2", "state": "cancelled",
        "reason": "a reason that an operator wrote, in a whole sentence with all that he knew of it",
        "waits_for": "in_flight_limit", "waits_until": future, "attempts": 50, "last_status": null,
        "last_error": "address_denied: the address 10.0.0.1 is private, and no setting allows it", "last_attempt_at": past,
        "endpoint": id("ep"), "event": id("evt"), "url": url(), "description": "x".repeat(500),
        "started_at": past, "status": 503, "fault": "address_denied", "latency_ms": 300_000, "probe": true,
        "detail": "x".repeat(300), "response": "y".repeat(4_096),
        "circuit": {"id": id("cir"), "state": "half_open", "key": key},
        "disabled_reason": "circuit", "waiting": 10_000_000, "in_flight": 10_000, "types": vec!["a.long.type.*"; 100],
    });
    let second = json!({
        "fingerprint": "3f2a9c1b8d02", "mode": {"name": "forced_closed"}, "cause": "consecutive_failures", "trips": 12_345,
        "changed_at": past, "retry_at": future, "key": key, "at": past, "from": "half_open", "to": "disabled",
        "actor": id("key"), "stopped_reason": "unreadable", "runs": 100_000, "next_at": future, "every": null,
        "cron": "0,5,10,15,20,25,30,35,40,45,50,55 9-17 1,15 JAN-DEC MON-FRI", "reference": "r".repeat(200),
    });
    let third = json!({
        "delivery": id("dlv"), "number": 100_000, "scheduled_at": past, "skipped": 100_000, "parked": true,
        "sent_at": past, "finished_at": past, "filter": {"tenant": tenant}, "resent": 10_000_000, "processed_until": past,
        "kind": "reminder_stopped", "results": [{"state": "given_up"}], "title": "t".repeat(300),
        "target": id("tgt"), "ok": true,
        "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "scopes": ["admin", "manage", "read", "send"],
        "expires_at": future, "revoked_at": past, "payload_bytes": 67_108_864, "priority": "important",
        "deliveries": 10_000_000, "accepted_at": past, "local": "2030-01-31T09:00:00.000+01:00", "weekday": "Wednesday",
    });
    for more in [second, third] {
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    item
}

/// Answers each request with items of that kind.
fn answer(path: &str) -> Answer {
    let item = worst("dlv");
    if path.contains("/policy") {
        let setting = |name: &str| {
            let value =
                json!({"value": ["x".repeat(60)], "default": "y".repeat(60), "origin": "preset stoplight"});
            (name.to_owned(), value)
        };
        let policy: serde_json::Map<_, _> =
            breakerbox_core::POLICY_KEYS.iter().map(|name| setting(name)).collect();
        return Answer::ok(json!({"policy": policy, "endpoint": null, "own": null, "decided_by": null}));
    }
    Answer::ok(json!({
        "items": [item, item], "next": null, "targets": [item], "secrets": [item], "times": [item],
    }))
}

#[test]
fn every_table_fits_100_columns() {
    let api = FakeApi::start(|asked| answer(&asked.path));
    for command in TABLES {
        let ended = against(&api, command);
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.stderr);
        assert!(ended.stdout.lines().count() >= 2, "{command:?}: {}", ended.stdout);
        for line in ended.stdout.lines() {
            assert!(line.width() <= 100, "{command:?}: {} columns: {line}", line.width());
        }
        let heading = ended.stdout.lines().next().unwrap();
        let is_title = |word: &str| word.chars().all(|c| c.is_ascii_uppercase() || c == '-');
        assert!(heading.split_whitespace().all(is_title), "{command:?}: the titles are whole: {heading}");
    }
}

#[test]
fn what_is_cut_can_be_seen_in_full() {
    let api = FakeApi::start(|asked| answer(&asked.path));
    for (command, full) in [
        (&["endpoints", "list"][..], url()),
        (&["deliveries", "list"], id("dlv")),
        (&["deliveries", "list"], id("evt")),
        (&["deliveries", "list"], "address_denied: the address 10.0.0.1".to_owned()),
        (&["circuits", "list"], url()),
        (&["reminders", "list"], "r".repeat(200)),
        (&["keys", "list"], "admin,manage,read,send".to_owned()),
    ] {
        let narrow = against(&api, command);
        assert!(!narrow.stdout.contains(&full), "{command:?}: {}", narrow.stdout);
        let wide = against(&api, &[command, &["--wide"]].concat());
        assert!(wide.stdout.contains(&full), "{command:?}: {}", wide.stdout);
        let json = against(&api, &[command, &["--json"]].concat());
        let items: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(items[0]["url"], url());
    }
}

/// Every action whose help says that it lists something is in the table above, so that a new one is measured too.
#[test]
fn no_listing_is_missing() {
    let mut listings = 0;
    for (command, _) in listed(&[]) {
        for (action, what) in listed(&[&command]) {
            let is_measured = TABLES.iter().any(|table| table[..2] == [&command, &action]);
            assert!(!what.starts_with("List") || is_measured, "{command} {action}");
            listings += usize::from(is_measured);
        }
    }
    assert_eq!(listings, TABLES.len());
}

#[test]
fn names_are_found_or_their_candidates_are_listed() {
    let endpoint = |id: &str, url: &str| json!({"id": id, "url": url, "description": "", "tenant": "acme", "circuit": {"id": "cir_YQ", "key": "acme a"}});
    let endpoints = [
        endpoint("ep_01h5k2m8w4c7e", "https://a.example/in"),
        endpoint("ep_01h5k2m8w4c7f", "https://b.example/in"),
        endpoint("ep_01h5k2m9w4c7f", "https://c.example/in"),
    ];
    let api = answering(
        json!({"items": endpoints, "next": null, "id": "ep_01h5k2m8w4c7e", "circuit": {"id": "cir_YQ"}}),
    );
    for name in ["2m8w4c7e", "4c7e", "ep_4c7e", "https://a.example/in"] {
        let ended = against(&api, &["endpoints", "show", name]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        assert_eq!(api.asked().pop().unwrap().line(), "GET /v1/endpoints/ep_01h5k2m8w4c7e", "{name}");
    }
    against(&api, &["deliveries", "list", "--endpoint", "https://b.example/in"]);
    assert_eq!(api.asked().pop().unwrap().line(), "GET /v1/deliveries?endpoint=ep_01h5k2m8w4c7f&limit=100");

    let ended = against(&api, &["endpoints", "show", "w4c7f"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let expected = "breakerbox: \"w4c7f\" means 2 of them; write more of the endpoint's ID; it can be:\n\
                    breakerbox:   ep_01h5k2m8w4c7f  https://b.example/in (acme)\n\
                    breakerbox:   ep_01h5k2m9w4c7f  https://c.example/in (acme)\n";
    assert_eq!(ended.stderr, expected);
    let ended = against(&api, &["endpoints", "show", "https://d.example/"]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .starts_with("breakerbox: there is no endpoint \"https://d.example/\"; the newest are:\n")
    );
    assert_eq!(ended.stderr.lines().count(), 4, "{}", ended.stderr);
    let ended = against(&api, &["endpoints", "show", "nothing", "--json"]);
    let problem: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(
        (&problem["code"], problem["candidates"].as_array().map(Vec::len)),
        (&json!("not_found"), Some(3))
    );
    let ended = against(&api, &["circuits", "show", "https://c.example/in"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(api.asked().pop().unwrap().line(), "GET /v1/circuits/cir_YQ");
}

#[test]
fn a_reminder_is_found_by_its_reference() {
    let api = FakeApi::start(|asked| match asked.path.contains("reference=invoice-7") {
        true => Answer::ok(json!({"items": [{"id": id("rem"), "reference": "invoice-7"}], "next": null})),
        false => Answer::ok(json!({"items": [], "next": null, "id": id("rem")})),
    });
    let ended = against(&api, &["reminders", "show", "invoice-7"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(api.asked().pop().unwrap().line(), format!("GET /v1/reminders/{}", id("rem")));
    assert_eq!(against(&api, &["reminders", "show", "invoice-8"]).code, 4);
}

#[test]
fn an_event_is_shown_with_its_payload_byte_for_byte() {
    let payload = "{ \"b\":1.0,\n \"a\": \"\\u00e9\" }";
    let body = format!("{{\"id\": \"{}\", \"type\": \"a.b\", \"payload\": {payload}}}", id("evt"));
    let api = FakeApi::start(move |_| Answer { status: 200, headers: vec![], body: body.clone() });
    let name = id("evt");
    let ended = against(&api, &["events", "show", &name]);
    assert_eq!(
        ended.stdout,
        format!("id    {name}\ntype  a.b\npayload:\n    {{ \"b\":1.0,\n     \"a\": \"\\u00e9\" }}\n")
    );
    assert_eq!(against(&api, &["events", "show", &name, "--payload"]).stdout, payload);
    let raw = answering(json!({"id": name, "payload_base64": "/wA="}));
    let ended = against(&raw, &["events", "show", &name]);
    assert!(ended.stdout.contains("2 bytes that are not text"), "{}", ended.stdout);
}

#[test]
fn an_endpoint_is_shown_with_the_origin_of_each_value() {
    let effective = json!({
        "timeout": {"value": "15s", "origin": "default"}, "retry": {"value": ["5s", "5m"], "origin": "tenant"},
        "policy": {"window": {"value": "1m", "default": "1m", "origin": "default"}},
    });
    let api = answering(
        json!({"id": id("ep"), "timeout": null, "retry": null, "policy": null, "effective": effective}),
    );
    let ended = against(&api, &["endpoints", "show", &id("ep")]);
    for line in
        ["timeout        15s (default)", "retry          5s,5m (tenant)", "policy.window  1m (default)"]
    {
        assert!(ended.stdout.lines().any(|found| found == line), "{line}\n{}", ended.stdout);
    }
    let json = against(&api, &["endpoints", "show", &id("ep"), "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["effective"], effective);
}
