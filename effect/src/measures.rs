//! What a day is measured by, and sums over several days.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::population::Kind;

/// The measures of one row.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Measures {
    /// Events accepted.
    pub(crate) events: u64,
    pub(crate) delivered: u64,
    pub(crate) attempts: u64,
    pub(crate) failed: u64,
    /// Attempts at endpoints that were down.
    pub(crate) while_down: u64,
    /// Attempts at endpoints that are dead for ever, quiet or not.
    pub(crate) at_dead: u64,
    /// Deliveries that the breaker held back, although their circuit should have been closed, for more than 1 s, 10 s
    /// and 1 min.
    pub(crate) delayed: [u64; 3],
    /// How long it held them back, in total.
    pub(crate) delay: Duration,
    /// Deliveries that arrived more than a minute after they were accepted, or not on that day, for any reason but a dead
    /// endpoint.
    pub(crate) late: u64,
    /// Trips of circuits that should have been closed.
    pub(crate) false_trips: u64,
    /// For each outage in which the circuit tripped: the time until it did.
    pub(crate) to_trip: Vec<Duration>,
    /// For each outage after which deliveries waited for the circuit: how long they did.
    pub(crate) to_recover: Vec<Duration>,
    pub(crate) wrongly_disabled: u64,
    pub(crate) wrongly_notified: u64,
    /// Owners of endpoints that were down for at least an hour and that no notification was sent to.
    pub(crate) not_notified: u64,
    /// Owners that should be notified.
    pub(crate) to_notify: u64,
    /// Notifications about the sender's own network to its operator.
    pub(crate) operator_notifications: u64,
    /// Failed attempts and delay for each kind of endpoint.
    pub(crate) by_kind: BTreeMap<Kind, (u64, Duration)>,
}

/// The limits of [`Measures::delayed`].
const DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

impl Measures {
    /// Adds a failed attempt at an endpoint of this kind.
    pub(crate) fn add_failed(&mut self, kind: Kind) {
        self.failed += 1;
        self.by_kind.entry(kind).or_default().0 += 1;
    }

    /// Adds the delay of one delivery to an endpoint of this kind.
    pub(crate) fn add_delay(&mut self, kind: Kind, delay: Duration) {
        if delay.is_zero() {
            return;
        }
        self.by_kind.entry(kind).or_default().1 += delay;
        self.delay += delay;
        for (count, limit) in self.delayed.iter_mut().zip(DELAYS) {
            *count += u64::from(delay > limit);
        }
    }

    /// Adds the measures of another day.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { delayed, delay, to_trip, to_recover, .. } = other;
        for (sum, more) in [
            (&mut self.events, other.events),
            (&mut self.delivered, other.delivered),
            (&mut self.attempts, other.attempts),
            (&mut self.failed, other.failed),
            (&mut self.while_down, other.while_down),
            (&mut self.at_dead, other.at_dead),
            (&mut self.late, other.late),
            (&mut self.false_trips, other.false_trips),
            (&mut self.wrongly_disabled, other.wrongly_disabled),
            (&mut self.wrongly_notified, other.wrongly_notified),
            (&mut self.not_notified, other.not_notified),
            (&mut self.to_notify, other.to_notify),
            (&mut self.operator_notifications, other.operator_notifications),
        ] {
            *sum += more;
        }
        self.delay += *delay;
        for (sum, more) in self.delayed.iter_mut().zip(delayed) {
            *sum += more;
        }
        self.to_trip.extend(to_trip);
        self.to_recover.extend(to_recover);
        for (kind, (failed, delay)) in &other.by_kind {
            let sums = self.by_kind.entry(*kind).or_default();
            *sums = (sums.0 + failed, sums.1 + *delay);
        }
    }

    /// Whether this row is at least as good as another in both failed attempts and delay, and better in one of them.
    pub(crate) fn beats(&self, other: &Self) -> bool {
        let pair = |measures: &Self| (measures.failed, measures.delay);
        let (this, that) = (pair(self), pair(other));
        this.0 <= that.0 && this.1 <= that.1 && this != that
    }
}

/// Returns the percentile of some durations; `None` if there are none.
pub(crate) fn percentile(durations: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied()
}

/// Returns `part` as a share of `whole`; 0 if `whole` is 0.
#[allow(clippy::cast_precision_loss)] // Far below 2^53.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<_> = (1..=100).rev().map(secs).collect();
        for (percent, expected) in [(50, 50), (99, 99), (100, 100), (1, 1)] {
            assert_eq!(percentile(&hundred, percent), Some(secs(expected)));
        }
        assert_eq!(percentile(&[secs(7)], 50), Some(secs(7)));
        assert_eq!(percentile(&[], 99), None);
    }

    #[test]
    fn delays_are_counted_beyond_their_limits() {
        let mut measures = Measures::default();
        for delay in [0, 1, 2, 10, 11, 60, 61] {
            measures.add_delay(Kind::Healthy, secs(delay));
        }
        assert_eq!(measures.delayed, [5, 3, 1]);
        assert_eq!(measures.delay, secs(145));
        let mut twice = measures.clone();
        twice.add(&measures);
        assert_eq!((twice.delayed, twice.delay), ([10, 6, 2], secs(290)));
        assert_eq!(twice.by_kind[&Kind::Healthy], (0, secs(290)));
    }

    #[test]
    fn a_row_beats_another_only_in_both() {
        let row = |failed, delay| Measures { failed, delay: secs(delay), ..Measures::default() };
        assert!(row(1, 1).beats(&row(2, 1)) && row(1, 1).beats(&row(1, 2)));
        assert!(!row(1, 1).beats(&row(1, 1)) && !row(1, 3).beats(&row(2, 2)));
    }
}
