//! Permits that leave the process: they are converted to tickets, which are settled by the process that learns the
//! outcome, even after a restart.
//!
//! Guaranteed: a ticket whose epoch or lease is over changes nothing, whichever process settles it; a ticket is
//! reported as late only after the store was read. Not guaranteed: that an ordinary call's ticket counts only once.
//! Tickets can be copied, so the process that creates them must keep track of which ones were settled.

use std::sync::Arc;

use breakerbox_core::{Epoch, KeyError, Outcome, OutcomeKind, Settlement, Ticket, TicketKind};

use crate::breakerbox::Breakerbox;
use crate::circuit::Circuit;
use crate::circuit::OwnedPermit;
use crate::clock::Clock;

impl OwnedPermit {
    /// Returns the permit as plain data, for a call that another task or process makes or settles. Any process that
    /// shares the store can [settle](Breakerbox::settle_ticket) the ticket, even after this process has ended.
    ///
    /// Keep the permit until the ticket is settled, because a call in the ramp occupies a slot in this process, which
    /// is released with the permit. Settle either the permit or the ticket. If the ticket was settled, call
    /// [`settled_elsewhere`](Self::settled_elsewhere). If the ticket was not settled in time, drop the permit, which
    /// then counts like any dropped permit.
    ///
    /// ```
    /// use breakerbox::{Breakerbox, Outcome, OutcomeKind, Settlement, Ticket, store::MemoryStore};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let store = Arc::new(MemoryStore::new());
    /// let here = Breakerbox::builder().store(Arc::clone(&store)).build();
    /// let there = Breakerbox::builder().store(store).build(); // In another process, as a rule.
    ///
    /// let permit = here.circuit("https://api.example.com/orders")?.acquire_owned_within(Duration::ZERO).await?;
    /// let ticket: Ticket = permit.ticket(); // Serialized, and sent to the process that makes the call.
    ///
    /// let outcome = Outcome::success(Duration::from_millis(12));
    /// assert_eq!(there.settle_ticket(&ticket, outcome).await?, Settlement::Counted);
    /// permit.settled_elsewhere(OutcomeKind::Success);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        let circuit = self.circuit();
        let clock = circuit.clock();
        self.held().map_or_else(
            || {
                let (epoch, started_at) = (Epoch::default(), clock.to_store_time(clock.now()));
                Ticket::new(Arc::from(circuit.key()), epoch, started_at, TicketKind::Uncounted)
            },
            |held| circuit.cell().to_ticket(held, clock),
        )
    }

    /// Releases a permit whose [ticket](Self::ticket) was settled. The outcome is not counted again. If the call has a
    /// slot in the ramp, the slot is released, and the ramp takes the outcome into account.
    pub fn settled_elsewhere(mut self, kind: OutcomeKind) {
        if let Some(held) = self.take_held() {
            let circuit = self.circuit();
            let slot = held.slot();
            circuit.cell().release(held, kind, circuit.clock());
            if let Some(slot) = slot {
                circuit.shared.release_slot(&circuit.cell, slot, kind);
            }
            circuit.shared.waiters.wake_one(&circuit.cell);
        }
    }
}

impl Breakerbox {
    /// Settles a ticket that any process sharing the store created; without a store, one that this registry created. A
    /// ticket whose epoch or lease is over is [late](Settlement::Late), and has no effect.
    ///
    /// This waits for the store if required, which is for a probe's outcome, and before a ticket is reported as late.
    /// The caller measures the outcome's latency. A probe that succeeded after its deadline has failed.
    ///
    /// A probe's ticket counts at most once. An ordinary call's ticket counts each time, so settle it only once.
    ///
    /// # Errors
    /// If the ticket's key is empty or too long, since no permit is given for such a key.
    pub async fn settle_ticket(&self, ticket: &Ticket, outcome: Outcome) -> Result<Settlement, KeyError> {
        let circuit = self.circuit(&ticket.key)?;
        Ok(circuit.settle_ticket(ticket, &outcome).await)
    }
}

impl Circuit {
    async fn settle_ticket(&self, ticket: &Ticket, outcome: &Outcome) -> Settlement {
        if !self.controlled || ticket.kind == TicketKind::Uncounted {
            return Settlement::Uncounted;
        }
        // Half-open is rare, and the record changes within its epoch, so the store is always read.
        let is_due = ticket.is_probe() || !self.cell.is_in_epoch_of(ticket);
        if self.shared.fleet.is_some() && is_due && !self.shared.catch_up(&self.cell).await {
            let is_own = self.cell.is_in_epoch_of(ticket);
            if !is_own {
                // Without the store's response it is not known whether the ticket is late.
                self.shared.count_unanswered();
                return Settlement::Unconfirmed;
            }
        }
        let reported = self.cell.settle_ticket(ticket, outcome, self.clock());
        self.settled(reported).settled().await
    }
}
