//! An API with scripted responses, which records the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;
use tokio::sync::oneshot;

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// The response to a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, headers: vec![], body: body.to_string() }
    }

    pub(crate) fn problem(status: u16, body: Value) -> Self {
        let headers = vec![("content-type", "application/problem+json")];
        Self { status, headers, body: body.to_string() }
    }
}

/// A server with scripted responses, which stops when dropped.
pub(crate) struct FakeApi {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl FakeApi {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (remembered, answer) = (Arc::clone(&asked), Arc::new(answer));
        let router = Router::new().fallback(move |request: Request| {
            let (remembered, answer) = (Arc::clone(&remembered), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, usize::MAX).await.unwrap();
                let asked = Asked {
                    method: parts.method.to_string(),
                    path: parts.uri.to_string(),
                    headers: parts.headers,
                    body: String::from_utf8(body.to_vec()).unwrap(),
                };
                let said = answer(&asked);
                remembered.lock().unwrap().push(asked);
                let mut response = Response::builder().status(said.status);
                for (name, value) in said.headers {
                    response = response.header(name, value);
                }
                response.body(Body::from(said.body)).unwrap()
            }
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = axum::serve(listener, router).into_future() => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { address, asked, stop: Some(stop), serving: Some(serving) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.serving.take().map(std::thread::JoinHandle::join);
    }
}
