//! Outages on the gateway's own side: feeds the detector with the results of all attempts, and decides what they excuse.
//! [`own_outage_watch`](super::own_outage_watch) acts on the beginning and the end.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_core::own_outage::{End, Outage, OutageChange, OutageDetector, Reach, Source};
use breakerbox_core::{LatestOutcomes, OutcomeKind, Timestamp};
use breakerbox_egress::Incoming;
use breakerbox_model::delivery::Target;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::destination::Destination;

/// How long after the end of an outage a circuit that still fails is attributed to it. Requests that began in the outage
/// may end later, and circuits need their probes.
const AFTERMATH: Duration = Duration::from_secs(60);

/// The outage on the gateway's own side, if there is one, and the latest that ended.
#[derive(Default)]
pub struct OwnOutages {
    state: Mutex<State>,
    hashes: RandomState,
    /// Notified when an outage begins or ends.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct State {
    detector: OutageDetector,
    latest: Option<Ended>,
}

/// An outage that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) outage: Outage,
    pub(super) end: End,
    /// The end, by the store clock.
    pub(super) at: Timestamp,
    /// The same time, by the process's clock.
    instant: Instant,
}

impl Ended {
    fn is_recent(&self) -> bool {
        self.end == End::Answered && self.instant.elapsed() < AFTERMATH
    }
}

impl OwnOutages {
    /// Returns the current outage on the gateway's side.
    #[must_use]
    pub fn ongoing(&self) -> Option<Outage> {
        self.state().detector.ongoing()
    }

    /// Returns the latest outage that is over.
    pub(super) fn latest(&self) -> Option<Ended> {
        self.state().latest
    }

    /// Returns what the result of a request is about. Circuits may have several hosts, so a host is part of the key.
    pub(super) fn source(&self, destination: &Destination, target: &Target) -> Source {
        let host = target.uri().host().unwrap_or_default();
        Source {
            key: self.hashes.hash_one((destination.key(), host)),
            tenant: self.hashes.hash_one(destination.tenant.id.as_str()),
            host: self.hashes.hash_one(host),
        }
    }

    /// Feeds the detector with the result of a request, after the circuit has counted it.
    pub(super) fn observe(
        &self,
        source: Option<Source>,
        destination: &Destination,
        incoming: &Incoming,
        now: Timestamp,
    ) {
        let (Some(source), Some(reach)) = (source, incoming.reach()) else { return };
        let effect = destination.response_rules().of(incoming.reply, false, Duration::ZERO);
        let latest = match effect.circuit {
            OutcomeKind::Success => LatestOutcomes { last_success: Some(now), failing_since: None },
            _ => destination.circuit.record().latest_outcomes(),
        };
        let mut state = self.state();
        let change = state.detector.record(source, reach, latest, now);
        self.changed(state, change, now);
    }

    /// Ends the outage when its time is over, and detects one from the results so far.
    pub(super) fn check(&self, now: Timestamp) {
        let mut state = self.state();
        let change = state.detector.check(now);
        self.changed(state, change, now);
    }

    fn changed(&self, mut state: MutexGuard<'_, State>, change: Option<OutageChange>, now: Timestamp) {
        let Some(change) = change else { return };
        if let OutageChange::Ended(outage, end) = change {
            state.latest = Some(Ended { outage, end, at: now, instant: Instant::now() });
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Whether a request that began at `began` failed because of an outage on the gateway's side, so that it uses no
    /// attempt. A request that began in an outage may end after it.
    pub(super) fn excuses(&self, reach: Option<Reach>, began: Timestamp) -> bool {
        if reach != Some(Reach::Unreached) {
            return false;
        }
        self.ongoing().is_some() || self.began_in_latest(began)
    }

    /// Whether there is no outage, but a request that began at `began` began before the end of the latest, which was a
    /// short time ago.
    pub(super) fn began_in_latest(&self, began: Timestamp) -> bool {
        let state = self.state();
        state.detector.ongoing().is_none()
            && state.latest.is_some_and(|latest| latest.is_recent() && began <= latest.at)
    }

    /// Whether trips are not notified now: there is an outage on the gateway's side, or one ended a short time ago, so
    /// that circuits may still be open because of it.
    #[must_use]
    pub fn withhold_trips(&self) -> bool {
        let state = self.state();
        state.detector.ongoing().is_some() || state.latest.as_ref().is_some_and(Ended::is_recent)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    /// Lets 20 destinations fail, or answer.
    fn record(outages: &OwnOutages, reach: Reach, now: Timestamp) {
        for key in 0..20 {
            let latest = LatestOutcomes { last_success: None, failing_since: Some(now) };
            let mut state = outages.state();
            let at = now + Duration::from_millis(key * 100);
            let change = state.detector.record(Source { key, tenant: key % 4, host: key }, reach, latest, at);
            outages.changed(state, change, at);
        }
        outages.check(now + 4 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn trips_are_withheld_until_shortly_after_an_outage() {
        let outages = OwnOutages::default();
        assert!(!outages.withhold_trips());
        record(&outages, Reach::Unreached, START);
        assert!(outages.ongoing().is_some() && outages.withhold_trips());
        record(&outages, Reach::Reached, START + 10 * SECOND);
        assert!(outages.ongoing().is_none() && outages.withhold_trips(), "circuits still probe");
        tokio::time::advance(AFTERMATH).await;
        assert!(!outages.withhold_trips());
    }

    #[tokio::test(start_paused = true)]
    async fn trips_are_sent_at_once_if_the_fault_was_not_on_this_side() {
        let outages = OwnOutages::default();
        record(&outages, Reach::Unreached, START);
        outages.check(START + 20 * 60 * SECOND);
        assert_eq!(outages.latest().unwrap().end, End::Expired);
        assert!(!outages.withhold_trips());
    }
}
