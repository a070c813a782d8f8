//! The stored history of circuits.

use std::sync::Arc;

use breakerbox_core::Change;

/// A stored change of a circuit. Key and epoch together are unique.
#[derive(Clone, PartialEq, Debug)]
pub struct PastChange {
    /// The key of the circuit.
    pub key: Arc<str>,
    /// The change, as observers of the circuit received it.
    pub change: Change,
}
