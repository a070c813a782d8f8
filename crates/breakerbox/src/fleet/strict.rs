//! Strict consistency: acquiring a permit always reads the store, and every outcome is counted there before the
//! caller continues.
//!
//! Reports continue in the background, so that no outcome is lost if its caller stops waiting. A caller waits at most
//! for the store timeout.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{Consistency, Delta, Proposal, ReportDue};
use breakerbox_core::{Epoch, OpenedBy, Outcome, Refusal, Settlement};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::lease::StoreDecision;
use super::swap::SwapResult;
use super::{Fleet, Lease, OnStoreLoss};
use crate::cell::Cell;
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::store::StoreError;

/// The result of settling a permit, which may not be known yet.
pub(crate) enum Settling {
    Known(Settlement),
    /// A request to the store is in flight.
    InFlight(oneshot::Receiver<Settlement>),
}

impl Settling {
    pub(crate) async fn settled(self) -> Settlement {
        match self {
            Self::Known(settlement) => settlement,
            // If a runtime ends, it drops the request.
            Self::InFlight(answer) => answer.await.unwrap_or(Settlement::Unconfirmed),
        }
    }

    /// Returns the result for a caller that does not wait. While the request is in flight, this is
    /// [`Settlement::Counted`].
    pub(crate) fn so_far(&self) -> Settlement {
        match self {
            Self::Known(settlement) => *settlement,
            Self::InFlight(_) => Settlement::Counted,
        }
    }
}

impl Shared {
    pub(crate) fn is_strict(&self) -> bool {
        self.times.shared == Some(Consistency::Strict)
    }

    /// Sends a due report to the store, and returns its result. With local-first consistency, callers wait only for a
    /// probe's outcome, after which the next probe may begin.
    pub(crate) fn report_and_wait(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        report: ReportDue,
        settlement: Settlement,
    ) -> Settling {
        match report {
            ReportDue::One { epoch, outcome } => {
                let (shared, cell) = (self.for_task(), Arc::clone(cell));
                self.in_background(async move { shared.report_one(&cell, epoch, &outcome).await })
            }
            ReportDue::Swap(proposal) => {
                let (shared, cell) = (self.for_task(), Arc::clone(cell));
                self.in_background(async move { shared.swap_result(&cell, &proposal, settlement).await })
            }
            report => {
                self.report(cell, report);
                Settling::Known(settlement)
            }
        }
    }

    /// Runs a report in the background, so that it completes even if the caller does not wait. A caller waits no longer
    /// than the store timeout.
    fn in_background(&self, reporting: impl Future<Output = Settlement> + Send + 'static) -> Settling {
        let Some(fleet) = &self.fleet else { return Settling::Known(Settlement::Unconfirmed) };
        let limit = fleet.settings.store_timeout;
        let (answer, receiver) = oneshot::channel();
        fleet.runtime.spawn(async move {
            let mut reporting = pin!(reporting);
            let in_time = tokio::time::timeout(limit, reporting.as_mut()).await.ok();
            // The caller may have stopped waiting.
            let _ = answer.send(in_time.unwrap_or(Settlement::Unconfirmed));
            if in_time.is_none() {
                reporting.await;
            }
        });
        Settling::InFlight(receiver)
    }

    /// Counts one outcome in the store, and opens the circuit if the outcome trips it.
    async fn report_one(self: &Arc<Self>, cell: &Arc<Cell>, epoch: Epoch, outcome: &Outcome) -> Settlement {
        let Some(fleet) = &self.fleet else { return Settlement::Unconfirmed };
        let delta = Delta::of_one(self.store_key(cell), epoch, outcome, &cell.policy());
        let answer = self.write_store(fleet, fleet.store.merge(std::slice::from_ref(&delta))).await;
        let Some((now, merged)) = answer.ok().and_then(|mut answer| Some((answer.now, answer.value.pop()?)))
        else {
            self.count_unanswered();
            return Settlement::Unconfirmed;
        };
        let merged = match merged {
            Ok(merged) => merged,
            Err(unreadable) => {
                self.can_not_read(fleet, cell, &unreadable);
                self.count_unanswered();
                return Settlement::Unconfirmed;
            }
        };
        let reported = self.step_member(cell, Some(now), |member, at| {
            member.one_reported(&merged, OpenedBy::from(outcome), at)
        });
        self.apply_learnt(cell, reported.learnt);
        if merged.late {
            self.count_late(1);
            return Settlement::Late;
        }
        if let ReportDue::Swap(trip) = reported.report {
            let result = self.swap(fleet, cell, &trip).await;
            self.apply_swap_result(cell, &trip, result);
        }
        Settlement::Counted
    }

    /// Swaps in a probe's result.
    async fn swap_result(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        result: &Proposal,
        settlement: Settlement,
    ) -> Settlement {
        let Some(fleet) = &self.fleet else { return Settlement::Unconfirmed };
        let swapped = self.swap(fleet, cell, result).await;
        let settlement = match swapped {
            SwapResult::Won => settlement,
            SwapResult::Lost(_) => Settlement::Late,
            SwapResult::Unknown => Settlement::Unconfirmed,
        };
        self.apply_swap_result(cell, result, swapped);
        settlement
    }

    /// Acquires a permit based on the store's own record and time. Only one lease request per circuit may be in flight,
    /// but any number of other requests.
    pub(super) async fn acquire_strictly(
        self: &Arc<Self>,
        fleet: &Fleet,
        cell: &Arc<Cell>,
        limit: Duration,
    ) -> Lease {
        let (started_at, began_at) = (self.times.now(), Instant::now());
        match tokio::time::timeout(limit, self.decide_by_store(fleet, cell)).await {
            Ok(Ok(StoreDecision::Decided(decided))) => Lease::of(decided, started_at),
            Ok(Ok(StoreDecision::Lease(_))) => {
                self.lease_within(cell, limit.saturating_sub(began_at.elapsed())).await
            }
            Ok(Ok(StoreDecision::Place(epoch))) => match self.on_own_ramp(cell) {
                Some(lease) => lease,
                None => self.slot_within(fleet, cell, epoch, limit.saturating_sub(began_at.elapsed())).await,
            },
            // The circuit is no longer shared.
            Ok(Err(StoreError::Unreadable(_))) => Lease::Retry,
            _ if fleet.health.is_lost() => self.unanswered(fleet, cell),
            // One response is missing, but the store is not lost yet.
            _ => match fleet.settings.on_loss {
                OnStoreLoss::Local => {
                    let retry_at = self.times.to_store_time(started_at) + fleet.settings.store_timeout;
                    let known =
                        self.step_member(cell, None, |member, at| member.acquire_unanswered(retry_at, at));
                    Lease::of(known, started_at)
                }
                OnStoreLoss::Admit => Lease::Uncounted,
                OnStoreLoss::Refuse => Lease::Refused(Refusal::StoreLost),
            },
        }
    }
}
