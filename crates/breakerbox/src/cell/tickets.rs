//! One circuit's tickets: permits that leave the process. These functions run under the lock, off the fast path.

use std::sync::Arc;

use breakerbox_core::fleet::MemberSettled;
use breakerbox_core::{self as core, Outcome, OutcomeKind, Ticket};

use super::packed::Gate;
use super::{Cell, Held};
use crate::clock::Times;

impl Cell {
    /// Returns the permit as a ticket. The permit remains valid.
    #[cold]
    pub(crate) fn to_ticket(&self, held: &Held, times: &Times) -> Ticket {
        let started_at = times.to_store_time(held.started_at());
        let key = Arc::from(&*self.key);
        self.step(times, |member, _| match held {
            Held::Fast { gate, started_at: local_time } => {
                let permit = core::Permit::fast_path(Gate(*gate).epoch(), *local_time);
                member.to_ticket(key, &permit, started_at)
            }
            Held::Decided(permit) => member.to_ticket(key, permit, started_at),
        })
    }

    /// Returns whether a ticket belongs to the epoch that this process knows.
    pub(crate) fn is_in_epoch_of(&self, ticket: &Ticket) -> bool {
        self.lock().circuit.as_ref().is_some_and(|member| member.is_in_epoch_of(ticket))
    }

    /// Settles a ticket with its call's outcome.
    #[cold]
    pub(crate) fn settle_ticket(&self, ticket: &Ticket, outcome: &Outcome, times: &Times) -> MemberSettled {
        times.telemetry.settled(outcome.kind);
        self.step(times, |member, at| {
            member.settle_ticket(ticket, outcome, at.policy, times.draw(), at.store_time)
        })
    }

    /// Releases what a permit holds in this process: its ramp slot, or the process-local circuit's probe. Called after
    /// the permit's ticket was settled.
    #[cold]
    pub(crate) fn release(&self, held: Held, kind: OutcomeKind, times: &Times) {
        self.step(times, |member, at| {
            member.release(held.into_permit(), kind, at.policy, times.draw(), at.store_time);
        });
    }
}
