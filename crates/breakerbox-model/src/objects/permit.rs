//! Permits that workers hold, and their settlements.

use std::fmt;

use breakerbox_core::{OutcomeKind, Settlement, Timestamp};

/// The id of a permit that was given to a worker. It is random, and is shown only inside the permit's token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId(pub [u8; 16]);

impl PermitId {
    /// Creates a random id.
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
    /// The id of the permit.
    pub id: PermitId,
    /// The permit can be settled before this time only.
    pub expires_at: Timestamp,
}

/// The circuit's response to an outcome, as it is stored and as the API shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettledAs {
    /// The outcome was counted.
    Counted,
    /// The outcome was not counted: it was ignored, or an operator overrides the circuit.
    Uncounted,
    /// The outcome was late: the circuit, or its probe, had moved on. Nothing changed.
    Late,
    /// The store of circuits did not respond: the outcome may have been counted or not.
    Unconfirmed,
}

impl SettledAs {
    /// All settlements. The index of each is its stored number.
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

/// How a permit was settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermitSettled {
    /// The outcome that the worker reported.
    pub outcome: OutcomeKind,
    /// The circuit's response to it.
    pub settled: SettledAs,
}
