//! Tickets: permits as plain data, for whoever makes the call in another process, or settles it in another one.
//!
//! A ticket says what a settlement is judged by, and no more: whose circuit, which epoch, which lease. It holds no place and
//! no lock, it can be written down and copied, and whether it is still good is decided when it is settled.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};

/// A permit as plain data. Times are by the clock that records go by: the store's, where there is one.
///
/// It counts each time that it is settled, unless it is a probe's: whoever gives tickets away sees to it that each is settled
/// once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    /// The key of its circuit.
    pub key: Arc<str>,
    /// The epoch in which it was given out, as the store knows it: zero where that has no record.
    pub epoch: Epoch,
    /// When the permit was asked for.
    pub started_at: Timestamp,
    /// What the call is.
    pub kind: TicketKind,
}

/// What the call of a ticket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TicketKind {
    /// An ordinary call.
    Call,
    /// The one call allowed while the circuit is half-open.
    Probe {
        /// Names its lease.
        nonce: Nonce,
        /// A probe still running then has failed.
        deadline: Timestamp,
    },
    /// A call that counts nowhere.
    Uncounted,
}

impl Ticket {
    /// Whether the call probes a half-open circuit.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.kind, TicketKind::Probe { .. })
    }

    /// A probe's deadline.
    #[must_use]
    pub const fn deadline(&self) -> Option<Timestamp> {
        match self.kind {
            TicketKind::Probe { deadline, .. } => Some(deadline),
            _ => None,
        }
    }
}
