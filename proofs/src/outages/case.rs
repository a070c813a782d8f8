//! What can become of a store, and what that means for a fleet.

use crate::fleet::Kind;

/// What becomes of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// Its process is killed, and started again with what it had on disk.
    Killed,
    /// It is stopped where it is, and goes on.
    Paused,
    /// It is shut down in good order and started again, at once.
    Restarted,
    /// It is killed, and started again with nothing.
    Emptied,
    /// All its data is deleted.
    Flushed,
    /// It forgets its scripts.
    ScriptsForgotten,
    /// It is killed, and a replica takes its place which has not heard of the last writes.
    FailedOver,
    /// What is sent either way vanishes. Connections from that time stay dead.
    BlackHole,
    /// Requests arrive, and their answers vanish.
    HalfOpen,
    /// Connections are reset, new ones too.
    Reset,
    /// Redis: memory is full, and nothing may be evicted. Reads are answered, writes are refused.
    MemoryFull,
    /// Postgres: transactions are read-only.
    ReadOnly,
    /// Postgres: the right to write was revoked.
    RightsRevoked,
    /// The master is killed, and sentinels promote its replica.
    SentinelFailover,
    /// Every node of a cluster is stopped, and goes on.
    ClusterPaused,
    /// A master of a cluster is killed, and its replica takes over.
    ClusterFailover,
}

impl Case {
    /// What can become of this store.
    #[must_use]
    pub const fn of(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Redis => &[
                Self::Killed,
                Self::Paused,
                Self::Emptied,
                Self::Flushed,
                Self::ScriptsForgotten,
                Self::FailedOver,
                Self::BlackHole,
                Self::HalfOpen,
                Self::Reset,
                Self::MemoryFull,
                Self::SentinelFailover,
                Self::ClusterPaused,
                Self::ClusterFailover,
            ],
            Kind::Postgres => &[
                Self::Killed,
                Self::Paused,
                Self::Restarted,
                Self::BlackHole,
                Self::HalfOpen,
                Self::Reset,
                Self::ReadOnly,
                Self::RightsRevoked,
            ],
        }
    }

    /// The name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Paused => "paused",
            Self::Restarted => "restarted",
            Self::Emptied => "emptied",
            Self::Flushed => "flushed",
            Self::ScriptsForgotten => "scripts-forgotten",
            Self::FailedOver => "failed-over",
            Self::BlackHole => "black-hole",
            Self::HalfOpen => "half-open",
            Self::Reset => "reset",
            Self::MemoryFull => "memory-full",
            Self::ReadOnly => "read-only",
            Self::RightsRevoked => "rights-revoked",
            Self::SentinelFailover => "sentinel-failover",
            Self::ClusterPaused => "cluster-paused",
            Self::ClusterFailover => "cluster-failover",
        }
    }

    /// Whether it is away for as long as is wanted, so that everybody has to notice. The others are over in a moment.
    #[must_use]
    pub const fn lasts(self) -> bool {
        !matches!(
            self,
            Self::Restarted
                | Self::Flushed
                | Self::ScriptsForgotten
                | Self::SentinelFailover
                | Self::ClusterFailover
        )
    }

    /// Whether the store answers reads and refuses writes. That must be reported soon, and circuits must recover alone.
    #[must_use]
    pub const fn refuses_writes(self) -> bool {
        matches!(self, Self::MemoryFull | Self::ReadOnly | Self::RightsRevoked)
    }

    /// Whether nobody must notice anything.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Flushed | Self::ScriptsForgotten)
    }
}
