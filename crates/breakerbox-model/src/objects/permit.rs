//! Permits that workers hold: which, and what became of them.

use std::fmt;

use breakerbox_core::{OutcomeKind, Settlement, Timestamp};

/// Names a permit that was given to a worker. Random, and told to nobody but inside its token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId(pub [u8; 16]);

impl PermitId {
    /// A new one.
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

/// A permit, and until when it can be settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermitTerm {
    /// Which.
    pub id: PermitId,
    /// From then on it has expired.
    pub expires_at: Timestamp,
}

/// What the circuit made of an outcome, as it is told and kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettledAs {
    /// It counted.
    Counted,
    /// It counts nowhere: it was ignored, or an operator overrides the circuit.
    Uncounted,
    /// The circuit, or its probe, had moved on: nothing changed.
    Late,
    /// The store of circuits did not answer: it may have counted or not.
    Unconfirmed,
}

impl SettledAs {
    /// All of them, each at the place of its number.
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
    /// What was said of the call.
    pub outcome: OutcomeKind,
    /// What the circuit made of it.
    pub settled: SettledAs,
}
