//! A candidate's loop: campaign, tick while leading, and extend the term meanwhile. It makes no decisions about
//! circuits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::LatestSuccesses;
use tokio::time::Instant;

use super::election::{CampaignResult, LeaderElection, Term};
use super::known::Known;
use super::sampler::Sampler;
use super::tick::{Tick, TickError};
use crate::breakerbox::Breakerbox;
use crate::fleet::Fleet;
use crate::fleet::Shared;

/// The pause before campaigning again if the store did not respond.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The maximum random delay before a candidate campaigns after the end of a term, so that candidates do not all
/// campaign at once.
const SPREAD_MICROS: u64 = 250_000;

/// Starts the candidacy if this process has a sampler.
pub(super) fn start(breakers: &Breakerbox, election: &Arc<LeaderElection>) {
    let shared = breakers.shared();
    let (Some(fleet), Some(sampler)) = (&shared.fleet, &election.sampler) else { return };
    let (election, sampler, held) = (Arc::clone(election), Arc::clone(sampler), Arc::clone(shared));
    fleet.runtime.spawn(async move {
        let Some(fleet) = &held.fleet else { return };
        let leader = Leader { shared: &held, fleet, election: &election, sampler: &sampler };
        leader.keep_leading().await;
    });
}

/// The references that the leader loop in one process needs.
pub(super) struct Leader<'s> {
    pub(super) shared: &'s Arc<Shared>,
    pub(super) fleet: &'s Fleet,
    pub(super) election: &'s LeaderElection,
    pub(super) sampler: &'s Arc<dyn Sampler>,
}

impl Leader<'_> {
    async fn keep_leading(&self) {
        while !self.election.is_closed() {
            match self.election.campaign(self.shared, self.fleet).await {
                CampaignResult::Leads(term) => self.lead(term).await,
                CampaignResult::Follows(for_another) => {
                    let chance = u64::try_from(self.shared.times.draw().0 >> 64).unwrap_or(0);
                    let spread = Duration::from_micros(chance % SPREAD_MICROS);
                    self.election.wait(for_another + spread).await;
                }
                CampaignResult::Unknown => self.election.wait(RETRY_AFTER).await,
            }
        }
        if self.election.leads() {
            self.election.resign(self.shared, self.fleet).await;
        }
    }

    /// Ticks until the term ends. Ticks never overlap. If a tick takes longer than the interval, the next one follows
    /// at once, and the ticks missed meanwhile are skipped.
    async fn lead(&self, mut term: Term) {
        let every = self.election.settings.sample_every;
        let (mut known, mut latest) = (Known::new(self), LatestSuccesses::default());
        let mut next = Instant::now();
        while !self.election.is_closed() {
            let done = self.while_extending_term(Tick::make(self, term, &mut known, &mut latest)).await;
            match done {
                Ok(ticked) => self.election.ticked(self.shared, ticked),
                Err(TickError::NotPolled(error)) => {
                    if self.election.poll_failed(self.shared, &error) {
                        // Another process may reach a database that this one cannot. After the pause, all candidates
                        // have tried.
                        self.election.resign(self.shared, self.fleet).await;
                        let pause = self.election.settings.term + Duration::from_micros(SPREAD_MICROS * 2);
                        return self.election.wait(pause).await;
                    }
                }
                Err(TickError::Interrupted) => {}
            }
            next = (next + every).max(Instant::now());
            self.while_extending_term(self.wait_until(next)).await;
            match self.campaign().await {
                Some(again) => {
                    if !again.continues(term) {
                        // Another process may have led in between, and seen changes that this process has not.
                        (known, latest) = (Known::new(self), LatestSuccesses::default());
                    }
                    term = again;
                }
                None => return,
            }
        }
    }

    async fn wait_until(&self, time: Instant) {
        self.election.wait(time.saturating_duration_since(Instant::now())).await;
    }

    /// Extends the term and returns it; `None` if another process is the leader, or the store does not respond.
    pub(super) async fn campaign(&self) -> Option<Term> {
        match self.election.campaign(self.shared, self.fleet).await {
            CampaignResult::Leads(term) => Some(term),
            CampaignResult::Follows(_) | CampaignResult::Unknown => None,
        }
    }

    /// Runs `work`, and extends the term meanwhile. While a request to extend the term is in flight, which takes only a
    /// moment, `work` is not polled.
    pub(super) async fn while_extending_term<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(self.election.settings.term / 3, &mut work).await {
                return done;
            }
            // If the term is lost, `work` detects it before it writes.
            let _ = self.campaign().await;
        }
    }
}
