//! Permits that leave the process that gave them out: their tickets, and what settling one means to any other process.
//!
//! Each process counts the epochs of a circuit that the store has no record of by itself, so a ticket says zero there, as the
//! store does. What is late here is late only if the store has been asked: this process may have missed what happened.

use alloc::sync::Arc;

use super::answers::Reported;
use super::member::Member;
use crate::circuit::Settled;
use crate::outcome::{Outcome, OutcomeKind};
use crate::permit::{Permit, PermitKind};
use crate::policy::Policy;
use crate::ticket::{Ticket, TicketKind};
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};

impl Member {
    /// The permit as data, by the clock that records go by, on which it was asked for at `started_at`. From now on anybody
    /// may settle it: a record without its lease is taken for a newer one.
    pub fn hand_out(&mut self, key: Arc<str>, permit: &Permit, started_at: Timestamp) -> Ticket {
        let kind = match permit.kind {
            PermitKind::Call | PermitKind::Ramped { .. } | PermitKind::Placed { .. } => TicketKind::Call,
            PermitKind::Probe { nonce, deadline } => {
                if let Some(link) = &mut self.link {
                    link.probe.take_if(|probe| *probe == nonce);
                }
                TicketKind::Probe { nonce, deadline: started_at + deadline.since(permit.started_at()) }
            }
            PermitKind::Uncounted => TicketKind::Uncounted,
        };
        let is_nobodys = permit.epoch == self.circuit.epoch() && self.shared_epoch() == Epoch::default();
        let epoch = if is_nobodys { Epoch::default() } else { permit.epoch };
        Ticket { key, epoch, started_at, kind }
    }

    /// Whether a ticket is of the epoch that this process is in. If not, the store may know better.
    #[must_use]
    pub fn is_in_epoch_of(&self, ticket: &Ticket) -> bool {
        let is_judge = self.link.as_ref().is_none_or(|link| link.seen.is_some() || link.alone);
        is_judge && self.shared_epoch() == ticket.epoch
    }

    /// Settles a ticket with what the call turned out to be.
    pub fn settle_ticket(
        &mut self,
        ticket: &Ticket,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Reported {
        let kind = match ticket.kind {
            TicketKind::Uncounted => return Reported::quietly(Settled::UNCOUNTED),
            _ if self.shared_epoch() != ticket.epoch => return Reported::quietly(Settled::LATE),
            TicketKind::Call => PermitKind::Call,
            TicketKind::Probe { nonce, deadline } => PermitKind::Probe { nonce, deadline },
        };
        let outcome = match ticket.deadline() {
            Some(deadline) if now >= deadline && outcome.kind == OutcomeKind::Success => {
                &Outcome::failure(outcome.latency)
            }
            _ => outcome,
        };
        self.settle(Permit::new(self.circuit.epoch(), kind, ticket.started_at), outcome, policy, draw, now)
    }

    /// Gives back what a permit holds in this process, because its ticket was settled: its place on the process's own ramp and
    /// the probe of its own circuit, which go by how the call ended. A [place](Permit::place) in the fleet's ramp is given
    /// back to the store.
    pub fn let_go(
        &mut self,
        permit: Permit,
        kind: OutcomeKind,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) {
        let outcome = Outcome { kind, ..Outcome::ignored() };
        if permit.local_probe.is_some() {
            self.settle_here(permit.local_probe, &outcome, policy, draw, now);
        }
        if let PermitKind::Ramped { generation } = permit.kind
            && permit.epoch == self.circuit.epoch()
        {
            self.circuit.settle_on_ramp(generation, &outcome, policy, now);
        }
    }

    /// The epoch that this process is in, as the store calls it.
    fn shared_epoch(&self) -> Epoch {
        match &self.link {
            Some(_) if self.circuit.is_pristine() => Epoch::default(),
            _ => self.circuit.epoch(),
        }
    }
}
