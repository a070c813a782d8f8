//! A destination on loopback that responds as configured, and counts the requests that reach it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Response;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// How the receiver responds to each request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Status(u16),
    StatusAndRetryAfter(u16, &'static str),
    /// The receiver never responds.
    Hang,
    /// The receiver closes the connection without a response.
    Close,
}

#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    received: Arc<AtomicU32>,
}

impl Receiver {
    /// Starts a receiver, which runs until the test's runtime ends.
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            answer: Arc::new(Mutex::new(answer)),
            received: Arc::default(),
        };
        let accepting = receiver.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(connection));
            }
        });
        receiver
    }

    async fn serve(self, connection: TcpStream) {
        let service = service_fn(|_| async {
            self.received.fetch_add(1, Ordering::SeqCst);
            let answer = *self.answer.lock().unwrap();
            let response = Response::builder();
            let response = match answer {
                Answer::Status(code) => response.status(code),
                Answer::StatusAndRetryAfter(code, value) => {
                    response.status(code).header("retry-after", value)
                }
                Answer::Hang => std::future::pending().await,
                Answer::Close => return Err("closed"),
            };
            Ok(response.body(Full::<Bytes>::default()).unwrap())
        });
        // The result is ignored, because the client sees how the connection ends.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Waits until this many requests have reached the receiver.
    pub(crate) async fn receives(&self, requests: u32) {
        let all = async {
            while self.received() < requests {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("they arrive");
    }

    /// Returns the number of requests that have reached the receiver.
    pub(crate) fn received(&self) -> u32 {
        self.received.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Returns a URL on which no process listens. The socket reserves the port while it exists.
pub(crate) fn nobodys_url() -> (String, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (format!("http://{}/", socket.local_addr().unwrap()), socket)
}
