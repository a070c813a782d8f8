//! The attacks by a hostile tenant.

/// An attack by which one tenant tries to affect other tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttackKind {
    /// Events that go to thousands of endpoints.
    FanOut,
    /// Request bodies that arrive byte by byte.
    SlowBodies,
    /// A constant stream of permits for new keys.
    Keys,
    /// Permits that last an hour and are never settled.
    Permits,
    /// Events to host names that never resolve.
    Names,
    /// Thousands of connections that send almost nothing, without an API key.
    Connections,
    /// Test requests to an endpoint that hangs.
    TestSends,
}

impl AttackKind {
    /// Every attack, in the order in which they are tested.
    pub const ALL: [Self; 7] = [
        Self::FanOut,
        Self::SlowBodies,
        Self::Keys,
        Self::Permits,
        Self::Names,
        Self::Connections,
        Self::TestSends,
    ];

    /// Returns a short description of the attack.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FanOut => "fan-out",
            Self::SlowBodies => "slow bodies",
            Self::Keys => "keys",
            Self::Permits => "hoarded permits",
            Self::Names => "hanging names",
            Self::Connections => "connections",
            Self::TestSends => "test sends",
        }
    }
}
