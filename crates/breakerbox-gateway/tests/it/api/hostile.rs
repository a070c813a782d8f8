//! Hostile and broken clients: each gets the right status, code and advice, and nothing else.

use http::{Method, Request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::{LONG, Said, Site};

/// Checks the properties that every problem has.
fn check_problem(said: &Said) {
    assert_eq!(said.header("content-type"), "application/problem+json", "{said:?}");
    let problem = said.json();
    assert_eq!(problem["status"], said.status.as_u16());
    assert!(!problem["code"].as_str().unwrap().is_empty());
    assert!(
        !problem["detail"].as_str().unwrap().is_empty() && problem["detail"].as_str().unwrap().len() < 2_000
    );
    assert_eq!(problem["type"], format!("/docs#{}", problem["code"].as_str().unwrap()));
    check_headers(said);
}

fn check_headers(said: &Said) {
    assert_eq!(said.header("x-content-type-options"), "nosniff");
    assert!(said.header("content-security-policy").starts_with("default-src 'none'"));
    assert_eq!(said.header("referrer-policy"), "no-referrer");
    assert!(!said.header("x-request-id").is_empty() && !said.header("cache-control").is_empty());
}

#[tokio::test]
async fn bodies_that_can_not_be_read() {
    let site = Site::start().await;
    let table: [(&str, &str, &[u8], u16, &str); 18] = [
        ("/v1/events", "application/json", b"", 400, "invalid_json"),
        ("/v1/events", "application/json", b"{", 400, "invalid_json"),
        ("/v1/events", "application/json", b"\xff\xfe", 400, "invalid_json"),
        ("/v1/events", "application/json", b"{\"type\":\"\xff\"}", 400, "invalid_json"),
        ("/v1/events", "application/json", b"{\"type\":\"a\",\"payload\":1} x", 400, "invalid_json"),
        ("/v1/events", "application/json", b"[]", 422, "invalid_field"),
        ("/v1/events", "application/json", b"null", 422, "invalid_field"),
        (
            "/v1/events",
            "application/json",
            b"{\"type\":\"a\",\"type\":\"b\",\"payload\":1}",
            422,
            "invalid_field",
        ),
        ("/v1/events", "text/plain", b"{\"type\":\"a\",\"payload\":1}", 415, "unsupported_media_type"),
        ("/v1/events", "application/x-www-form-urlencoded", b"{}", 415, "unsupported_media_type"),
        ("/v1/endpoints", "application/json", b"{\"url\":", 400, "invalid_json"),
        ("/v1/endpoints", "application/json", b"7", 422, "invalid_field"),
        // A list that could be taken for fields in order.
        ("/v1/resends", "application/json", b"[null,null,null]", 422, "invalid_field"),
        (
            "/v1/events",
            "application/json",
            b"[null,\"a\",1,null,null,null,null,null,null]",
            422,
            "invalid_field",
        ),
        ("/v1/events/batch", "application/json", b"[null,[]]", 422, "invalid_field"),
        (
            "/v1/events/batch",
            "application/json",
            b"{\"events\":[[null,\"a\",1,null,null,null,null,null,null]]}",
            422,
            "invalid_field",
        ),
        ("/v1/tenants", "application/json", b"{\"id\":\"x\",\"backlog\":[1,1]}", 422, "invalid_field"),
        ("/v1/keys", "", b"{}", 415, "unsupported_media_type"),
    ];
    for (path, media_type, body, status, code) in table {
        let mut request =
            Request::builder().method(Method::POST).header("authorization", format!("Bearer {}", site.admin));
        if !media_type.is_empty() {
            request = request.header("content-type", media_type);
        }
        let said = site.send(request, path, body.to_vec()).await.expect(status);
        assert_eq!(
            said.code(),
            code,
            "{path} {}",
            String::from_utf8_lossy(body).get(..40).unwrap_or("short")
        );
        check_problem(&said);
    }
}

#[tokio::test]
async fn a_body_that_is_no_object_is_called_what_it_is() {
    let site = Site::start().await;
    let paths = [
        "/v1/events",
        "/v1/events/batch",
        "/v1/reminders",
        "/v1/reminders/batch",
        "/v1/endpoints",
        "/v1/keys",
    ];
    for path in paths {
        for (body, kind) in [
            (" [1]", "a list"),
            ("\"x\"", "a string"),
            ("-7", "a number"),
            ("true", "true or false"),
            ("null", "null"),
        ] {
            let request = Request::builder()
                .method(Method::POST)
                .header("authorization", format!("Bearer {}", site.admin))
                .header("content-type", "application/json");
            let said = site.send(request, path, body.to_owned()).await.expect(422);
            let expected = format!("the body must be an object, but is {kind}");
            assert_eq!(said.json()["detail"], expected, "{path} {body}");
        }
    }
    // Wrong in two ways. Incomplete JSON is reported first.
    let request = Request::builder()
        .method(Method::POST)
        .header("authorization", format!("Bearer {}", site.admin))
        .header("content-type", "application/json");
    let said = site.send(request, "/v1/events", "{\"type\": 7, \"payload\":").await.expect(400);
    assert_eq!(said.code(), "invalid_json");
}

#[tokio::test]
async fn fields_that_will_not_do() {
    let site = Site::start().await;
    let long = "x".repeat(100_000);
    let event = |more: Value| {
        let mut event = json!({ "type": "a", "payload": 1 });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let endpoint = |more: Value| {
        let mut endpoint = json!({ "url": "https://a.example/" });
        endpoint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        endpoint
    };
    let tenant = |more: Value| {
        let mut tenant = json!({ "id": "fresh" });
        tenant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tenant
    };
    // Path, body, code, field, and a part of the detail.
    let table: Vec<(&str, Value, &str, &str, &str)> = vec![
        ("/v1/events", json!({ "payload": 1 }), "missing_field", "type", "is missing"),
        ("/v1/events", json!({ "type": "a" }), "missing_field", "payload", "payload_base64"),
        ("/v1/events", event(json!({ "type": "a b" })), "invalid_field", "type", "words"),
        ("/v1/events", event(json!({ "type": 7 })), "invalid_field", "type", "must be a string"),
        ("/v1/events", event(json!({ "type": long })), "invalid_field", "type", "128"),
        (
            "/v1/events",
            event(json!({ "priority": "urgent" })),
            "invalid_field",
            "priority",
            "high, important",
        ),
        ("/v1/events", event(json!({ "priority": ["high"] })), "invalid_field", "priority", "but is a list"),
        ("/v1/events", event(json!({ "prioritty": "high" })), "unknown_field", "prioritty", "`priority`"),
        ("/v1/events", event(json!({ "Payload": 1 })), "unknown_field", "Payload", "`payload`"),
        ("/v1/events", event(json!({ "id": 1 })), "unknown_field", "id", "the fields are"),
        ("/v1/events", event(json!({ "tenant": "a/b" })), "invalid_field", "tenant", "characters"),
        (
            "/v1/events",
            event(json!({ "url": "http://u:hunter2@a.example" })),
            "invalid_field",
            "url",
            "password",
        ),
        ("/v1/events", event(json!({ "url": "file:///etc/passwd" })), "invalid_field", "url", "http://"),
        ("/v1/events", event(json!({ "url": "nonsense" })), "invalid_field", "url", "add https://"),
        (
            "/v1/events",
            event(json!({ "url": format!("https://a.example/{long}") })),
            "invalid_field",
            "url",
            "at most",
        ),
        (
            "/v1/events",
            event(json!({ "not_before": "tomorrow" })),
            "invalid_field",
            "not_before",
            "2026-01-31",
        ),
        ("/v1/events", event(json!({ "not_before": 5 })), "invalid_field", "not_before", "must be a string"),
        (
            "/v1/events",
            event(json!({ "expires_after": "5 minutes" })),
            "invalid_field",
            "expires_after",
            "unit",
        ),
        (
            "/v1/events",
            event(json!({ "expires_after": "0s" })),
            "invalid_field",
            "expires_after",
            "longer than zero",
        ),
        (
            "/v1/events",
            event(json!({ "payload_base64": "AA==" })),
            "invalid_field",
            "payload_base64",
            "combined",
        ),
        (
            "/v1/events",
            event(json!({ "content_type": "text/plain" })),
            "invalid_field",
            "content_type",
            "payload_base64",
        ),
        (
            "/v1/events",
            json!({ "type": "a", "payload_base64": "A" }),
            "invalid_field",
            "payload_base64",
            "base64",
        ),
        (
            "/v1/events",
            json!({ "type": "a", "payload_base64": "AA==", "content_type": "x\r\ny: z" }),
            "invalid_field",
            "content_type",
            "media type",
        ),
        ("/v1/endpoints", json!({}), "missing_field", "url", "is missing"),
        ("/v1/endpoints", json!({ "url": "ftp://a.example" }), "invalid_field", "url", "http://"),
        ("/v1/endpoints", json!({ "ulr": "https://a.example" }), "unknown_field", "ulr", "`url`"),
        ("/v1/endpoints", endpoint(json!({ "types": ["a", "*"] })), "invalid_field", "types[1]", "`.*`"),
        (
            "/v1/endpoints",
            endpoint(json!({ "types": vec!["a"; 101] })),
            "invalid_field",
            "types",
            "at most 100",
        ),
        ("/v1/endpoints", endpoint(json!({ "timeout": "6m" })), "invalid_field", "timeout", "100ms to 5m"),
        (
            "/v1/endpoints",
            endpoint(json!({ "timeout": 3 })),
            "invalid_field",
            "timeout",
            "write \"3s\" for 3 seconds",
        ),
        ("/v1/endpoints", endpoint(json!({ "max_in_flight": 0 })), "invalid_field", "max_in_flight", "1 to"),
        (
            "/v1/endpoints",
            endpoint(json!({ "max_in_flight": -1 })),
            "invalid_field",
            "max_in_flight",
            "must be",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "headers": { "Host": "x" } })),
            "invalid_field",
            "headers.host",
            "uses it",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "headers": { "a": "b\nc" } })),
            "invalid_field",
            "headers.a",
            "visible",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "rate": { "per_second": 0, "burst": 1 } })),
            "invalid_field",
            "rate.per_second",
            "from one in a day",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "rate": { "per_second": 1 } })),
            "missing_field",
            "rate.burst",
            "is missing",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "rate": { "per_second": 1, "burst": 1, "x": 1 } })),
            "unknown_field",
            "rate.x",
            "the fields are",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "retry": ["5s", "x"] })),
            "invalid_field",
            "retry[1]",
            "whole number",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "secret": "whsec_hunter2" })),
            "invalid_field",
            "secret",
            "base64",
        ),
        (
            "/v1/endpoints",
            endpoint(json!({ "policy": { "windw": "1m" } })),
            "invalid_field",
            "policy.windw",
            "window",
        ),
        ("/v1/endpoints", endpoint(json!({ "policy": 5 })), "invalid_field", "policy", "object"),
        (
            "/v1/endpoints",
            endpoint(json!({ "description": "a\nb" })),
            "invalid_field",
            "description",
            "one line",
        ),
        ("/v1/tenants", json!({ "id": "" }), "invalid_field", "id", "1 to 64"),
        ("/v1/tenants", json!({ "id": "../x" }), "invalid_field", "id", "1 to 64"),
        (
            "/v1/tenants",
            tenant(json!({ "policy": { "failure_rate": 101 } })),
            "invalid_field",
            "policy.failure_rate",
            "1 to 100",
        ),
        ("/v1/tenants", tenant(json!({ "circuit_by": "hose" })), "invalid_field", "circuit_by", "`host`"),
        (
            "/v1/tenants",
            tenant(json!({ "backlog": { "count": 0, "bytes": 1 } })),
            "invalid_field",
            "backlog.count",
            "1 to",
        ),
        (
            "/v1/tenants",
            tenant(json!({ "response_rules": { "404": { "circuit": "open" } } })),
            "invalid_field",
            "response_rules.404.circuit",
            "ignored",
        ),
        ("/v1/tenants", tenant(json!({ "name": long })), "invalid_field", "name", "at most 200"),
        ("/v1/keys", json!({ "name": "x", "scopes": [] }), "invalid_field", "scopes", "at least one"),
        ("/v1/keys", json!({ "name": "x", "scopes": ["root"] }), "invalid_field", "scopes[0]", "`admin`"),
        ("/v1/keys", json!({ "scopes": ["read"] }), "missing_field", "name", "is missing"),
        ("/v1/resends", json!({ "state": "pending" }), "invalid_field", "state", "delivered, failed"),
        ("/v1/resends", json!({ "endpoint": "evt_0000000000000" }), "invalid_field", "endpoint", "`ep_`"),
        (
            "/v1/resends",
            json!({ "from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z" }),
            "invalid_field",
            "until",
            "after",
        ),
    ];
    for (path, body, code, field, word) in table {
        let said = site.post(path, &site.admin, body.clone()).await;
        let shown = body.to_string().chars().take(120).collect::<String>();
        assert_eq!(said.status, 422, "{path} {shown}: {}", said.json());
        check_problem(&said);
        let problem = said.json();
        assert_eq!(
            (&problem["code"], &problem["field"]),
            (&json!(code), &json!(field)),
            "{path} {shown}: {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().contains(word), "{path} {shown}: {problem}");
        assert!(!problem.to_string().contains("hunter2"), "secrets are not repeated: {problem}");
    }
    let left: Value = site.get("/v1/endpoints", &site.admin).await.expect(200).json();
    assert_eq!(left["items"], json!([]), "none of them did anything");
}

#[tokio::test]
async fn paths_methods_queries_and_ids() {
    let site = Site::start().await;
    let table: [(Method, &str, u16, &str, &str); 22] = [
        (Method::POST, "/", 405, "method_not_allowed", "allow"),
        (Method::GET, "/v1", 404, "not_found", "/docs"),
        (Method::GET, "/v1/nothing", 404, "not_found", "/docs"),
        (Method::GET, "/v1/events/", 404, "not_found", ""),
        (Method::GET, "/v1/../etc/passwd", 404, "not_found", ""),
        (Method::DELETE, "/v1/events", 405, "method_not_allowed", "allow"),
        (Method::PUT, "/v1/tenants/acme", 405, "method_not_allowed", "allow"),
        (Method::OPTIONS, "/v1/tenants", 405, "method_not_allowed", "allow"),
        (Method::GET, "/v1/endpoints/nonsense", 404, "not_found", "`ep_`"),
        (Method::GET, "/v1/endpoints/evt_0000000000000", 404, "not_found", "`ep_`"),
        (Method::GET, "/v1/endpoints/ep_0000000000000", 404, "not_found", "there is no endpoint"),
        (Method::GET, "/v1/endpoints/ep_%00%ff", 404, "not_found", ""),
        (Method::GET, "/v1/endpoints/ep_zzzzzzzzzzzzz", 404, "not_found", ""),
        (Method::GET, "/v1/events/evt_%F0%9F%92%A9", 404, "not_found", ""),
        (Method::GET, "/v1/tenants/a%2Fb", 404, "not_found", ""),
        (Method::GET, "/v1/circuits/cir_!!!", 404, "not_found", "cir_"),
        (Method::GET, "/v1/tenants?limit=0", 400, "invalid_query", "1 to 500"),
        (Method::GET, "/v1/tenants?limit=501", 400, "invalid_query", "1 to 500"),
        (Method::GET, "/v1/tenants?limit=ten", 400, "invalid_query", "1 to 500"),
        (Method::GET, "/v1/tenants?limt=10", 400, "invalid_query", "`limit`"),
        (Method::GET, "/v1/tenants?limit=1&limit=2", 400, "invalid_query", "only once"),
        (Method::GET, "/v1/deliveries?state=lost", 400, "invalid_query", "pending"),
    ];
    for (method, path, status, code, word) in table {
        let said = site.request(method.clone(), path, &site.admin, None).await;
        assert_eq!((said.status.as_u16(), said.code().as_str()), (status, code), "{method} {path}: {said:?}");
        check_problem(&said);
        assert!(said.json()["detail"].as_str().unwrap().contains(word), "{method} {path}: {}", said.json());
        assert_eq!(said.headers.contains_key("allow"), status == 405, "{method} {path}");
    }
    for path in ["tenants", "endpoints", "deliveries", "resends", "keys"] {
        let said = site.get(&format!("/v1/{path}?cursor=%20!"), &site.admin).await.expect(400);
        assert_eq!(
            (said.code().as_str(), &said.json()["field"]),
            ("invalid_query", &json!("cursor")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn callers_without_a_good_key() {
    let site = Site::start().await;
    let good = &site.admin;
    let other_case = good.to_uppercase();
    let cut = &good[..good.len() - 1];
    for (header, detail) in [
        (None, "send an API key"),
        (Some(String::new()), "is unknown, revoked or expired"),
        (Some("Bearer".to_owned()), "is unknown, revoked or expired"),
        (Some("Bearer ".to_owned()), "is unknown, revoked or expired"),
        (Some(format!("Basic {good}")), "is unknown, revoked or expired"),
        (Some(good.clone()), "is unknown, revoked or expired"),
        (Some(format!("Bearer {other_case}")), "is unknown, revoked or expired"),
        (Some(format!("Bearer {cut}")), "is unknown, revoked or expired"),
        (Some(format!("Bearer {good}x")), "is unknown, revoked or expired"),
        (Some(format!("Bearer bbx_{}", "A".repeat(43))), "is unknown, revoked or expired"),
        (Some(format!("Bearer {}", "x".repeat(5_000))), "is unknown, revoked or expired"),
    ] {
        let mut request = Request::builder().method(Method::GET);
        if let Some(header) = &header {
            request = request.header("authorization", header);
        }
        let said = site.send(request, "/v1/tenants", "").await.expect(401);
        assert_eq!(said.code(), "unauthenticated");
        assert!(said.json()["detail"].as_str().unwrap().contains(detail), "{header:?}");
        assert!(said.header("www-authenticate").starts_with("Bearer"));
        check_problem(&said);
    }
}

#[tokio::test]
async fn who_guesses_keys_has_to_wait_and_others_do_not() {
    let site = Site::start().await;
    let mut waits = 0;
    for _ in 0..40 {
        let said = site.get("/v1/tenants", &format!("bbx_{}", "A".repeat(43))).await;
        match said.status.as_u16() {
            401 => assert_eq!(waits, 0),
            _ => {
                assert_eq!(said.expect(429).code(), "too_many_auth_failures");
                waits += 1;
            }
        }
    }
    assert_eq!(waits, 10);
    site.get("/v1/tenants", &site.admin).await.expect(200);
}

/// Sends bytes unchanged, and returns what is received until the server closes the connection. If `says_it_is_done` is
/// set, the client first closes its sending side.
async fn raw(site: &Site, bytes: &[u8], says_it_is_done: bool) -> String {
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    // The server may have responded and closed before everything is written.
    let _ = stream.write_all(bytes).await;
    if says_it_is_done {
        let _ = stream.shutdown().await;
    }
    let mut said = Vec::new();
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut said)).await.expect("an end");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn what_is_no_http_is_ended() {
    let site = Site::start().await;
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = "x".repeat(200_000);
    let authorized =
        format!("POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n", site.admin);
    let json = "content-type: application/json\r\n";
    let table = [
        ("GET\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        ("\u{0}\u{1}\u{2}\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        (format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n"), "HTTP/1.1 431"),
        (format!("GET / HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"), "HTTP/1.1 431"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        (format!("{authorized}{json}content-length: 5\r\ncontent-length: 6\r\n\r\n12345"), "HTTP/1.1 400"),
        (format!("{authorized}{json}content-length: nine\r\n\r\n12345"), "HTTP/1.1 400"),
        (format!("{authorized}{json}transfer-encoding: chunked\r\n\r\nzz\r\n"), "HTTP/1.1 400"),
        (format!("{authorized}{json}content-length: 99999999999\r\n\r\n{{"), "HTTP/1.1 413"),
        (format!("{authorized}{json}content-length: 50\r\n\r\n{{"), "HTTP/1.1 400"),
        (format!("{authorized}{json}connection: close\r\n\r\n"), "HTTP/1.1 400"),
    ];
    for (bytes, start) in table {
        let said = raw(&site, bytes.as_bytes(), true).await;
        let shown: String = bytes.chars().take(160).collect();
        assert!(said.starts_with(start), "{shown:?}: {said}");
    }
    // The server still responds after all of that.
    site.get("/healthz", "").await.expect(200);
}

#[tokio::test]
async fn a_chunked_body_without_a_length_is_taken() {
    let site = Site::start().await;
    let body = r#"{"type":"a","payload":1}"#;
    let request = format!(
        "POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        site.admin,
        body.len()
    );
    assert!(raw(&site, request.as_bytes(), false).await.starts_with("HTTP/1.1 202"));
    // An endless body is cut off by its size.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let endless = format!(
        "POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n{}",
        site.admin,
        chunk.repeat(20)
    );
    assert!(raw(&site, endless.as_bytes(), true).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn request_ids_are_told_and_chosen() {
    let site = Site::start().await;
    let with = |id: &str| Request::builder().header("x-request-id", id);
    assert_eq!(site.send(with("job-7"), "/healthz", "").await.header("x-request-id"), "job-7");
    let strange = site.send(with("a b\tc"), "/healthz", "").await;
    assert!(!strange.header("x-request-id").contains(' '));
    let first = site.get("/healthz", "").await;
    let second = site.get("/healthz", "").await;
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    check_headers(&first);
}
