//! Rows 0 and 2 to 5 of the table: the response to a caller that acquires a permit, and which caller gets the probe.

use alloc::boxed::Box;

use crate::change::{Cause, Step};
use crate::permit::Refusal;
use crate::policy::Policy;
use crate::record::{Lease, Mode, Record, State};
use crate::time::Timestamp;
use crate::token::RandomBits;

use super::LEASE_MARGIN;

/// The record's answer to a caller that acquires a permit.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Make the call.
    Admit,
    /// Do not make the call.
    Refuse(Refusal),
    /// Make the call as a probe, if the step's record can be swapped in. The lease in the step's record identifies the
    /// probe.
    Probe(Box<Step>),
}

impl Record {
    /// Decides whether a caller gets a permit, without changing the record.
    #[must_use]
    pub fn try_acquire(&self, policy: &Policy, draw: RandomBits, now: Timestamp) -> Answer {
        match self.mode {
            Mode::ForcedClosed(_) => return Answer::Admit,
            Mode::ForcedOpen(_) => return Answer::Refuse(Refusal::ForcedOpen),
            Mode::Disabled(_) => return Answer::Refuse(Refusal::Disabled),
            Mode::Automatic => {}
        }
        match self.state {
            State::Closed => Answer::Admit,
            State::Open => match self.retry_at {
                Some(retry_at) if now < retry_at => Answer::Refuse(Refusal::open(retry_at, now)),
                _ => Answer::Probe(Box::new(self.half_opened(Some(lease(policy, draw, now)), draw, now))),
            },
            State::HalfOpen => match self.lease {
                Some(lease) if lease.is_live(now) => Answer::Refuse(Refusal::probing(lease.expires_at, now)),
                _ => {
                    let next = Self { lease: Some(lease(policy, draw, now)), ..self.clone() };
                    Answer::Probe(Box::new(Step::within_epoch(next, draw)))
                }
            },
        }
    }

    /// Returns the step to half-open. `lease` is the first probe's lease; `None` if no probe starts yet.
    pub(super) fn half_opened(&self, lease: Option<Lease>, draw: RandomBits, now: Timestamp) -> Step {
        let next = Self { state: State::HalfOpen, retry_at: None, lease, probe_successes: 0, ..self.clone() };
        Step::transition(self, next, Cause::CoolOffOver, draw, now)
    }
}

fn lease(policy: &Policy, draw: RandomBits, now: Timestamp) -> Lease {
    Lease { nonce: draw.nonce(), expires_at: now + policy.probe_timeout() + LEASE_MARGIN }
}
