//! Standing back: a process whose probe failed lets the others probe first in the next half-open.
//!
//! A process whose own network is broken may acquire more often than all others. Without standing back it would win a
//! lease in every half-open, and keep a healthy destination shut for the whole fleet. For a process that is the only
//! one to acquire, the probe is only delayed.
//!
//! The time for which it stands back is a tenth of the last cool-off, because a long outage can afford it; at least a
//! quarter of a second, because others may call only a few times per second; and as soon as a probe of another
//! process has succeeded, the longest time, because then the fault is in this process.
//!
//! It never applies with an exclusive store, nor while the store is lost: then there are no others.

use core::time::Duration;

use crate::permit::Refusal;
use crate::record::{Record, State};
use crate::time::Timestamp;

/// The divisor of the last cool-off that gives the time to stand back.
const PART: u32 = 10;

/// The shortest time that a process stands back, unless that is more than half of the cool-off.
const SHORTEST: Duration = Duration::from_millis(250);

/// The longest time that a process stands back.
const LONGEST: Duration = Duration::from_secs(2);

/// The memory of this process's latest failed probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StandBack {
    /// The time at which the failed probe opened the circuit. It identifies the cool-off and the half-open after it:
    /// both keep this time.
    opened_at: Timestamp,
    /// The time to stand back while no probe has succeeded.
    delay: Duration,
}

impl StandBack {
    /// Creates the memory of a probe that failed and led to this record. `None` if the record has no cool-off.
    pub(super) fn after(failed: &Record) -> Option<Self> {
        let (opened_at, retry_at) = failed.opened_at.zip(failed.retry_at)?;
        let cool_off = retry_at.since(opened_at);
        Some(Self { opened_at, delay: (cool_off / PART).max(SHORTEST.min(cool_off / 2)).min(LONGEST) })
    }

    /// Returns the refusal of an acquire that would get the probe by this record. `None` if this process need not
    /// stand back (any more).
    pub(super) fn refusal(&self, record: &Record, now: Timestamp) -> Option<Refusal> {
        if record.opened_at != Some(self.opened_at) {
            return None;
        }
        let half_open_from = match record.state {
            State::Closed => return None,
            State::Open => record.retry_at?,
            State::HalfOpen => record.changed_at,
        };
        let others_succeed = record.state == State::HalfOpen && record.probe_successes > 0;
        let until = half_open_from + if others_succeed { LONGEST } else { self.delay };
        let refusal = match record.state {
            State::HalfOpen => Refusal::probing(until, now),
            _ => Refusal::open(until, now),
        };
        (now < until).then_some(refusal)
    }
}
