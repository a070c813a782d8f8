//! Slow clients, many clients, and shutdown: no client holds a connection without using it, and requests in flight are
//! finished.

use std::time::Duration;

use breakerbox_gateway::api::{Connections, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::{LONG, Site};

fn impatient() -> Limits {
    let quick = Duration::from_millis(300);
    let connections = Connections {
        first_request_timeout: quick,
        header_timeout: quick,
        write_timeout: quick,
        ..Connections::default()
    };
    Limits { body_timeout: quick, connections, ..Limits::default() }
}

/// Returns what is received until the server closes the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // Closing and resetting are both accepted.
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut said)).await.expect("the server closes");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn who_says_nothing_or_half_of_it_is_left() {
    let site = Site::with(impatient()).await;
    let table = [
        ("", ""),
        // The first letter of HTTP/2's preface, too.
        ("P", ""),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\nx: ", ""),
        // A response, and then no further request.
        ("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", "HTTP/1.1 200"),
    ];
    for (bytes, start) in table {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let said = until_closed(&mut stream).await;
        assert!(said.starts_with(start), "{bytes:?}: {said}");
    }
}

#[tokio::test]
async fn a_body_that_drips_is_given_up() {
    let site = Site::with(impatient()).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{",
        site.admin
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("body_timeout"), "{said}");
}

#[tokio::test]
async fn who_asks_and_never_reads_is_left() {
    let site = Site::with(impatient()).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    // The document is large: a few hundred of them fill all buffers in between.
    let asks = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(50);
    let flood = async {
        loop {
            if stream.write_all(asks.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, flood).await.expect("the server closes");
}

#[tokio::test]
async fn the_end_lets_requests_under_way_finish() {
    let mut site = Site::start().await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let body = r#"{"type":"a","payload":1}"#;
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        site.admin,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server sends this once it reads the body: the request is in flight.
    let mut start = [0; 25];
    tokio::time::timeout(LONG, stream.read_exact(&mut start)).await.expect("an answer").unwrap();
    assert_eq!(&start, b"HTTP/1.1 100 Continue\r\n\r\n");
    let address = site.address;
    let finish = async {
        // New connections are no longer accepted; this one still gets a response.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        stream.write_all(body.as_bytes()).await.unwrap();
        until_closed(&mut stream).await
    };
    let ((), said) = tokio::join!(site.stop(), finish);
    assert!(said.starts_with("HTTP/1.1 202"), "{said}");
}
