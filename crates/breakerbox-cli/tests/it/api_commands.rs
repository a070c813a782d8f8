//! Commands that call the API: their requests, their output and their errors.

use serde_json::{Value, json};

use crate::fake_api::{Answer, FakeApi};
use crate::program::{Program, ProgramOutput};

const KEY: &str = "bbx_test";

/// Runs a command against this API.
pub(crate) fn against(api: &FakeApi, arguments: &[&str]) -> ProgramOutput {
    Program::new(arguments).env("BREAKERBOX_URL", &api.url()).env("BREAKERBOX_API_KEY", KEY).run()
}

pub(crate) fn answering(answer: Value) -> FakeApi {
    FakeApi::start(move |_| Answer::ok(answer.clone()))
}

#[test]
fn each_command_asks_what_it_says() {
    let table: &[(&[&str], &str, Value)] = &[
        (&["tenants", "show", "acme"], "GET /v1/tenants/acme", Value::Null),
        (
            &["tenants", "create", "acme", "name=Acme Corp", "enabled=false"],
            "POST /v1/tenants",
            json!({"id": "acme", "name": "Acme Corp", "enabled": false}),
        ),
        (
            &["tenants", "change", "acme", "retry=[\"5s\"]", "policy=null"],
            "PATCH /v1/tenants/acme",
            json!({"retry": ["5s"], "policy": null}),
        ),
        (&["tenants", "enable", "acme"], "PATCH /v1/tenants/acme", json!({"enabled": true})),
        (&["tenants", "disable", "acme"], "PATCH /v1/tenants/acme", json!({"enabled": false})),
        (&["tenants", "secrets", "acme"], "GET /v1/tenants/acme/secrets", Value::Null),
        (&["tenants", "delete", "acme"], "DELETE /v1/tenants/acme", Value::Null),
        (&["endpoints", "show", "ep_01h5k2m8w4c7e"], "GET /v1/endpoints/ep_01h5k2m8w4c7e", Value::Null),
        (
            &[
                "endpoints",
                "create",
                "https://x.example/in",
                "--tenant",
                "acme",
                "--type",
                "a.b,c.*",
                "timeout=5s",
            ],
            "POST /v1/endpoints",
            json!({"url": "https://x.example/in", "tenant": "acme", "types": ["a.b", "c.*"], "timeout": "5s"}),
        ),
        (
            &["endpoints", "change", "ep_01h5k2m8w4c7e", "max_in_flight=8"],
            "PATCH /v1/endpoints/ep_01h5k2m8w4c7e",
            json!({"max_in_flight": 8}),
        ),
        (
            &["endpoints", "enable", "ep_01h5k2m8w4c7e"],
            "POST /v1/endpoints/ep_01h5k2m8w4c7e/enable",
            Value::Null,
        ),
        (
            &["endpoints", "disable", "ep_01h5k2m8w4c7e"],
            "POST /v1/endpoints/ep_01h5k2m8w4c7e/disable",
            Value::Null,
        ),
        (
            &["endpoints", "secrets", "ep_01h5k2m8w4c7e"],
            "GET /v1/endpoints/ep_01h5k2m8w4c7e/secrets",
            Value::Null,
        ),
        (
            &["endpoints", "rotate", "ep_01h5k2m8w4c7e"],
            "POST /v1/endpoints/ep_01h5k2m8w4c7e/secrets/rotate",
            Value::Null,
        ),
        (&["endpoints", "test", "ep_01h5k2m8w4c7e"], "POST /v1/endpoints/ep_01h5k2m8w4c7e/test", Value::Null),
        (&["endpoints", "delete", "ep_01h5k2m8w4c7e"], "DELETE /v1/endpoints/ep_01h5k2m8w4c7e", Value::Null),
        (&["deliveries", "show", "dlv_01h5k2m8w4c7e"], "GET /v1/deliveries/dlv_01h5k2m8w4c7e", Value::Null),
        (
            &["deliveries", "cancel", "dlv_01h5k2m8w4c7e"],
            "POST /v1/deliveries/dlv_01h5k2m8w4c7e/cancel",
            Value::Null,
        ),
        (
            &["deliveries", "resend", "dlv_01h5k2m8w4c7e"],
            "POST /v1/deliveries/dlv_01h5k2m8w4c7e/resend",
            Value::Null,
        ),
        (
            &["deliveries", "resend-all", "--tenant", "acme", "--from", "2030-01-01T00:00:00Z"],
            "POST /v1/resends",
            json!({"tenant": "acme", "from": "2030-01-01T00:00:00Z"}),
        ),
        (&["reminders", "show", "rem_01h5k2m8w4c7e"], "GET /v1/reminders/rem_01h5k2m8w4c7e", Value::Null),
        (
            &["reminders", "create", "https://x.example/in", "--at", "2030-01-31T09:00:00Z"],
            "POST /v1/reminders",
            json!({"url": "https://x.example/in", "at": "2030-01-31T09:00:00Z", "payload": {}}),
        ),
        (
            &[
                "reminders",
                "create",
                "https://x.example/in",
                "--tenant",
                "acme",
                "--cron",
                "0 9 * * *",
                "--time-zone",
                "Europe/Berlin",
                "--ends-at",
                "2031-01-01T00:00:00Z",
                "--max-runs",
                "9",
                "--payload",
                "[7]",
                "--priority",
                "high",
                "--catch-up",
                "latest",
                "--reference",
                "r",
                "--expires-after",
                "1h",
            ],
            "POST /v1/reminders",
            json!({"url": "https://x.example/in", "tenant": "acme", "cron": "0 9 * * *", "time_zone": "Europe/Berlin",
                "ends_at": "2031-01-01T00:00:00Z", "max_runs": 9, "payload": [7], "priority": "high", "catch_up": "latest",
                "reference": "r", "expires_after": "1h"}),
        ),
        (
            &[
                "reminders",
                "create",
                "https://x.example/in",
                "--every",
                "1h",
                "--payload",
                "hi",
                "--content-type",
                "text/plain",
            ],
            "POST /v1/reminders",
            json!({"url": "https://x.example/in", "every": "1h", "payload_base64": "aGk=", "content_type": "text/plain"}),
        ),
        (
            &[
                "reminders",
                "change",
                "rem_01h5k2m8w4c7e",
                "--to",
                "https://y.example",
                "--every",
                "2h",
                "max_runs=null",
            ],
            "PATCH /v1/reminders/rem_01h5k2m8w4c7e",
            json!({"url": "https://y.example", "every": "2h", "max_runs": null}),
        ),
        (
            &["reminders", "change", "rem_01h5k2m8w4c7e", "--payload", "1"],
            "PATCH /v1/reminders/rem_01h5k2m8w4c7e",
            json!({"payload": 1}),
        ),
        (
            &["reminders", "pause", "rem_01h5k2m8w4c7e"],
            "POST /v1/reminders/rem_01h5k2m8w4c7e/pause",
            Value::Null,
        ),
        (
            &["reminders", "resume", "rem_01h5k2m8w4c7e"],
            "POST /v1/reminders/rem_01h5k2m8w4c7e/resume",
            Value::Null,
        ),
        (&["reminders", "run", "rem_01h5k2m8w4c7e"], "POST /v1/reminders/rem_01h5k2m8w4c7e/run", Value::Null),
        (
            &["reminders", "cancel", "rem_01h5k2m8w4c7e"],
            "POST /v1/reminders/rem_01h5k2m8w4c7e/cancel",
            Value::Null,
        ),
        (&["circuits", "show", "cir_YQ"], "GET /v1/circuits/cir_YQ", Value::Null),
        (
            &["circuits", "force-open", "cir_YQ", "--reason", "maintenance"],
            "POST /v1/circuits/cir_YQ/force_open",
            json!({"reason": "maintenance"}),
        ),
        (
            &["circuits", "force-closed", "cir_YQ", "--reason", "x"],
            "POST /v1/circuits/cir_YQ/force_closed",
            json!({"reason": "x"}),
        ),
        (
            &["circuits", "disable", "cir_YQ", "--reason", "x"],
            "POST /v1/circuits/cir_YQ/disable",
            json!({"reason": "x"}),
        ),
        (
            &["circuits", "enable", "cir_YQ", "--reason", "x"],
            "POST /v1/circuits/cir_YQ/enable",
            json!({"reason": "x"}),
        ),
        (
            &["circuits", "release", "cir_YQ", "--reason", "x"],
            "POST /v1/circuits/cir_YQ/release",
            json!({"reason": "x"}),
        ),
        (
            &["circuits", "reset", "cir_YQ", "--reason", "x"],
            "POST /v1/circuits/cir_YQ/reset",
            json!({"reason": "x"}),
        ),
        (
            &["keys", "create", "--name", "ci", "--scope", "send,read", "--tenant", "acme"],
            "POST /v1/keys",
            json!({"name": "ci", "scopes": ["send", "read"], "tenant": "acme"}),
        ),
        (&["keys", "revoke", "key_01h5k2m8w4c7e"], "POST /v1/keys/key_01h5k2m8w4c7e/revoke", Value::Null),
        (&["events", "show", "evt_01h5k2m8w4c7e"], "GET /v1/events/evt_01h5k2m8w4c7e", Value::Null),
        (&["events", "show", "01h5k2m8w4c7e"], "GET /v1/events/evt_01h5k2m8w4c7e", Value::Null),
        (
            &["circuits", "show", "acme https://x.example/in"],
            "GET /v1/circuits/cir_YWNtZSBodHRwczovL3guZXhhbXBsZS9pbg",
            Value::Null,
        ),
        (&["tenants", "show", "../keys?x#y"], "GET /v1/tenants/..%2Fkeys%3Fx%23y", Value::Null),
    ];
    let api = answering(json!({"id": "it", "name": "x"}));
    for (arguments, line, body) in table {
        let ended = against(&api, arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        let asked = api.asked().pop().unwrap();
        assert_eq!(asked.line(), *line, "{arguments:?}");
        let said = if asked.body.is_empty() { Value::Null } else { asked.json() };
        assert_eq!(said, *body, "{arguments:?}");
        assert_eq!(asked.header("authorization"), "Bearer bbx_test");
        assert_eq!(asked.header("host"), api.url().trim_start_matches("http://"));
        let json = asked.header("content-type") == "application/json";
        assert_eq!(json, !asked.body.is_empty(), "{arguments:?}");
        assert!(ended.stdout.starts_with("id    it\n"), "{arguments:?}: {}", ended.stdout);
    }
}

#[test]
fn a_test_that_fails_is_exit_code_1() {
    let endpoint = &["endpoints", "test", "ep_01h5k2m8w4c7e"][..];
    let notifications = &["notifications", "test", "acme"][..];
    let targets = |second: bool| json!({"targets": [{"target": "tgt_1", "ok": true, "response": "200"}, {"target": "tgt_2", "ok": second, "response": "500"}]});
    for (arguments, answer, code, expected) in [
        (endpoint, json!({"ok": true, "status": 204, "fault": null}), 0, ""),
        (endpoint, json!({"ok": false, "status": 500, "fault": null}), 1, "it responded with 500"),
        (
            endpoint,
            json!({"ok": false, "status": null, "fault": "connect", "detail": "refused"}),
            1,
            "the test request failed: connect: refused",
        ),
        (notifications, targets(true), 0, ""),
        (notifications, targets(false), 1, "1 of 2 targets did not accept the test notification"),
    ] {
        let api = answering(answer.clone());
        let ended = against(&api, arguments);
        assert_eq!(ended.code, code, "{arguments:?} {answer}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(expected) && ended.stderr.is_empty() == (code == 0),
            "{}",
            ended.stderr
        );
        assert!(!ended.stdout.is_empty(), "what was answered is shown all the same");
        let ended = against(&api, &[arguments, &["--json"]].concat());
        assert_eq!(ended.code, code);
        assert!(serde_json::from_str::<Value>(&ended.stdout).is_ok(), "{}", ended.stdout);
        if code != 0 {
            let problem: Value = serde_json::from_str(&ended.stderr).unwrap();
            assert_eq!(problem["code"], "failed");
        }
    }
}

#[test]
fn events_are_sent_byte_for_byte() {
    let api = answering(json!({"id": "evt_1", "deliveries": 0}));
    let payload = "{ \"b\":1.0,\n\"a\": \"\\u00e9\" }";
    let ended =
        against(&api, &["send", "invoice.paid", payload, "--idempotency-key", "k1", "--priority", "high"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("no endpoint receives events of this type"), "{}", ended.stderr);
    let asked = api.asked().pop().unwrap();
    assert_eq!(asked.line(), "POST /v1/events");
    assert!(asked.body.contains(payload), "{}", asked.body);
    assert_eq!(asked.json()["priority"], "high");
    assert_eq!(asked.header("idempotency-key"), "k1");

    let program = Program::new(&[
        "send",
        "a",
        "@p.json",
        "--url",
        &api.url(),
        "--tenant",
        "acme",
        "--expires-after",
        "1h",
    ]);
    let ended = program.args(&["--to", "https://x.example/", "--quiet"]).file("p.json", "[1]").run();
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "evt_1\n", ""));
    let expected = json!({"type": "a", "tenant": "acme", "payload": [1], "url": "https://x.example/", "expires_after": "1h"});
    assert_eq!(api.asked().pop().unwrap().json(), expected);
    assert_eq!(api.asked().pop().unwrap().header("authorization"), "", "no key was given");

    let ended = against(&api, &["send", "a", "<x/>", "--content-type", "text/xml", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap()["id"], "evt_1");
    let expected = json!({"type": "a", "payload_base64": "PHgvPg==", "content_type": "text/xml"});
    assert_eq!(api.asked().pop().unwrap().json(), expected);
}

#[test]
fn reminders_are_sent_byte_for_byte() {
    let api = answering(json!({"id": "rem_01h5k2m8w4c7e"}));
    let payload = "{ \"b\":1.0,\n\"a\": \"\\u00e9\" }";
    let ended =
        against(&api, &["reminders", "create", "https://x.example", "--every", "1h", "--payload", payload]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(api.asked().pop().unwrap().body.contains(payload), "{:?}", api.asked());
    let url = api.url();
    for given in [["--payload", "@p.json"], ["--payload-file", "p.json"]] {
        let program = Program::new(&["reminders", "change", "rem_01h5k2m8w4c7e", "--quiet", "--url", &url])
            .args(&given);
        let ended = program.file("p.json", payload).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "rem_01h5k2m8w4c7e\n"), "{}", ended.stderr);
        assert!(api.asked().pop().unwrap().body.contains(payload), "{:?}", api.asked());
    }
}

#[test]
fn a_preview_is_a_table_of_times() {
    let times = json!({"times": [{"at": "a", "local": "b", "weekday": "Monday"}], "more": true});
    let api = answering(times);
    let ended =
        against(&api, &["reminders", "preview", "--cron", "0 9 * * *", "--time-zone", "UTC", "--count", "1"]);
    assert_eq!(ended.stdout, "AT  LOCAL  WEEKDAY\na   b      Monday\n");
    let asked = api.asked().pop().unwrap();
    assert_eq!(asked.line(), "POST /v1/reminders/preview");
    assert_eq!(asked.json(), json!({"cron": "0 9 * * *", "time_zone": "UTC", "count": 1}));
    against(&api, &["reminders", "list", "--state", "stopped", "--reference", "a b"]);
    assert_eq!(api.asked().pop().unwrap().line(), "GET /v1/reminders?state=stopped&reference=a+b&limit=100");
}

#[test]
fn what_is_wrong_is_said_before_anything_is_asked() {
    let api = answering(json!({}));
    let table: &[(&[&str], &str)] = &[
        (&["send", "a", "{"], "the payload is not JSON"),
        (&["send", "a b"], "words of a-z"),
        (&["send", "a", "--priority", "urgent"], "must be high, important, medium or low"),
        (&["keys", "create", "--name", "x", "--scope", "root"], "must be admin, manage, read or send"),
        (&["deliveries", "resend-all"], "a filter is missing; use --tenant"),
        (
            &["reminders", "create", "https://x.example", "--at", "1h", "--payload", "{"],
            "the payload is not JSON",
        ),
        (&["reminders", "create", "https://x.example", "--at", "tomorrow"], "must be a duration such as 1h"),
        (&["reminders", "create", "https://x.example", "--every", "5"], "write \"5s\""),
        (&["reminders", "create", "https://x.example", "--in", "5s", "--at", "1h"], "cannot be used with"),
        (&["deliveries", "list", "--from", "5"], "write \"5s\""),
        (&["deliveries", "watch", "--every", "10ms"], "must be at least 200ms"),
        (&["deliveries", "show", "ep_01h5k2m8w4c7e"], "is the ID of another kind of resource (endpoint)"),
        (&["reminders", "change", "rem_01h5k2m8w4c7e"], "nothing to change"),
        (
            &["reminders", "create", "https://x.example", "--every", "1h", "--cron", "@daily"],
            "cannot be used with",
        ),
        (&["tenants", "change", "acme", "enabled"], "must be FIELD=VALUE"),
        (&["tenants", "list", "--url", "ftp://x"], "must be a URL with http or https"),
        (&["tenants", "list", "--url", "http://a:b@x"], "pass an API key with --key"),
        (&["tenants", "list", "--timeout", "5"], "needs a unit; write \"5s\" for 5 seconds"),
        (&["send", "a", "--expires-after", "5"], "write \"5s\""),
        (&["listen", "--delay", "5"], "write \"5s\""),
        (
            &["tenants", "show", "a", "--key", "a\nb"],
            "--key or another option contains a character that can't be sent",
        ),
    ];
    for (arguments, expected) in table {
        let ended = against(&api, arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(api.asked().len(), 0);
    let ended = against(&api, &["send", "a", "@not-there"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
}

#[test]
fn a_problem_says_what_which_field_and_what_to_do() {
    let table = [
        (
            Answer::problem(
                422,
                json!({"code": "invalid_field", "detail": "url: must be http or https", "field": "url"}),
            ),
            2,
            "breakerbox: url: must be http or https (422 invalid_field)\n",
        ),
        (
            Answer::problem(422, json!({"code": "missing_field", "detail": "is missing", "field": "id"})),
            2,
            "breakerbox: id: is missing (422 missing_field)\n",
        ),
        (
            Answer::problem(401, json!({"code": "unauthenticated", "detail": "the API key is not known"})),
            4,
            "breakerbox: the API key is not known (401 unauthenticated)\nbreakerbox: pass a key with --key or BREAKERBOX_API_KEY; `breakerbox keys create --data DIRECTORY` creates one\n",
        ),
        (
            Answer {
                headers: vec![("retry-after", "10")],
                ..Answer::problem(429, json!({"code": "backlog_full", "detail": "too much waits"}))
            },
            4,
            "breakerbox: too much waits (429 backlog_full)\nbreakerbox: the tenant's endpoints are too slow or down; `breakerbox circuits list --state open` shows them; try again in 10 s\n",
        ),
        (
            Answer::problem(500, json!({"code": "internal", "title": "Something went wrong"})),
            1,
            "breakerbox: Something went wrong (500 internal)\n",
        ),
        (
            Answer { status: 404, headers: vec![], body: "<h1>\u{1b}[2Jnginx</h1>".into() },
            4,
            "breakerbox: <h1>\\u{1b}[2Jnginx</h1> (404 unknown)\nbreakerbox: check --url: the server there seems not to be a gateway\n",
        ),
        (
            Answer { status: 200, headers: vec![], body: "welcome".into() },
            1,
            "is not a Breakerbox gateway: the response is not JSON\n",
        ),
    ];
    for (answer, code, expected) in table {
        let (status, headers, body) = (answer.status, answer.headers, answer.body);
        let api = FakeApi::start(move |_| Answer { status, headers: headers.clone(), body: body.clone() });
        let ended = against(&api, &["tenants", "show", "acme"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""));
        assert!(ended.stderr.ends_with(expected), "{}", ended.stderr);
    }
    let api = FakeApi::start(|_| Answer::problem(403, json!({"code": "scope_missing", "detail": "no"})));
    let ended = against(&api, &["tenants", "show", "acme", "--json"]);
    assert_eq!(ended.code, 4);
    assert_eq!(
        serde_json::from_str::<Value>(&ended.stderr).unwrap(),
        json!({"code": "scope_missing", "detail": "no"})
    );
}

#[test]
fn a_gateway_that_is_not_there_is_exit_code_3() {
    let port = breakerbox_testkit::receiver::RefusingPort::new().unwrap();
    let ended = Program::new(&["circuits", "list", "--url", &port.url("/")]).run();
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("Check that it is running"), "{}", ended.stderr);

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let ended = Program::new(&["circuits", "list", "--timeout", "50ms", "--json", "--url", &url]).run();
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let problem: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(problem["code"], "unreachable");
    assert!(problem["detail"].as_str().unwrap().contains("no response within 50ms"), "{problem}");
}

#[test]
fn a_created_key_alone_is_printed_for_a_shell() {
    let api = answering(json!({"id": "key_1", "key": "bbx_abc", "scopes": ["admin"]}));
    let ended = against(&api, &["keys", "create", "--name", "x", "--scope", "admin", "--quiet"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "bbx_abc\n", ""));
}

#[test]
fn the_api_may_be_below_a_path() {
    let api = answering(json!({"id": "acme"}));
    let ended = Program::new(&["tenants", "show", "acme", "--url", &format!("{}/gate/", api.url())]).run();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(api.asked()[0].line(), "GET /gate/v1/tenants/acme");
}

#[test]
fn a_key_expires_after_the_time_that_is_said() {
    let api = answering(json!({"id": "key_1"}));
    let before = jiff::Timestamp::now();
    let arguments = ["keys", "create", "--name", "x", "--scope", "read", "--expires-after", "36h"];
    assert_eq!(against(&api, &arguments).code, 0);
    let expires: jiff::Timestamp = api.asked()[0].json()["expires_at"].as_str().unwrap().parse().unwrap();
    let hours = expires.duration_since(before).as_secs_f64() / 3_600.0;
    assert!((36.0..37.0).contains(&hours), "{hours}");
}

#[test]
fn a_circuit_can_be_named_by_its_endpoint() {
    let api = FakeApi::start(|asked| match asked.path.as_str() {
        "/v1/endpoints/ep_01h5k2m8w4c7e" => {
            Answer::ok(json!({"id": "ep_01h5k2m8w4c7e", "circuit": {"id": "cir_YQ"}}))
        }
        _ => Answer::ok(json!({"id": "cir_YQ", "items": [], "next": null})),
    });
    for (arguments, line) in [
        (&["circuits", "show", "ep_01h5k2m8w4c7e"][..], "GET /v1/circuits/cir_YQ"),
        (&["circuits", "history", "ep_01h5k2m8w4c7e"], "GET /v1/changes?circuit=cir_YQ&limit=100"),
        (&["circuits", "reset", "ep_01h5k2m8w4c7e", "--reason", "x"], "POST /v1/circuits/cir_YQ/reset"),
    ] {
        let ended = against(&api, arguments);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(api.asked().pop().unwrap().line(), line);
    }
}

#[test]
fn a_policy_is_a_table_and_changed_by_names() {
    let value = |value: Value, default: Value, origin: &str| json!({"value": value, "default": default, "origin": origin});
    let answer = json!({
        "tenant": "acme", "endpoint": null, "own": {"failures": 20}, "decided_by": null, "circuit_by": "endpoint",
        "policy": {
            "failures": value(json!(20), json!("off"), "tenant"),
            "preset": value(Value::Null, Value::Null, "default"),
            "window": value(json!("1m"), json!("1m"), "default"),
        },
    });
    let api = answering(answer.clone());
    let ended = against(&api, &["tenants", "policy", "acme"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let expected = [
        "NAME      VALUE  DEFAULT  ORIGIN",
        "preset    -      -        default",
        "window    1m     1m       default",
        "failures  20     off      tenant",
    ];
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), expected, "in the order of the policy file");
    assert_eq!(api.asked()[0].line(), "GET /v1/tenants/acme/policy");

    let arguments = [
        "--set",
        "failures=20",
        "--set",
        "failure_rate=off",
        "--set",
        "window=5m",
        "--unset",
        "probes",
        "--json",
    ];
    let ended = against(&api, &[&["endpoints", "policy", "ep_01h5k2m8w4c7e"][..], &arguments].concat());
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), answer);
    let asked = api.asked().pop().unwrap();
    assert_eq!(asked.line(), "PATCH /v1/endpoints/ep_01h5k2m8w4c7e/policy");
    assert_eq!(asked.json(), json!({"failures": 20, "failure_rate": "off", "window": "5m", "probes": null}));
    against(&api, &["tenants", "policy", "acme", "--reminders", "--set", "mean_latency=2s"]);
    assert_eq!(api.asked().pop().unwrap().line(), "PATCH /v1/tenants/acme/reminders/policy");
    let ended = against(&api, &["tenants", "policy", "acme", "--set", "probes=2", "--unset", "probes"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("probes can't be both set and unset"), "{}", ended.stderr);
    let names = against(&api, &["tenants", "policy", "acme", "--quiet"]);
    assert_eq!(names.stdout, "preset\nwindow\nfailures\n");
}

#[test]
fn a_policy_that_does_not_count_says_so() {
    for (decided_by, by, expected) in [
        (Value::Null, "host", "the values set here have no effect while the tenant's `circuit_by` is host"),
        (json!("ep_0"), "endpoint", "the older endpoint ep_0 shares this circuit"),
        (json!("ep_01h5k2m8w4c7e"), "endpoint", ""),
    ] {
        let api = answering(json!({
            "tenant": "acme", "endpoint": "ep_01h5k2m8w4c7e", "own": {"failures": 20}, "decided_by": decided_by, "circuit_by": by,
            "policy": { "window": {"value": "1m", "default": "1m", "origin": "default"} },
        }));
        let ended = against(&api, &["endpoints", "policy", "ep_01h5k2m8w4c7e"]);
        assert_eq!(ended.code, 0);
        assert!(
            ended.stderr.contains(expected) && ended.stderr.is_empty() == expected.is_empty(),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn resends_are_jobs_that_can_be_looked_at() {
    let api = answering(json!({"id": "job_01h5k2m8w4c7e", "state": "running", "items": [], "next": null}));
    for (arguments, line) in [
        (&["resends", "list", "--tenant", "acme"][..], "GET /v1/resends?tenant=acme&limit=100"),
        (&["resends", "show", "job_01h5k2m8w4c7e"], "GET /v1/resends/job_01h5k2m8w4c7e"),
        (&["resends", "start", "--tenant", "acme", "--state", "failed"], "POST /v1/resends"),
        (&["resends", "cancel", "job_01h5k2m8w4c7e"], "POST /v1/resends/job_01h5k2m8w4c7e/cancel"),
    ] {
        let ended = against(&api, arguments);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(api.asked().pop().unwrap().line(), line);
    }
    assert_eq!(api.asked()[2].json(), json!({"tenant": "acme", "state": "failed"}));
    let ended = against(&api, &["resends", "start"]);
    assert_eq!((ended.code, api.asked().len()), (2, 4), "which, must be said: {}", ended.stderr);
}
