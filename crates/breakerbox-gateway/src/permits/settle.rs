//! Settles permits. A permit is first claimed in the database, so that it never counts more than once; then the circuit
//! and the throttle count it.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::throttle::LoadSignal;
use breakerbox::{Outcome, OutcomeKind, Ticket};
use breakerbox_model::delivery::{Reply, ResponseRules};
use breakerbox_model::objects::SettledAs;
use breakerbox_storage::QueueError;
use breakerbox_storage::records::PermitClaim;
use tracing::warn;

use super::Permits;
use super::table::Held;
use super::token::Token;
use crate::telemetry::labels::PermitEnd;

/// A worker's report about its call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// The result of the call.
    pub result: CallResult,
    /// The latency of the call. `None` means the time since the permit was given out.
    pub latency: Option<Duration>,
}

/// The result of a call, as reported by the worker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CallResult {
    /// The worker classified the call itself.
    Outcome {
        /// The outcome that is reported to the circuit.
        kind: OutcomeKind,
        /// The wait that the destination requested. Only with a failure.
        retry_after: Option<Duration>,
        /// The load signal for the throttle.
        throttle: LoadSignal,
    },
    /// The destination's response, or the reason why there was none. The tenant's response rules decide what it means.
    Reply(Reply),
}

/// The response to a worker's report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SettleResponse {
    /// How the circuit settled the permit. `None` if the permit had expired.
    pub settled: Option<SettledAs>,
    /// Whether the permit had already been settled. If so, this report counted nothing.
    pub repeated: bool,
    /// How long to pause calls to the destination, although its circuit admits them. `None` means no pause.
    pub wait: Option<Duration>,
}

/// The effect of a report on circuit and throttle.
#[derive(Clone, Copy)]
struct Interpretation {
    kind: OutcomeKind,
    retry_after: Option<Duration>,
    throttle: LoadSignal,
    wait: Option<Duration>,
}

impl Permits {
    /// Settles a permit with a worker's report, under the tenant's response rules. The settlement completes even if the
    /// caller disconnects.
    ///
    /// # Errors
    /// Returns a database error. The permit was not settled; try again.
    pub async fn settle(
        self: &Arc<Self>,
        token: Token,
        report: Report,
        response_rules: &ResponseRules,
    ) -> Result<SettleResponse, QueueError> {
        let interpretation = self.interpretation(&token.ticket, report, response_rules);
        let permits = Arc::clone(self);
        let settling = tokio::spawn(async move { permits.settle_once(&token, report, interpretation).await });
        settling.await.unwrap_or(Err(QueueError::Closed))
    }

    fn interpretation(
        &self,
        ticket: &Ticket,
        report: Report,
        response_rules: &ResponseRules,
    ) -> Interpretation {
        match report.result {
            CallResult::Outcome { kind, retry_after, throttle } => {
                Interpretation { kind, retry_after, throttle, wait: None }
            }
            CallResult::Reply(reply) => {
                let cool_off = self.breakers.policy_of(&ticket.key).cool_off();
                let effect = response_rules.of(reply, ticket.is_probe(), cool_off);
                Interpretation {
                    kind: effect.circuit,
                    retry_after: effect.retry_after,
                    throttle: effect.throttle,
                    wait: effect.sleep,
                }
            }
        }
    }

    async fn settle_once(
        &self,
        token: &Token,
        report: Report,
        interpretation: Interpretation,
    ) -> Result<SettleResponse, QueueError> {
        let Token { term, ticket, .. } = token;
        let _lock = self.settle_locks
            [usize::from(u16::from_be_bytes([term.id.0[0], term.id.0[1]])) % self.settle_locks.len()]
        .lock()
        .await;
        // Taken from the table before it is claimed; otherwise it might expire in between.
        let held = self.table.take(*term);
        let answered = match self.settled.claim_permit(*term, interpretation.kind).await {
            Ok(PermitClaim::Yours) => {
                let settled = self.count(ticket, held, report, interpretation).await;
                if settled != SettledAs::Counted
                    && let Err(error) = self.settled.note_settlement(*term, settled).await
                {
                    warn!(%error, "can't store the result of a settlement; a repeated request will get `counted`");
                }
                SettleResponse { settled: Some(settled), repeated: false, wait: interpretation.wait }
            }
            Ok(PermitClaim::Settled(before)) => {
                if let Some(held) = held {
                    held.permit.settled_elsewhere(before.outcome);
                }
                SettleResponse { settled: Some(before.settled), repeated: true, wait: interpretation.wait }
            }
            unsettled => {
                // The permit had expired, or the database failed. In both cases, expiry handles what is held.
                if let Some(held) = held {
                    self.table.put(*term, held);
                }
                unsettled?;
                SettleResponse { settled: None, repeated: false, wait: None }
            }
        };
        self.metrics.permits_settled.of(answered).inc();
        self.update_gauge();
        Ok(answered)
    }

    /// Reports the outcome to the circuit, and to the throttle if this process holds the pass.
    async fn count(
        &self,
        ticket: &Ticket,
        held: Option<Held>,
        report: Report,
        interpretation: Interpretation,
    ) -> SettledAs {
        let latency = report.latency.unwrap_or_else(|| self.now().since(ticket.started_at));
        let outcome = Outcome::new(interpretation.kind, latency).with_retry_after(interpretation.retry_after);
        let (permit, throttle) = match held {
            Some(Held { permit, throttle, .. }) => (Some(permit), throttle),
            None => (None, None),
        };
        if let Some(throttle) = throttle {
            throttle.settle(interpretation.throttle);
        }
        match permit {
            // The permit may hold a slot on this process's ramp.
            Some(permit) if !permit.is_probe() => permit.settle(outcome).into(),
            permit => {
                let settled = self.breakers.settle_ticket(ticket, outcome).await;
                if let Some(permit) = permit {
                    permit.settled_elsewhere(interpretation.kind);
                }
                settled.map_or(SettledAs::Late, SettledAs::from)
            }
        }
    }
}

impl From<SettleResponse> for PermitEnd {
    fn from(answered: SettleResponse) -> Self {
        match answered.settled {
            _ if answered.repeated => Self::Repeated,
            None => Self::Expired,
            Some(SettledAs::Counted) => Self::Counted,
            Some(SettledAs::Uncounted) => Self::Uncounted,
            Some(SettledAs::Late) => Self::Late,
            Some(SettledAs::Unconfirmed) => Self::Unconfirmed,
        }
    }
}
