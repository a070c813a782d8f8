//! The record: all that is remembered of a circuit, apart from its window of counts.
//!
//! A record is plain data. Stores keep it and swap it whole, in the form that its `Serialize` gives it; its functions in
//! `transitions/` decide what the next one is. A field that is added later must be optional: processes of the version before
//! read and write the same records during an upgrade.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::change::Cause;
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::token::{Draw, Epoch, Nonce, Version};
use crate::window::Totals;

/// The state of an automatic circuit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Calls go through.
    Closed,
    /// Calls are refused until the cool-off is over.
    Open,
    /// One call at a time probes whether the destination is back.
    HalfOpen,
}

/// The state as it is reported: being disabled is a mode, and shows as a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Status {
    /// Calls go through.
    Closed,
    /// Calls are refused.
    Open,
    /// One call at a time probes.
    HalfOpen,
    /// Calls are refused until somebody enables the circuit.
    Disabled,
}

impl Status {
    /// The name that reports and APIs use.
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

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who decides about a circuit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its outcomes do.
    Automatic,
    /// An operator: every call is refused.
    ForcedOpen(Attribution),
    /// An operator: every call is admitted.
    ForcedClosed(Attribution),
    /// Switched off, by an operator or after too many trips, until somebody enables it.
    Disabled(Attribution),
}

/// Who changed a circuit's mode, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attribution {
    actor: Arc<str>,
    reason: Arc<str>,
}

/// The longest actor and the longest reason, in bytes.
pub const MAX_ATTRIBUTION_LENGTH: usize = 1_024;

/// An actor or a reason that is too long to be kept with a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: must be at most {MAX_ATTRIBUTION_LENGTH} bytes, but is {length}")]
pub struct AttributionTooLong {
    /// `actor` or `reason`.
    pub field: &'static str,
    /// Its length in bytes.
    pub length: usize,
}

impl Attribution {
    /// Who did it, and why.
    ///
    /// # Errors
    /// If either is longer than [`MAX_ATTRIBUTION_LENGTH`].
    pub fn new(actor: &str, reason: &str) -> Result<Self, AttributionTooLong> {
        for (field, text) in [("actor", actor), ("reason", reason)] {
            if text.len() > MAX_ATTRIBUTION_LENGTH {
                return Err(AttributionTooLong { field, length: text.len() });
            }
        }
        Ok(Self { actor: actor.into(), reason: reason.into() })
    }

    /// Who did it.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The exclusive right to probe, for a limited time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// Names the one probe that holds it.
    pub nonce: Nonce,
    /// From then on it is expired.
    pub expires_at: Timestamp,
}

impl Lease {
    /// Whether the lease still holds.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

/// All that is remembered of a circuit, apart from its window of counts, and the transition table: what comes next.
///
/// | row | from | when | to | in |
/// | --- | --- | --- | --- | --- |
/// | 0 | overridden | an ask | same | `ask` |
/// | 1 | closed | a counted outcome makes a trip rule hold | open | `trip` |
/// | 2 | open | an ask before `retry_at` | open | `ask` |
/// | 3 | open | an ask from `retry_at` on | half-open, the asker has the lease | `ask` |
/// | 4 | half-open | an ask while the lease is live | half-open | `ask` |
/// | 5 | half-open | an ask while the lease is free or expired | half-open, the asker has the lease | `ask` |
/// | 6 | half-open | the probe succeeded in time | half-open or closed | `probe` |
/// | 7 | half-open | the probe failed in time | open | `probe` |
/// | 8 | half-open | the probe was ignored or cancelled | half-open, the lease is free | `probe` |
/// | 9 | any | an outcome whose epoch, nonce or lease is not current | same | `probe`, `circuit` |
/// | 10 | at a trip | closed for `forgive_after` | trips count from 0 | `trip` |
/// | 11 | at a trip | `disable_after` trips, no success for `disable_min` | disabled | `trip` |
/// | 12 | any | force open, force closed, disable | that mode | `command` |
/// | 13 | any | release, enable, reset | open or closed, automatic | `command` |
///
/// The last column is the source file that decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The state, which counts while the mode is automatic.
    pub state: State,
    /// This life of the circuit. Grows with every transition.
    pub epoch: Epoch,
    /// The token of the latest write.
    pub version: Version,
    /// When the circuit last tripped or was opened; none if it never was, or was reset.
    pub opened_at: Option<Timestamp>,
    /// While open: from when on an ask may probe.
    pub retry_at: Option<Timestamp>,
    /// Trips since the circuit was last forgiven.
    pub trips: u32,
    /// The latest success; until there was one, the first counted outcome.
    pub last_success: Option<Timestamp>,
    /// While half-open: the probe under way.
    pub lease: Option<Lease>,
    /// While half-open: how many probes have succeeded.
    pub probe_successes: u32,
    /// Who decides.
    pub mode: Mode,
    /// When the epoch began.
    pub changed_at: Timestamp,
    /// Why the epoch began, so that every process that sees the record can tell; none for a circuit's first.
    pub cause: Option<Cause>,
    /// What the window held when a rule last tripped the circuit, so that people can be told; none once it has closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Arc<Totals>>,
    /// Whom the destination belongs to.
    pub tenant: Option<Arc<str>>,
}

impl Record {
    /// A circuit that nothing has happened to: closed.
    #[must_use]
    pub fn new(tenant: Option<Arc<str>>, draw: Draw, now: Timestamp) -> Self {
        Self {
            state: State::Closed,
            epoch: Self::first_epoch(now),
            version: draw.version(),
            opened_at: None,
            retry_at: None,
            trips: 0,
            last_success: None,
            lease: None,
            probe_successes: 0,
            mode: Mode::Automatic,
            changed_at: now,
            cause: None,
            evidence: None,
            tenant,
        }
    }

    /// The state as it is reported.
    #[must_use]
    pub fn status(&self) -> Status {
        match (&self.mode, self.state) {
            (Mode::Disabled(_), _) => Status::Disabled,
            (Mode::ForcedOpen(_), _) => Status::Open,
            (Mode::ForcedClosed(_), _) => Status::Closed,
            (Mode::Automatic, State::Closed) => Status::Closed,
            (Mode::Automatic, State::Open) => Status::Open,
            (Mode::Automatic, State::HalfOpen) => Status::HalfOpen,
        }
    }

    /// Whether outcomes, and nobody else, decide.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        self.mode == Mode::Automatic
    }

    /// Whether the circuit, having been open, closed less than a window ago: traffic comes back by the ramp.
    #[must_use]
    pub fn closed_recently(&self, policy: &Policy, now: Timestamp) -> bool {
        self.is_automatic()
            && self.state == State::Closed
            && self.opened_at.is_some()
            && now.since(self.changed_at) < policy.window()
    }

    /// The epoch of a circuit that was first seen at `now`.
    pub(crate) fn first_epoch(now: Timestamp) -> Epoch {
        Epoch::default().next(now)
    }

    /// Whether nothing would be lost with this record: it is closed, nobody overrode it, no ramp can be under way, and
    /// it remembers no trip that would still count. Such a record may be evicted when it is idle.
    #[must_use]
    pub fn is_forgettable(&self, policy: &Policy, now: Timestamp) -> bool {
        self.is_automatic()
            && self.state == State::Closed
            && !self.closed_recently(policy, now)
            && (self.trips == 0 || self.is_forgiven(policy, now))
    }

    /// For how long a store must keep this record when nothing more happens to it; none: for ever, since it is open,
    /// half-open or overridden. Afterwards it is [forgettable](Self::is_forgettable).
    #[must_use]
    pub fn keep_for(&self, policy: &Policy) -> Option<Duration> {
        if !self.is_automatic() || self.state != State::Closed {
            return None;
        }
        let remembers = if self.trips > 0 { policy.forgive_after() } else { Duration::ZERO };
        Some(policy.window().max(remembers))
    }

    /// Whether the circuit has been closed for long enough for its trips to be forgotten.
    pub(crate) fn is_forgiven(&self, policy: &Policy, now: Timestamp) -> bool {
        self.state == State::Closed && now.since(self.changed_at) >= policy.forgive_after()
    }
}

/// Takes note of a counted outcome: of a success, and of the very first one.
pub(crate) fn note_outcome(last_success: &mut Option<Timestamp>, failed: bool, now: Timestamp) {
    if !failed || last_success.is_none() {
        *last_success = Some(now);
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
            lease: Some(Lease { nonce: Nonce(u128::MAX), expires_at: at(4) }),
            probe_successes: 1,
            mode: Mode::ForcedOpen(by),
            changed_at: at(5),
            cause: Some(Cause::Rule(TripRule::FailureRate)),
            evidence: None,
            tenant: Some("acme".into()),
        };
        // Running fleets have this in their stores: it may grow, and never change.
        let text = concat!(
            r#"{"state":"half_open","epoch":7,"version":"000000000000000000000000000000ff","opened_at":1,"#,
            r#""retry_at":null,"trips":2,"last_success":3,"#,
            r#""lease":{"nonce":"ffffffffffffffffffffffffffffffff","expires_at":4},"probe_successes":1,"#,
            r#""mode":{"forced_open":{"actor":"ops","reason":"maintenance"}},"changed_at":5,"#,
            r#""cause":{"rule":"failure_rate"},"tenant":"acme"}"#,
        );
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<Record>(text).unwrap(), record);

        let least = r#"{"state":"closed","epoch":7,"version":"1","trips":0,"probe_successes":0,"mode":"automatic","changed_at":5,"new":1}"#;
        let record: Record = serde_json::from_str(least).unwrap();
        assert_eq!((record.mode, record.lease, record.version), (Mode::Automatic, None, Version(1)));
        assert!(serde_json::from_str::<Record>(&text.replace("ff\"", "xx\"")).is_err());
    }
}
