//! Leader election: whether this process is the leader, until when, and the results of its ticks.
//!
//! A term must be extended without a gap; otherwise a new term begins. A decision made in a term may be written only
//! until that term ends, by the store's clock. So a process that was paused between reading and writing writes
//! nothing, even if it is elected again as soon as it continues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use breakerbox_core::{Nonce, Policy, Timestamp};
use tokio::sync::Notify;

use super::builder::{Observer, Settings};
use super::report::{Report, SamplingEvent, Ticked};
use super::sampler::{SampleError, Sampler};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::fleet::Shared;

/// How long before the end of its term a leader stops writing. This margin is needed because the clocks of a store's
/// nodes may differ.
const MARGIN: Duration = Duration::from_secs(1);

/// The number of consecutive failed polls after which a leader resigns, so that another process can lead.
const MAX_FAILED_POLLS: u32 = 3;

pub(super) struct LeaderElection {
    pub(super) settings: Settings,
    /// The window that all keys share.
    pub(super) window: Duration,
    /// The number of latest ticks that are also evaluated separately, which all keys share; `None` if only the window
    /// is evaluated.
    pub(super) recent_ticks: Option<u32>,
    pub(super) sampler: Option<Arc<dyn Sampler>>,
    observers: Vec<Observer>,
    /// The random token that identifies this process as a candidate in the store.
    candidate: OnceLock<Nonce>,
    state: Mutex<State>,
    closed: AtomicBool,
    closing: Notify,
}

#[derive(Default)]
struct State {
    term: Option<Term>,
    terms: u64,
    failed_in_a_row: u32,
    report: Report,
}

/// A term that this process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term {
    /// The number that distinguishes this term from other terms of the same process.
    number: u64,
    ends_at: Timestamp,
    /// The store's time at which the term was last extended.
    pub(super) now: Timestamp,
}

impl Term {
    /// Returns whether this term is an extension of the term `before`.
    pub(super) const fn continues(self, before: Self) -> bool {
        self.number == before.number
    }

    /// Returns the latest time at which this term's decisions may be written.
    pub(super) fn not_after(self) -> Timestamp {
        let margin = u64::try_from(MARGIN.as_micros()).unwrap_or(u64::MAX);
        Timestamp::from_micros(self.ends_at.as_micros().saturating_sub(margin))
    }
}

/// The result of campaigning for leadership.
pub(super) enum CampaignResult {
    Leads(Term),
    /// Another process is the leader. Try again after this time.
    Follows(Duration),
    /// The store did not respond.
    Unknown,
}

impl LeaderElection {
    pub(super) fn new(
        settings: Settings,
        policy: &Policy,
        sampler: Option<Arc<dyn Sampler>>,
        observers: Vec<Observer>,
    ) -> Self {
        Self {
            settings,
            window: policy.window(),
            recent_ticks: policy.sample_recent(),
            sampler,
            observers,
            candidate: OnceLock::new(),
            state: Mutex::default(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    /// Returns whether samples may contain the number of consecutive failures. Without a sampler in this process,
    /// returns true, because another process's sampler may provide it.
    pub(super) fn has_runs(&self) -> bool {
        self.sampler.as_deref().is_none_or(<dyn Sampler>::returns_runs)
    }

    /// Returns the length of the recent part, which is the time that the latest ticks cover; `None` if it is not
    /// shorter than the window.
    pub(super) fn recent(&self) -> Option<Duration> {
        let recent = self.settings.sample_every.saturating_mul(self.recent_ticks?);
        (recent < self.window).then_some(recent)
    }

    /// Returns the election's name in the store. Dry-run processes elect a separate leader.
    const fn name(shared: &Shared) -> &'static str {
        if shared.dry_run { "dry-run sampling" } else { "sampling" }
    }

    fn candidate(&self, shared: &Shared) -> Nonce {
        *self.candidate.get_or_init(|| Nonce(shared.times.draw().0))
    }

    /// Campaigns for leadership, or extends the term.
    pub(super) async fn campaign(&self, shared: &Shared, fleet: &Fleet) -> CampaignResult {
        let request = fleet.store.lead(Self::name(shared), self.candidate(shared), self.settings.term);
        let answer = shared.write_store(fleet, request).await;
        let Ok(answer) = answer else {
            let now = shared.times.to_store_time(shared.times.now());
            if self.lock().term.is_some_and(|term| now > term.not_after()) {
                self.end_term(shared);
            }
            return CampaignResult::Unknown;
        };
        if !answer.value.leads {
            self.end_term(shared);
            return CampaignResult::Follows(answer.value.ends_at.since(answer.now));
        }
        let mut state = self.lock();
        let continued = state.term.filter(|term| answer.now < term.ends_at);
        let was_leading = state.term.is_some();
        if continued.is_none() {
            state.terms += 1;
        }
        let term = Term { number: state.terms, ends_at: answer.value.ends_at, now: answer.now };
        state.term = Some(term);
        state.report.leads = true;
        drop(state);
        if !was_leading {
            self.notify(shared, &SamplingEvent::Elected);
        }
        CampaignResult::Leads(term)
    }

    /// Ends the term early, so that another process can become leader at once.
    pub(super) async fn resign(&self, shared: &Shared, fleet: &Fleet) {
        let request = fleet.store.lead(Self::name(shared), self.candidate(shared), Duration::ZERO);
        // If this fails, the term expires by itself.
        let _ = shared.write_store(fleet, request).await;
        self.end_term(shared);
    }

    fn end_term(&self, shared: &Shared) {
        let mut state = self.lock();
        state.report.leads = false;
        let led = state.term.take().is_some();
        drop(state);
        if led {
            self.notify(shared, &SamplingEvent::LeadershipLost);
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.lock().term.is_some()
    }

    pub(super) fn ticked(&self, shared: &Shared, ticked: Ticked) {
        let mut state = self.lock();
        state.failed_in_a_row = 0;
        state.report.ticks += 1;
        state.report.last_tick = Some(ticked);
        state.report.poll_error = None;
        drop(state);
        self.notify(shared, &SamplingEvent::Ticked(ticked));
    }

    /// Records a failed poll. Returns whether this process should resign.
    pub(super) fn poll_failed(&self, shared: &Shared, error: &SampleError) -> bool {
        let error = error.with_causes();
        let mut state = self.lock();
        state.failed_in_a_row += 1;
        let should_resign = state.failed_in_a_row.is_multiple_of(MAX_FAILED_POLLS);
        state.report.failed_polls += 1;
        state.report.poll_error = Some(error.clone());
        drop(state);
        self.notify(shared, &SamplingEvent::PollFailed { error });
        should_resign
    }

    pub(super) fn count_refused_writes(&self, refused: usize) {
        self.lock().report.refused_writes += u64::try_from(refused).unwrap_or(u64::MAX);
    }

    pub(super) fn report(&self) -> Report {
        self.lock().report.clone()
    }

    /// Ends the candidacy, because the last handle was dropped.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.closing.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits for `time`. Returns early when the candidacy ends.
    pub(super) async fn wait(&self, time: Duration) {
        if !self.is_closed() {
            let _ = tokio::time::timeout(time, self.closing.notified()).await;
        }
    }

    fn notify(&self, shared: &Shared, event: &SamplingEvent) {
        self.observers.iter().for_each(|observer| shared.observers.guard(|| observer(event)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
