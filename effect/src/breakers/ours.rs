//! Breakerbox: the real engine with the gateway's policy.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{
    Attribution, Circuit, CircuitStatus, Decision, Outcome, OverrideCommand, Policy, PolicyBuilder,
    RandomBits, Refusal, Timestamp, format_duration,
};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::{Reply, TIMEOUT};

/// What the gateway adds to the timeout of an endpoint for the timeout of a probe.
const PROBE_MARGIN: Duration = Duration::from_secs(2);

/// Returns the policy of the gateway: the engine's defaults, and what the gateway sets.
pub(crate) fn gateway_policy() -> Policy {
    policy_with(|builder| builder)
}

/// Returns the policy of the gateway with other values.
pub(crate) fn policy_with(change: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    let gateway = Policy::builder().disable_after(10).probe_timeout(TIMEOUT + PROBE_MARGIN);
    change(gateway).build().expect("values within their bounds")
}

/// Describes a policy in a sentence.
pub(super) fn rule(policy: &Policy) -> String {
    format!(
        "opens after {} consecutive failures, or at {} % failures of at least {} in {}, for {}, growing by {} to {}; \
         {} probes, one at a time; then a ramp",
        policy.consecutive_failures().unwrap_or_default(),
        policy.failure_rate().unwrap_or_default(),
        policy.min_calls(),
        format_duration(policy.window()),
        format_duration(policy.cool_off()),
        policy.cool_off_factor(),
        format_duration(policy.cool_off_max()),
        policy.probes(),
    )
}

pub(super) struct Ours {
    policy: Arc<Policy>,
    circuit: Circuit,
    is_probing: bool,
    rounds: u32,
}

impl Ours {
    pub(super) fn new(policy: Arc<Policy>) -> Self {
        let circuit = Circuit::new(&policy, Timestamp::ZERO);
        Self { policy, circuit, is_probing: false, rounds: 0 }
    }
}

impl Breaker for Ours {
    fn ask(&mut self, _: usize, random: RandomBits, now: Timestamp) -> Answer {
        match self.circuit.try_acquire(&self.policy, random, now).decision {
            Decision::Admitted(permit) => {
                self.is_probing |= permit.is_probe();
                Answer::Go(Ticket::Permit(permit))
            }
            Decision::Refused(Refusal::Open { retry_at, .. }) => Answer::Wait(Until::At(retry_at)),
            Decision::Refused(_) => Answer::Wait(Until::Change),
        }
    }

    fn settle(&mut self, _: usize, ticket: Ticket, reply: &Reply, random: RandomBits, now: Timestamp) {
        let Ticket::Permit(permit) = ticket else { return };
        if permit.is_probe() {
            self.is_probing = false;
        }
        let outcome = match reply.failure {
            None => Outcome::success(reply.latency),
            Some(_) => Outcome::failure(reply.latency),
        };
        let settled = self.circuit.settle(permit, &outcome, &self.policy, random, now);
        self.rounds += u32::from(settled.change.is_some_and(|change| change.to == CircuitStatus::Open));
    }

    fn status(&self) -> Status {
        match self.circuit.status() {
            CircuitStatus::Closed => Status::Closed,
            CircuitStatus::Disabled => Status::Disabled,
            _ => Status::Open,
        }
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn probe_at_once(&mut self, random: RandomBits, now: Timestamp) {
        let by = Attribution::new("effect", "own network").expect("short");
        self.circuit.apply_override(OverrideCommand::Excuse, &by, &self.policy, random, now);
    }

    fn probe_from(&self) -> Option<Timestamp> {
        match self.circuit.status() {
            CircuitStatus::Open => self.circuit.retry_at(),
            CircuitStatus::HalfOpen if !self.is_probing => Some(Timestamp::ZERO),
            _ => None,
        }
    }
}
