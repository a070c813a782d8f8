//! The loop of a candidate: campaign, tick while leading, and extend the term meanwhile. It decides nothing.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::LatestSuccesses;
use tokio::time::Instant;

use super::known::Known;
use super::office::{Office, Stood, Term};
use super::sampler::Sampler;
use super::tick::{Tick, Undone};
use crate::breakerbox::{Breakerbox, Shared};
use crate::fleet::Fleet;

/// The pause before the next request to a store that did not respond to a candidacy.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The maximum random delay of a candidate after the end of a term, so that not all candidates come at once.
const SPREAD_MICROS: u64 = 250_000;

/// Starts the candidacy, if this process has a sampler.
pub(super) fn start(breakers: &Breakerbox, office: &Arc<Office>) {
    let shared = breakers.shared();
    let (Some(fleet), Some(sampler)) = (&shared.fleet, &office.sampler) else { return };
    let (office, sampler, kept) = (Arc::clone(office), Arc::clone(sampler), Arc::clone(shared));
    fleet.runtime.spawn(async move {
        let Some(fleet) = &kept.fleet else { return };
        let leader = Leader { shared: &kept, fleet, office: &office, sampler: &sampler };
        leader.keep_leading().await;
    });
}

/// The leader loop of one process.
pub(super) struct Leader<'s> {
    pub(super) shared: &'s Arc<Shared>,
    pub(super) fleet: &'s Fleet,
    pub(super) office: &'s Office,
    pub(super) sampler: &'s Arc<dyn Sampler>,
}

impl Leader<'_> {
    async fn keep_leading(&self) {
        while !self.office.is_closed() {
            match self.office.stand(self.shared, self.fleet).await {
                Stood::Leads(term) => self.lead(term).await,
                Stood::Follows(for_another) => {
                    let chance = u64::try_from(self.shared.times.draw().0 >> 64).unwrap_or(0);
                    let spread = Duration::from_micros(chance % SPREAD_MICROS);
                    self.office.wait(for_another + spread).await;
                }
                Stood::Unknown => self.office.wait(ASK_AGAIN).await,
            }
        }
        if self.office.leads() {
            self.office.resign(self.shared, self.fleet).await;
        }
    }

    /// Ticks for as long as the term lasts. Ticks never overlap: one that takes longer than the period is followed by
    /// the next at once, and the ticks that were missed meanwhile are skipped.
    async fn lead(&self, mut term: Term) {
        let every = self.office.settings.sample_every;
        let (mut known, mut latest) = (Known::new(self), LatestSuccesses::default());
        let mut next = Instant::now();
        while !self.office.is_closed() {
            let done = self.prolonging(Tick::make(self, term, &mut known, &mut latest)).await;
            match done {
                Ok(ticked) => self.office.ticked(self.shared, ticked),
                Err(Undone::NotPolled(error)) => {
                    if self.office.poll_failed(self.shared, &error) {
                        // Another process may reach what this process can't. By then all candidates have tried.
                        self.office.resign(self.shared, self.fleet).await;
                        let pause = self.office.settings.term + Duration::from_micros(SPREAD_MICROS * 2);
                        return self.office.wait(pause).await;
                    }
                }
                Err(Undone::Interrupted) => {}
            }
            next = (next + every).max(Instant::now());
            self.prolonging(self.wait_until(next)).await;
            match self.stand().await {
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
        self.office.wait(time.saturating_duration_since(Instant::now())).await;
    }

    /// Extends the term and returns it; none if another process leads, or the store does not respond.
    pub(super) async fn stand(&self) -> Option<Term> {
        match self.office.stand(self.shared, self.fleet).await {
            Stood::Leads(term) => Some(term),
            Stood::Follows(_) | Stood::Unknown => None,
        }
    }

    /// Extends the term for as long as `work` takes. `work` is not polled during a request to the store, which is
    /// brief.
    pub(super) async fn prolonging<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(self.office.settings.term / 3, &mut work).await {
                return done;
            }
            // If the term is lost, the work detects it before it writes.
            let _ = self.stand().await;
        }
    }
}
