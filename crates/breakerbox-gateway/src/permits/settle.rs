//! Settles permits. A permit is first claimed in the database, so that it counts at most once whatever happens; then
//! the circuit and the throttle count it.

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

/// A worker's report on its call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// The result of the call.
    pub said: Said,
    /// The latency of the call. `None`: the time since the permit was given out.
    pub latency: Option<Duration>,
}

/// The result of a call, as the worker reports it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Said {
    /// The worker has judged the call itself.
    Outcome {
        /// The outcome for the circuit.
        kind: OutcomeKind,
        /// With a failure: the destination's retry-after.
        retry_after: Option<Duration>,
        /// The verdict for the throttle.
        throttle: LoadSignal,
    },
    /// The destination's response, or its lack. The tenant's response rules decide what it means.
    Reply(Reply),
}

/// The response to a worker's report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answered {
    /// The settlement by the circuit. `None`: the permit had expired.
    pub settled: Option<SettledAs>,
    /// Whether the permit was settled before. If so, this report counted nothing.
    pub repeated: bool,
    /// How long to pause calls to the destination, although its circuit admits them.
    pub wait: Option<Duration>,
}

/// The meaning of a report for circuit and throttle.
#[derive(Clone, Copy)]
struct Meaning {
    kind: OutcomeKind,
    retry_after: Option<Duration>,
    throttle: LoadSignal,
    wait: Option<Duration>,
}

impl Permits {
    /// Settles a permit by a worker's report, under the tenant's response rules. It completes even if the caller
    /// disconnects.
    ///
    /// # Errors
    /// If the database fails. The permit was not settled; try again.
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
        // Taken from the table before it is claimed, or it might expire meanwhile.
        let held = self.table.take(*term);
        let answered = match self.settled.claim_permit(*term, meaning.kind).await {
            Ok(Claimed::Yours) => {
                let settled = self.count(ticket, held, report, meaning).await;
                if settled != SettledAs::Counted
                    && let Err(error) = self.settled.note_settlement(*term, settled).await
                {
                    warn!(%error, "can't store the result of a settlement; a repeated request will get `counted`");
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
                // The permit had expired, or the database failed: in both cases, expiry handles what is held.
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

    /// Reports the outcome to the circuit, and to the throttle if the pass is this process's.
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
            // The permit may hold a place on this process's ramp.
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
