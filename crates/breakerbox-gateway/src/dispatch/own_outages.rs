//! Outages on the gateway's own side: feeds the detector with the results of all attempts, and decides what they excuse.
//! [`own_outage_watch`](super::own_outage_watch) acts on the beginning and the end.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_core::own_outage::{End, Outage, OutageChange, OutageDetector, Reach, Source};
use breakerbox_core::{Cause, Change, LatestOutcomes, OutcomeKind, Status, Timestamp};
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
    /// The circuits that opened in an outage and of which no tenant was notified. At most all circuits.
    withheld: HashSet<Arc<str>>,
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

/// What to do with the notifications about a circuit's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TripReport {
    /// The change has nothing to do with an outage on the gateway's side.
    Ordinary,
    /// Notify no one: the circuit opened in an outage on the gateway's side, or recovers from one.
    Withheld,
    /// Report the trip now: it was withheld, and the circuit still fails.
    Overdue,
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

    /// Decides whether a change of this circuit is reported to its tenant.
    #[must_use]
    pub fn report_of(&self, key: &Arc<str>, change: &Change) -> TripReport {
        let mut state = self.state();
        let is_failure = change.to == Status::Open
            && matches!(change.cause, Cause::Rule(_) | Cause::ProbeFailed | Cause::RecoveryRateMissed);
        if change.to == Status::Closed && state.withheld.remove(key) {
            return TripReport::Withheld;
        }
        if !is_failure {
            return TripReport::Ordinary;
        }
        let latest = state.latest.filter(Ended::is_recent).map(|latest| latest.outage);
        if state.detector.ongoing().or(latest).is_some_and(|outage| outage.covers(change.failing_since)) {
            if matches!(change.cause, Cause::Rule(_)) {
                state.withheld.insert(Arc::clone(key));
            }
            return TripReport::Withheld;
        }
        if state.withheld.remove(key) { TripReport::Overdue } else { TripReport::Ordinary }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::{Circuit, Decision, Outcome, Policy, RandomBits};

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    /// A circuit that trips at its first failure, and closes after its first success.
    struct World {
        outages: OwnOutages,
        circuit: Circuit,
        policy: Policy,
        random: u128,
    }

    impl World {
        fn new() -> Self {
            let policy =
                Policy::builder().consecutive_failures(1).probes(1).cool_off(SECOND).build().unwrap();
            let circuit = Circuit::new(&policy, START);
            Self { outages: OwnOutages::default(), circuit, policy, random: 0 }
        }

        /// Makes a call with this outcome. Returns whether its change is reported.
        fn call(&mut self, outcome: &Outcome, now: Timestamp) -> TripReport {
            self.random += 2;
            let (one, other) = (RandomBits(self.random), RandomBits(self.random + 1));
            let Decision::Admitted(permit) = self.circuit.try_acquire(&self.policy, one, now).decision else {
                panic!("the cool-off is over");
            };
            let change = self.circuit.settle(permit, outcome, &self.policy, other, now).change.unwrap();
            self.outages.report_of(&"acme https://a.example".into(), &change)
        }

        /// Lets 20 other destinations fail, or answer.
        fn others(&self, reach: Reach, now: Timestamp) {
            for key in 0..20 {
                let latest = LatestOutcomes { last_success: None, failing_since: Some(now) };
                let mut state = self.outages.state();
                let at = now + Duration::from_millis(key * 100);
                let change =
                    state.detector.record(Source { key, tenant: key % 4, host: key }, reach, latest, at);
                self.outages.changed(state, change, at);
            }
            self.outages.check(now + 4 * SECOND);
        }
    }

    const FAILED: Outcome = Outcome::failure(Duration::ZERO);
    const OK: Outcome = Outcome::success(Duration::ZERO);

    #[tokio::test(start_paused = true)]
    async fn a_trip_in_an_outage_and_its_recovery_are_withheld() {
        let mut world = World::new();
        world.others(Reach::Unreached, START);
        assert!(world.outages.ongoing().is_some());
        assert_eq!(world.call(&FAILED, START + SECOND), TripReport::Withheld);
        assert_eq!(world.call(&FAILED, START + 5 * SECOND), TripReport::Withheld, "a probe");
        world.others(Reach::Reached, START + 10 * SECOND);
        assert!(world.outages.ongoing().is_none());
        assert_eq!(world.call(&FAILED, START + 15 * SECOND), TripReport::Withheld, "it began in the outage");
        assert_eq!(world.call(&OK, START + 30 * SECOND), TripReport::Withheld, "no one knows of its trip");
        assert!(world.outages.state().withheld.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_circuit_that_still_fails_after_the_outage_is_reported() {
        let mut world = World::new();
        world.others(Reach::Unreached, START);
        assert_eq!(world.call(&FAILED, START + SECOND), TripReport::Withheld);
        world.others(Reach::Reached, START + 10 * SECOND);
        tokio::time::advance(AFTERMATH).await;
        assert_eq!(world.call(&FAILED, START + 80 * SECOND), TripReport::Overdue);
        assert_eq!(world.call(&OK, START + 100 * SECOND), TripReport::Ordinary, "its trip was reported");
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_before_or_without_an_outage_is_reported_as_usual() {
        let mut world = World::new();
        assert_eq!(world.call(&FAILED, START), TripReport::Ordinary);
        world.others(Reach::Unreached, START + 100 * SECOND);
        assert!(world.outages.ongoing().is_some());
        assert_eq!(world.call(&FAILED, START + 101 * SECOND), TripReport::Ordinary);
        assert_eq!(world.call(&OK, START + 110 * SECOND), TripReport::Ordinary);
    }
}
