//! Permits that leave the process that gave them, as tickets that another process can settle.
//!
//! For a circuit without a record in the store, each process numbers epochs by itself, so a ticket's epoch is then
//! zero, as in the store. A ticket that seems late in this process is late only if the store has been read: this
//! process may have missed a transition.

use alloc::sync::Arc;

use super::member::Member;
use super::results::MemberSettled;
use crate::circuit::Settled;
use crate::outcome::{Outcome, OutcomeKind};
use crate::permit::{Permit, PermitKind};
use crate::policy::Policy;
use crate::ticket::{Ticket, TicketKind};
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};

impl Member {
    /// Returns the permit as data, with times by the clock that records use; `started_at` is the permit's start by that
    /// clock. Any process may then settle the ticket, so a record without the ticket's lease no longer counts as older
    /// than this process's record.
    pub fn to_ticket(&mut self, key: Arc<str>, permit: &Permit, started_at: Timestamp) -> Ticket {
        let kind = match permit.kind {
            PermitKind::Call | PermitKind::Ramped { .. } | PermitKind::OnRamp { .. } => TicketKind::Call,
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

    /// Whether a ticket belongs to this process's current epoch. If not, the store may have a newer record.
    #[must_use]
    pub fn is_in_epoch_of(&self, ticket: &Ticket) -> bool {
        let is_judge = self.link.as_ref().is_none_or(|link| link.seen.is_some() || link.alone);
        is_judge && self.shared_epoch() == ticket.epoch
    }

    /// Settles a ticket with its call's outcome.
    pub fn settle_ticket(
        &mut self,
        ticket: &Ticket,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> MemberSettled {
        let kind = match ticket.kind {
            TicketKind::Uncounted => return MemberSettled::quietly(Settled::UNCOUNTED),
            _ if self.shared_epoch() != ticket.epoch => return MemberSettled::quietly(Settled::LATE),
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

    /// Releases what a permit still holds in this process after its ticket was settled: its slot in the process's own
    /// ramp, and the process-local circuit's probe. The outcome affects both. A [slot](Permit::slot) in the fleet's
    /// ramp is released in the store instead.
    pub fn release(
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

    /// Returns this process's current epoch as stores number it, where zero means that there is no record.
    fn shared_epoch(&self) -> Epoch {
        match &self.link {
            Some(_) if self.circuit.is_pristine() => Epoch::default(),
            _ => self.circuit.epoch(),
        }
    }
}
