//! Standing back: a process whose probe failed lets the others probe first when the circuit is next half-open.
//!
//! A process whose own network is broken may acquire more often than all others. Without standing back it would get a
//! lease whenever the circuit is half-open, and keep a healthy destination blocked for the whole fleet. If a process
//! is the only one to acquire, its probe is only delayed.
//!
//! The time to stand back is a tenth of the last cool-off, because that is a short delay in a long outage; at least a
//! quarter of a second, because others may call only a few times per second; and the maximum as soon as another
//! process's probe has succeeded, because then the fault is in this process.
//!
//! Standing back never applies with an exclusive store, nor while the store is unavailable: then there are no others.

use core::time::Duration;

use crate::permit::Refusal;
use crate::record::{Record, State};
use crate::time::Timestamp;

/// A process whose probe failed lets other processes probe first, for the last cool-off divided by this number.
const PART: u32 = 10;

/// The minimum time for which a process lets others probe first, or half of the cool-off if that is shorter.
const SHORTEST: Duration = Duration::from_millis(250);

/// The maximum time for which a process lets others probe first.
const LONGEST: Duration = Duration::from_secs(2);

/// This process's latest failed probe, after which the process lets others probe first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StandBack {
    /// The time at which the failed probe opened the circuit. It identifies the cool-off and the half-open state that
    /// follows, because both keep this time in the record.
    opened_at: Timestamp,
    /// How long this process lets others probe first, unless another process's probe has already succeeded.
    delay: Duration,
}

impl StandBack {
    /// Records a failed probe that led to the record `failed`; `None` if that record has no cool-off.
    pub(super) fn after(failed: &Record) -> Option<Self> {
        let (opened_at, retry_at) = failed.opened_at.zip(failed.retry_at)?;
        let cool_off = retry_at.since(opened_at);
        Some(Self { opened_at, delay: (cool_off / PART).max(SHORTEST.min(cool_off / 2)).min(LONGEST) })
    }

    /// Returns the refusal for a caller that would otherwise get the probe; `None` if this process need not stand back
    /// now.
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
