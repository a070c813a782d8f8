//! Presets: policies that reproduce known breakers.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::Policy;
use super::error::DidYouMean;
use crate::key::CircuitBy;
use crate::nearest::nearest;

/// A policy that reproduces a known circuit breaker. A preset turns off every trip rule that it does not set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Preset {
    /// Reproduces Convoy's asynchronous breaker, which trips on the failure rate over five minutes. Intended for
    /// sampling.
    Convoy,
    /// Reproduces Razorpay's Reminders, which trips on a tenant's mean latency and number of failures.
    Reminders,
    /// Reproduces per-endpoint breakers in Redis, which trip on the number of failures.
    RedisLua,
    /// Reproduces Stoplight, which trips on consecutive failures, however far apart.
    Stoplight,
}

impl Preset {
    /// All presets, in declaration order.
    pub const ALL: [Self; 4] = [Self::Convoy, Self::Reminders, Self::RedisLua, Self::Stoplight];

    /// Returns the name that policy files use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Convoy => "convoy",
            Self::Reminders => "reminders",
            Self::RedisLua => "redis_lua",
            Self::Stoplight => "stoplight",
        }
    }

    /// Returns the circuit scope that the reproduced system uses.
    #[must_use]
    pub const fn circuit_by(self) -> CircuitBy {
        match self {
            Self::Reminders => CircuitBy::Tenant,
            Self::Convoy | Self::RedisLua | Self::Stoplight => CircuitBy::Endpoint,
        }
    }

    pub(super) fn policy(self) -> Policy {
        let mut policy = Policy { failure_rate: None, consecutive_failures: None, ..Policy::default() };
        policy.cool_off.factor = 1.0;
        policy.probes = 1;
        match self {
            Self::Convoy => {
                policy.window = Duration::from_secs(5 * 60);
                policy.min_calls = 10;
                policy.failure_rate = Some(70);
                policy.cool_off.first = Duration::from_secs(30);
                policy.recovery_rate = 5;
                // Longer than the time between two samples, or no trip would be remembered until the next.
                policy.forgive_after = Duration::from_secs(10 * 60);
                policy.disable_after = Some(10);
                policy.disable_min = Duration::ZERO;
            }
            Self::Reminders => {
                policy.window = Duration::from_secs(60);
                policy.mean_latency = Some(Duration::from_secs(5));
                policy.failures = Some(20);
                // Callbacks may be rare: 20 failures within a minute would never come.
                policy.consecutive_failures = Some(5);
                policy.cool_off.first = Duration::from_secs(5 * 60);
            }
            Self::RedisLua => {
                policy.failures = Some(5);
                policy.window = Duration::from_secs(60);
                policy.cool_off.first = Duration::from_secs(30);
                policy.probe_timeout = Duration::from_secs(5);
            }
            Self::Stoplight => {
                policy.consecutive_failures = Some(3);
                policy.cool_off.first = Duration::from_secs(60);
            }
        }
        policy
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for an unknown preset name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is not a preset{} (presets: convoy, reminders, redis_lua, stoplight)", DidYouMean(*nearest))]
pub struct UnknownPreset {
    /// The preset with the most similar name, if one is similar enough.
    pub nearest: Option<&'static str>,
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        Self::ALL
            .into_iter()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| UnknownPreset { nearest: nearest(name, Self::ALL.map(Self::name)) })
    }
}
