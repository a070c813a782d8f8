//! How a probe can end, and the waves in a round with such a probe.

use std::fmt;

use breakerbox::CircuitStatus;
use rand::RngExt;
use rand::rngs::SmallRng;

/// How a probe ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeEnd {
    /// The probe succeeds, because the destination has recovered.
    Succeeds,
    /// The probe fails, because the destination has not recovered.
    Fails,
    /// The caller cancels the probe within `cancel_grace`.
    IsCancelled,
    /// The caller drops the probe after `cancel_grace`.
    IsDroppedLate,
    /// The caller's code panics during the probe.
    Panics,
    /// The probe is never settled.
    IsLost,
    /// The probe's call hangs until `probe_timeout`.
    TimesOut,
    /// The probe's result arrives after its lease has expired and another caller has acquired the next lease.
    ComesLate,
}

impl ProbeEnd {
    /// Every way in which a probe can end.
    pub const ALL: [Self; 8] = [
        Self::Succeeds,
        Self::Fails,
        Self::IsCancelled,
        Self::IsDroppedLate,
        Self::Panics,
        Self::IsLost,
        Self::TimesOut,
        Self::ComesLate,
    ];

    /// Returns whether a probe with this end releases its lease at once, so that the next caller probes.
    pub(super) const fn frees_the_lease(self) -> bool {
        matches!(self, Self::IsCancelled | Self::Panics)
    }

    /// Returns whether a probe with this end keeps its lease until the lease expires.
    pub(super) const fn keeps_the_lease(self) -> bool {
        matches!(self, Self::IsLost | Self::ComesLate)
    }

    /// Returns the waves in a round. The round starts with an open circuit, and ends when the circuit has
    /// closed or reopened. If the probe's result is late, its outcome and the wave in which it arrives are
    /// random.
    pub(super) fn waves(self, chance: &mut SmallRng) -> Vec<Plan> {
        use CircuitStatus::{Closed, HalfOpen, Open};
        use Moment::{CoolOffEnds, LeaseEnds, LeaseNearlyEnds, Now};
        let probing = Plan::probes(CoolOffEnds, self, HalfOpen);
        match self {
            Self::Succeeds => vec![Plan::probes(CoolOffEnds, self, Closed), Plan::none(Now, Closed)],
            Self::Fails | Self::IsDroppedLate | Self::TimesOut => {
                vec![Plan::probes(CoolOffEnds, self, Open), Plan::none(Now, Open)]
            }
            Self::IsCancelled => vec![probing, Plan::probes(Now, Self::Fails, Open)],
            Self::Panics => vec![probing, Plan::probes(Now, Self::Succeeds, Closed)],
            Self::IsLost => vec![
                probing,
                Plan::none(LeaseNearlyEnds, HalfOpen),
                Plan::probes(LeaseEnds, Self::Succeeds, Closed),
            ],
            Self::ComesLate => {
                let (next, then) =
                    if chance.random::<bool>() { (Self::Fails, Open) } else { (Self::Succeeds, Closed) };
                let mut waves = vec![probing, Plan::probes(LeaseEnds, next, then), Plan::none(Now, then)];
                let (wave, when) = match chance.random_range(0..3_u8) {
                    0 => (1, When::AtOnce),
                    1 => (1, When::WhileAnotherProbes),
                    _ => (2, When::AtOnce),
                };
                waves[wave].late = Some(Late { is_success: chance.random::<bool>(), when });
                waves
            }
        }
    }
}

impl fmt::Display for ProbeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Succeeds => "succeeds",
            Self::Fails => "fails",
            Self::IsCancelled => "is dropped within the grace",
            Self::IsDroppedLate => "is dropped after the grace",
            Self::Panics => "panics",
            Self::IsLost => "is never heard of again",
            Self::TimesOut => "times out",
            Self::ComesLate => "comes late",
        })
    }
}

/// One wave of acquires, and its expected result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The time at which all callers acquire.
    pub(super) at: Moment,
    /// How the wave's only probe ends. `None` if no caller may probe.
    pub(super) probe: Option<ProbeEnd>,
    /// The late result of an earlier wave's probe, which arrives in this wave.
    pub(super) late: Option<Late>,
    /// The state of the circuit after the wave.
    pub(super) then: CircuitStatus,
}

impl Plan {
    const fn probes(at: Moment, probe_end: ProbeEnd, then: CircuitStatus) -> Self {
        Self { at, probe: Some(probe_end), late: None, then }
    }

    const fn none(at: Moment, then: CircuitStatus) -> Self {
        Self { at, probe: None, late: None, then }
    }
}

/// The time at which all callers acquire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moment {
    /// At the same time as the previous wave.
    Now,
    /// In the first microsecond after the cool-off.
    CoolOffEnds,
    /// In the last microsecond of the lease.
    LeaseNearlyEnds,
    /// In the first microsecond after the lease.
    LeaseEnds,
}

/// A late result, and when it arrives in the wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Late {
    pub(super) is_success: bool,
    pub(super) when: When,
}

/// When a late result arrives in a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// At the same time as the acquires. The lease has expired, and there may not be a next lease yet.
    AtOnce,
    /// As soon as another caller has the next lease, while that caller probes.
    WhileAnotherProbes,
}
