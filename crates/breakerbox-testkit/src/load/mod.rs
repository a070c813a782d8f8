//! A load generator: it sends a request again and again over keep-alive connections, and reports the results.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Load`] | the request, the rate, the duration |
//! | [`Template`] | a request with placeholders for a timestamp and a number |
//! | [`Client`] | one keep-alive connection, for requests that depend on answers |
//! | [`Running`] | a load in progress, on a thread of its own; it stops when this is dropped |
//! | [`Report`] | answers, latencies, CPU time, and the ids of accepted events |
//!
//! **Closed loop**: each connection sends its next request when it has its answer. This measures the most that a
//! server can do. **Open loop**: requests begin at fixed times, however slow the server is. A latency counts from the
//! time when its request should have begun, so a stall of the server counts for all requests that it delayed, and not
//! for one.

mod client;
mod pace;
mod report;
mod template;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub use self::client::{Answered, Client};
use self::pace::{Schedule, SendSlot};
pub use self::report::{Accepted, Report, percentile};
pub use self::template::{NUMBER, STAMP, Template};
use crate::stamp;
use crate::usage::ThreadId;

/// How long a connection waits after an error before it connects again.
const BEFORE_CONNECTING_AGAIN: Duration = Duration::from_millis(5);

/// The rate of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// Each connection sends its next request when it has its answer.
    Closed,
    /// Requests begin at fixed times.
    Open {
        /// Requests per second.
        per_second: f64,
    },
}

/// The description of a load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The address of the server.
    pub target: SocketAddr,
    /// The request.
    pub template: Template,
    /// How many connections to use.
    pub connections: usize,
    /// The rate of requests.
    pub pace: Pace,
    /// The maximum number of requests.
    pub requests: u64,
    /// The maximum duration.
    pub time: Duration,
    /// The timeout of one call.
    pub call_limit: Duration,
    /// Whether the report contains the ids of accepted events.
    pub keep_ids: bool,
}

impl Load {
    /// Returns a load in a closed loop over 32 connections that lasts an hour unless it is stopped.
    #[must_use]
    pub fn new(target: SocketAddr, template: Template) -> Self {
        Self {
            target,
            template,
            connections: 32,
            pace: Pace::Closed,
            requests: u64::MAX,
            time: Duration::from_secs(3_600),
            call_limit: Duration::from_secs(60),
            keep_ids: false,
        }
    }

    /// Starts the load in the background.
    ///
    /// # Errors
    /// If the system provides no thread.
    pub fn start(self) -> io::Result<Running> {
        let shared = Arc::new(Progress::default());
        let (progress, runtime) =
            (Arc::clone(&shared), tokio::runtime::Builder::new_current_thread().enable_all().build()?);
        let thread = thread::Builder::new().name("load".into()).spawn(move || {
            let cpu = ThreadId::current();
            let mut report = runtime.block_on(run(self, &progress));
            report.cpu = cpu.cpu();
            report
        })?;
        Ok(Running { progress: shared, thread: Some(thread) })
    }

    /// Runs the load, and waits for its end.
    ///
    /// # Errors
    /// If the system provides no thread.
    pub fn run(self) -> io::Result<Report> {
        self.start().map(Running::finish)
    }
}

#[derive(Default)]
struct Progress {
    stopped: AtomicBool,
    successes: AtomicU64,
}

/// A load in progress.
pub struct Running {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Report>>,
}

impl Running {
    /// Returns how many requests were answered with success so far.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.progress.successes.load(Ordering::Relaxed)
    }

    /// Waits for the end of the load.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let report = self.thread.take().and_then(|thread| thread.join().ok());
        report.unwrap_or_else(Report::new)
    }

    /// Sends no more requests, and waits for the outstanding answers.
    #[must_use]
    pub fn stop(self) -> Report {
        self.progress.stopped.store(true, Ordering::Relaxed);
        self.finish()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.progress.stopped.store(true, Ordering::Relaxed);
    }
}

async fn run(load: Load, progress: &Arc<Progress>) -> Report {
    let start = Instant::now();
    let slots = Arc::new(Schedule::new(load.pace, load.requests, start, load.time));
    let report = Arc::new(Mutex::new(Report::new()));
    let (load, mut connections) = (Arc::new(load), JoinSet::new());
    for _ in 0..load.connections.max(1) {
        let (load, slots) = (Arc::clone(&load), Arc::clone(&slots));
        let (report, progress) = (Arc::clone(&report), Arc::clone(progress));
        connections.spawn(async move {
            let own = drive(&load, &slots, &progress).await;
            report.lock().unwrap_or_else(PoisonError::into_inner).add(own);
        });
    }
    while connections.join_next().await.is_some() {}
    let mut report =
        std::mem::replace(&mut *report.lock().unwrap_or_else(PoisonError::into_inner), Report::new());
    report.took = start.elapsed();
    report
}

/// Runs one connection, request after request.
async fn drive(load: &Load, slots: &Schedule, progress: &Progress) -> Report {
    let (mut report, mut request) = (Report::new(), Vec::new());
    let mut client = Client::new(load.target, load.call_limit);
    while !progress.stopped.load(Ordering::Relaxed) {
        let Some(SendSlot { number, at }) = slots.next().await else { break };
        load.template.fill(number, stamp::of(at), &mut request);
        match client.call(&request).await {
            Ok(answered) => {
                if (200..300).contains(&answered.status) {
                    progress.successes.fetch_add(1, Ordering::Relaxed);
                }
                let body = client.body(&answered);
                report.note_answer(number, answered.status, at.elapsed(), body, load.keep_ids);
            }
            Err(error) => {
                report.note_unanswered(&error);
                tokio::time::sleep(BEFORE_CONNECTING_AGAIN).await;
            }
        }
    }
    report
}
