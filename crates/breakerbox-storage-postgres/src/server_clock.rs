//! The database's clock, as this process reads it: this machine's monotonic clock plus the difference that was measured
//! last. All processes of a fleet so have one clock, whatever the clocks of their machines show.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use breakerbox::Clock;
use breakerbox_core::Timestamp;

/// The clock for leases, due times and ids.
#[derive(Clone)]
pub(crate) enum ServerClock {
    /// The clock of the database server.
    Measured(Arc<Measured>),
    /// A clock that replaces the server's, for tests.
    Given(Arc<dyn Clock>),
}

/// The difference between the server's clock and this process's monotonic clock.
pub(crate) struct Measured {
    began: Instant,
    /// The server's time when this process's monotonic clock was at `began`, in microseconds since 1970.
    at_beginning: AtomicI64,
}

impl ServerClock {
    /// Creates a clock that reads zero until it is [set](Self::set).
    pub(crate) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        match given {
            Some(clock) => Self::Given(clock),
            None => {
                Self::Measured(Arc::new(Measured { began: Instant::now(), at_beginning: AtomicI64::new(0) }))
            }
        }
    }

    /// Records the server's time, in microseconds since 1970, which it reported between two instants.
    pub(crate) fn set(&self, micros: i64, asked: Instant, answered: Instant) {
        if let Self::Measured(measured) = self {
            let middle = asked + answered.duration_since(asked) / 2;
            let since = i64::try_from(middle.duration_since(measured.began).as_micros()).unwrap_or(i64::MAX);
            measured.at_beginning.store(micros.saturating_sub(since), Ordering::Relaxed);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Given(clock) => clock.now(),
            Self::Measured(measured) => {
                let at_beginning = measured.at_beginning.load(Ordering::Relaxed);
                Timestamp::from_micros(u64::try_from(at_beginning).unwrap_or(0)) + measured.began.elapsed()
            }
        }
    }

    /// Returns the time that statements use instead of the server's. `None`: they use the server's own clock.
    pub(crate) fn given(&self) -> Option<i64> {
        match self {
            Self::Given(clock) => Some(i64::try_from(clock.now().as_micros()).unwrap_or(i64::MAX)),
            Self::Measured(_) => None,
        }
    }
}
