//! The received requests, by ID and path, with time and status; and latencies by group.
//!
//! A request takes 24 bytes. There is a limit: requests beyond it are counted but not recorded.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The number of endpoint groups with separate latencies.
pub const GROUPS: usize = 8;

/// The maximum latency that is recorded exactly, in microseconds (one hour).
const LONGEST: u64 = 3_600_000_000;

/// Returns an empty histogram of latencies in microseconds, with a precision of three digits.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "the bounds are good for any histogram")]
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("1 and an hour are bounds, and 3 digits are possible")
}

/// The hash of a `webhook-id`, which takes less memory than the ID. The probability that two IDs have the
/// same hash is below 10^-19.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IdHash(u64);

impl IdHash {
    /// Returns the hash of an ID.
    #[must_use]
    pub fn of(id: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// One recorded request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// The hash of the request's `webhook-id`.
    pub id: IdHash,
    /// The start of the request, in microseconds since the receiver's start.
    at_us: u64,
    /// The number of the request's endpoint, as returned by [`Receiver::number`](super::Receiver::number).
    pub endpoint: u32,
    /// The response's status. 0 until the response is sent, and permanently if the caller disconnects earlier.
    pub status: u16,
}

impl Visit {
    pub(super) fn new(id: IdHash, at: Duration, endpoint: u32) -> Self {
        Self { id, at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX), endpoint, status: 0 }
    }

    /// Returns the start of the request, relative to the receiver's start.
    #[must_use]
    pub const fn at(&self) -> Duration {
        Duration::from_micros(self.at_us)
    }

    /// Returns whether the response was a success.
    #[must_use]
    pub const fn is_delivered(&self) -> bool {
        self.status >= 200 && self.status < 300
    }
}

/// Which requests the receiver records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// Records no requests, only counts and latencies.
    Off,
    /// Records all requests, up to a limit.
    Visits {
        /// The maximum number of requests to record.
        at_most: usize,
    },
}

pub(super) struct VisitLog {
    recording: Recording,
    pub(super) visits: Vec<Visit>,
    /// The number of requests that were not recorded because the maximum was reached.
    pub(super) unwritten: u64,
    /// The number of visits that `forget` removed. Visit indices below this number are no longer valid.
    forgotten: usize,
    pub(super) latencies: [Histogram<u64>; GROUPS],
}

impl VisitLog {
    pub(super) fn new(recording: Recording) -> Self {
        let latencies = std::array::from_fn(|_| latencies());
        Self { recording, visits: Vec::new(), unwritten: 0, forgotten: 0, latencies }
    }

    /// Records a request. Returns the index of its visit, to which the status is added later.
    pub(super) fn write(&mut self, visit: Visit) -> Option<usize> {
        match self.recording {
            Recording::Off => None,
            Recording::Visits { at_most } if self.visits.len() >= at_most => {
                self.unwritten += 1;
                None
            }
            Recording::Visits { .. } => {
                self.visits.push(visit);
                Some(self.forgotten + self.visits.len() - 1)
            }
        }
    }

    /// Adds the response's status to a visit, and records the age of the request's payload on arrival.
    pub(super) fn answered(
        &mut self,
        place: Option<usize>,
        status: u16,
        group: usize,
        age: Option<Duration>,
    ) {
        let place = place.and_then(|place| place.checked_sub(self.forgotten));
        if let Some(visit) = place.and_then(|place| self.visits.get_mut(place)) {
            visit.status = status;
        }
        if let Some(age) = age.filter(|_| (200..300).contains(&status)) {
            self.latencies[group].saturating_record(u64::try_from(age.as_micros()).unwrap_or(LONGEST));
        }
    }

    /// Removes all visits and latencies.
    pub(super) fn forget(&mut self) {
        self.forgotten += self.visits.len();
        self.visits.clear();
        self.unwritten = 0;
        self.latencies.iter_mut().for_each(Histogram::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(n: u32) -> Visit {
        Visit::new(IdHash::of(&n.to_le_bytes()), Duration::from_millis(n.into()), n)
    }

    #[test]
    fn a_status_finds_its_visit_and_not_one_of_the_next_page() {
        let mut log = VisitLog::new(Recording::Visits { at_most: 2 });
        let [first, second] = [1, 2].map(|n| log.write(visit(n)));
        assert_eq!(log.write(visit(3)), None);
        log.answered(second, 200, 0, None);
        assert_eq!(log.visits.iter().map(|visit| visit.status).collect::<Vec<_>>(), [0, 200]);
        assert_eq!(log.unwritten, 1);
        log.forget();
        let third = log.write(visit(3));
        log.answered(first, 500, 0, None);
        assert_eq!(log.visits[0].status, 0);
        log.answered(third, 201, 0, Some(Duration::from_millis(5)));
        assert!(log.visits[0].is_delivered());
        assert_eq!(log.latencies[0].len(), 1);
    }
}
