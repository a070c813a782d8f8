//! One attempt of a delivery: builds and sends the request, then settles the permit, the throttle's pass, the lane and
//! the delivery according to the reply.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use breakerbox::throttle::{LoadSignal, Throttle};
use breakerbox::{CircuitStatus, Classification, Epoch, OutcomeKind};
use breakerbox_core::Timestamp;
use breakerbox_egress::Incoming;
use breakerbox_model::delivery::lanes::{LaneSignal, Sleep};
use breakerbox_model::delivery::{
    AttemptContext, Connection, Disposition, Fault, LastAttempt, LocalFault, NextStep, Reply, ReplyEffect,
};
use breakerbox_model::objects::{Attempt, EventType, FailReason};
use breakerbox_storage::{EndpointEntry, Leased, Settled, Settlement};
use bytes::Bytes;
use tracing::{debug, error, warn};

use super::destination::Destination;
use super::dispatcher::Dispatch;
use super::gates::{self, Pass};
use crate::telemetry::labels::Outcome;

/// The delay before a failed settlement is retried.
const SETTLE_AGAIN: Duration = Duration::from_millis(200);

/// The maximum number of deliveries to expire together with one that was found expired.
const EXPIRED_AT_ONCE: usize = 100;

impl Dispatch {
    /// Makes one attempt of a delivery that has passed all gates, and settles it.
    pub(super) async fn attempt(
        self: Arc<Self>,
        destination: Arc<Destination>,
        leased: Leased,
        pass: Pass,
        outage: Option<Epoch>,
    ) {
        let started_at = self.wall();
        let now = self.now();
        if leased.expires_at.is_some_and(|expires_at| expires_at <= now) {
            drop(pass);
            self.ended(&destination, LaneSignal::Neither, None, false);
            self.give_up_expired(leased).await;
            return;
        }
        if leased.attempts == 0 {
            self.metrics.wait_seconds.observe(started_at.since(leased.created_at).as_secs_f64());
        }
        let is_probe = pass.permit.is_probe();
        let timeout = destination.timeout();
        let limit = pass.permit.time_left().map_or(timeout, |left| left.min(timeout));
        let stands_for = leased.run.as_ref().and_then(|run| run.stands_for(started_at));
        let request = destination.request(&leased, stands_for, limit, started_at);
        let source = request.as_ref().map(|request| self.own_outages.source(&destination, &request.target));
        let incoming = match request {
            Some(outgoing) => self.http_sender.send(outgoing).await,
            None => unreadable_url(),
        };
        let effect = destination.response_rules().of(
            incoming.reply,
            is_probe,
            destination.circuit.policy().cool_off(),
        );
        let ReplyEffect { circuit: kind, retry_after, .. } = effect;
        if let (Disposition::PutOff, Reply::Failed(Fault::Local(cause))) =
            (effect.disposition, incoming.reply)
        {
            self.own_outages.observe(source, &destination, &incoming, self.now());
            return self.put_off(&destination, leased, pass, cause, &incoming).await;
        }
        // Before the circuit learns of it, so that a notification about the circuit can state the response.
        self.destinations.note_attempt(&destination, last_attempt(&incoming, started_at));
        if is_probe {
            // The next probe may begin only after the circuit store has confirmed this result.
            pass.permit.settle_and_confirm(classification(kind, retry_after)).await;
        } else {
            pass.permit
                .settle(breakerbox::Outcome::new(kind, incoming.latency).with_retry_after(retry_after));
        }
        self.own_outages.observe(source, &destination, &incoming, self.now());
        let is_excused =
            effect.disposition == Disposition::Retry && self.own_outages.excuses(incoming.reach(), now);
        if effect.circuit == OutcomeKind::Failure {
            self.excuse_late(&destination, now);
        }
        if let Some(throttle) = pass.throttle {
            // What did not leave the gateway's own network says nothing about the receiver's load.
            throttle.settle(if is_excused { LoadSignal::Neither } else { effect.throttle });
        }
        let is_calm = destination.throttle.as_ref().is_some_and(Throttle::is_calm);
        let eased = is_calm || effect.throttle == LoadSignal::Accept;
        let now = self.now();
        let ended = match (effect.disposition, effect.circuit) {
            (Disposition::Delivered, _) | (_, OutcomeKind::Success) => LaneSignal::Success,
            (Disposition::Retry, _) | (_, OutcomeKind::Failure) => LaneSignal::Failure,
            _ => LaneSignal::Neither,
        };
        let sleep = effect.sleep.map(|sleep| Sleep::RetryAfter(now + sleep));
        let sleep = if is_excused { self.after_excused(&destination, now) } else { sleep };
        self.ended(&destination, ended, sleep, eased);
        self.metrics.attempts.of(incoming.reply).inc();
        self.metrics.probes.inc_by(u64::from(is_probe));
        self.metrics.request_seconds.observe(incoming.latency.as_secs_f64());
        if is_excused {
            return self.hand_back(leased).await;
        }
        let context = AttemptContext {
            attempts: leased.attempts,
            pulled_from: leased.pulled_from,
            probed: if is_probe { outage } else { None },
            jitter: rand::random_range(-1.0..=1.0),
        };
        let next = context.next(&effect, destination.schedule(), now);
        let settlement = Settlement {
            id: leased.id,
            lease: leased.lease,
            attempt: attempt(incoming, started_at, is_probe),
            next,
            stands_for,
        };
        self.settle(&destination, &leased, settlement).await;
        if effect.disposition == Disposition::Gone {
            self.disable_gone(&destination).await;
        }
    }

    /// Returns a delivery to its lane after a local fault prevented the request. The fault uses up no attempt, and no
    /// circuit counts it. The lane sleeps until its retry; all lanes with a local fault share one pace for retries.
    async fn put_off(
        &self,
        destination: &Destination,
        leased: Leased,
        pass: Pass,
        cause: LocalFault,
        incoming: &Incoming,
    ) {
        self.metrics.attempts.of(incoming.reply).inc();
        self.metrics.local_faults.note(cause, incoming.detail.as_deref().unwrap_or_default());
        if pass.permit.is_probe() {
            pass.permit.settle_and_confirm(Classification::IGNORED).await;
        } else {
            pass.permit.ignored();
        }
        if let Some(throttle) = pass.throttle {
            throttle.settle(LoadSignal::Neither);
        }
        gates::give_token_back(destination);
        let again_at = self.local_faults.lock().unwrap_or_else(PoisonError::into_inner).next(self.now());
        self.ended(destination, LaneSignal::Neither, Some(Sleep::LocalFault(again_at)), false);
        self.hand_back(leased).await;
    }

    /// Sends a test request to an endpoint now, bypassing all gates. Neither the circuit nor the throttle counts it.
    pub async fn try_out(
        &self,
        endpoint: Arc<EndpointEntry>,
        kind: &EventType,
        payload: Bytes,
        content_type: &str,
    ) -> Incoming {
        let now = self.wall();
        let Ok(destination) = self.destinations.apart(endpoint) else { return unreadable_url() };
        match destination.test_request(kind, payload, content_type, now) {
            Some(outgoing) => self.http_sender.send(outgoing).await,
            None => unreadable_url(),
        }
    }

    /// Frees the lane's slot and wakes the lanes that can continue. If `eased` is set, lanes held by the throttle try
    /// again immediately.
    fn ended(&self, destination: &Destination, how: LaneSignal, sleep: Option<Sleep>, eased: bool) {
        let now = self.now();
        {
            let mut lanes = self.lanes();
            lanes.ended(destination.lane, how, now);
            match sleep {
                Some(sleep) => lanes.sleep(destination.lane, sleep, now),
                None if destination.circuit.status() != CircuitStatus::Closed => {
                    lanes.check_circuit(destination.lane, now);
                }
                None => {}
            }
            lanes.circuit_settled(destination.key(), now);
            if eased {
                lanes.throttle_eased(destination.key(), now);
            }
        }
        self.wake();
    }

    /// Writes the result of a delivery. If the queue fails, the write is retried until the lease may have ended. After
    /// that, the next worker that leases the delivery sends it again.
    async fn settle(&self, destination: &Destination, leased: &Leased, settlement: Settlement) {
        // Bounded: while too many settlements wait for the disk, no new request begins.
        let _unsettled = self.unsettled.acquire().await;
        let give_up_at = tokio::time::Instant::now() + self.settings.lease_margin;
        loop {
            match self.queue.settle(settlement.clone()).await {
                Ok(Settled::Done) => break,
                Ok(Settled::Fenced) => {
                    self.metrics.fenced.inc();
                    debug!(delivery = %settlement.id, "settled after the lease expired; ignored");
                    return;
                }
                Err(error) if tokio::time::Instant::now() < give_up_at => {
                    warn!(delivery = %settlement.id, %error, "can't settle a delivery; retrying");
                    tokio::time::sleep(SETTLE_AGAIN).await;
                }
                Err(error) => {
                    self.metrics.unsettled.inc();
                    error!(delivery = %settlement.id, %error, "can't settle a delivery; it is sent again after its lease");
                    return;
                }
            }
        }
        if leased.run.is_some() {
            self.wake_scheduler();
        }
        match settlement.next {
            NextStep::Retry { due_at, .. } => {
                let now = self.now();
                let mut lanes = self.lanes();
                lanes.arrived(leased.lane, leased.priority, 1, due_at, now);
                // Only now can the delivery be claimed for a probe. The circuit may open at any moment.
                lanes.watch_circuit(leased.lane, destination.key());
                if destination.circuit.status() != CircuitStatus::Closed {
                    lanes.check_circuit(leased.lane, now);
                }
                drop(lanes);
                self.wake();
                self.metrics.deliveries.of(Outcome::Retried).inc();
            }
            NextStep::Failed(reason) => _ = self.metrics.deliveries.of(reason).inc(),
            NextStep::Delivered => {
                self.metrics.deliveries.of(Outcome::Delivered).inc();
                let took =
                    settlement.attempt.started_at.since(leased.created_at) + settlement.attempt.latency;
                self.metrics.delivery_seconds.observe(took.as_secs_f64());
            }
        }
    }

    /// Ends the lease of a delivery that expired before it was sent. Then marks this delivery and other expired ones as
    /// failed.
    async fn give_up_expired(&self, leased: Leased) {
        let given_up = match self.queue.hand_back(leased.id, leased.lease).await {
            Ok(_) => self.queue.expire(EXPIRED_AT_ONCE).await,
            Err(error) => Err(error),
        };
        match given_up {
            Ok(batch) => {
                self.metrics.expired.inc_by(batch.done);
                self.metrics.deliveries.of(FailReason::Expired).inc_by(batch.done);
                self.arrived(&batch.woken);
            }
            Err(error) => warn!(delivery = %leased.id, %error, "can't expire a delivery; retrying later"),
        }
    }

    async fn disable_gone(&self, destination: &Destination) {
        let Some(endpoint) = &destination.endpoint else { return };
        match self.maintenance_records.endpoint_is_gone(endpoint.id).await {
            Ok(()) => {
                warn!(endpoint = %endpoint.id, tenant = %endpoint.tenant.id, "endpoint responded with 410; disabled");
            }
            Err(error) => {
                error!(endpoint = %endpoint.id, %error, "endpoint responded with 410, but can't be disabled");
            }
        }
    }
}

const fn classification(kind: OutcomeKind, retry_after: Option<Duration>) -> Classification {
    match (kind, retry_after) {
        (OutcomeKind::Success, _) => Classification::SUCCESS,
        (OutcomeKind::Ignored, _) => Classification::IGNORED,
        (OutcomeKind::Failure, None) => Classification::FAILURE,
        (OutcomeKind::Failure, Some(wait)) => Classification::failure_with_retry_after(wait),
    }
}

/// Returns the status of a reply, or the fault because of which there is none.
const fn result_of(reply: Reply) -> (Option<u16>, Option<Fault>) {
    match reply {
        Reply::Answered { status, .. } => (Some(status), None),
        Reply::Failed(fault) => (None, Some(fault)),
    }
}

fn last_attempt(incoming: &Incoming, started_at: Timestamp) -> LastAttempt {
    let (status, fault) = result_of(incoming.reply);
    LastAttempt { started_at, status, fault, detail: incoming.detail.as_deref().map(Arc::from) }
}

fn attempt(incoming: Incoming, started_at: Timestamp, probe: bool) -> Attempt {
    let (status, fault) = result_of(incoming.reply);
    Attempt {
        started_at,
        latency: incoming.latency,
        status,
        fault,
        detail: incoming.detail,
        response: incoming.body,
        probe,
    }
}

fn unreadable_url() -> Incoming {
    Incoming {
        reply: Reply::Failed(Fault::Protocol),
        detail: Some("the URL is invalid".into()),
        body: Bytes::new(),
        latency: Duration::ZERO,
        connection: Connection::Existing,
    }
}
