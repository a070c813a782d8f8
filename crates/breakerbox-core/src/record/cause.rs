//! The reasons for which a circuit changes its state.

use super::{Attribution, CircuitStatus};
use crate::rule::TripRule;

/// The reason for a circuit's transition.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Cause {
    /// A trip rule was met.
    Rule(TripRule),
    /// A probe failed.
    ProbeFailed,
    /// The cool-off was over, and a caller acquired a probe.
    CoolOffOver,
    /// Enough probes succeeded.
    ProbesSucceeded,
    /// The success rate while half-open reached `recovery_rate`, in sampling mode.
    RecoveryRateMet,
    /// The success rate while half-open did not reach `recovery_rate`, in sampling mode.
    RecoveryRateMissed,
    /// The record of the closed circuit expired in the store, while this process still had an older state. Only this
    /// process's observers receive this cause; no record contains it.
    Expired,
    /// An operator overrode the circuit.
    #[cfg_attr(feature = "serde", serde(rename = "command"))]
    Override {
        /// The operator's command.
        command: OverrideCommand,
        /// The operator, and the reason given.
        by: Attribution,
    },
}

impl Cause {
    /// Returns the name that reports and metrics use: the name of the trip rule or of the operator's command, or
    /// `probe_failed`, `cool_off_over`, and so on.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Rule(rule) => rule.name(),
            Self::ProbeFailed => "probe_failed",
            Self::CoolOffOver => "cool_off_over",
            Self::ProbesSucceeded => "probes_succeeded",
            Self::RecoveryRateMet => "recovery_rate_met",
            Self::RecoveryRateMissed => "recovery_rate_missed",
            Self::Expired => "expired",
            Self::Override { command, .. } => command.name(),
        }
    }

    /// Returns the state that a transition with this cause leaves. `None` for an operator's command, which applies in
    /// any state, and for an expired record.
    #[must_use]
    pub const fn leaves(&self) -> Option<CircuitStatus> {
        match self {
            Self::Rule(_) => Some(CircuitStatus::Closed),
            Self::CoolOffOver => Some(CircuitStatus::Open),
            Self::ProbeFailed | Self::ProbesSucceeded | Self::RecoveryRateMet | Self::RecoveryRateMissed => {
                Some(CircuitStatus::HalfOpen)
            }
            Self::Override { .. } | Self::Expired => None,
        }
    }
}

/// An operator's command that overrides a circuit, or ends an override.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OverrideCommand {
    /// Refuse every call.
    ForceOpen,
    /// Admit every call.
    ForceClosed,
    /// Refuse every call until an operator enables the circuit.
    Disable,
    /// End an override and probe. The number of trips stays the same.
    Release,
    /// End an override and probe. The number of trips is set to zero.
    Enable,
    /// Close the circuit, with zero trips and without an override.
    Reset,
    /// Forget the trips and failures of an open circuit without an override, and probe at once. For failures that were
    /// not the destination's, such as during an [outage on this side](crate::own_outage).
    Excuse,
}

impl OverrideCommand {
    /// Returns the name that reports and APIs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForceOpen => "force_open",
            Self::ForceClosed => "force_closed",
            Self::Disable => "disable",
            Self::Release => "release",
            Self::Enable => "enable",
            Self::Reset => "reset",
            Self::Excuse => "excuse",
        }
    }
}
