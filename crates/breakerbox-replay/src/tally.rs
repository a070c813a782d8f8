//! The counts of a replay: calls, samples, refusals, and the time in each state.

use std::time::Duration;

use breakerbox_core::{Change, CircuitStatus, Decision, OutcomeKind, Settlement, Timestamp};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// The counts for one key, or for all keys.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of calls in the traffic.
    pub calls: u64,
    /// The number of admitted calls, including probes.
    pub admitted: u64,
    /// The number of refused calls.
    pub refused: u64,
    /// The number of admitted calls that were probes.
    pub probes: u64,
    /// The number of admitted calls that failed in the traffic.
    pub failed_calls_admitted: u64,
    /// The number of refused calls that failed in the traffic.
    pub failed_calls_refused: u64,
    /// The number of refused calls that succeeded in the traffic.
    pub successful_calls_refused: u64,
    /// The number of outcomes that came too late for the circuit to count them.
    pub late_results: u64,
    /// The number of samples: one for each tick that contains the key.
    pub samples: u64,
    /// The number of transitions to open or disabled.
    pub trips: u64,
    /// The total time that the circuit was open.
    pub time_open: Duration,
    /// The total time that the circuit was half-open.
    pub time_half_open: Duration,
    /// The total time that the circuit was disabled.
    pub time_disabled: Duration,
    /// The current state and when it began. `None` while the circuit is closed.
    since: Option<(CircuitStatus, Timestamp)>,
}

impl Tally {
    pub(super) fn asked(&mut self, decision: &Decision, outcome: OutcomeKind) {
        self.calls += 1;
        match decision {
            Decision::Admitted(permit) => {
                self.admitted += 1;
                self.probes += u64::from(permit.is_probe());
                self.failed_calls_admitted += u64::from(outcome == OutcomeKind::Failure);
            }
            Decision::Refused(_) => {
                self.refused += 1;
                match outcome {
                    OutcomeKind::Failure => self.failed_calls_refused += 1,
                    OutcomeKind::Success => self.successful_calls_refused += 1,
                    OutcomeKind::Ignored => {}
                }
            }
        }
    }

    pub(super) fn settled(&mut self, settlement: Settlement) {
        self.late_results += u64::from(settlement == Settlement::Late);
    }

    pub(super) fn changed(&mut self, change: &Change) {
        self.leave_state(change.at);
        self.trips += u64::from(matches!(change.to, CircuitStatus::Open | CircuitStatus::Disabled));
        self.since = (change.to != CircuitStatus::Closed).then_some((change.to, change.at));
    }

    pub(super) fn ended(&mut self, now: Timestamp) {
        self.leave_state(now);
        self.since = None;
    }

    /// Returns whether a key had at least five calls, all failed, and never tripped, which is worth a hint.
    pub(super) fn only_failed_and_never_tripped(&self) -> bool {
        self.trips == 0 && self.failed_calls_admitted >= 5 && self.failed_calls_admitted == self.calls
    }

    fn leave_state(&mut self, now: Timestamp) {
        let Some((status, since)) = self.since else { return };
        match status {
            CircuitStatus::Open => self.time_open += now.since(since),
            CircuitStatus::HalfOpen => self.time_half_open += now.since(since),
            CircuitStatus::Disabled => self.time_disabled += now.since(since),
            _ => {}
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.probes += other.probes;
        self.failed_calls_admitted += other.failed_calls_admitted;
        self.failed_calls_refused += other.failed_calls_refused;
        self.successful_calls_refused += other.successful_calls_refused;
        self.late_results += other.late_results;
        self.samples += other.samples;
        self.trips += other.trips;
        self.time_open += other.time_open;
        self.time_half_open += other.time_half_open;
        self.time_disabled += other.time_disabled;
    }
}

impl Serialize for Tally {
    /// Serializes either the fields for calls or those for samples.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut map = serializer.serialize_map(None)?;
        if self.samples > 0 {
            map.serialize_entry("samples", &self.samples)?;
        } else {
            map.serialize_entry("calls", &self.calls)?;
            map.serialize_entry("admitted", &self.admitted)?;
            map.serialize_entry("refused", &self.refused)?;
            map.serialize_entry("probes", &self.probes)?;
            map.serialize_entry("failed_calls_admitted", &self.failed_calls_admitted)?;
            map.serialize_entry("failed_calls_refused", &self.failed_calls_refused)?;
            map.serialize_entry("successful_calls_refused", &self.successful_calls_refused)?;
            map.serialize_entry("late_results", &self.late_results)?;
        }
        map.serialize_entry("trips", &self.trips)?;
        map.serialize_entry("time_open_ms", &millis(self.time_open))?;
        map.serialize_entry("time_half_open_ms", &millis(self.time_half_open))?;
        map.serialize_entry("time_disabled_ms", &millis(self.time_disabled))?;
        map.end()
    }
}
