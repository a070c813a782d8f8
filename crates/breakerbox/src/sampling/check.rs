//! Checks whether a call may be made now. The call's outcome is not reported here, because the sampler finds it. So a
//! check that is dropped is not counted, and settling a check only releases its lease.

use std::time::Duration;

use breakerbox_core::fleet::{MemberAnswer, ReportDue};
use breakerbox_core::{self as core, Outcome, Refusal, Timestamp};
use tokio::time::Instant;

use crate::cell::Held;
use crate::circuit::{Circuit, MAX_ATTEMPTS};
use crate::clock::Clock;
use crate::fleet::Lease;

/// The right to make one call. While its circuit is closed, it holds no lease and can be dropped.
///
/// While its circuit is half-open, it holds the lease that prevents other callers from calling at the same time.
/// [Settle](Self::settle) it when the call is over, so that the next call may probe. Otherwise the lease expires
/// `probe_timeout` plus two seconds after the check. Dropping it does not release the lease.
#[derive(Debug)]
pub struct Checked {
    circuit: Circuit,
    lease: Option<Box<core::Permit>>,
}

impl Checked {
    /// Returns whether this call probes a half-open circuit.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.lease.is_some()
    }

    /// Returns the time left until a probe's deadline; `None` for other calls. If it is zero, it is too late to start
    /// the call.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let deadline: Timestamp = self.lease.as_ref()?.deadline()?;
        Some(deadline.since(self.circuit.clock().now()))
    }

    /// Releases the lease, so that the next call may probe. Call this when the call is over and its outcome is in the
    /// sampler's data.
    pub fn settle(self) {
        let Some(lease) = self.lease else { return };
        let (shared, cell) = (&self.circuit.shared, &self.circuit.cell);
        let reported = cell.settle(Held::Decided(lease), self.circuit.clock(), |_| Outcome::ignored());
        let report = match reported.report {
            // This is not a result, so it cannot be a late one: the leader may have decided meanwhile.
            ReportDue::Swap(proposal) => {
                ReportDue::Swap(Box::new(core::fleet::Proposal { result_of: None, ..*proposal }))
            }
            report => report,
        };
        if report != ReportDue::Nothing {
            shared.report(cell, report);
        }
        shared.waiters.wake_one(cell);
    }
}

impl Circuit {
    /// Checks whether a call may be made now. Waits for the store if required, which is for a circuit whose record is
    /// unknown, and for a half-open circuit's lease.
    pub(super) async fn check(&self) -> Result<Checked, Refusal> {
        let checked = |lease| Checked { circuit: self.clone(), lease };
        let lease_of = |permit: Option<Box<core::Permit>>| checked(permit.filter(|permit| permit.is_probe()));
        if !self.controlled {
            self.shared.count_uncontrolled();
            return Ok(checked(None));
        }
        let cell = &self.cell;
        match cell.acquire_fast(self.clock()) {
            Some(Ok(_)) => return Ok(checked(None)),
            Some(Err(refusal)) if !self.shared.dry_run => return Err(refusal),
            _ => {}
        }
        let asked_at = Instant::now();
        for _ in 0..=MAX_ATTEMPTS {
            let result = match self.result_without_core() {
                Some(result) => result,
                None => match cell.try_acquire(self.clock(), true) {
                    MemberAnswer::Decided(acquired) => self.decided(acquired),
                    MemberAnswer::Unknown => {
                        self.shared.read_one(cell).await;
                        continue;
                    }
                    // Sampled circuits have no ramp, because calls' outcomes are not reported to them.
                    MemberAnswer::SlotDue(_) => Ok(None),
                    MemberAnswer::LeaseDue => {
                        match self.shared.take_lease(cell, asked_at.elapsed()).await {
                            Lease::Permit(permit) => Ok(Some(Box::new(permit))),
                            Lease::Uncounted => Ok(None),
                            Lease::Refused(refusal) => self.refuse(refusal),
                            // Acquiring again finds a lease that was taken in the background.
                            Lease::Retry => continue,
                        }
                    }
                },
            };
            return result.map(lease_of).map_err(|refusal| *refusal);
        }
        // Other processes got the lease at every attempt.
        self.refuse(self.shared.probing()).map(lease_of).map_err(|refusal| *refusal)
    }
}
