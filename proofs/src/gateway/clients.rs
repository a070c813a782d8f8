//! Hostile clients: every request gets the right status and a reason, and no data of other tenants.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::{Api, Settings};
use breakerbox_testkit::receiver::Receiver;
use reqwest::Method;
use serde_json::{Value, json};

use super::findings::{Findings, Millis};

/// The gateway's timeout for receiving a request, as configured in this test.
const TO_ARRIVE: Duration = Duration::from_secs(2);

/// The timeout for connections that the gateway does not close.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// A string that occurs only in the victim's data.
const SECRET: &str = "the-victims-own-words";

/// Sends invalid and unauthorized requests, and checks the responses.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path) -> Result<Findings> {
    let receiver = Receiver::start()?;
    let limit = format!("{}s", TO_ARRIVE.as_secs());
    let settings = Settings::new(program).flag("--limits-header-timeout", &limit);
    let mut gateway = settings.flag("--limits-body-timeout", &limit).start()?;
    let api = gateway.api().clone();
    let mut findings = Findings::new("hostile clients");
    let victim = victim(&api, &receiver)?;
    let others = key(&api, "other", &["manage", "read", "send"])?;
    let reader = key(&api, "other", &["read"])?;
    let (admin, others, reader) = (&api, api.with_key(&others), api.with_key(&reader));
    let nobody = api.with_key("bbx_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");

    let event = |payload: Value| json!({"tenant": "other", "type": "a.b", "payload": payload});
    let large = event(json!("x".repeat(300 << 10)));
    let deep: Value = serde_json::from_str(&format!("{}{}", "[".repeat(100), "]".repeat(100)))?;
    let (event_path, endpoint_path) =
        (format!("/v1/events/{}", victim.event), format!("/v1/endpoints/{}", victim.endpoint));
    let (get, post) = (&Method::GET, &Method::POST);
    let named_other = json!({"tenant": "victim", "type": "a.b", "payload": 1});
    let cases: Vec<Case<'_>> = vec![
        ("a good event", admin, post, "/v1/events", Some(event(deep)), 202),
        ("a payload of 300 KB", admin, post, "/v1/events", Some(large), 413),
        ("no type", admin, post, "/v1/events", Some(json!({"payload": 1})), 422),
        ("a type that is a number", admin, post, "/v1/events", Some(json!({"type": 1, "payload": 1})), 422),
        (
            "an unknown field",
            admin,
            post,
            "/v1/events",
            Some(json!({"type": "a", "payload": 1, "x": 1})),
            422,
        ),
        ("a list for a body", admin, post, "/v1/events", Some(json!([])), 422),
        (
            "a URL that is none",
            admin,
            post,
            "/v1/endpoints",
            Some(json!({"url": "ftp://x", "tenant": "other"})),
            422,
        ),
        (
            "an unknown tenant",
            admin,
            post,
            "/v1/events",
            Some(json!({"tenant": "no", "type": "a", "payload": 1})),
            404,
        ),
        ("a path that is none", admin, get, "/v1/nothing", None, 404),
        ("a method that is none", admin, &Method::PUT, "/v1/events", Some(json!({})), 405),
        ("an id that is none", admin, get, "/v1/events/evt_%00", None, 404),
        ("a wrong key", &nobody, get, "/v1/endpoints", None, 401),
        ("a scope too few", &reader, post, "/v1/events", Some(event(json!(1))), 403),
        ("another's event", &others, get, &event_path, None, 404),
        ("another's endpoint", &others, get, &endpoint_path, None, 404),
        ("another's endpoint, deleted", &others, &Method::DELETE, &endpoint_path, None, 404),
        ("an event for another", &others, post, "/v1/events", Some(named_other), 403),
        ("all keys", &others, get, "/v1/keys", None, 403),
    ];
    for (what, api, method, path, body, expected) in cases {
        let (status, answer) = api.request(method, path, body.as_ref())?;
        judge(&mut findings, what, status, &answer, expected);
    }
    let address = gateway.address().to_string();
    for (what, request, expected) in raw_requests(&address) {
        let (answer, took) = exchange(&address, &request)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0_u16);
        let seen = format!("{status} after {}", Millis(took));
        let holds = expected.contains(&status) && took < TO_ARRIVE + Duration::from_secs(3);
        findings.hold(what, seen, format!("one of {expected:?}, within {}", Millis(TO_ARRIVE)), holds);
    }
    let still = api.get(&endpoint_path).is_ok() && gateway.ended()?.is_none();
    findings.exactly("the victim's endpoint is still there", still, true);
    findings.exactly("panics in the log", gateway.log().matches("panicked").count(), 0);
    Ok(findings)
}

/// A test case: a description, the client, the method, the path, the body, and the expected status.
type Case<'a> = (&'a str, &'a Api, &'a Method, &'a str, Option<Value>, u16);

struct Victim {
    endpoint: String,
    event: String,
}

fn victim(api: &Api, receiver: &Receiver) -> Result<Victim> {
    api.create_tenant("victim", &json!({}))?;
    api.create_tenant("other", &json!({}))?;
    let url = receiver.url("/victim");
    let endpoint = api.create_endpoint("victim", &url, &[], &json!({"description": SECRET}))?;
    let event = json!({"tenant": "victim", "type": "a.b", "payload": {"secret": SECRET}});
    let event = api.post("/v1/events", &event)?;
    let event = event.get("id").and_then(Value::as_str).context("an event has an id")?.to_owned();
    Ok(Victim { endpoint, event })
}

fn key(api: &Api, tenant: &str, scopes: &[&str]) -> Result<String> {
    let made = api.post("/v1/keys", &json!({"name": "a key", "tenant": tenant, "scopes": scopes}))?;
    let key = made.get("key").and_then(Value::as_str);
    key.map(str::to_owned).with_context(|| format!("a new key is shown once: {made}"))
}

fn judge(findings: &mut Findings, what: &str, status: u16, answer: &Value, expected: u16) {
    let code = answer.get("code").and_then(Value::as_str).unwrap_or_default();
    let explained = status < 400 || (!code.is_empty() && answer.get("detail").is_some());
    let leaks = answer.to_string().contains(SECRET);
    let holds = status == expected && explained && !leaks;
    findings.hold(what, format!("{status} {code}"), format!("{expected}, and why"), holds);
}

/// Returns malformed requests, which no HTTP library would send, each with a description and the allowed
/// response statuses. Status 0 means that the gateway may close the connection without a response.
fn raw_requests(address: &str) -> Vec<(&'static str, Vec<u8>, Vec<u16>)> {
    let head = |rest: &str| format!("POST /v1/events HTTP/1.1\r\nhost: {address}\r\n{rest}").into_bytes();
    vec![
        ("garbage", vec![0xff; 64], vec![0, 400]),
        ("half a head", head("content-le"), vec![0, 408]),
        ("no key", head("content-length: 2\r\n\r\n{}"), vec![401]),
        (
            "a body that does not come",
            head("authorization: Bearer x\r\ncontent-length: 100\r\n\r\n{"),
            vec![0, 401, 408],
        ),
        (
            "a terabyte announced",
            head("authorization: Bearer x\r\ncontent-length: 1099511627776\r\n\r\n"),
            vec![0, 401, 413],
        ),
        ("a header of 1 MB", head(&format!("x: {}\r\n\r\n", "y".repeat(1 << 20))), vec![0, 431]),
        ("two lengths", head("content-length: 2\r\ncontent-length: 3\r\n\r\n{}"), vec![0, 400]),
    ]
}

/// Sends bytes, and waits until part of a response arrives or the connection is closed. Returns the bytes
/// received (none if the connection was closed), and how long this took.
fn exchange(address: &str, request: &[u8]) -> Result<(String, Duration)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    stream.set_write_timeout(Some(WAIT_LIMIT))?;
    let began = Instant::now();
    // The gateway may close the connection before everything is sent.
    let _ = stream.write_all(request);
    let mut answer = vec![0; 4_096];
    let read = stream.read(&mut answer).unwrap_or(0);
    answer.truncate(read);
    Ok((String::from_utf8_lossy(&answer).into_owned(), began.elapsed()))
}
