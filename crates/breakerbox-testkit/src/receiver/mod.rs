//! A webhook receiver: a real HTTP server on the loopback address with configurable responses, which records
//! requests.
//!
//! | item | description |
//! | --- | --- |
//! | [`Receiver`] | the server, on its own thread; it stops when dropped |
//! | [`Behaviour`] | how an endpoint responds: with any status, late, never, with limited concurrency, in violation of HTTP |
//! | [`Visit`], [`Seen`] | the recorded requests, and counts by path |
//! | [`Http2Receiver`] | HTTP/2 over TLS, with connections that end like those of ordinary servers |
//! | [`RefusingPort`] | a port that refuses every connection, and that no other process can listen on |
//!
//! Every path is a separate endpoint, so one port stands for thousands. The receiver is an independent witness:
//! it counts only requests that it received itself. A plain 200 takes a few microseconds, because benchmarks
//! include them, and a recorded request takes 24 bytes.
//!
//! ```
//! use breakerbox_testkit::receiver::{Behaviour, Receiver};
//!
//! let receiver = Receiver::start()?;
//! receiver.set("/dead", Behaviour::Hang);
//! receiver.set("/busy", Behaviour::come_back(503, 30));
//! assert!(receiver.url("/dead").ends_with("/dead"));
//! assert_eq!(receiver.seen("/dead").requests, 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod behaviour;
mod connection;
mod endpoint;
mod head;
mod hostile;
mod http2;
mod refusing;
mod visits;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use self::behaviour::{Answer, Behaviour, Hostile};
use self::connection::Connection;
use self::endpoint::Endpoint;
pub use self::endpoint::Seen;
pub use self::head::Received;
pub use self::http2::{Http2End, Http2Receiver};
pub use self::refusing::RefusingPort;
use self::visits::VisitLog;
pub use self::visits::{GROUPS, IdHash, Recording, Visit, latencies};
use crate::usage::ThreadId;

/// A function that returns whether a request's signature is valid.
pub type Check = dyn Fn(&Received<'_>) -> bool + Send + Sync;

/// The maximum number of endpoints. All further paths share one endpoint.
const MOST_ENDPOINTS: usize = 100_000;

/// The settings for a receiver.
pub struct Builder {
    recording: Recording,
    otherwise: Behaviour,
    check: Option<Box<Check>>,
}

/// A webhook receiver. It stops when the value is dropped.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: ThreadId,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

struct Shared {
    start: Instant,
    endpoints: Mutex<Endpoints>,
    log: Mutex<VisitLog>,
    check: Option<Box<Check>>,
}

struct Endpoints {
    by_path: HashMap<Box<[u8]>, Arc<Endpoint>>,
    otherwise: Behaviour,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, VisitLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endpoints(&self) -> MutexGuard<'_, Endpoints> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endpoint(&self, path: &[u8]) -> Arc<Endpoint> {
        let mut endpoints = self.endpoints();
        if let Some(endpoint) = endpoints.by_path.get(path) {
            return Arc::clone(endpoint);
        }
        let number = endpoints.by_path.len();
        let path = if number < MOST_ENDPOINTS { path } else { b"" };
        let behaviour = endpoints.otherwise.clone();
        let new = || Arc::new(Endpoint::new(u32::try_from(number).unwrap_or(u32::MAX), behaviour));
        Arc::clone(endpoints.by_path.entry(path.into()).or_insert_with(new))
    }
}

impl Builder {
    /// Sets which requests are recorded. Default: up to a million visits.
    #[must_use]
    pub fn recording(self, recording: Recording) -> Self {
        Self { recording, ..self }
    }

    /// Sets the behaviour of paths that have none of their own. Default: 200.
    #[must_use]
    pub fn otherwise(self, behaviour: Behaviour) -> Self {
        Self { otherwise: behaviour, ..self }
    }

    /// Sets a check for the signature of each request. Requests with an invalid signature are counted.
    #[must_use]
    pub fn check(self, check: impl Fn(&Received<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { check: Some(Box::new(check)), ..self }
    }

    /// Starts the receiver on its own thread.
    ///
    /// # Errors
    /// Returns an error if no port or thread is available.
    pub fn start(self) -> io::Result<Receiver> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        // The standard library's backlog is too short for a thousand simultaneous connections.
        rustix::net::listen(&listener, 4_096)?;
        let address = listener.local_addr()?;
        let endpoints = Endpoints { by_path: HashMap::new(), otherwise: self.otherwise };
        let shared = Arc::new(Shared {
            start: Instant::now(),
            endpoints: Mutex::new(endpoints),
            log: Mutex::new(VisitLog::new(self.recording)),
            check: self.check,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ((stop, stopped), (sender, receiver)) = (oneshot::channel(), mpsc::channel());
        let served = Arc::clone(&shared);
        let serving = thread::Builder::new().name("receiver".into()).spawn(move || {
            // The thread that starts the receiver waits for this.
            let _ = sender.send(ThreadId::current());
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, served) => {}
                }
            });
        })?;
        let thread = receiver.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(Receiver { address, shared, thread, stop: Some(stop), serving: Some(serving) })
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        // Too many open files: wait until existing connections end.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(stream, Arc::clone(&shared));
        // The caller sees how the connection ends; the error is not needed here.
        tokio::spawn(async { connection.serve().await.ok() });
    }
}

impl Receiver {
    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> Builder {
        let recording = Recording::Visits { at_most: 1_000_000 };
        Builder { recording, otherwise: Behaviour::HEALTHY, check: None }
    }

    /// Starts a receiver with the default settings: every path responds with 200.
    ///
    /// # Errors
    /// Returns an error if no port or thread is available.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns the address that the receiver listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the receiver's start time, which the times of visits are relative to.
    #[must_use]
    pub fn start_time(&self) -> Instant {
        self.shared.start
    }

    /// Sets an endpoint's behaviour from now on. Requests that hang at the endpoint get the response of the new
    /// behaviour.
    pub fn set(&self, path: &str, behaviour: Behaviour) {
        let endpoint = self.shared.endpoint(path.as_bytes());
        endpoint.is_ordinary.store(false, Ordering::Relaxed);
        endpoint.behaviour.send_replace(behaviour);
    }

    /// Sets, from now on, the behaviour of all endpoints that have none of their own.
    pub fn set_otherwise(&self, behaviour: &Behaviour) {
        let mut endpoints = self.shared.endpoints();
        endpoints.otherwise = behaviour.clone();
        let ordinary =
            endpoints.by_path.values().filter(|endpoint| endpoint.is_ordinary.load(Ordering::Relaxed));
        ordinary.for_each(|endpoint| {
            endpoint.behaviour.send_replace(behaviour.clone());
        });
    }

    /// Counts this endpoint's latencies in a different group. Initially, all endpoints are in group 0.
    ///
    /// # Panics
    /// Panics if the group is not less than [`GROUPS`].
    pub fn put_into_group(&self, path: &str, group: usize) {
        assert!(group < GROUPS, "there are {GROUPS} groups");
        let group = u8::try_from(group).unwrap_or(0);
        self.shared.endpoint(path.as_bytes()).group.store(group, Ordering::Relaxed);
    }

    /// Returns the counts for an endpoint.
    #[must_use]
    pub fn seen(&self, path: &str) -> Seen {
        self.shared.endpoint(path.as_bytes()).seen()
    }

    /// Returns the sums of all endpoints' counts, except that `most_in_flight` is the highest value of any
    /// single endpoint.
    #[must_use]
    pub fn seen_in_all(&self) -> Seen {
        let endpoints = self.shared.endpoints();
        endpoints.by_path.values().map(|endpoint| endpoint.seen()).fold(Seen::default(), |all, one| Seen {
            requests: all.requests + one.requests,
            delivered: all.delivered + one.delivered,
            in_flight: all.in_flight + one.in_flight,
            most_in_flight: all.most_in_flight.max(one.most_in_flight),
            unsigned: all.unsigned + one.unsigned,
        })
    }

    /// Returns the number that identifies an endpoint, as in [`Visit::endpoint`].
    #[must_use]
    pub fn number(&self, path: &str) -> u32 {
        self.shared.endpoint(path.as_bytes()).number
    }

    /// Calls a function with all visits so far, in the order in which they started. The receiver is blocked
    /// while the function runs.
    pub fn with_visits<R>(&self, look: impl FnOnce(&[Visit]) -> R) -> R {
        look(&self.shared.log().visits)
    }

    /// Returns the number of requests that were not recorded because the maximum number of visits was reached.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.shared.log().unwritten
    }

    /// Returns the ages of a group's payloads on arrival, in microseconds. Counts only requests with a
    /// timestamp that got a success response.
    #[must_use]
    pub fn latencies(&self, group: usize) -> Histogram<u64> {
        self.shared.log().latencies[group].clone()
    }

    /// Removes all visits and latencies, and resets the maxima in flight. The endpoints' other counts stay.
    pub fn forget(&self) {
        self.shared.log().forget();
        self.forget_most();
    }

    /// Resets the maxima in flight, but keeps the visits.
    pub fn forget_most(&self) {
        self.shared.endpoints().by_path.values().for_each(|endpoint| endpoint.forget_most());
    }

    /// Returns the CPU time that the receiver has used.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.thread.cpu()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The thread may have already ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.serving.take().map(JoinHandle::join);
    }
}
