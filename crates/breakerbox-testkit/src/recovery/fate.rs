//! What can become of a probe, and what a round with such a probe looks like: a table of waves.

use std::fmt;

use breakerbox::Status;
use rand::RngExt;
use rand::rngs::SmallRng;

/// What becomes of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The destination is back.
    Succeeds,
    /// It is not.
    Fails,
    /// The caller changed its mind, within `cancel_grace`.
    IsCancelled,
    /// The caller gave up, after `cancel_grace`.
    IsDroppedLate,
    /// The caller's code panics.
    Panics,
    /// Nobody ever hears of it again.
    IsLost,
    /// It hangs until `probe_timeout`.
    TimesOut,
    /// Its result comes when its lease is over and somebody else's has begun.
    ComesLate,
}

impl Fate {
    /// Every fate there is.
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

    /// Whether a probe with this fate gives its lease back at once, so that the next asker probes.
    pub(super) const fn frees_the_lease(self) -> bool {
        matches!(self, Self::IsCancelled | Self::Panics)
    }

    /// Whether a probe with this fate keeps its lease to the end.
    pub(super) const fn keeps_the_lease(self) -> bool {
        matches!(self, Self::IsLost | Self::ComesLate)
    }

    /// The waves of a round, from an open circuit to one that is open or closed. What comes late is left to chance: what
    /// it says, and what has become of the circuit meanwhile.
    pub(super) fn waves(self, chance: &mut SmallRng) -> Vec<Plan> {
        use Moment::{CoolOffEnds, LeaseEnds, LeaseNearlyEnds, Now};
        use Status::{Closed, HalfOpen, Open};
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

impl fmt::Display for Fate {
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

/// What is to happen in one wave of asks, and what must come of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// When everybody asks.
    pub(super) at: Moment,
    /// What becomes of the one probe; none: nobody may probe.
    pub(super) probe: Option<Fate>,
    /// What the probe of an earlier wave says, now that it is too late.
    pub(super) late: Option<Late>,
    /// The state that the wave leaves behind.
    pub(super) then: Status,
}

impl Plan {
    const fn probes(at: Moment, fate: Fate, then: Status) -> Self {
        Self { at, probe: Some(fate), late: None, then }
    }

    const fn none(at: Moment, then: Status) -> Self {
        Self { at, probe: None, late: None, then }
    }
}

/// When everybody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moment {
    /// Without any time gone by since the last wave.
    Now,
    /// At the first microsecond after the cool-off.
    CoolOffEnds,
    /// At the last microsecond of the lease.
    LeaseNearlyEnds,
    /// At the first microsecond after the lease.
    LeaseEnds,
}

/// What a late probe says, and when in the wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Late {
    pub(super) is_success: bool,
    pub(super) when: When,
}

/// When in a wave something late is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// Beside all the asks: the lease is over, and it may be that nobody has the next one yet.
    AtOnce,
    /// As soon as somebody else has the next lease, and while that one probes.
    WhileAnotherProbes,
}
