//! HTTP/2 without TLS, by prior knowledge, as proxies use it: many concurrent requests on one connection, with the same
//! responses as over HTTP/1.1.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::site::{LONG, Site};

/// Opens a connection, and spawns the task that drives it.
async fn connected(site: &Site) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(site.address).await.unwrap();
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    (sender, tokio::spawn(connection))
}

async fn send_request(
    sender: &SendRequest<Full<Bytes>>,
    site: &Site,
    (method, path): (Method, &str),
    key: &str,
    body: Option<Vec<u8>>,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", site.address))
        .version(Version::HTTP_2)
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .body(Full::from(body.unwrap_or_default()))
        .unwrap();
    let mut sender = sender.clone();
    let asked = async {
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.version(), Version::HTTP_2);
        assert!(response.headers().contains_key("x-request-id"));
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    };
    tokio::time::timeout(LONG, asked).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_once_share_one_connection() {
    let mut site = Site::start().await;
    site.endpoint("acme").await;
    let (sender, serving) = connected(&site).await;
    let submit = |number: usize| {
        let body =
            json!({ "tenant": "acme", "type": "invoice.paid", "payload": { "n": number } }).to_string();
        send_request(&sender, &site, (Method::POST, "/v1/events"), &site.admin, Some(body.into_bytes()))
    };
    let answers = join_all((0..200).map(submit)).await;
    assert!(answers.iter().all(|(status, said)| *status == 202 && said["deliveries"] == 1), "{answers:?}");
    let listed =
        send_request(&sender, &site, (Method::GET, "/v1/deliveries?limit=500"), &site.admin, None).await;
    assert_eq!(listed.1["items"].as_array().unwrap().len(), 200, "each once");

    // An error is reported on its own stream, and the connection continues.
    let huge = vec![b' '; 10 << 20];
    for (what, key, body, status, code) in [
        ((Method::GET, "/v1/tenants"), "bbx_no", None, 401, "unauthenticated"),
        ((Method::GET, "/v1/nothing"), &*site.admin, None, 404, "not_found"),
        ((Method::POST, "/v1/events"), &site.admin, Some(b"{".to_vec()), 400, "invalid_json"),
        ((Method::POST, "/v1/events"), &site.admin, Some(huge), 413, "body_too_large"),
        ((Method::DELETE, "/v1/events"), &site.admin, None, 405, "method_not_allowed"),
    ] {
        let (found, said) = send_request(&sender, &site, what.clone(), key, body).await;
        assert_eq!((found.as_u16(), &said["code"]), (status, &json!(code)), "{what:?}");
    }
    let (status, tenant) =
        send_request(&sender, &site, (Method::GET, "/v1/tenants/acme"), &site.admin, None).await;
    assert_eq!((status.as_u16(), &tenant["id"]), (200, &json!("acme")));

    // A stop closes the connection from the gateway's side.
    site.stop().await;
    let ended = tokio::time::timeout(LONG, serving).await.expect("it ends");
    assert!(ended.unwrap().is_ok());
}
