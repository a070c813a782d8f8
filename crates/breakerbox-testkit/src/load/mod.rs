//! A load generator: it sends a request repeatedly over keep-alive connections, and reports the results.
//!
//! | item | description |
//! | --- | --- |
//! | [`Load`] | the request, the rate, the duration |
//! | [`Template`] | a request with placeholders for a timestamp and a number |
//! | [`Client`] | one keep-alive connection, for requests that depend on responses |
//! | [`Running`] | a running load generator, on its own thread; it stops when dropped |
//! | [`Report`] | responses, latencies, CPU time, and the IDs of accepted events |
//!
//! **Closed loop**: each connection sends its next request when it has received the response to the previous
//! one. This measures a server's maximum throughput. **Open loop**: requests start at fixed times, however slow
//! the server is. Latency is measured from the scheduled start of a request, so a server stall counts for all
//! requests that it delayed, not just for one.

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

/// The delay after an error before a connection is reopened.
const BEFORE_CONNECTING_AGAIN: Duration = Duration::from_millis(5);

/// How requests are paced.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// Each connection sends its next request when it has received the response to the previous one.
    Closed,
    /// Requests start at fixed times.
    Open {
        /// The number of requests per second.
        per_second: f64,
    },
}

/// The configuration of a load generator.
#[derive(Clone, Debug)]
pub struct Load {
    /// The address of the server.
    pub target: SocketAddr,
    /// The request to send.
    pub template: Template,
    /// The number of connections.
    pub connections: usize,
    /// How requests are paced.
    pub pace: Pace,
    /// The maximum number of requests to send.
    pub requests: u64,
    /// The maximum duration of the run.
    pub time: Duration,
    /// The timeout for one request.
    pub call_limit: Duration,
    /// Whether the report contains the IDs of accepted events.
    pub keep_ids: bool,
}

impl Load {
    /// Returns a closed-loop load generator with 32 connections that runs for an hour unless it is stopped.
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

    /// Starts sending in the background.
    ///
    /// # Errors
    /// Returns an error if the thread can't be started.
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

    /// Sends the requests, and waits until all are done.
    ///
    /// # Errors
    /// Returns an error if the thread can't be started.
    pub fn run(self) -> io::Result<Report> {
        self.start().map(Running::finish)
    }
}

#[derive(Default)]
struct Progress {
    stopped: AtomicBool,
    successes: AtomicU64,
}

/// A running load generator.
pub struct Running {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Report>>,
}

impl Running {
    /// Returns the number of successful responses so far.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.progress.successes.load(Ordering::Relaxed)
    }

    /// Waits for the end of the run.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let report = self.thread.take().and_then(|thread| thread.join().ok());
        report.unwrap_or_else(Report::new)
    }

    /// Stops sending requests, and waits for the outstanding responses.
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
    let slots = Arc::new(Schedule::new(load.pace, load.requests, start, load.time, progress));
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

/// Sends requests over one connection, one after the other.
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
