//! The destination: an HTTP server on loopback that answers as it is told, and writes down when each request began and ended.
//!
//! It is the witness. What it counts it saw itself; what a request claims to be is written down beside it.

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

/// The header that says which worker calls.
pub(super) const WORKER: &str = "x-worker";

/// The header that says what the worker takes its call for: `probe` or `call`.
pub(super) const KIND: &str = "x-kind";

/// How an endpoint answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// With success, after so long.
    Healthy(Duration),
    /// With 503, at once.
    Failing,
    /// With 503, after so long.
    FailingAfter(Duration),
    /// Not before it is told to answer otherwise.
    Hanging,
}

/// One request, as it was seen here.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Which worker called.
    pub worker: u32,
    /// Whether it says that it probes.
    pub claims_to_probe: bool,
    /// When the request began to be answered.
    pub began: SystemTime,
    /// When that ended: it was answered, or the caller went away.
    pub ended: Option<SystemTime>,
    /// How many others were being answered when it began.
    pub beside: usize,
    /// What it was answered with.
    pub status: Option<u16>,
}

/// The server. It ends when this is dropped.
pub struct Receiver {
    address: SocketAddr,
    endpoints: Arc<Endpoints>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Endpoints(Mutex<HashMap<String, Endpoint>>);

struct Endpoint {
    manner: watch::Sender<Manner>,
    visits: Vec<Visit>,
    /// How many of them are being answered.
    live: usize,
}

impl Receiver {
    /// Starts it, with healthy endpoints.
    ///
    /// # Errors
    /// If there is no port for it.
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

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port on the loopback address.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on an endpoint answers so; whoever hangs there too.
    pub fn set(&self, path: &str, manner: Manner) {
        self.endpoints.with(path, |endpoint| endpoint.manner.send_replace(manner));
    }

    /// All requests to an endpoint so far, in the order in which they began.
    #[must_use]
    pub fn visits(&self, path: &str) -> Vec<Visit> {
        self.endpoints.with(path, |endpoint| endpoint.visits.clone())
    }

    /// How many requests there were to an endpoint so far.
    #[must_use]
    pub fn count(&self, path: &str) -> usize {
        self.endpoints.with(path, |endpoint| endpoint.visits.len())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // With it go all connections.
        self.accepting.abort();
    }
}

impl Endpoints {
    fn with<R>(&self, path: &str, look: impl FnOnce(&mut Endpoint) -> R) -> R {
        let mut endpoints: MutexGuard<'_, _> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Endpoint {
            manner: watch::Sender::new(Manner::Healthy(Duration::ZERO)),
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
    // Its end, good or bad, is what the caller sees.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
}

async fn answer(request: &Request<Incoming>, endpoints: &Endpoints) -> StatusCode {
    let path = request.uri().path();
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (number, mut manner) = endpoints.with(path, |endpoint| {
        endpoint.visits.push(Visit {
            worker: header(WORKER).parse().unwrap_or(u32::MAX),
            claims_to_probe: header(KIND) == "probe",
            began: SystemTime::now(),
            ended: None,
            beside: endpoint.live,
            status: None,
        });
        endpoint.live += 1;
        (endpoint.visits.len() - 1, endpoint.manner.subscribe())
    });
    let mut stay = Stay { path, number, endpoints, status: None };
    let status = loop {
        let now = *manner.borrow_and_update();
        match now {
            Manner::Healthy(takes) => {
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                break StatusCode::OK;
            }
            Manner::Failing => break StatusCode::SERVICE_UNAVAILABLE,
            Manner::FailingAfter(takes) => {
                tokio::time::sleep(takes).await;
                break StatusCode::SERVICE_UNAVAILABLE;
            }
            Manner::Hanging => {
                if manner.changed().await.is_err() {
                    break StatusCode::SERVICE_UNAVAILABLE;
                }
            }
        }
    };
    stay.status = Some(status.as_u16());
    status
}

/// A request that is being answered. Whoever goes away before ends it too.
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
