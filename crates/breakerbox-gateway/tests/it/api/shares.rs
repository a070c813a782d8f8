//! While one tenant, API key or address takes as much as it can get, the others are still served.

use std::net::Ipv4Addr;
use std::time::Duration;

use breakerbox_gateway::api::Limits;
use breakerbox_model::objects::Scope;
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::site::{LONG, Site};

/// Starts a batch request, and waits until the server has begun to read its body.
async fn begun(site: &Site, key: &str, length: &str, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let head = format!(
        "POST /v1/events/batch HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\n{length}\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server sends this once it reads the body.
    let mut start = [0; 25];
    tokio::time::timeout(LONG, stream.read_exact(&mut start)).await.expect("an answer").unwrap();
    assert_eq!(&start, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(first).await.unwrap();
    stream
}

/// Returns the status of the response.
async fn status(stream: &mut TcpStream) -> String {
    let mut start = [0; 12];
    tokio::time::timeout(LONG, stream.read_exact(&mut start)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&start[9..]).into_owned()
}

#[tokio::test]
async fn slow_bodies_take_no_room_from_others() {
    let site = Site::start().await;
    let (slow, other) =
        (site.key(&[Scope::Send], Some("acme")).await, site.key(&[Scope::Send], Some("other")).await);
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(begun(&site, &slow, "transfer-encoding: chunked", b"1\r\n{\r\n").await);
        held.push(begun(&site, &slow, "content-length: 4194304", b"{").await);
    }
    for key in [&other, &slow, &site.admin] {
        let body = json!({ "type": "a", "payload": "x".repeat(200_000) });
        site.post("/v1/events", key, body).await.expect(202);
    }
    drop(held);
}

#[tokio::test]
async fn a_key_and_a_tenant_have_their_share_of_the_room_for_bodies() {
    let site = Site::with(Limits { bodies: 160 * 1024, ..Limits::default() }).await;
    let keys = [site.key(&[Scope::Send], Some("acme")).await, site.key(&[Scope::Send], Some("acme")).await];
    let other = site.key(&[Scope::Send], Some("other")).await;
    // Of 160 KiB, a tenant alone may hold 120, and one of its keys 90: 22 bodies of 4 KiB.
    let mut held = Vec::new();
    for _ in 0..22 {
        held.push(begun(&site, &keys[0], "transfer-encoding: chunked", b"1\r\n{\r\n").await);
    }
    let event = || json!({ "type": "a", "payload": "x".repeat(2_000) });
    let refused = site.post("/v1/events", &keys[0], event()).await.expect(429);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("tenant_busy", "1"));
    site.post("/v1/events", &keys[1], event()).await.expect(202);
    site.post("/v1/events", &other, json!({ "type": "a", "payload": "x".repeat(20_000) })).await.expect(202);
    // A client that exceeds its share gets the error while it is still sending.
    let mut greedy = begun(&site, &keys[1], "content-length: 100000", &[b' '; 60_000]).await;
    assert_eq!(status(&mut greedy).await, "429");
    site.post("/v1/events", &other, event()).await.expect(202);
    drop(held);
    // The memory is released.
    let again = async {
        while site.post("/v1/events", &keys[0], event()).await.status != 202 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, again).await.expect("there is room again");
}

#[tokio::test]
async fn a_body_of_many_small_pieces_is_read_whole() {
    let site = Site::start().await;
    let body = json!({ "events": [{ "type": "a", "payload": "x".repeat(20_000) }] }).to_string();
    let mut stream = begun(&site, &site.admin, "transfer-encoding: chunked", b"").await;
    let pieces: String = body.bytes().map(|byte| format!("1\r\n{}\r\n", char::from(byte))).collect();
    stream.write_all(pieces.as_bytes()).await.unwrap();
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(status(&mut stream).await, "202");
}

#[tokio::test]
async fn a_tenants_own_admin_key_does_not_change_its_limits() {
    let site = Site::start().await;
    let own = site.key(&[Scope::Admin], Some("acme")).await;
    let patch =
        async |key: &str, body| site.request(Method::PATCH, "/v1/tenants/acme", key, Some(body)).await;
    let limit = json!({ "count": 9, "bytes": 9 });
    for (field, body) in [
        ("backlog", json!({ "backlog": limit })),
        ("backlog", json!({ "backlog": null })),
        ("ingest_rate", json!({ "ingest_rate": { "per_second": 1e6, "burst": 1_000_000 } })),
        ("ingest_rate", json!({ "name": "Acme", "ingest_rate": null })),
        ("reminders.limit", json!({ "reminders": { "limit": limit } })),
        ("reminders.limit", json!({ "reminders": { "limit": null, "timeout": "3s" } })),
        ("reminders", json!({ "reminders": null })),
    ] {
        let said = patch(&own, body.clone()).await.expect(403);
        assert_eq!(
            (said.code().as_str(), &said.json()["field"]),
            ("tenant_mismatch", &json!(field)),
            "{body}"
        );
        assert!(said.json()["detail"].as_str().unwrap().starts_with(field), "{said:?}");
        patch(&site.admin, body).await.expect(200);
    }
    let change = json!({ "policy": { "failures": 3 }, "circuit_by": "host", "response_rules": {}, "reminders": { "circuit_by": "host" } });
    patch(&own, change).await.expect(200);
}

/// Opens a connection from the loopback address `127.0.0.{last}`.
async fn connected(site: &Site, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    socket.connect(site.address).await.unwrap()
}

/// Makes a request that needs no key, and returns whether it gets a response.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let asked = async {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let read = stream.read_buf(&mut answer).await.ok()?;
            if read == 0 {
                return None;
            }
        }
        Some(answer.starts_with(b"HTTP/1.1 200"))
    };
    tokio::time::timeout(LONG, asked).await.expect("an answer, or the end").unwrap_or(false)
}

/// Waits until the server closes the connection.
async fn is_closed(stream: &mut TcpStream) {
    let mut some = [0; 1_024];
    let closed = async { while stream.read(&mut some).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(LONG, closed).await.expect("the server closes it");
}

#[tokio::test]
async fn idle_connections_of_one_address_do_not_keep_others_out() {
    let mut limits = Limits::default();
    (limits.connections.most, limits.connections.first_request_timeout) = (16, LONG);
    let site = Site::with(limits).await;
    let mut flood = Vec::new();
    for _ in 0..100 {
        flood.push(connected(&site, 2).await);
    }
    // Another address and the same one both get a response immediately, since the oldest idle connections are closed
    // for them.
    assert!(is_answered(&mut connected(&site, 3).await).await);
    assert!(is_answered(&mut connected(&site, 2).await).await);
    site.post("/v1/events", &site.admin, json!({ "type": "a", "payload": 1 })).await.expect(202);
    is_closed(&mut flood[0]).await;
}

#[tokio::test]
async fn a_connection_with_a_valid_key_is_not_closed_for_another_one() {
    let mut limits = Limits::default();
    (limits.connections.most, limits.connections.address_share) = (3, 100);
    let site = Site::with(limits).await;
    // The client that created the tenants holds one, and has sent its key.
    let mut others = [connected(&site, 2).await, connected(&site, 2).await];
    for other in &mut others {
        assert!(is_answered(other).await);
    }
    let mut fourth = connected(&site, 3).await;
    assert!(is_answered(&mut fourth).await);
    is_closed(&mut others[0]).await;
    assert!(is_answered(&mut others[1]).await);
    site.get("/v1/tenants", &site.admin).await.expect(200);
}

#[tokio::test]
async fn an_address_has_its_share_though_its_requests_are_under_way() {
    let mut limits = Limits::default();
    limits.connections.most = 16;
    let site = Site::with(limits).await;
    let key = site.key(&[Scope::Send], Some("acme")).await;
    let mut busy = Vec::new();
    // The test's own client has one of the address's connections; alone it may have 12.
    for _ in 0..11 {
        busy.push(begun(&site, &key, "transfer-encoding: chunked", b"1\r\n{\r\n").await);
    }
    let mut refused = connected(&site, 1).await;
    assert!(!is_answered(&mut refused).await, "its share is used up, and nothing of it can be closed");
    for _ in 0..4 {
        assert!(is_answered(&mut connected(&site, 2).await).await, "another address is answered");
    }
    drop(busy);
}

#[tokio::test]
async fn an_idle_connection_of_http2_is_closed_though_it_answers_pings() {
    let quick = Duration::from_millis(300);
    let mut limits = Limits::default();
    (limits.connections.first_request_timeout, limits.connections.header_timeout) = (LONG, quick);
    let site = Site::with(limits).await;
    let stream = TcpStream::connect(site.address).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    // The client's side answers pings for as long as this runs.
    let open = tokio::spawn(connection);
    let request = http::Request::builder().uri(format!("http://{}/healthz", site.address));
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap();
    let _still_there = sender;
    tokio::time::timeout(LONG, open).await.expect("the server closes it").unwrap().ok();
}
