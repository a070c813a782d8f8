//! Permits held by workers, and their settlements.

use std::fmt;

use breakerbox_core::{OutcomeKind, Settlement, Timestamp};

/// The id of a permit that a worker holds. It is random, and appears only inside the permit's token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId(pub [u8; 16]);

impl PermitId {
    /// Creates an id from the system's random source.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermitId({:032x})", u128::from_be_bytes(self.0))
    }
}

/// A permit and its expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermitTerm {
    /// The id that the permit's token contains.
    pub id: PermitId,
    /// The time at which the permit expires. After it, the permit can't be settled.
    pub expires_at: Timestamp,
}

/// What the circuit did with an outcome that a worker reported. Stored in the database and returned by the
/// API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettledAs {
    /// The outcome was counted.
    Counted,
    /// The outcome was not counted, because it was reported as ignored or an operator's override is in effect.
    Uncounted,
    /// The outcome was late and was not counted, because the circuit or its probe lease had changed after the permit
    /// was granted.
    Late,
    /// The circuit store did not respond, so the outcome may or may not have been counted.
    Unconfirmed,
}

impl SettledAs {
    /// All values. The index of a value is the number that the database stores for it.
    pub const ALL: [Self; 4] = [Self::Counted, Self::Uncounted, Self::Late, Self::Unconfirmed];
}

impl From<Settlement> for SettledAs {
    fn from(settlement: Settlement) -> Self {
        match settlement {
            Settlement::Counted => Self::Counted,
            Settlement::Uncounted => Self::Uncounted,
            Settlement::Late => Self::Late,
            Settlement::Unconfirmed => Self::Unconfirmed,
        }
    }
}

/// The result of settling a permit: the reported outcome, and whether it was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermitSettled {
    /// The outcome that the worker reported.
    pub outcome: OutcomeKind,
    /// Whether the circuit counted the reported outcome.
    pub settled: SettledAs,
}
