//! Tickets: permits as plain data, for calls that are made or settled in another process.
//!
//! A ticket contains only what is needed to settle the permit: key, epoch and lease. It holds no slot and no lock,
//! and can be stored and copied. Whether it is still valid is decided when it is settled.

use alloc::sync::Arc;

use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};

/// A permit as plain data, which any process can settle. Its times are by the store's clock or, without a store, by the
/// registry's clock.
///
/// Each settlement of a ticket counts, except that a probe's ticket counts only once. The process that passes a ticket
/// on must ensure that it is settled once.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Ticket {
    /// The key of the ticket's circuit.
    pub key: Arc<str>,
    /// The epoch in which the permit was given, as the store numbers it. Zero if the store has no record.
    pub epoch: Epoch,
    /// The time at which the permit was acquired.
    pub started_at: Timestamp,
    /// The kind of call that the ticket permits.
    pub kind: TicketKind,
}

/// The kind of call that a ticket permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TicketKind {
    /// An ordinary call.
    Call,
    /// The only call allowed while the circuit is half-open.
    Probe {
        /// The nonce that identifies the probe's lease.
        nonce: Nonce,
        /// The probe's deadline. A probe that is still in flight at its deadline has failed.
        deadline: Timestamp,
    },
    /// A call that is not counted.
    Uncounted,
}

impl Ticket {
    /// Creates a ticket from its parts, for example when it is read from a format of your own.
    #[must_use]
    pub const fn new(key: Arc<str>, epoch: Epoch, started_at: Timestamp, kind: TicketKind) -> Self {
        Self { key, epoch, started_at, kind }
    }

    /// Whether the call probes a half-open circuit.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.kind, TicketKind::Probe { .. })
    }

    /// Returns a probe's deadline; `None` for other calls.
    #[must_use]
    pub const fn deadline(&self) -> Option<Timestamp> {
        match self.kind {
            TicketKind::Probe { deadline, .. } => Some(deadline),
            _ => None,
        }
    }
}
