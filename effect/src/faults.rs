//! When an endpoint fails, and how: its fault schedule for the day, fixed before the simulation starts.
//!
//! An endpoint is *down* while every call fails, and *impaired* while at least half of the calls fail: then its circuit
//! should be open. At all other times its circuit should be closed, and every wait for it counts as a delay.

use std::time::Duration;

use breakerbox_core::Timestamp;

/// The share of failing calls from which a circuit should be open.
const IMPAIRED_FROM: f64 = 0.5;

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The endpoint refuses the connection, at once.
    Refused,
    /// The endpoint responds with an error, as fast as it otherwise responds.
    Status,
    /// The endpoint does not respond, until the sender's timeout.
    Hang,
    /// The sender's own network is down.
    Unreachable,
}

/// A time in which more calls fail than usual.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Outage {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The share of calls that fail, up to 1.
    pub(crate) error_rate: f64,
    pub(crate) failure: Failure,
}

impl Outage {
    pub(crate) fn contains(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    pub(crate) fn length(&self) -> Duration {
        self.until.since(self.from)
    }
}

/// A time in which the circuit should be open.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Span {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The time in which the circuit should have been closed, from the start of the day to this span.
    up_before: Duration,
}

/// The fault schedule of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// In order of time, and without overlaps.
    outages: Vec<Outage>,
    /// The outage of the sender's own network.
    own: Option<Outage>,
    /// The times in which the circuit should be open, in order and without overlaps.
    impaired: Vec<Span>,
}

impl Faults {
    pub(crate) fn new(outages: Vec<Outage>, own: Option<Outage>) -> Self {
        let mut bounds: Vec<_> =
            outages.iter().chain(&own).filter(|o| o.error_rate >= IMPAIRED_FROM).collect();
        bounds.sort_by_key(|outage| outage.from);
        let mut impaired: Vec<Span> = Vec::new();
        for outage in bounds {
            match impaired.last_mut() {
                Some(last) if outage.from <= last.until => last.until = last.until.max(outage.until),
                last => {
                    let up =
                        last.map_or((Timestamp::ZERO, Duration::ZERO), |last| (last.until, last.up_before));
                    let up_before = up.1 + outage.from.since(up.0);
                    impaired.push(Span { from: outage.from, until: outage.until, up_before });
                }
            }
        }
        Self { outages, own, impaired }
    }

    /// Returns the outage at this time. An outage of the sender's own network hides any other.
    pub(crate) fn at(&self, now: Timestamp) -> Option<&Outage> {
        if let Some(own) = self.own.as_ref().filter(|own| own.contains(now)) {
            return Some(own);
        }
        let next = self.outages.partition_point(|outage| outage.from <= now);
        self.outages[..next].last().filter(|outage| outage.contains(now))
    }

    /// Whether every call fails at this time.
    pub(crate) fn is_down(&self, now: Timestamp) -> bool {
        self.at(now).is_some_and(|outage| outage.error_rate >= 1.0)
    }

    /// Returns the time from the start of the day until `now` in which the circuit should have been closed.
    pub(crate) fn up_until(&self, now: Timestamp) -> Duration {
        let next = self.impaired.partition_point(|span| span.from <= now);
        match self.impaired[..next].last() {
            None => now.since(Timestamp::ZERO),
            Some(span) => span.up_before + now.since(span.until),
        }
    }

    /// Returns the index of the latest impaired span that had begun at this time.
    pub(crate) fn latest_impaired(&self, now: Timestamp) -> Option<usize> {
        self.impaired.partition_point(|span| span.from <= now).checked_sub(1)
    }

    /// Returns the impaired span with this index.
    pub(crate) fn impaired(&self, index: usize) -> Span {
        self.impaired[index]
    }

    /// Returns the endpoint's own outages, without that of the sender's network.
    pub(crate) fn outages(&self) -> &[Outage] {
        &self.outages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn outage(from: u64, until: u64, error_rate: f64) -> Outage {
        Outage { from: at(from), until: at(until), error_rate, failure: Failure::Status }
    }

    #[test]
    fn up_time_leaves_out_what_should_be_open() {
        let own = Outage { failure: Failure::Unreachable, ..outage(90, 110, 1.0) };
        let outages = vec![outage(10, 20, 1.0), outage(50, 60, 0.3), outage(80, 100, 0.7)];
        let faults = Faults::new(outages, Some(own));
        for (now, up) in
            [(0, 0), (10, 10), (15, 10), (20, 10), (55, 45), (80, 70), (105, 70), (110, 70), (120, 80)]
        {
            assert_eq!(faults.up_until(at(now)), Duration::from_secs(up), "at {now} s");
        }
        assert_eq!(faults.at(at(95)).unwrap().failure, Failure::Unreachable);
        assert_eq!(faults.at(at(85)).unwrap().failure, Failure::Status);
        assert_eq!(faults.at(at(20)), None, "the end is not part of it");
        for (now, down) in
            [(9, false), (10, true), (19, true), (20, false), (55, false), (85, false), (95, true)]
        {
            assert_eq!(faults.is_down(at(now)), down, "at {now} s");
        }
        assert_eq!(faults.latest_impaired(at(9)), None);
        assert_eq!(faults.latest_impaired(at(70)), Some(0));
        let merged = faults.impaired(faults.latest_impaired(at(108)).unwrap());
        assert_eq!((merged.from, merged.until), (at(80), at(110)));
    }
}
