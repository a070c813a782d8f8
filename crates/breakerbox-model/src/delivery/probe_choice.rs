//! Decides which waiting delivery of a lane probes the lane's circuit.
//!
//! A delivery that is due probes when the circuit allows it. If none is due, a delivery that backs off is brought
//! forward, so that a recovery is noticed. It is brought forward at most once in each of its waits, so an endpoint
//! with few deliveries gets at most twice the requests that the retries alone would make. A delivery that has failed
//! a probe in the same outage comes after those that have not, so that one bad payload does not keep a circuit open.

use breakerbox_core::{Epoch, Timestamp};

use crate::values::Priority;

/// A waiting delivery, with the facts that decide whether it may probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeCandidate {
    /// The priority within the tenant.
    pub priority: Priority,
    /// When the delivery is due.
    pub due_at: Timestamp,
    /// The number of attempts used. A delivery without any is not backing off: it waits for its `not_before`.
    pub attempts: u32,
    /// Whether the delivery was already brought forward in this wait.
    pub is_pulled: bool,
    /// The outage in which the delivery last failed a probe. `None`: it never failed one.
    pub failed_probe: Option<Epoch>,
}

/// The kinds of deliveries that may probe, in order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProbeChoice {
    /// Due, and has not failed a probe in this outage.
    FreshDue,
    /// Backs off, was not brought forward in this wait, and has not failed a probe in this outage.
    FreshLater,
    /// Due, and has failed a probe in this outage. Its retry is due anyway.
    Due,
    /// Backs off, was not brought forward in this wait, and has failed a probe in this outage.
    Later,
}

/// The rank of a delivery among those that may probe. The lowest rank probes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProbeRank {
    /// The kind of the delivery.
    pub choice: ProbeChoice,
    /// The priority of a due delivery. `None`: the delivery backs off, and only its due time counts.
    priority: Option<Priority>,
    due_at: Timestamp,
}

impl ProbeChoice {
    /// All kinds, in order of preference.
    pub const ALL: [Self; 4] = [Self::FreshDue, Self::FreshLater, Self::Due, Self::Later];
}

impl ProbeCandidate {
    /// Returns the delivery's rank for a probe in this outage, or `None` if it may not probe now.
    #[must_use]
    pub fn rank(&self, outage: Epoch, now: Timestamp) -> Option<ProbeRank> {
        let is_fresh = self.failed_probe != Some(outage);
        let is_due = self.due_at <= now;
        if !is_due && (self.is_pulled || self.attempts == 0) {
            return None;
        }
        let choice = match (is_due, is_fresh) {
            (true, true) => ProbeChoice::FreshDue,
            (false, true) => ProbeChoice::FreshLater,
            (true, false) => ProbeChoice::Due,
            (false, false) => ProbeChoice::Later,
        };
        Some(ProbeRank { choice, priority: is_due.then_some(self.priority), due_at: self.due_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const OUTAGE: Epoch = Epoch(7);

    fn at(millis: u64) -> ProbeCandidate {
        ProbeCandidate {
            priority: Priority::Medium,
            due_at: Timestamp::from_millis(millis),
            attempts: 1,
            is_pulled: false,
            failed_probe: None,
        }
    }

    #[test]
    fn the_first_of_these_probes() {
        let (due, later) = (at(999_000), at(1_001_000));
        let failed = |candidate| ProbeCandidate { failed_probe: Some(OUTAGE), ..candidate };
        let in_order = [
            ProbeCandidate { priority: Priority::High, ..at(1_000_000) },
            ProbeCandidate { failed_probe: Some(Epoch(6)), ..at(998_000) },
            ProbeCandidate { attempts: 0, ..due },
            ProbeCandidate { priority: Priority::Low, is_pulled: true, ..due },
            ProbeCandidate { priority: Priority::Low, ..later },
            ProbeCandidate { priority: Priority::High, ..at(1_002_000) },
            failed(ProbeCandidate { priority: Priority::High, ..due }),
            failed(due),
            failed(later),
        ];
        let ranks: Vec<_> = in_order.iter().map(|candidate| candidate.rank(OUTAGE, NOW).unwrap()).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        let choices: Vec<_> = ranks.iter().map(|rank| rank.choice).collect();
        let [fresh_due, fresh_later, due, later] = ProbeChoice::ALL;
        assert_eq!(
            choices,
            [fresh_due, fresh_due, fresh_due, fresh_due, fresh_later, fresh_later, due, due, later]
        );
    }

    #[test]
    fn these_do_not_probe() {
        let later = at(1_001_000);
        for candidate in [
            ProbeCandidate { is_pulled: true, ..later },
            ProbeCandidate { is_pulled: true, failed_probe: Some(OUTAGE), ..later },
            ProbeCandidate { attempts: 0, ..later },
        ] {
            assert_eq!(candidate.rank(OUTAGE, NOW), None, "{candidate:?}");
        }
    }
}
