//! The record: the stored state of a circuit, without its window of counts.
//!
//! A record is plain data. Stores keep it and swap it as a whole, in its serialized form; its methods in
//! `transitions/` decide the next record. Fields that are added later must be optional: during an upgrade, processes
//! with the previous version read and write the same records.

mod cause;

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

pub use self::cause::{Cause, OverrideCommand};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce, RandomBits, Version};
use crate::window::Totals;

/// The state of a circuit without an override.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum State {
    /// Calls are admitted.
    Closed,
    /// Calls are refused until the cool-off is over.
    Open,
    /// One call at a time probes whether the destination has recovered.
    HalfOpen,
}

/// The state that is reported for a circuit. Unlike [`State`], it includes disabled, which is a mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CircuitStatus {
    /// Calls are admitted.
    Closed,
    /// Calls are refused.
    Open,
    /// One call at a time probes whether the destination has recovered.
    HalfOpen,
    /// Calls are refused until an operator enables the circuit.
    Disabled,
}

impl CircuitStatus {
    /// Returns the name that reports and APIs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for CircuitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a circuit is governed by the outcomes of its calls or by an override.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Mode {
    /// The outcomes of calls determine the circuit's state.
    Automatic,
    /// An operator forced the circuit open, so every call is refused.
    ForcedOpen(Attribution),
    /// An operator forced the circuit closed, so every call is admitted.
    ForcedClosed(Attribution),
    /// The circuit was disabled, by an operator or after too many trips. Every call is refused until an operator
    /// enables it.
    Disabled(Attribution),
}

/// The actor who changed a circuit's mode, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attribution {
    actor: Arc<str>,
    reason: Arc<str>,
}

/// The maximum length of an actor or a reason, in bytes.
pub const MAX_ATTRIBUTION_LENGTH: usize = 1_024;

/// The error for an actor or a reason that is too long to be stored with a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: must be at most {MAX_ATTRIBUTION_LENGTH} bytes, but is {length}")]
pub struct AttributionTooLong {
    /// The field that is too long: `actor` or `reason`.
    pub field: &'static str,
    /// The field's length, in bytes.
    pub length: usize,
}

impl Attribution {
    /// Creates an attribution. Both strings may be empty.
    ///
    /// # Errors
    /// If either string is longer than [`MAX_ATTRIBUTION_LENGTH`].
    pub fn new(actor: &str, reason: &str) -> Result<Self, AttributionTooLong> {
        for (field, text) in [("actor", actor), ("reason", reason)] {
            if text.len() > MAX_ATTRIBUTION_LENGTH {
                return Err(AttributionTooLong { field, length: text.len() });
            }
        }
        Ok(Self { actor: actor.into(), reason: reason.into() })
    }

    /// Returns the actor: an operator, or `breakerbox` for a circuit that was disabled after too many trips.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Returns the reason that the actor gave. It may be empty.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// How much longer a probe's lease lasts than the probe's timeout, so that a result at the last moment can still reach
/// the store.
pub const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// The exclusive right to probe, for a limited time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Lease {
    /// Identifies the probe that holds the lease.
    pub nonce: Nonce,
    /// The time at which the lease expires.
    pub expires_at: Timestamp,
}

impl Lease {
    /// Whether the lease has not expired.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

/// A circuit's stored state, without its window of counts. Its methods are the transition table:
///
/// | row | from | when | to | in |
/// | --- | --- | --- | --- | --- |
/// | 0 | overridden | a caller acquires | same | `acquire` |
/// | 1 | closed | after a counted outcome, a trip rule is met | open | `trip` |
/// | 2 | open | a caller acquires before `retry_at` | open | `acquire` |
/// | 3 | open | a caller acquires at or after `retry_at` | half-open, caller holds the lease | `acquire` |
/// | 4 | half-open | a caller acquires while the lease is live | half-open | `acquire` |
/// | 5 | half-open | a caller acquires while the lease is free or expired | half-open, caller holds the lease | `acquire` |
/// | 6 | half-open | the probe succeeded in time | half-open or closed | `probe` |
/// | 7 | half-open | the probe failed in time | open | `probe` |
/// | 8 | half-open | the probe's outcome was ignored, or it was cancelled | half-open, the lease is free | `probe` |
/// | 9 | any | an outcome whose epoch, nonce or lease is not current | same | `probe`, `circuit` |
/// | 10 | at a trip | closed for ten times the last cool-off, or for `forgive_after` | trips count from 0 | `trip` |
/// | 11 | at a trip | `disable_after` trips, failing for `disable_min` | disabled | `trip` |
/// | 12 | any | force open, force closed, disable | that mode | `overrides` |
/// | 13 | any | release, enable, reset | open or closed, automatic | `overrides` |
///
/// The last column is the source file with the decision. Beside the table, `overrides` lets an open circuit probe at
/// once ([`OverrideCommand::Excuse`]), after an outage on this side.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Record {
    /// The state, which applies while the mode is automatic.
    pub state: State,
    /// The number of the current epoch, the period since the latest transition. It increases with every transition.
    pub epoch: Epoch,
    /// The token that identifies the latest write.
    pub version: Version,
    /// The time at which the circuit last tripped or was opened; `None` if that never happened since the latest reset.
    pub opened_at: Option<Timestamp>,
    /// The earliest time at which a caller may probe; `None` unless the circuit is open.
    pub retry_at: Option<Timestamp>,
    /// The number of trips since the circuit's trips were last forgiven.
    pub trips: u32,
    /// The time of the latest success; `None` before the first.
    pub last_success: Option<Timestamp>,
    /// The time of the first counted failure after the latest success, even if that failure was in an earlier epoch. A
    /// success, an enable command or a reset command clears it.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub failing_since: Option<Timestamp>,
    /// The lease of the probe in flight, while the circuit is half-open.
    pub lease: Option<Lease>,
    /// The number of probes that succeeded while half-open. In sampling mode, the number of leases given since the
    /// latest tick.
    pub probe_successes: u32,
    /// Whether the circuit is governed by the outcomes of its calls or by an override.
    pub mode: Mode,
    /// The time at which the current epoch began.
    pub changed_at: Timestamp,
    /// The reason for the latest transition; `None` if there was none.
    pub cause: Option<Cause>,
    /// The window's counts when a rule last tripped the circuit, for reports; `None` once the circuit has closed.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub evidence: Option<Arc<Totals>>,
    /// The tenant that owns the destination; `None` if the circuit has no tenant.
    pub tenant: Option<Arc<str>>,
}

impl Record {
    /// Creates the record of a closed circuit without history.
    #[must_use]
    pub fn new(tenant: Option<Arc<str>>, draw: RandomBits, now: Timestamp) -> Self {
        Self::fresh(Self::first_epoch(now), draw.version(), now).with_tenant(tenant)
    }

    /// Creates the record of a closed circuit without history, with an epoch and a version of the caller's choice, for
    /// example to test a store.
    #[must_use]
    pub const fn fresh(epoch: Epoch, version: Version, changed_at: Timestamp) -> Self {
        Self {
            state: State::Closed,
            epoch,
            version,
            opened_at: None,
            retry_at: None,
            trips: 0,
            last_success: None,
            failing_since: None,
            lease: None,
            probe_successes: 0,
            mode: Mode::Automatic,
            changed_at,
            cause: None,
            evidence: None,
            tenant: None,
        }
    }

    /// Returns the same record for a destination that this tenant owns.
    #[must_use]
    pub fn with_tenant(mut self, tenant: Option<Arc<str>>) -> Self {
        self.tenant = tenant;
        self
    }

    /// Returns the state to report: disabled if the mode is disabled, otherwise the record's state.
    #[must_use]
    pub fn status(&self) -> CircuitStatus {
        match (&self.mode, self.state) {
            (Mode::Disabled(_), _) => CircuitStatus::Disabled,
            (Mode::ForcedOpen(_), _) => CircuitStatus::Open,
            (Mode::ForcedClosed(_), _) => CircuitStatus::Closed,
            (Mode::Automatic, State::Closed) => CircuitStatus::Closed,
            (Mode::Automatic, State::Open) => CircuitStatus::Open,
            (Mode::Automatic, State::HalfOpen) => CircuitStatus::HalfOpen,
        }
    }

    /// Whether the circuit has no override, so that the outcomes of calls determine its state.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.mode == Mode::Automatic
    }

    /// Whether the circuit closed less than a window ago, after being open. Within that time, traffic increases along
    /// the ramp.
    #[must_use]
    pub fn closed_recently(&self, policy: &Policy, now: Timestamp) -> bool {
        self.is_automatic()
            && self.state == State::Closed
            && self.opened_at.is_some()
            && now.since(self.changed_at) < policy.window()
    }

    /// Whether the ramp that began when the circuit closed may still be running in the fleet. The estimate is an upper
    /// bound, which assumes that every round of the ramp takes as long as a call can hold a slot.
    pub(crate) fn may_ramp(&self, policy: &Policy, now: Timestamp) -> bool {
        let rounds = policy.ramp_cap().map_or(0, |cap| u32::BITS - cap.leading_zeros());
        let all_rounds = (policy.probe_timeout() + LEASE_MARGIN).saturating_mul(rounds);
        let longest = policy.window().saturating_add(all_rounds);
        self.is_automatic()
            && self.state == State::Closed
            && self.opened_at.is_some()
            && now.since(self.changed_at) < longest
    }

    /// Returns the epoch for a circuit that was first seen at `now`.
    pub(crate) fn first_epoch(now: Timestamp) -> Epoch {
        Epoch::default().next(now)
    }

    /// Whether this record can be dropped without loss. This requires that the circuit is closed, closed at least a
    /// window ago, has no override, and has no trip that would still count. A forgettable record may be evicted when it
    /// is idle.
    #[must_use]
    pub fn is_forgettable(&self, policy: &Policy, now: Timestamp) -> bool {
        self.is_automatic()
            && self.state == State::Closed
            && !self.closed_recently(policy, now)
            && (self.trips == 0 || self.is_forgiven(policy, now))
    }

    /// Returns how long a store must keep this record after its latest write. After that time the record is
    /// [forgettable](Self::is_forgettable). `None` means forever, because the circuit is open, half-open or overridden.
    #[must_use]
    pub fn keep_for(&self, policy: &Policy) -> Option<Duration> {
        if !self.is_automatic() || self.state != State::Closed {
            return None;
        }
        Some(Self::closed_kept_for(policy))
    }

    /// Returns the minimum time that a store keeps a closed record, even one without trips, such as after a reset. A
    /// process that missed the reset for less than this time can still read it, and does not restore the previous
    /// state.
    pub(crate) fn closed_kept_for(policy: &Policy) -> Duration {
        policy.window().max(policy.forgive_after())
    }

    /// Whether the circuit has been closed long enough for its trips to be forgiven: for ten times its last cool-off, or
    /// for `forgive_after`.
    pub(crate) fn is_forgiven(&self, policy: &Policy, now: Timestamp) -> bool {
        self.state == State::Closed && now.since(self.changed_at) >= policy.forgiven_after(self.trips)
    }
}

/// The latest success, and the first failure after it: [`Record::last_success`] and [`Record::failing_since`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatestOutcomes {
    /// The time of the latest success; `None` before the first.
    pub last_success: Option<Timestamp>,
    /// The time of the first counted failure after the latest success; `None` if there is none.
    pub failing_since: Option<Timestamp>,
}

impl LatestOutcomes {
    /// Records a success.
    pub(crate) const fn succeeded(&mut self, now: Timestamp) {
        *self = Self { last_success: Some(now), failing_since: None };
    }

    /// Records a failure.
    pub(crate) fn failed(&mut self, now: Timestamp) {
        self.failing_since.get_or_insert(now);
    }

    /// Merges the latest outcomes that two processes know. The result has the later success, and the first failure
    /// after it.
    #[must_use]
    pub fn merged_with(self, other: Self) -> Self {
        let last_success = self.last_success.max(other.last_success);
        let since = [self.failing_since, other.failing_since].into_iter().flatten();
        Self { last_success, failing_since: since.filter(|since| Some(*since) > last_success).min() }
    }

    /// Converts the times from a clock that shows `before` to one that shows `after` at the same moment.
    pub(crate) fn moved(self, before: Timestamp, after: Timestamp) -> Self {
        let moved = |time: Timestamp| time.moved(before, after);
        Self { last_success: self.last_success.map(moved), failing_since: self.failing_since.map(moved) }
    }

    /// Drops times after `now`, which come from a clock that was ahead.
    pub(crate) fn until(self, now: Timestamp) -> Self {
        let is_past = |time: &Timestamp| *time <= now;
        Self {
            last_success: self.last_success.filter(is_past),
            failing_since: self.failing_since.filter(is_past),
        }
    }
}

impl Record {
    /// Whether `other`, a record with the same epoch, was written after this record, because it has more successful
    /// probes or a later lease.
    pub(crate) fn is_followed_by(&self, other: &Self) -> bool {
        let expiry = |record: &Self| record.lease.map(|lease| lease.expires_at);
        other.probe_successes > self.probe_successes
            || other.probe_successes == self.probe_successes
                && expiry(self).zip(expiry(other)).is_some_and(|(own, other)| own < other)
    }

    /// Returns the times of the latest success and of the first failure after it.
    #[must_use]
    pub const fn latest_outcomes(&self) -> LatestOutcomes {
        LatestOutcomes { last_success: self.last_success, failing_since: self.failing_since }
    }

    /// Returns the same record with these latest outcomes.
    #[must_use]
    pub fn with_latest_outcomes(self, latest: LatestOutcomes) -> Self {
        let LatestOutcomes { last_success, failing_since } = latest;
        Self { last_success, failing_since, ..self }
    }

    /// Returns the same record with `known` as its latest success, if `known` is later than the record's. The process
    /// that wrote the record may not have known of this success.
    pub(crate) fn with_success_at(self, known: Option<Timestamp>) -> Self {
        let latest = self.latest_outcomes();
        let known = LatestOutcomes { last_success: known, failing_since: None };
        if known.last_success <= latest.last_success {
            self
        } else {
            self.with_latest_outcomes(latest.merged_with(known))
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::rule::TripRule;

    #[test]
    fn an_attribution_has_bounds() {
        let long = "x".repeat(1_025);
        let error = Attribution::new("ops", &long).unwrap_err();
        assert_eq!(error.to_string(), "reason: must be at most 1024 bytes, but is 1025");
        assert_eq!(Attribution::new(&long, "").unwrap_err().field, "actor");
        assert!(Attribution::new(&long[..1_024], "").is_ok());
    }

    #[test]
    fn two_views_of_the_latest_outcomes_make_one() {
        let seen = |success: Option<u64>, failing: Option<u64>| LatestOutcomes {
            last_success: success.map(Timestamp::from_micros),
            failing_since: failing.map(Timestamp::from_micros),
        };
        for (one, other, both) in [
            (seen(None, None), seen(None, None), seen(None, None)),
            (seen(None, Some(5)), seen(None, Some(3)), seen(None, Some(3))),
            (seen(Some(1), Some(5)), seen(None, Some(3)), seen(Some(1), Some(3))),
            (seen(Some(1), Some(2)), seen(Some(4), None), seen(Some(4), None)),
            (seen(Some(1), Some(2)), seen(Some(4), Some(6)), seen(Some(4), Some(6))),
            (seen(Some(4), Some(6)), seen(Some(4), Some(5)), seen(Some(4), Some(5))),
        ] {
            assert_eq!(one.merged_with(other), both, "{one:?} {other:?}");
            assert_eq!(other.merged_with(one), both, "{one:?} {other:?}");
        }
        let until = |now| seen(Some(4), Some(6)).until(Timestamp::from_micros(now));
        assert_eq!(
            (until(6), until(5), until(3)),
            (seen(Some(4), Some(6)), seen(Some(4), None), seen(None, None))
        );
    }

    #[test]
    fn stores_write_it_like_this() {
        let by = Attribution::new("ops", "maintenance").unwrap();
        let at = Timestamp::from_micros;
        let record = Record {
            state: State::HalfOpen,
            epoch: Epoch(7),
            version: Version(0x00ff),
            opened_at: Some(at(1)),
            retry_at: None,
            trips: 2,
            last_success: Some(at(3)),
            failing_since: None,
            lease: Some(Lease { nonce: Nonce(u128::MAX), expires_at: at(4) }),
            probe_successes: 1,
            mode: Mode::ForcedOpen(by),
            changed_at: at(5),
            cause: Some(Cause::Rule(TripRule::FailureRate)),
            evidence: None,
            tenant: Some("acme".into()),
        };
        // Running fleets have this in their stores: fields may be added, but never changed.
        let text = concat!(
            r#"{"state":"half_open","epoch":7,"version":"000000000000000000000000000000ff","opened_at":1,"#,
            r#""retry_at":null,"trips":2,"last_success":3,"#,
            r#""lease":{"nonce":"ffffffffffffffffffffffffffffffff","expires_at":4},"probe_successes":1,"#,
            r#""mode":{"forced_open":{"actor":"ops","reason":"maintenance"}},"changed_at":5,"#,
            r#""cause":{"rule":"failure_rate"},"tenant":"acme"}"#,
        );
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<Record>(text).unwrap(), record);
        let failing = Record { failing_since: Some(at(4)), ..record };
        let longer = text.replace(r#""last_success":3,"#, r#""last_success":3,"failing_since":4,"#);
        assert_eq!(serde_json::to_string(&failing).unwrap(), longer);
        assert_eq!(serde_json::from_str::<Record>(&longer).unwrap(), failing);

        let least = r#"{"state":"closed","epoch":7,"version":"1","trips":0,"probe_successes":0,"mode":"automatic","changed_at":5,"new":1}"#;
        let record: Record = serde_json::from_str(least).unwrap();
        assert_eq!((record.mode, record.lease, record.version), (Mode::Automatic, None, Version(1)));
        assert!(serde_json::from_str::<Record>(&text.replace("ff\"", "xx\"")).is_err());
    }
}
