//! The store outages that are tested, and what each means for a fleet.

use crate::fleet::Kind;

/// A kind of store outage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// The server process is killed, and restarted with its data on disk.
    Killed,
    /// The server process is paused (`SIGSTOP`), and resumed.
    Paused,
    /// The server is shut down gracefully and restarted immediately.
    Restarted,
    /// The server is killed, and restarted without data.
    Emptied,
    /// All of the server's data is deleted.
    Flushed,
    /// Redis forgets its loaded scripts.
    ScriptsForgotten,
    /// The server is killed, and its replica is promoted, which has not received the last writes.
    FailedOver,
    /// Packets are lost in both directions. Connections that existed during the fault stay dead.
    BlackHole,
    /// Requests arrive, but their responses are lost.
    HalfOpen,
    /// Existing and new connections are reset.
    Reset,
    /// Redis is out of memory, and must not evict keys. Reads are answered, and writes are rejected.
    MemoryFull,
    /// Postgres transactions are read-only.
    ReadOnly,
    /// The worker's permission to write is revoked in Postgres.
    RightsRevoked,
    /// The master is killed, and sentinels promote its replica.
    SentinelFailover,
    /// Every node in a cluster is paused, and resumed.
    ClusterPaused,
    /// A master in a cluster is killed, and its replica takes over.
    ClusterFailover,
}

impl Case {
    /// Returns the outages that apply to this kind of store.
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

    /// Returns the outage's name in tables.
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

    /// Returns whether the outage lasts until it is ended, so that every process must detect it. Other
    /// outages are momentary.
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

    /// Returns whether the store answers reads and rejects writes. In that case, each process must promptly
    /// report the store as lost, and recover its circuits without it.
    #[must_use]
    pub const fn refuses_writes(self) -> bool {
        matches!(self, Self::MemoryFull | Self::ReadOnly | Self::RightsRevoked)
    }

    /// Returns whether the outage is so harmless that no process may report the store as lost.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Flushed | Self::ScriptsForgotten)
    }
}
