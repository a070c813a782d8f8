//! Permits that leave the process: written down as tickets, and settled by whoever is told how the call went, also after a
//! restart.
//!
//! What is guaranteed: a ticket whose epoch, or whose lease, is over changes nothing, whichever process settles it; none is
//! called late before the store was asked. What is not: that an ordinary call's ticket counts once. It is data, and data can
//! be copied; whoever gives tickets away remembers which were settled.

use std::sync::Arc;

use breakerbox_core::{KeyError, Outcome, OutcomeKind, Settlement, Ticket, TicketKind};

use crate::breakerbox::Breakerbox;
use crate::circuit::Circuit;
use crate::clock::Clock;
use crate::permit::OwnedPermit;

impl OwnedPermit {
    /// The permit as plain data, for a call that is made or settled elsewhere. Any process that shares the store can
    /// [settle](Breakerbox::settle_ticket) it, also after this one is gone.
    ///
    /// Keep the permit meanwhile: a call on the ramp holds a place in this process, which comes back when the permit is let
    /// go of. Settle one of the two. If it was the ticket, [say so](Self::settled_elsewhere); if nobody did in time, drop the
    /// permit, which counts as any dropped permit does.
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
    /// let ticket: Ticket = permit.ticket(); // Written down, and sent to whoever makes the call.
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
            || Ticket {
                key: Arc::from(circuit.key()),
                epoch: breakerbox_core::Epoch::default(),
                started_at: clock.there(clock.now()),
                kind: TicketKind::Uncounted,
            },
            |held| circuit.cell().hand_out(held, clock),
        )
    }

    /// Lets go of a permit whose [ticket](Self::ticket) was settled. Nothing is counted here; a place on the ramp comes back,
    /// and the ramp goes by how the call ended.
    pub fn settled_elsewhere(mut self, kind: OutcomeKind) {
        if let Some(held) = self.take_held() {
            let circuit = self.circuit();
            let place = held.place();
            circuit.cell().let_go(held, kind, circuit.clock());
            if let Some(place) = place {
                circuit.shared.give_place(&circuit.cell, place, kind);
            }
            circuit.shared.waiters.wake_one(&circuit.cell);
        }
    }
}

impl Breakerbox {
    /// Settles a permit that was given out by any process that shares the store, or by this registry where there is none. A
    /// ticket of an epoch, or a lease, that is over is [late](Settlement::Late), and changes nothing.
    ///
    /// It waits for the store where that must be asked: for what a probe turned out to be, and before something is called
    /// late. The outcome's latency is the caller's to measure. A probe that succeeded after its deadline has failed.
    ///
    /// A probe's ticket counts at most once. An ordinary call's counts each time: see to it that it is settled once.
    ///
    /// # Errors
    /// If the ticket's key is empty or too long: it is none that was given out.
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
        // Half-open is rare, and its record changes within the epoch: the store is always asked.
        let is_due = ticket.is_probe() || !self.cell.is_in_epoch_of(ticket);
        if self.shared.fleet.is_some() && is_due && !self.shared.catch_up(&self.cell).await {
            let is_own = self.cell.is_in_epoch_of(ticket);
            if !is_own {
                // Nobody can say whether it is late.
                self.shared.count_unheard();
                return Settlement::Unconfirmed;
            }
        }
        let reported = self.cell.settle_ticket(ticket, outcome, self.clock());
        self.settled(reported).settled().await
    }
}
