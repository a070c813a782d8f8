//! Whether the store can be used, and the behaviour while it can't.
//!
//! A small breaker stands before the store. Twice a second a check writes to it ([`Store::check_write`]), with or
//! without traffic, because only a write shows whether writes are accepted. A request that fails is confirmed by
//! further checks soon after. Three failures in a row lose the store (`availability` counts them); then only the check is
//! sent, and the process behaves as `on_store_loss` specifies. When the store is back, every circuit rejoins the fleet
//! at once. Until all have, `on_store_loss` still applies to all calls, or each process would probe for itself
//! meanwhile.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use breakerbox_core::Refusal;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::availability::{Access, Availability, Check, Sent};
use super::running_tasks::TaskRef;
use super::{BATCH, Fleet};
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::observe::StoreHealth;
use crate::store::{Answer, Store, StoreError};

/// The behaviour of a process while the store is unavailable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnStoreLoss {
    /// Each process decides alone, with its own circuits, starting from what it knows.
    #[default]
    Local,
    /// Every call is admitted.
    Admit,
    /// Every call is refused.
    Refuse,
}

#[derive(Default)]
pub(super) struct Health {
    availability: Mutex<Availability>,
    /// Some circuits left the fleet, though the store was not lost.
    absentees: AtomicBool,
    /// Notified when a request failed: a check follows soon.
    doubt: Arc<Notify>,
}

/// The interval of the checks, also while the store is lost. So a loss is detected without traffic.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The pause between a failure and the check that confirms it. Three failures take about a third of a second, so a
/// store that refuses writes is reported within a second, and a lost connection has time to reconnect.
const CONFIRM_AFTER: Duration = Duration::from_millis(150);

impl Health {
    /// Returns whether a request may be sent to the store.
    pub(super) fn admit(&self, access: Access) -> Result<Sent, StoreError> {
        let availability = self.lock();
        if availability.is_lost() {
            return Err(StoreError::Unavailable("the store is lost, and checked in the background".into()));
        }
        Ok(availability.send(access))
    }

    /// Records the result of a request. Returns the health if it changed.
    pub(super) fn settle(&self, sent: Sent, error: Option<&StoreError>) -> Option<StoreHealth> {
        self.note(|availability| availability.note(sent, failure(error)))
    }

    fn settle_check(&self, sent: Check, error: Option<&StoreError>) -> Option<StoreHealth> {
        self.note(|availability| availability.note_check(sent, failure(error)))
    }

    fn note(&self, note: impl FnOnce(&mut Availability) -> Option<StoreHealth>) -> Option<StoreHealth> {
        let mut availability = self.lock();
        let was_in_doubt = availability.is_in_doubt();
        let news = note(&mut availability);
        if availability.is_in_doubt() && !was_in_doubt {
            self.doubt.notify_one();
        }
        news
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lock().is_lost()
    }

    fn is_in_doubt(&self) -> bool {
        self.lock().is_in_doubt()
    }

    pub(super) fn note_absentee(&self) {
        self.absentees.store(true, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> StoreHealth {
        self.lock().health()
    }

    fn lock(&self) -> MutexGuard<'_, Availability> {
        self.availability.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the text of an error that concerns the store's health. A record that can't be read is a response
/// nevertheless.
fn failure(error: Option<&StoreError>) -> Option<String> {
    error.filter(|error| !matches!(error, StoreError::Unreadable(_))).map(with_its_causes)
}

/// Returns the message of an error with those of its causes.
fn with_its_causes(error: &StoreError) -> String {
    let chain = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Checks the store, and lets circuits that left the fleet rejoin.
pub(super) async fn keep_watching(shared: Weak<Shared>) {
    loop {
        let Some(held) = TaskRef::of(&shared) else { return };
        let Some(fleet) = &held.fleet else { return };
        let (store, limit, doubt) =
            (fleet.store.current(), fleet.settings.store_timeout, Arc::clone(&fleet.health.doubt));
        let sent = fleet.health.lock().send_check();
        let began = Instant::now();
        let asked_at = held.times.now();
        // Do not keep the registry alive during the wait.
        drop(held);
        let answer = check(&*store, limit, sent.reads).await;

        let Some(held) = TaskRef::of(&shared) else { return };
        let Some(fleet) = &held.fleet else { return };
        if let Ok(answer) = &answer {
            held.note_store_time(fleet, answer.now, asked_at);
        }
        if let Some(news) = fleet.health.settle_check(sent, answer.as_ref().err()) {
            held.store_went(news);
        }
        if !fleet.health.is_lost() && fleet.health.absentees.swap(false, Ordering::Relaxed) {
            held.rejoin_all(fleet).await;
        }
        let is_in_doubt = fleet.health.is_in_doubt();
        drop(held);
        if is_in_doubt {
            // A check that waited for its whole timeout has waited long enough.
            tokio::time::sleep(CONFIRM_AFTER.saturating_sub(began.elapsed())).await;
        } else if timeout(CHECK_EVERY, doubt.notified()).await.is_ok() {
            tokio::time::sleep(CONFIRM_AFTER).await;
        }
    }
}

/// Checks that the store accepts writes, and that it answers reads if that is in doubt.
async fn check(store: &dyn Store, limit: Duration, reads: bool) -> Result<Answer<()>, StoreError> {
    let answer = timeout(limit, store.check_write()).await.unwrap_or(Err(StoreError::TimedOut { limit }))?;
    if reads {
        timeout(limit, store.read(&[])).await.unwrap_or(Err(StoreError::TimedOut { limit }))?;
    }
    Ok(answer)
}

impl Shared {
    /// Handles the loss or the return of the store.
    pub(super) fn store_went(&self, news: StoreHealth) {
        let Some(fleet) = &self.fleet else { return };
        if news == StoreHealth::Connected {
            // All circuits rejoin, in the background.
            fleet.health.note_absentee();
        } else {
            self.times.shut(fleet.settings.on_loss != OnStoreLoss::Local);
            for cell in self.registry.by_parts().flatten() {
                self.step_member(&cell, None, |member, _| member.leave());
                self.waiters.wake_one(&cell);
            }
        }
        self.observers.notify_store(&news);
    }

    /// Returns the result that applies to all calls while the store is unavailable; none if each process decides alone.
    pub(crate) fn without_store(&self) -> Option<Result<(), Refusal>> {
        let fleet = self.fleet.as_ref().filter(|_| self.times.is_shut())?;
        match fleet.settings.on_loss {
            OnStoreLoss::Local => None,
            OnStoreLoss::Admit => Some(Ok(())),
            OnStoreLoss::Refuse => Some(Err(Refusal::StoreLost)),
        }
    }

    async fn rejoin_all(self: &Arc<Self>, fleet: &Fleet) {
        let mut cells = Vec::new();
        self.registry.for_each(|cell| cells.push(Arc::clone(cell)));
        for cells in cells.chunks(BATCH) {
            if !self.read_and_learn(fleet, cells).await {
                fleet.health.note_absentee();
                return;
            }
        }
        self.times.shut(false);
        if fleet.health.is_lost() && fleet.settings.on_loss != OnStoreLoss::Local {
            // It was lost again meanwhile, and the task that noticed may have shut the gates too early.
            self.times.shut(true);
        }
        cells.iter().for_each(|cell| self.waiters.wake_one(cell));
    }
}
