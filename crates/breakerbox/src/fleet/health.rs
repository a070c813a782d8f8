//! Whether the store is there, and what is done while it is away.
//!
//! A small circuit stands before the store: after three failures in a row no request is made but one probe at a time, and
//! the process goes on as `on_store_loss` says. When the store is back, every circuit joins the fleet again, at once; until
//! all have, what `on_store_loss` says to everybody still holds, or each process would probe for itself meanwhile.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use breakerbox_core::{Circuit, Decision, Outcome, Permit, Policy, Refusal, Status, Timestamp};

use tokio::sync::Notify;

use super::{BATCH, Fleet};
use crate::breakerbox::Shared;
use crate::clock::{Clock, Times};
use crate::store::StoreError;

/// What a process does while the store is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnStoreLoss {
    /// Each process goes on with circuits of its own, from what it knows.
    #[default]
    Local,
    /// Every call is admitted.
    Admit,
    /// Every call is refused.
    Refuse,
}

/// How the store is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreHealth {
    /// It answers.
    Connected,
    /// It does not. Circuits are not shared meanwhile.
    Degraded {
        /// What it said last, or that it said nothing.
        error: String,
    },
}

impl fmt::Display for StoreHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected"),
            Self::Degraded { error } => write!(f, "degraded: {error}"),
        }
    }
}

pub(super) struct Health {
    policy: Policy,
    circuit: Mutex<(Circuit, Option<String>)>,
    /// Some circuits went their own way, though the store was not lost.
    absentees: AtomicBool,
    /// The store is back, and that should not wait for the next look.
    is_back: Arc<Notify>,
}

/// How often a store that is away is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How often is looked whether it may be tried again. Others try it too, so the time moves.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Health {
    pub(super) fn new(store_timeout: Duration) -> Self {
        let policy = Policy::builder()
            .failure_rate(None)
            .consecutive_failures(3)
            .cool_off(TRY_AGAIN)
            .cool_off_factor(1.0)
            .jitter(0)
            .probes(1)
            .probe_timeout(store_timeout.max(Duration::from_millis(1)))
            .ramp_cap(None)
            .build()
            .expect("all of these are within their bounds");
        let circuit = Circuit::new(&policy, Timestamp::ZERO);
        Self {
            policy,
            circuit: Mutex::new((circuit, None)),
            absentees: AtomicBool::new(false),
            is_back: Arc::default(),
        }
    }

    /// Whether the store may be asked.
    pub(super) fn ask<'h>(&'h self, times: &'h Times) -> Result<Request<'h>, StoreError> {
        match self.lock().0.ask(&self.policy, times.draw(), times.now()).decision {
            Decision::Admitted(permit) => Ok(Request { health: self, times, permit: Some(permit) }),
            Decision::Refused(_) => Err(StoreError::Unavailable("it does not answer".into())),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lock().0.status() != Status::Closed
    }

    pub(super) fn note_absentee(&self) {
        self.absentees.store(true, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> StoreHealth {
        let held = self.lock();
        match held.0.status() {
            Status::Closed => StoreHealth::Connected,
            _ => StoreHealth::Degraded { error: held.1.clone().unwrap_or_default() },
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Circuit, Option<String>)> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request to the store. One that nobody waits for any more says nothing about it.
pub(super) struct Request<'h> {
    health: &'h Health,
    times: &'h Times,
    permit: Option<Permit>,
}

impl Request<'_> {
    /// Takes note of an answer, or of none. Returns what is new.
    pub(super) fn settle(mut self, error: Option<&StoreError>) -> Option<StoreHealth> {
        let (permit, now) = (self.permit.take()?, self.times.now());
        let latency = now.since(permit.started_at());
        let outcome = match error {
            // It answered, if only nonsense.
            None | Some(StoreError::Unreadable(_)) => Outcome::success(latency),
            Some(_) => Outcome::failure(latency),
        };
        let mut held = self.health.lock();
        let was_lost = held.0.status() != Status::Closed;
        held.0.settle(permit, &outcome, &self.health.policy, self.times.draw(), now);
        let is_lost = held.0.status() != Status::Closed;
        held.1 = error.map(with_its_causes).or_else(|| held.1.take()).filter(|_| is_lost);
        let error = held.1.clone().unwrap_or_default();
        match (was_lost, is_lost) {
            (false, true) => Some(StoreHealth::Degraded { error }),
            (true, false) => Some(StoreHealth::Connected),
            _ => None,
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let (draw, now) = (self.times.draw(), self.times.now());
            self.health.lock().0.settle(permit, &Outcome::ignored(), &self.health.policy, draw, now);
        }
    }
}

/// What an error says, and what its causes say.
fn with_its_causes(error: &StoreError) -> String {
    let chain = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Tries a store that is away, and brings back whoever went its own way.
pub(super) async fn keep_watching(shared: Weak<Shared>) {
    loop {
        let Some(held) = shared.upgrade() else { return };
        let Some(fleet) = &held.fleet else { return };
        if fleet.health.is_lost() {
            let _ = held.ask_store(fleet, fleet.store.read(&[])).await;
        } else if fleet.health.absentees.swap(false, Ordering::Relaxed) {
            held.rejoin_all(fleet).await;
        }
        let wait = if fleet.health.is_lost() { LOOK_AGAIN } else { TRY_AGAIN };
        let is_back = Arc::clone(&fleet.health.is_back);
        // Nobody is kept alive by this.
        drop(held);
        let _ = tokio::time::timeout(wait, is_back.notified()).await;
    }
}

impl Shared {
    /// The store went away, or came back.
    pub(super) fn store_went(&self, news: StoreHealth) {
        let Some(fleet) = &self.fleet else { return };
        if news == StoreHealth::Connected {
            // All of them join again, in the background.
            fleet.health.note_absentee();
            fleet.health.is_back.notify_one();
        } else {
            self.times.shut(fleet.settings.on_loss != OnStoreLoss::Local);
            for cell in self.registry.by_parts().flatten() {
                self.converse(&cell, None, |member, _| member.leave());
                self.waiters.wake_one(&cell);
            }
        }
        self.observers.tell_store(&news);
    }

    /// What is said to everybody while the store is away, if that is not each process's own affair.
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
            // It was lost again meanwhile, and whoever noticed may have said so too early.
            self.times.shut(true);
        }
        cells.iter().for_each(|cell| self.waiters.wake_one(cell));
    }
}
