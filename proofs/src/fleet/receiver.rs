//! The destination: an HTTP server on the loopback address with configurable responses, which records when each
//! request started and ended.
//!
//! A test relies on the receiver's own observations. What a request declares (worker, probe or call) is
//! recorded in addition.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// The header with the number of the calling worker.
pub(super) const WORKER: &str = "x-worker";

/// The header that states whether the worker considers its call a probe: `probe` or `call`.
pub(super) const KIND: &str = "x-kind";

/// How an endpoint responds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    /// Responds with success after this delay.
    Healthy(Duration),
    /// Responds with 503 immediately.
    Failing,
    /// Responds with 503 after this delay.
    FailingAfter(Duration),
    /// Does not respond until another behaviour is set.
    Hanging,
}

/// One request, as the receiver saw it.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The number of the calling worker.
    pub worker: u32,
    /// Whether the worker declared the request as a probe.
    pub claims_to_probe: bool,
    /// When the receiver started to process the request.
    pub began: SystemTime,
    /// When the response was sent, or the caller disconnected. `None` if the request is in flight.
    pub ended: Option<SystemTime>,
    /// The number of other requests in flight when this request started.
    pub beside: usize,
    /// The response's HTTP status, or `None` if there was no response.
    pub status: Option<u16>,
}

/// The receiver's HTTP server. It stops when the value is dropped.
pub struct Receiver {
    address: SocketAddr,
    endpoints: Arc<Endpoints>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Endpoints(Mutex<HashMap<String, Endpoint>>);

struct Endpoint {
    behaviour: watch::Sender<Behaviour>,
    visits: Vec<Visit>,
    /// The number of requests in flight.
    live: usize,
}

impl Receiver {
    /// Starts the server, with healthy endpoints.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let endpoints = Arc::new(Endpoints::default());
        let serving = Arc::clone(&endpoints);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, Arc::clone(&serving)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, endpoints, accepting: accepting.abort_handle() })
    }

    /// Returns the receiver's base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the port that the receiver listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets how an endpoint responds, including to requests that already hang at the endpoint.
    pub fn set(&self, path: &str, behaviour: Behaviour) {
        self.endpoints.with(path, |endpoint| endpoint.behaviour.send_replace(behaviour));
    }

    /// Returns all requests to an endpoint so far, in the order in which they started.
    #[must_use]
    pub fn visits(&self, path: &str) -> Vec<Visit> {
        self.endpoints.with(path, |endpoint| endpoint.visits.clone())
    }

    /// Returns the number of requests to an endpoint so far.
    #[must_use]
    pub fn count(&self, path: &str) -> usize {
        self.endpoints.with(path, |endpoint| endpoint.visits.len())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Aborting the task closes all connections.
        self.accepting.abort();
    }
}

impl Endpoints {
    fn with<R>(&self, path: &str, look: impl FnOnce(&mut Endpoint) -> R) -> R {
        let mut endpoints: MutexGuard<'_, _> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Endpoint {
            behaviour: watch::Sender::new(Behaviour::Healthy(Duration::ZERO)),
            visits: Vec::new(),
            live: 0,
        };
        look(endpoints.entry(path.to_owned()).or_insert_with(new))
    }
}

async fn serve(connection: TcpStream, endpoints: Arc<Endpoints>) {
    let endpoints = &*endpoints;
    let service = service_fn(|request: Request<Incoming>| async move {
        let status = answer(&request, endpoints).await;
        let mut response = Response::new(Full::<Bytes>::default());
        *response.status_mut() = status;
        Ok::<_, Infallible>(response)
    });
    let _ = connection.set_nodelay(true);
    // The caller sees how the connection ends; the server does not need the result.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
}

async fn answer(request: &Request<Incoming>, endpoints: &Endpoints) -> StatusCode {
    let path = request.uri().path();
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (number, mut behaviour) = endpoints.with(path, |endpoint| {
        endpoint.visits.push(Visit {
            worker: header(WORKER).parse().unwrap_or(u32::MAX),
            claims_to_probe: header(KIND) == "probe",
            began: SystemTime::now(),
            ended: None,
            beside: endpoint.live,
            status: None,
        });
        endpoint.live += 1;
        (endpoint.visits.len() - 1, endpoint.behaviour.subscribe())
    });
    let mut stay = Stay { path, number, endpoints, status: None };
    let status = loop {
        let now = *behaviour.borrow_and_update();
        match now {
            Behaviour::Healthy(takes) => {
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                break StatusCode::OK;
            }
            Behaviour::Failing => break StatusCode::SERVICE_UNAVAILABLE,
            Behaviour::FailingAfter(takes) => {
                tokio::time::sleep(takes).await;
                break StatusCode::SERVICE_UNAVAILABLE;
            }
            Behaviour::Hanging => {
                if behaviour.changed().await.is_err() {
                    break StatusCode::SERVICE_UNAVAILABLE;
                }
            }
        }
    };
    stay.status = Some(status.as_u16());
    status
}

/// A request in flight, which also ends if the caller disconnects.
struct Stay<'a> {
    path: &'a str,
    number: usize,
    endpoints: &'a Endpoints,
    status: Option<u16>,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.endpoints.with(self.path, |endpoint| {
            endpoint.live -= 1;
            if let Some(visit) = endpoint.visits.get_mut(self.number) {
                visit.ended = Some(SystemTime::now());
                visit.status = self.status;
            }
        });
    }
}
