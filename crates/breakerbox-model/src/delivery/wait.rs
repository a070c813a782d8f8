//! What a waiting delivery waits for, and until when.
//!
//! Several reasons can hold a delivery at the same time: its retry is due in an hour, and its circuit is open for ten
//! seconds. The reason that ends last is the one that it waits for; a reason without an end lasts longest. If nothing
//! holds the delivery, it waits for a free place: within the lane's in-flight limit, or among the gateway's slots.

use std::fmt;

use breakerbox_core::{Mode, Record, State, Timestamp};

/// The reason why a delivery waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitsFor {
    /// The tenant, the endpoint or its circuit is disabled.
    Disabled,
    /// The circuit is open, is being probed, or admits few calls after a recovery.
    Circuit,
    /// The throttle sheds deliveries of this priority.
    Throttle,
    /// The endpoint's rate limit has no token left.
    RateLimit,
    /// The receiver asked for a pause, with a 429 response.
    RetryAfter,
    /// The delay of the retry schedule after a failed attempt.
    Retry,
    /// The time before which the event must not be sent.
    NotBefore,
    /// The lane has reached its limit on requests in flight.
    InFlightLimit,
    /// A slot of the gateway, or the end of a local fault.
    Slot,
}

/// A reason to wait, with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The reason.
    pub waits_for: WaitsFor,
    /// When the reason ends, by the store's clock. `None`: not known, or only a change ends it.
    pub until: Option<Timestamp>,
}

impl WaitsFor {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 9] = [
        Self::Disabled,
        Self::Circuit,
        Self::Throttle,
        Self::RateLimit,
        Self::RetryAfter,
        Self::Retry,
        Self::NotBefore,
        Self::InFlightLimit,
        Self::Slot,
    ];

    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Circuit => "circuit",
            Self::Throttle => "throttle",
            Self::RateLimit => "rate_limit",
            Self::RetryAfter => "retry_after",
            Self::Retry => "retry",
            Self::NotBefore => "not_before",
            Self::InFlightLimit => "in_flight_limit",
            Self::Slot => "slot",
        }
    }

    /// Returns this reason with a time at which it ends.
    #[must_use]
    pub const fn until(self, at: Timestamp) -> Wait {
        Wait { waits_for: self, until: Some(at) }
    }

    /// Returns this reason without a known end.
    #[must_use]
    pub const fn open_ended(self) -> Wait {
        Wait { waits_for: self, until: None }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Wait {
    /// Returns why a circuit with this record refuses calls now, or `None` if it admits one.
    #[must_use]
    pub fn for_circuit(record: &Record, now: Timestamp) -> Option<Self> {
        let until = |at: Timestamp| (at > now).then_some(WaitsFor::Circuit.until(at));
        match (&record.mode, record.state) {
            (Mode::Disabled(_), _) => Some(WaitsFor::Disabled.open_ended()),
            (Mode::ForcedOpen(_), _) => Some(WaitsFor::Circuit.open_ended()),
            (Mode::ForcedClosed(_), _) | (Mode::Automatic, State::Closed) => None,
            (Mode::Automatic, State::Open) => record.retry_at.and_then(until),
            (Mode::Automatic, State::HalfOpen) => {
                record.lease.as_ref().and_then(|lease| until(lease.expires_at))
            }
        }
    }

    /// Returns what a delivery that is due at this time waits for on its own account, or `None` if it is due.
    #[must_use]
    pub fn for_due_time(due_at: Timestamp, attempts: u32, now: Timestamp) -> Option<Self> {
        let waits_for = if attempts == 0 { WaitsFor::NotBefore } else { WaitsFor::Retry };
        (due_at > now).then_some(waits_for.until(due_at))
    }

    /// Returns the reason that ends last; the first of several that end at the same time.
    #[must_use]
    pub fn longest(waits: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        // A reason without an end is compared as `(true, None)`, which is the greatest.
        let end = |wait: &Self| (wait.until.is_none(), wait.until);
        waits
            .into_iter()
            .flatten()
            .reduce(|longest, wait| if end(&wait) > end(&longest) { wait } else { longest })
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::{Attribution, Lease, Nonce, RandomBits};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const SOON: Timestamp = Timestamp::from_millis(1_001_000);
    const LATER: Timestamp = Timestamp::from_millis(1_002_000);
    const PAST: Timestamp = Timestamp::from_millis(999_000);

    #[test]
    fn what_ends_last_is_waited_for() {
        let (retry, circuit) = (WaitsFor::Retry, WaitsFor::Circuit);
        let (disabled, endless) = (WaitsFor::Disabled.open_ended(), WaitsFor::Circuit.open_ended());
        for (waits, expected) in [
            (vec![], None),
            (vec![None, None], None),
            (vec![Some(circuit.until(SOON)), None, Some(retry.until(LATER))], Some(retry.until(LATER))),
            (vec![Some(circuit.until(LATER)), Some(retry.until(SOON))], Some(circuit.until(LATER))),
            (vec![Some(circuit.until(SOON)), Some(retry.until(SOON))], Some(circuit.until(SOON))),
            (vec![Some(retry.until(LATER)), Some(endless)], Some(endless)),
            (vec![Some(disabled), Some(endless)], Some(disabled)),
        ] {
            assert_eq!(Wait::longest(waits.clone()), expected, "{waits:?}");
        }
    }

    #[test]
    fn a_delivery_that_is_not_due_waits_for_its_retry_or_its_time() {
        for (due_at, attempts, expected) in [
            (PAST, 0, None),
            (NOW, 3, None),
            (SOON, 0, Some(WaitsFor::NotBefore.until(SOON))),
            (SOON, 1, Some(WaitsFor::Retry.until(SOON))),
        ] {
            assert_eq!(Wait::for_due_time(due_at, attempts, NOW), expected, "{due_at:?} {attempts}");
        }
    }

    #[test]
    fn a_circuit_is_waited_for_while_it_refuses() {
        let by = || Attribution::new("ops", "maintenance").unwrap();
        let record = |mode, state, retry_at, lease_until: Option<Timestamp>| {
            let mut record = Record::new(None, RandomBits(1), NOW);
            record.mode = mode;
            record.state = state;
            record.retry_at = retry_at;
            record.lease = lease_until.map(|expires_at| Lease { nonce: Nonce(7), expires_at });
            record
        };
        let automatic = |state, retry_at, lease| record(Mode::Automatic, state, retry_at, lease);
        for (record, expected) in [
            (automatic(State::Closed, None, None), None),
            (automatic(State::Open, Some(SOON), None), Some(WaitsFor::Circuit.until(SOON))),
            (automatic(State::Open, Some(NOW), None), None),
            (automatic(State::HalfOpen, None, Some(SOON)), Some(WaitsFor::Circuit.until(SOON))),
            (automatic(State::HalfOpen, None, Some(PAST)), None),
            (automatic(State::HalfOpen, None, None), None),
            (record(Mode::ForcedOpen(by()), State::Closed, None, None), Some(WaitsFor::Circuit.open_ended())),
            (record(Mode::ForcedClosed(by()), State::Open, Some(SOON), None), None),
            (
                record(Mode::Disabled(by()), State::Open, Some(SOON), None),
                Some(WaitsFor::Disabled.open_ended()),
            ),
        ] {
            assert_eq!(Wait::for_circuit(&record, NOW), expected, "{record:?}");
        }
    }

    #[test]
    fn every_reason_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = WaitsFor::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), WaitsFor::ALL.len());
    }
}
