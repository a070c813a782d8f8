//! The sender's own network: which trips belong to an outage of it, by the engine's detector.

use std::time::Duration;

use breakerbox_core::own_outage::{End, OutageChange, OutageDetector, Reach, Source};
use breakerbox_core::{LatestOutcomes, Timestamp};

use crate::faults::Failure;
use crate::population::Reply;

/// The number of endpoints of one tenant.
const ENDPOINTS_OF_TENANT: u64 = 10;

/// What a call to an endpoint says about the sender's own network.
#[derive(Default)]
pub(crate) struct OwnNetwork {
    detector: OutageDetector,
    /// The latest outcomes of each endpoint.
    latest: Vec<LatestOutcomes>,
    /// The outages that were detected and are over, from the first failure to the end.
    past: Vec<(Timestamp, Timestamp)>,
}

/// A change of the sender's own network.
pub(crate) enum NetworkChange {
    /// An outage was detected.
    Lost,
    /// The outage is over. Circuits that opened since then may probe at once.
    Back { since: Timestamp },
}

impl OwnNetwork {
    /// Records the result of a call.
    pub(crate) fn record(&mut self, lane: u32, reply: &Reply, now: Timestamp) -> Option<NetworkChange> {
        let index = lane as usize;
        if self.latest.len() <= index {
            self.latest.resize(index + 1, LatestOutcomes::default());
        }
        let latest = &mut self.latest[index];
        match reply.failure {
            None => *latest = LatestOutcomes { last_success: Some(now), failing_since: None },
            Some(_) => latest.failing_since = latest.failing_since.or(Some(now)),
        }
        let reach = match reply.failure {
            Some(Failure::Refused | Failure::Unreachable) => Reach::Unreached,
            Some(Failure::Status | Failure::Hang) | None => Reach::Reached,
        };
        let source = Source {
            key: u64::from(lane),
            tenant: u64::from(lane) / ENDPOINTS_OF_TENANT,
            host: u64::from(lane),
        };
        match self.detector.record(source, reach, *latest, now)? {
            OutageChange::Started(_) => Some(NetworkChange::Lost),
            // The fault was not ours after all: the ordinary rules apply.
            OutageChange::Ended(_, End::Expired) => None,
            OutageChange::Ended(outage, End::Answered | End::Refuted) => {
                self.past.push((outage.since, now));
                Some(NetworkChange::Back { since: outage.since })
            }
        }
    }

    /// Whether an outage of the sender's own network explains a trip at this time, and the latest failure of the same
    /// endpoint: a call that fails after the network is back has another cause.
    pub(crate) fn explains(&self, tripped_at: Timestamp, failed_at: Timestamp) -> bool {
        self.detector.ongoing().is_some_and(|outage| tripped_at >= outage.since)
            || self.past.iter().any(|(since, until)| *since <= tripped_at && failed_at <= *until)
    }
}

/// The time between two circuits that probe after the network is back.
pub(crate) const PACE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_of_all_endpoints_is_ours_and_explains_its_trips() {
        let mut network = OwnNetwork::default();
        let at = |millis: u64| Timestamp::from_millis(1_000_000 + millis);
        let reply = |failure| Reply { failure, latency: Duration::from_millis(10) };
        let mut lost = 0;
        for lane in 0..60 {
            assert!(network.record(lane, &reply(None), at(u64::from(lane))).is_none());
        }
        for lane in 0..60 {
            let change =
                network.record(lane, &reply(Some(Failure::Unreachable)), at(60_000 + 50 * u64::from(lane)));
            lost += u64::from(matches!(change, Some(NetworkChange::Lost)));
        }
        assert_eq!(lost, 1);
        assert!(network.explains(at(63_000), at(63_000)) && !network.explains(at(59_000), at(63_000)));
        let back = (0..60).find_map(|lane| network.record(lane * 10 % 60, &reply(None), at(100_000)));
        assert!(matches!(back, Some(NetworkChange::Back { since }) if since == at(60_000)));
        assert!(network.explains(at(63_000), at(64_000)));
        assert!(!network.explains(at(63_000), at(100_001)), "it still fails");
        assert!(!network.explains(at(100_001), at(100_001)));
    }
}
