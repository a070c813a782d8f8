//! Tickets of one circuit: permits that leave the process. All of it runs under the lock, off the fast path.

use std::sync::Arc;

use breakerbox_core::fleet::Reported;
use breakerbox_core::{self as core, Outcome, OutcomeKind, Ticket};

use super::words::Gate;
use super::{Cell, Held};
use crate::clock::Times;

impl Cell {
    /// Returns the permit as data. The permit stays valid.
    #[cold]
    pub(crate) fn hand_out(&self, held: &Held, times: &Times) -> Ticket {
        let started_at = times.there(held.started_at());
        let key = Arc::from(&*self.key);
        self.step(times, |member, _| match held {
            Held::AtEase { gate, started_at: here } => {
                let permit = core::Permit::at_ease(Gate(*gate).epoch(), *here);
                member.hand_out(key, &permit, started_at)
            }
            Held::Decided(permit) => member.hand_out(key, permit, started_at),
        })
    }

    /// Returns whether a ticket belongs to the epoch that is known here.
    pub(crate) fn is_in_epoch_of(&self, ticket: &Ticket) -> bool {
        self.lock().circuit.as_ref().is_some_and(|member| member.is_in_epoch_of(ticket))
    }

    /// Settles a ticket.
    #[cold]
    pub(crate) fn settle_ticket(&self, ticket: &Ticket, outcome: &Outcome, times: &Times) -> Reported {
        self.step(times, |member, at| {
            member.settle_ticket(ticket, outcome, at.policy, times.draw(), at.there)
        })
    }

    /// Releases a permit whose ticket was settled.
    #[cold]
    pub(crate) fn let_go(&self, held: Held, kind: OutcomeKind, times: &Times) {
        self.step(times, |member, at| {
            member.let_go(held.into_permit(), kind, at.policy, times.draw(), at.there);
        });
    }
}
