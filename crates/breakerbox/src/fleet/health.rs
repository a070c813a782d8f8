//! Whether the store can be used, and the behaviour while it cannot.
//!
//! The store has a small circuit breaker of its own. Twice per second a check writes to the store
//! ([`Store::check_write`]), with or without traffic, because only a write shows whether writes are accepted. If a
//! request fails, further checks soon confirm it. After three consecutive failures the store is lost (`availability`
//! counts them); then only the check is sent, and the process behaves as `on_store_loss` specifies. When the store is
//! available again, every circuit rejoins the fleet at once. Until all have, `on_store_loss` still applies to all
//! calls; otherwise each process would probe by itself meanwhile.

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

/// A process's behaviour while the store is unavailable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnStoreLoss {
    /// Each process decides by itself, with its own circuits, starting from the state that it knows.
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
    /// Whether some circuits must rejoin the fleet.
    absentees: AtomicBool,
    /// Notified when a request failed, so that a check follows soon.
    doubt: Arc<Notify>,
}

/// The interval between checks of the store, so that a loss or a recovery is detected without traffic.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The pause between a failed request and the check that confirms the failure. The store is lost after three failures,
/// which take about a third of a second. So a store that rejects writes is reported within a second, and a broken
/// connection has time to reconnect.
const CONFIRM_AFTER: Duration = Duration::from_millis(150);

impl Health {
    /// Returns a token if a request may be sent to the store; otherwise an error.
    pub(super) fn admit(&self, access: Access) -> Result<Sent, StoreError> {
        let availability = self.lock();
        if availability.is_lost() {
            return Err(StoreError::Unavailable("the store is lost, and checked in the background".into()));
        }
        Ok(availability.send(access))
    }

    /// Records a request's result. Returns the store's health if it changed.
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

/// Returns the message of an error that counts against the store's health; `None` if there is no such error. A record
/// that cannot be read does not count, because the store responded.
fn failure(error: Option<&StoreError>) -> Option<String> {
    error.filter(|error| !matches!(error, StoreError::Unreadable(_))).map(with_its_causes)
}

/// Returns an error's message with the messages of its causes.
fn with_its_causes(error: &StoreError) -> String {
    let chain = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Checks the store periodically, and lets circuits that left the fleet rejoin.
pub(super) async fn keep_watching(shared: Weak<Shared>) {
    loop {
        let Some(held) = TaskRef::of(&shared) else { return };
        let Some(fleet) = &held.fleet else { return };
        let (store, limit, doubt) =
            (fleet.store.current(), fleet.settings.store_timeout, Arc::clone(&fleet.health.doubt));
        let sent = fleet.health.lock().send_check();
        let began = Instant::now();
        let asked_at = held.times.now();
        // Do not keep the registry alive while waiting.
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
            // A check that used its whole timeout needs no further pause.
            tokio::time::sleep(CONFIRM_AFTER.saturating_sub(began.elapsed())).await;
        } else if timeout(CHECK_EVERY, doubt.notified()).await.is_ok() {
            tokio::time::sleep(CONFIRM_AFTER).await;
        }
    }
}

/// Checks that the store accepts writes and, if `reads` is set, that it responds to reads.
async fn check(store: &dyn Store, limit: Duration, reads: bool) -> Result<Answer<()>, StoreError> {
    let answer = timeout(limit, store.check_write()).await.unwrap_or(Err(StoreError::TimedOut { limit }))?;
    if reads {
        timeout(limit, store.read(&[])).await.unwrap_or(Err(StoreError::TimedOut { limit }))?;
    }
    Ok(answer)
}

impl Shared {
    /// Handles the store's loss or recovery. After a loss, all circuits leave the fleet; after a recovery, they rejoin
    /// it.
    pub(super) fn store_went(&self, news: StoreHealth) {
        let Some(fleet) = &self.fleet else { return };
        if news == StoreHealth::Connected {
            // All circuits rejoin in the background.
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

    /// Returns the result for every call while the store is unavailable. `None` if the store is available, or if calls
    /// are decided locally while it is not.
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
            // The store was lost again meanwhile, and the task that detected it may have set this before it was
            // cleared above.
            self.times.shut(true);
        }
        cells.iter().for_each(|cell| self.waiters.wake_one(cell));
    }
}
