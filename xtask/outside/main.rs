//! A program of a library user: the lines of the README protect a reqwest client, and a 500 counts as a failure.
//! `cargo xtask package` replaces the markers with these lines, and builds the program outside the workspace.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Starts a receiver on loopback that answers every request with a 500. Returns its URL and the number of requests.
fn failing_receiver() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/orders", listener.local_addr().expect("an address"));
    let received = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&received);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            let (mut head, mut part) = (Vec::new(), [0; 1_024]);
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match connection.read(&mut part).expect("a request") {
                    0 => break,
                    length => head.extend_from_slice(&part[..length]),
                }
            }
            counter.fetch_add(1, Ordering::SeqCst);
            let answer = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            connection.write_all(answer).expect("an answer");
        }
    });
    (url, received)
}

/// The client of the README.
async fn a_client_by_host() {
    let (url, received) = failing_receiver();
    //README: client
    for _ in 0..5 {
        assert_eq!(client.get(&url).send().await.expect("an answer").status(), 500);
    }
    let error = client.get(&url).send().await.expect_err("the circuit is open");
    let refused = breakerbox::reqwest::Error::find(&error);
    assert!(matches!(refused, Some(breakerbox::reqwest::Error::Refused { .. })), "{error:?}");
    assert_eq!(received.load(Ordering::SeqCst), 5, "the refused request was not sent");
}

/// The function of the README that puts a circuit around one call.
async fn a_plain_client() {
    //README: function
    let (url, received) = failing_receiver();
    let (breakers, client) = (breakerbox::Breakerbox::builder().build(), reqwest::Client::new());
    for _ in 0..5 {
        assert_eq!(fetch(&breakers, &client, &url).await.expect("an answer"), "");
    }
    let error = fetch(&breakers, &client, &url).await.expect_err("the circuit is open");
    assert!(error.to_string().starts_with("not sent; try again in"), "{error}");
    assert_eq!(received.load(Ordering::SeqCst), 5, "the refused request was not sent");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        a_client_by_host().await;
        a_plain_client().await;
    });
}
