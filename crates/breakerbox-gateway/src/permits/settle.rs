//! Takes outcomes. A permit is claimed in the database first, so that it counts once whatever happens; then the circuit and the
//! throttle hear of it.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::throttle::LoadSignal;
use breakerbox::{Outcome, OutcomeKind, Ticket};
use breakerbox_model::delivery::{Reply, Rulings};
use breakerbox_model::objects::SettledAs;
use breakerbox_storage::QueueError;
use breakerbox_storage::records::Claimed;
use tracing::warn;

use super::Permits;
use super::table::Held;
use super::token::Token;

/// What a worker says of its call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// How the call ended.
    pub said: Said,
    /// How long it took; none: as long as the permit was out.
    pub latency: Option<Duration>,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Said {
    /// In the worker's own judgement.
    Outcome {
        /// What it means for the circuit.
        kind: OutcomeKind,
        /// With a failure: the destination's word on when to come back.
        retry_after: Option<Duration>,
        /// What it means for the throttle.
        throttle: LoadSignal,
    },
    /// By what the destination answered, or that it did not. The tenant's rulings say what that means.
    Reply(Reply),
}

/// What a worker hears.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answered {
    /// What the circuit made of it; none: the permit had expired.
    pub settled: Option<SettledAs>,
    /// Whether it was settled before. Nothing counted now.
    pub repeated: bool,
    /// How long the destination should be left alone, though its circuit says nothing of it.
    pub wait: Option<Duration>,
}

/// What an outcome means.
#[derive(Clone, Copy)]
struct Meaning {
    kind: OutcomeKind,
    retry_after: Option<Duration>,
    throttle: LoadSignal,
    wait: Option<Duration>,
}

impl Permits {
    /// Settles a permit by what a worker reports, as the tenant's rulings say. It goes on though whoever asked goes away.
    ///
    /// # Errors
    /// If the database fails. It was not settled; try again.
    pub async fn settle(
        self: &Arc<Self>,
        token: Token,
        report: Report,
        rulings: &Rulings,
    ) -> Result<Answered, QueueError> {
        let meaning = self.meaning(&token.ticket, report, rulings);
        let permits = Arc::clone(self);
        let settling = tokio::spawn(async move { permits.settle_once(&token, report, meaning).await });
        settling.await.unwrap_or(Err(QueueError::Closed))
    }

    fn meaning(&self, ticket: &Ticket, report: Report, rulings: &Rulings) -> Meaning {
        match report.said {
            Said::Outcome { kind, retry_after, throttle } => {
                Meaning { kind, retry_after, throttle, wait: None }
            }
            Said::Reply(reply) => {
                let cool_off = self.breakers.policy_of(&ticket.key).cool_off();
                let ruling = rulings.of(reply, ticket.is_probe(), cool_off);
                Meaning {
                    kind: ruling.circuit,
                    retry_after: ruling.retry_after,
                    throttle: ruling.throttle,
                    wait: ruling.sleep,
                }
            }
        }
    }

    async fn settle_once(
        &self,
        token: &Token,
        report: Report,
        meaning: Meaning,
    ) -> Result<Answered, QueueError> {
        let Token { term, ticket, .. } = token;
        let _turn = self.turns
            [usize::from(u16::from_be_bytes([term.id.0[0], term.id.0[1]])) % self.turns.len()]
        .lock()
        .await;
        // Out of the table before it is claimed, or it might expire meanwhile.
        let held = self.table.take(*term);
        let answered = match self.settled.claim_permit(*term, meaning.kind).await {
            Ok(Claimed::Yours) => {
                let settled = self.count(ticket, held, report, meaning).await;
                if settled != SettledAs::Counted
                    && let Err(error) = self.settled.note_settlement(*term, settled).await
                {
                    warn!(%error, "can't note how a permit was settled; whoever repeats it hears that it counted");
                }
                Answered { settled: Some(settled), repeated: false, wait: meaning.wait }
            }
            Ok(Claimed::Settled(before)) => {
                if let Some(held) = held {
                    held.permit.settled_elsewhere(before.outcome);
                }
                Answered { settled: Some(before.settled), repeated: true, wait: meaning.wait }
            }
            unsettled => {
                // Whatever it is, what is held is dealt with when it has expired.
                if let Some(held) = held {
                    self.table.put(*term, held);
                }
                unsettled?;
                Answered { settled: None, repeated: false, wait: None }
            }
        };
        self.metrics.permits_settled.of(answered).inc();
        self.note_how_many();
        Ok(answered)
    }

    /// Tells the circuit, and the throttle if it is this process's.
    async fn count(
        &self,
        ticket: &Ticket,
        held: Option<Held>,
        report: Report,
        meaning: Meaning,
    ) -> SettledAs {
        let latency = report.latency.unwrap_or_else(|| self.now().since(ticket.started_at));
        let outcome = Outcome { kind: meaning.kind, latency, retry_after: meaning.retry_after };
        let (permit, throttle) = match held {
            Some(Held { permit, throttle, .. }) => (Some(permit), throttle),
            None => (None, None),
        };
        if let Some(throttle) = throttle {
            throttle.settle(meaning.throttle);
        }
        match permit {
            // It may hold a place on this process's ramp.
            Some(permit) if !permit.is_probe() => permit.settle(outcome).into(),
            permit => {
                let settled = self.breakers.settle_ticket(ticket, outcome).await;
                if let Some(permit) = permit {
                    permit.settled_elsewhere(meaning.kind);
                }
                settled.map_or(SettledAs::Late, SettledAs::from)
            }
        }
    }
}
