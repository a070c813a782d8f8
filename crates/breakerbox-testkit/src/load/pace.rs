//! Whose turn it is, and since when: the times at which requests should begin.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};

use super::Pace;

/// Work may not be further ahead than that: the connections are all busy, and the rest is late anyway.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// A request to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    /// When it should begin.
    pub(super) at: Instant,
}

pub(super) enum Turns {
    /// As soon as somebody asks.
    Closed { next: AtomicU64, requests: u64, end: Instant },
    /// When its time has come.
    Open { turns: Mutex<mpsc::UnboundedReceiver<Turn>>, _pacer: Arc<AtomicBool> },
}

impl Turns {
    pub(super) fn new(pace: Pace, requests: u64, start: Instant, time: Duration) -> Self {
        match pace {
            Pace::Closed => Self::Closed { next: AtomicU64::new(0), requests, end: start + time },
            Pace::Open { per_second } => {
                let (give, turns) = mpsc::unbounded_channel();
                let alive = Arc::new(AtomicBool::new(true));
                let watched = Arc::downgrade(&alive);
                let every = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
                // A runtime's timers are a millisecond apart, which is more than what is measured. A thread sleeps better.
                thread::spawn(move || pace_out(&give, &watched, requests, start, time, every));
                Self::Open { turns: Mutex::new(turns), _pacer: alive }
            }
        }
    }

    pub(super) async fn next(&self) -> Option<Turn> {
        match self {
            Self::Closed { next, requests, end } => {
                let (number, at) = (next.fetch_add(1, Ordering::Relaxed), Instant::now());
                (number < *requests && at < *end).then_some(Turn { number, at })
            }
            Self::Open { turns, .. } => turns.lock().await.recv().await,
        }
    }
}

/// Gives turns at their times until there are enough, or nobody wants any more.
fn pace_out(
    give: &mpsc::UnboundedSender<Turn>,
    watched: &Weak<AtomicBool>,
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
            if wait.is_zero() {
                break;
            }
            if watched.strong_count() == 0 {
                return;
            }
            thread::sleep(wait.min(LONGEST_NAP));
        }
        if give.send(Turn { number, at }).is_err() {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody makes 2^52 requests")]
const fn exact(number: u64) -> f64 {
    number as f64
}
