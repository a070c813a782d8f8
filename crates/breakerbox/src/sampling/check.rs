//! Checks: whether a call may be made now. What comes of it is nobody's business here, because the sampler will tell; so a
//! check that is dropped counts nowhere, and one that is settled only gives its lease back.

use std::time::Duration;

use breakerbox_core::fleet::{MemberAnswer, Tell};
use breakerbox_core::{self as core, Outcome, Refusal, Timestamp};

use crate::cell::Held;
use crate::circuit::{ASKED_AGAIN, Circuit};
use crate::clock::Clock;
use crate::fleet::Lease;

/// A call may be made. Most of these hold nothing and can be forgotten.
///
/// While its circuit is half-open it holds the lease that keeps others from calling at the same time. [Settle](Self::settle)
/// it when the call is over, and the next one gets its turn; if that never happens, when the lease ends, which is
/// `probe_timeout` and two seconds after the check. Dropping it does nothing.
#[derive(Debug)]
pub struct Checked {
    circuit: Circuit,
    lease: Option<Box<core::Permit>>,
}

impl Checked {
    /// Whether this call is the one that a half-open circuit lets through.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.lease.is_some()
    }

    /// How long a probe may take, so that it is over before the next one gets its turn. Zero: it is too late to start it.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let deadline: Timestamp = self.lease.as_ref()?.deadline()?;
        Some(deadline.since(self.circuit.clock().now()))
    }

    /// The call is over, and what came of it is where the sampler finds it: the next one may have its turn.
    pub fn settle(self) {
        let Some(lease) = self.lease else { return };
        let (shared, cell) = (&self.circuit.shared, &self.circuit.cell);
        let reported = cell.settle(Held::Decided(lease), self.circuit.clock(), |_| Outcome::ignored());
        let tell = match reported.tell {
            // It is no result, so that it can't be a late one: the leader may have decided meanwhile.
            Tell::Swap(proposal) => {
                Tell::Swap(Box::new(core::fleet::Proposal { is_result: false, ..*proposal }))
            }
            tell => tell,
        };
        if tell != Tell::Nothing {
            shared.tell(cell, tell);
        }
        shared.waiters.wake_one(cell);
    }
}

impl Circuit {
    /// Whether a call may be made now. Waits for the store where it must be asked: about a circuit that this process has never
    /// heard of, and for the lease of a half-open one.
    pub(super) async fn check(&self) -> Result<Checked, Refusal> {
        let checked = |lease| Checked { circuit: self.clone(), lease };
        if !self.controlled {
            self.shared.count_uncontrolled();
            return Ok(checked(None));
        }
        let cell = &self.cell;
        match cell.ask_aside(self.clock()) {
            Some(Ok(_)) => return Ok(checked(None)),
            Some(Err(refusal)) if !self.shared.dry_run => return Err(refusal),
            _ => {}
        }
        let mut said = None;
        for _ in 0..ASKED_AGAIN {
            said = Some(match self.said_without_core() {
                Some(said) => said,
                None => match cell.ask(self.clock(), true) {
                    MemberAnswer::Decided(asked) => self.decided(asked),
                    MemberAnswer::Unknown => {
                        self.shared.read_one(cell).await;
                        continue;
                    }
                    MemberAnswer::LeaseDue => match self.shared.take_lease(cell).await {
                        Lease::Permit(permit) => Ok(Some(Box::new(permit))),
                        Lease::Refused(refusal) => self.refuse(refusal),
                        Lease::AskAgain => continue,
                    },
                },
            });
            break;
        }
        // Others keep changing it; what is known by now will do.
        match said.unwrap_or_else(|| self.ask_the_core()) {
            Ok(permit) => Ok(checked(permit.filter(|permit| permit.is_probe()))),
            Err(refusal) => Err(*refusal),
        }
    }
}
