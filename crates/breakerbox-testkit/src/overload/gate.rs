//! What decides which calls are sent to the backend: nothing, a throttle, or the oracle, which knows the
//! backend's capacity.

use std::fmt;
use std::time::Duration;

use breakerbox_core::throttle::{LoadSignal, Pass, Priority, Strategy, Throttle, ThrottlePolicy};
use breakerbox_core::{RandomBits, Timestamp};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::backend::Capacity;
use super::scenario::BackendModel;

/// The kind of admission control in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateKind {
    /// No admission control, so that all calls are sent.
    None,
    /// The formula published in Google's SRE book (strategy `Sre`), with its defaults.
    Sre,
    /// The throttle's default strategy.
    Adaptive,
    /// One bucket for all clients that knows the backend's true capacity, and admits the most important calls
    /// first.
    Oracle,
    /// The oracle without priorities, which never sheds a call that the backend would accept.
    BlindOracle,
}

impl GateKind {
    /// The kinds that are compared in the printed tables, in order.
    pub const TABLED: [Self; 4] = [Self::None, Self::Sre, Self::Adaptive, Self::Oracle];
}

impl fmt::Display for GateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Sre => "Sre",
            Self::Adaptive => "Adaptive",
            Self::Oracle => "oracle",
            Self::BlindOracle => "blind oracle",
        })
    }
}

/// The admission control for all clients in a run.
pub(super) enum Gates {
    None,
    Throttles(Vec<Throttle>),
    Oracle(Box<Capacity>),
}

impl Gates {
    pub(super) fn new(kind: GateKind, clients: usize, backend: &BackendModel) -> Self {
        let throttles = |strategy| {
            let policy = ThrottlePolicy::builder().strategy(strategy).build().expect("the defaults are good");
            Self::Throttles((0..clients).map(|_| Throttle::new(&policy)).collect())
        };
        match kind {
            GateKind::None => Self::None,
            GateKind::Sre => throttles(Strategy::Sre),
            GateKind::Adaptive => throttles(Strategy::Adaptive),
            GateKind::Oracle => Self::Oracle(Box::new(Capacity::oracle(backend, true))),
            GateKind::BlindOracle => Self::Oracle(Box::new(Capacity::oracle(backend, false))),
        }
    }

    /// Acquires admission for a call. `Ok` means that the call is admitted, with a pass if a throttle
    /// decided. `Err` is the delay after which to try again.
    pub(super) fn try_acquire(
        &mut self,
        client: usize,
        priority: Priority,
        rng: &mut SmallRng,
        now: u64,
    ) -> Result<Option<Pass>, Duration> {
        match self {
            Self::None => Ok(None),
            Self::Throttles(throttles) => throttles[client]
                .try_acquire(priority, RandomBits(rng.random()), Timestamp::from_micros(now))
                .map(Some)
                .map_err(|shed| shed.retry_in()),
            Self::Oracle(capacity) => capacity.take(priority, now).then_some(None).ok_or(Duration::ZERO),
        }
    }

    pub(super) fn settle(&self, client: usize, pass: Option<Pass>, verdict: LoadSignal, now: u64) {
        if let (Self::Throttles(throttles), Some(pass)) = (self, pass) {
            throttles[client].settle(pass, verdict, Timestamp::from_micros(now));
        }
    }

    /// Returns whether a failed call may be retried. Only a throttle has a retry budget.
    pub(super) fn retry(&self, client: usize, now: u64) -> bool {
        match self {
            Self::Throttles(throttles) => throttles[client].retry(Timestamp::from_micros(now)),
            Self::None | Self::Oracle(_) => true,
        }
    }
}
