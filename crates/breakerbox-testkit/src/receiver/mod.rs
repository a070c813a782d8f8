//! A receiver of webhooks: a real HTTP server on loopback that answers as it is told, and writes down what it saw.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Receiver`] | the server, on a thread of its own; it ends when this is dropped |
//! | [`Manner`] | how an endpoint answers: well, badly, late, never, only so much, against the rules |
//! | [`Visit`], [`Seen`] | what came, by name and by path |
//! | [`Http2Receiver`] | HTTP/2 over TLS, with connections that end as those of ordinary servers do |
//! | [`RefusingPort`] | a port where every connection is refused, and nobody else can listen |
//!
//! Every path is an endpoint of its own, so one port stands for thousands. It is the witness: what it counts it saw itself.
//! A plain 200 costs a few microseconds, because benchmarks pay for it, and a request that is written down takes 24 bytes.
//!
//! ```
//! use breakerbox_testkit::receiver::{Manner, Receiver};
//!
//! let receiver = Receiver::start()?;
//! receiver.set("/dead", Manner::Hang);
//! receiver.set("/busy", Manner::come_back(503, 30));
//! assert!(receiver.url("/dead").ends_with("/dead"));
//! assert_eq!(receiver.seen("/dead").requests, 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod book;
mod connection;
mod endpoint;
mod head;
mod hostile;
mod http2;
mod manner;
mod refusing;

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

use self::book::Book;
pub use self::book::{GROUPS, IdHash, Recording, Visit, latencies};
use self::connection::Connection;
use self::endpoint::Endpoint;
pub use self::endpoint::Seen;
pub use self::head::Received;
pub use self::http2::{Http2End, Http2Receiver};
pub use self::manner::{Answer, Hostile, Manner};
pub use self::refusing::RefusingPort;
use crate::usage::ThreadId;

/// Says whether a request is signed as it should be.
pub type Check = dyn Fn(&Received<'_>) -> bool + Send + Sync;

/// More paths than that are taken for one.
const MOST_ENDPOINTS: usize = 100_000;

/// How it is before it starts.
pub struct Builder {
    recording: Recording,
    otherwise: Manner,
    check: Option<Box<Check>>,
}

/// A server of webhooks, stopped when this is dropped.
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
    book: Mutex<Book>,
    check: Option<Box<Check>>,
}

struct Endpoints {
    by_path: HashMap<Box<[u8]>, Arc<Endpoint>>,
    otherwise: Manner,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
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
        let manner = endpoints.otherwise.clone();
        let new = || Arc::new(Endpoint::new(u32::try_from(number).unwrap_or(u32::MAX), manner));
        Arc::clone(endpoints.by_path.entry(path.into()).or_insert_with(new))
    }
}

impl Builder {
    /// What is written down of each request. By default a million visits at the most.
    #[must_use]
    pub fn recording(self, recording: Recording) -> Self {
        Self { recording, ..self }
    }

    /// How paths answer that nobody has spoken of. By default with 200.
    #[must_use]
    pub fn otherwise(self, manner: Manner) -> Self {
        Self { otherwise: manner, ..self }
    }

    /// Looks at the signature of each request; those that are wrong are counted.
    #[must_use]
    pub fn check(self, check: impl Fn(&Received<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { check: Some(Box::new(check)), ..self }
    }

    /// Starts it.
    ///
    /// # Errors
    /// If there is no port or no thread for it.
    pub fn start(self) -> io::Result<Receiver> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        // What the standard library allows is too few for a thousand connections at once.
        rustix::net::listen(&listener, 4_096)?;
        let address = listener.local_addr()?;
        let endpoints = Endpoints { by_path: HashMap::new(), otherwise: self.otherwise };
        let shared = Arc::new(Shared {
            start: Instant::now(),
            endpoints: Mutex::new(endpoints),
            book: Mutex::new(Book::new(self.recording)),
            check: self.check,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ((stop, stopped), (tell, told)) = (oneshot::channel(), mpsc::channel());
        let served = Arc::clone(&shared);
        let serving = thread::Builder::new().name("receiver".into()).spawn(move || {
            // Whoever started it waits for this.
            let _ = tell.send(ThreadId::current());
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, served) => {}
                }
            });
        })?;
        let thread = told.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(Receiver { address, shared, thread, stop: Some(stop), serving: Some(serving) })
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        // Too many open files: those that there are go on, and then there is room again.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(stream, Arc::clone(&shared));
        // Its end, good or bad, is what the caller sees.
        tokio::spawn(async { connection.serve().await.ok() });
    }
}

impl Receiver {
    /// How it could be.
    #[must_use]
    pub fn builder() -> Builder {
        let recording = Recording::Visits { at_most: 1_000_000 };
        Builder { recording, otherwise: Manner::HEALTHY, check: None }
    }

    /// Starts one whose endpoints are healthy.
    ///
    /// # Errors
    /// If there is no port or no thread for it.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// When it started: what the times of visits count from.
    #[must_use]
    pub fn start_time(&self) -> Instant {
        self.shared.start
    }

    /// From now on an endpoint answers so; whoever hangs there too.
    pub fn set(&self, path: &str, manner: Manner) {
        let endpoint = self.shared.endpoint(path.as_bytes());
        endpoint.is_ordinary.store(false, Ordering::Relaxed);
        endpoint.manner.send_replace(manner);
    }

    /// From now on all endpoints answer so that were not spoken of by name.
    pub fn set_otherwise(&self, manner: &Manner) {
        let mut endpoints = self.shared.endpoints();
        endpoints.otherwise = manner.clone();
        let ordinary =
            endpoints.by_path.values().filter(|endpoint| endpoint.is_ordinary.load(Ordering::Relaxed));
        ordinary.for_each(|endpoint| {
            endpoint.manner.send_replace(manner.clone());
        });
    }

    /// Latencies of this endpoint are counted in a group of their own.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn put_into_group(&self, path: &str, group: usize) {
        assert!(group < GROUPS, "there are {GROUPS} groups");
        let group = u8::try_from(group).unwrap_or(0);
        self.shared.endpoint(path.as_bytes()).group.store(group, Ordering::Relaxed);
    }

    /// What came to an endpoint.
    #[must_use]
    pub fn seen(&self, path: &str) -> Seen {
        self.shared.endpoint(path.as_bytes()).seen()
    }

    /// What came to all of them. The most at once is that of the endpoint which had the most.
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

    /// The number that visits have for an endpoint.
    #[must_use]
    pub fn number(&self, path: &str) -> u32 {
        self.shared.endpoint(path.as_bytes()).number
    }

    /// Looks at all visits so far, in the order in which they began. Nothing is received meanwhile.
    pub fn with_visits<R>(&self, look: impl FnOnce(&[Visit]) -> R) -> R {
        look(&self.shared.book().visits)
    }

    /// Requests that there was no room for in the book.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.shared.book().unwritten
    }

    /// How old payloads of a group were when they came, in microseconds; those that were stamped and answered with success.
    #[must_use]
    pub fn latencies(&self, group: usize) -> Histogram<u64> {
        self.shared.book().latencies[group].clone()
    }

    /// Begins a new page: no visits, no latencies, no most in flight. The counts of endpoints stay.
    pub fn forget(&self) {
        self.shared.book().forget();
        self.forget_most();
    }

    /// From now on the most in flight is counted anew; visits stay.
    pub fn forget_most(&self) {
        self.shared.endpoints().by_path.values().for_each(|endpoint| endpoint.forget_most());
    }

    /// CPU time that it has used.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.thread.cpu()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody left to tell.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.serving.take().map(JoinHandle::join);
    }
}
