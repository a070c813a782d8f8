//! The schedule: the times at which requests should start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};

use super::{Pace, Progress};

/// The maximum time that the pacer sleeps at once. It limits how late the pacer detects that the load generator
/// was stopped.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// The permission to send one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendSlot {
    pub(super) number: u64,
    /// The scheduled start of the request.
    pub(super) at: Instant,
}

pub(super) enum Schedule {
    /// Closed loop: a request is due as soon as a connection is free.
    Closed { next: AtomicU64, requests: u64, end: Instant },
    /// Open loop: a request is due at its scheduled time.
    Open { slots: Mutex<mpsc::UnboundedReceiver<SendSlot>> },
}

impl Schedule {
    pub(super) fn new(
        pace: Pace,
        requests: u64,
        start: Instant,
        time: Duration,
        progress: &Arc<Progress>,
    ) -> Self {
        match pace {
            Pace::Closed => Self::Closed { next: AtomicU64::new(0), requests, end: start + time },
            Pace::Open { per_second } => {
                let (give, slots) = mpsc::unbounded_channel();
                let progress = Arc::clone(progress);
                let every = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
                // The runtime's timers have a resolution of a millisecond, which is coarser than the latencies
                // to measure. A thread's sleep is finer.
                thread::spawn(move || pace_out(&give, &progress, requests, start, time, every));
                Self::Open { slots: Mutex::new(slots) }
            }
        }
    }

    pub(super) async fn next(&self) -> Option<SendSlot> {
        match self {
            Self::Closed { next, requests, end } => {
                let (number, at) = (next.fetch_add(1, Ordering::Relaxed), Instant::now());
                (number < *requests && at < *end).then_some(SendSlot { number, at })
            }
            Self::Open { slots } => slots.lock().await.recv().await,
        }
    }
}

/// Emits send slots at their scheduled times, until `requests` slots have been emitted, `time` has passed, or
/// the load generator was stopped. Connections that wait for a slot then end at once, however low the rate is.
fn pace_out(
    give: &mpsc::UnboundedSender<SendSlot>,
    progress: &Progress,
    requests: u64,
    start: Instant,
    time: Duration,
    every: Duration,
) {
    for number in 0..requests {
        let after = every.mul_f64(exact(number));
        if after >= time {
            break;
        }
        let at = start + after;
        loop {
            let wait = at.saturating_duration_since(Instant::now());
            if progress.stopped.load(Ordering::Relaxed) || give.is_closed() {
                return;
            }
            if wait.is_zero() {
                break;
            }
            thread::sleep(wait.min(LONGEST_NAP));
        }
        if give.send(SendSlot { number, at }).is_err() {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody makes 2^52 requests")]
const fn exact(number: u64) -> f64 {
    number as f64
}
