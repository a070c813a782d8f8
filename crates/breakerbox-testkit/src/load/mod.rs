//! A load generator: posts a request again and again over keep-alive connections, and says what came of it.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Load`] | what is sent, how fast, for how long |
//! | [`Template`] | a request with places for a time and a number |
//! | [`Client`] | one keep-alive connection, for requests that depend on answers |
//! | [`Running`] | a load that goes on, on a thread of its own; it stops when this is dropped |
//! | [`Report`] | answers, latencies, CPU time, and the names of what was accepted |
//!
//! **Closed loop**: each connection sends its next request when it has its answer: the most that a server can do.
//! **Open loop**: requests begin at fixed times, whatever the server does. A latency counts from the time when its request
//! should have begun, so a server that stalls has to answer for all requests that it kept waiting, and not for one.

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
use self::pace::{Turn, Turns};
pub use self::report::{Accepted, Report, percentile};
pub use self::template::{NUMBER, STAMP, Template};
use crate::stamp;
use crate::usage::ThreadId;

/// How long a connection that failed waits before the next one.
const BEFORE_CONNECTING_AGAIN: Duration = Duration::from_millis(5);

/// How fast requests follow each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// Each connection sends its next request when it has its answer.
    Closed,
    /// So many in a second, at fixed times.
    Open {
        /// How many.
        per_second: f64,
    },
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Load {
    /// To whom.
    pub target: SocketAddr,
    /// What.
    pub template: Template,
    /// Over how many connections.
    pub connections: usize,
    /// How fast.
    pub pace: Pace,
    /// How many requests at the most.
    pub requests: u64,
    /// For how long at the most.
    pub time: Duration,
    /// How long a call may take.
    pub call_limit: Duration,
    /// Whether the names of accepted events are kept.
    pub keep_ids: bool,
}

impl Load {
    /// A load in a closed loop without an end.
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

    /// Begins.
    ///
    /// # Errors
    /// If there is no thread for it.
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

    /// Begins, and waits for the end.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn run(self) -> io::Result<Report> {
        self.start().map(Running::finish)
    }
}

#[derive(Default)]
struct Progress {
    stopped: AtomicBool,
    successes: AtomicU64,
}

/// A load that goes on.
pub struct Running {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Report>>,
}

impl Running {
    /// How many requests were answered with success so far.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.progress.successes.load(Ordering::Relaxed)
    }

    /// Waits for its end.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let report = self.thread.take().and_then(|thread| thread.join().ok());
        report.unwrap_or_else(Report::new)
    }

    /// No more requests; waits for the answers that are still to come.
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
    let turns = Arc::new(Turns::new(load.pace, load.requests, start, load.time));
    let report = Arc::new(Mutex::new(Report::new()));
    let (load, mut connections) = (Arc::new(load), JoinSet::new());
    for _ in 0..load.connections.max(1) {
        let (load, turns) = (Arc::clone(&load), Arc::clone(&turns));
        let (report, progress) = (Arc::clone(&report), Arc::clone(progress));
        connections.spawn(async move {
            let own = drive(&load, &turns, &progress).await;
            report.lock().unwrap_or_else(PoisonError::into_inner).add(own);
        });
    }
    while connections.join_next().await.is_some() {}
    let mut report =
        std::mem::replace(&mut *report.lock().unwrap_or_else(PoisonError::into_inner), Report::new());
    report.took = start.elapsed();
    report
}

/// One connection, turn after turn.
async fn drive(load: &Load, turns: &Turns, progress: &Progress) -> Report {
    let (mut report, mut request) = (Report::new(), Vec::new());
    let mut client = Client::new(load.target, load.call_limit);
    while !progress.stopped.load(Ordering::Relaxed) {
        let Some(Turn { number, at }) = turns.next().await else { break };
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
