//! Circuits that a fleet shares through a store. Local-first, calls are answered from what this process knows, and what it
//! counts is told to the store in the background; strictly, every call goes to the store twice.
//!
//! | part | what it does |
//! | --- | --- |
//! | `queue` | which circuits are to be told about, and when |
//! | `tell` | tells the store what was counted, and does what comes of it |
//! | `swap` | swaps records in; a lost answer is looked up, never repeated |
//! | `lease` | takes the lease of a probe, one request for each circuit at a time |
//! | `names` | what the store calls circuits |
//! | `listen` | learns what others swapped in, and reads again what may have been missed |
//! | `strict` | asks and tells the store at every call, for those who want that |
//! | `runtime` | where all of this runs |
//! | `unreadable` | circuits whose record can't be read: each goes on alone |
//! | `health` | whether the store is there; what is done while it is away |
//!
//! The core decides ([`breakerbox_core::fleet`]); here data is moved. Every request to the store has a time limit, and a
//! small circuit of its own stands before it, so that an outage costs no waiting.

mod health;
mod lease;
mod listen;
mod names;
mod queue;
mod runtime;
mod strict;
mod swap;
mod tell;
mod unreadable;

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_core::fleet::{Consistency, Learnt, Member, Moment, Tell, Waits};
use tokio::sync::Semaphore;

use self::health::Health;
pub use self::health::{OnStoreLoss, StoreHealth};
pub(crate) use self::lease::Lease;
use self::lease::Requests;
use self::names::Names;
pub use self::names::StoredKeys;
use self::queue::{News, Queue};
pub use self::runtime::BackgroundTask;
pub(crate) use self::runtime::Runtime;
pub(crate) use self::strict::Settling;
use self::unreadable::Unread;
use crate::breakerbox::Shared;
use crate::cell::{Cell, HANDED_IN};
use crate::clock::Clock;
use crate::registry::Kept;
use crate::store::{Answer, Store, StoreError};

/// How long a store may take to answer if nothing is said. A store's own limit is a little shorter: it knows what it waits
/// for, and says so.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_millis(500);

/// How a process shares its circuits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How often counts with failures are told.
    pub(crate) flush_every: Duration,
    /// How long the store may take to answer.
    pub(crate) store_timeout: Duration,
    /// How often what is not closed is read again.
    pub(crate) reread_every: Duration,
    pub(crate) on_loss: OnStoreLoss,
    pub(crate) consistency: Consistency,
    /// Nobody else uses the store.
    pub(crate) is_alone: bool,
    pub(crate) stored_keys: StoredKeys,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flush_every: Duration::from_millis(100),
            store_timeout: DEFAULT_STORE_TIMEOUT,
            reread_every: Duration::from_secs(2),
            on_loss: OnStoreLoss::Local,
            consistency: Consistency::LocalFirst,
            is_alone: false,
            stored_keys: StoredKeys::default(),
        }
    }
}

/// What a process needs to share its circuits.
pub(crate) struct Fleet {
    pub(crate) store: Arc<dyn Store>,
    settings: Settings,
    health: Health,
    queue: Queue,
    requests: Requests,
    unread: Unread,
    names: Names,
    /// How many records may be on their way into the store in the background.
    swaps: Semaphore,
    pub(crate) runtime: Runtime,
}

impl Fleet {
    pub(crate) fn new(store: Arc<dyn Store>, settings: Settings, runtime: Runtime) -> Self {
        Self {
            store,
            settings,
            health: Health::new(settings.store_timeout),
            queue: Queue::default(),
            requests: Requests::default(),
            unread: Unread::default(),
            names: Names::default(),
            swaps: Semaphore::new(SWAPS),
            runtime,
        }
    }

    fn waits(&self) -> Waits {
        let confirm = match self.settings.consistency {
            // Whatever anybody counted is in the store.
            Consistency::Strict => Duration::ZERO,
            // There is nobody else.
            _ if self.settings.is_alone => Duration::ZERO,
            // Told after so long, and then on its way.
            _ => HANDED_IN + self.settings.store_timeout,
        };
        Waits { swap: self.settings.store_timeout, confirm }
    }

    pub(crate) fn health(&self) -> StoreHealth {
        self.health.report()
    }
}

/// Starts what goes on in the background, until nobody holds the registry any more.
pub(crate) fn start(shared: &Arc<Shared>) {
    let Some(fleet) = &shared.fleet else { return };
    let loops = [Arc::downgrade(shared), Arc::downgrade(shared), Arc::downgrade(shared)];
    let [telling, listening, watching] = loops;
    fleet.runtime.spawn(tell::keep_telling(telling));
    // From now on, not from when the task first runs.
    let changes = fleet.store.changes();
    fleet.runtime.spawn(listen::keep_listening(listening, changes));
    fleet.runtime.spawn(health::keep_watching(watching));
}

impl Shared {
    /// One step of a shared circuit, at the store's time if it was just told.
    pub(crate) fn converse<R>(
        &self,
        cell: &Arc<Cell>,
        told: Option<Timestamp>,
        step: impl FnOnce(&mut Member, Moment<'_>) -> R,
    ) -> R {
        let waits = self.fleet.as_ref().map_or(NO_WAITS, Fleet::waits);
        let result = cell.step(&self.times, |member, at| {
            let draw = self.times.draw();
            step(member, Moment { policy: at.policy, draw, now: told.unwrap_or(at.there), waits })
        });
        if cell.counts_aside() {
            // Somebody must come for it, though nobody calls any more.
            self.tell_after(cell, News::Good, HANDED_IN);
        }
        result
    }

    /// Asks the store something: in time, and only while it is there.
    pub(crate) async fn ask_store<T>(
        &self,
        fleet: &Fleet,
        request: impl Future<Output = Result<Answer<T>, StoreError>>,
    ) -> Result<Answer<T>, StoreError> {
        let limit = fleet.settings.store_timeout;
        let permit = fleet.health.ask(&self.times)?;
        let asked_at = self.times.now();
        let answer = match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::TimedOut { limit }),
        };
        if let Ok(answer) = &answer {
            let here = self.times.now();
            let before = self.times.there(here);
            if self.times.note(answer.now, asked_at) > A_STEP {
                let after = self.times.there(here);
                self.registry.for_each(|cell| cell.clock_moved(&self.times, before, after));
            }
        }
        if let Some(news) = permit.settle(answer.as_ref().err()) {
            self.store_went(news);
        }
        answer
    }

    /// Does what follows from a record that was learnt.
    pub(crate) fn took(self: &Arc<Self>, cell: &Arc<Cell>, learnt: Learnt) {
        if let Some(change) = learnt.change {
            self.observers.tell(cell.key(), change);
            self.waiters.wake_one(cell);
        }
        if learnt.overlapped {
            self.count_overlap();
        }
        if let Some(proposal) = learnt.publish {
            self.swap_later(cell, *proposal);
        }
    }

    /// Sees to it that the store hears what it should.
    pub(crate) fn tell(self: &Arc<Self>, cell: &Arc<Cell>, tell: Tell) {
        let Some(fleet) = &self.fleet else { return };
        let (news, wait) = match tell {
            Tell::Swap(proposal) => {
                self.swap_later(cell, *proposal);
                (News::Good, HANDED_IN)
            }
            // Of a single outcome, which nobody waits for: it was counted here while the store was away.
            Tell::Now | Tell::One { .. } => (News::Bad, Duration::ZERO),
            Tell::Soon => (News::Bad, fleet.settings.flush_every),
            Tell::In(wait) => (News::Bad, wait),
            Tell::Later | Tell::Nothing => (News::Good, HANDED_IN),
        };
        self.tell_after(cell, news, wait);
    }

    fn tell_after(&self, cell: &Arc<Cell>, news: News, wait: Duration) {
        if let Some(fleet) = &self.fleet {
            fleet.queue.push(cell, news, self.times.now() + wait);
        }
    }
}

/// How many records are swapped in at once in the background.
const SWAPS: usize = 64;

/// About how many circuits the store is asked or told at once.
const BATCH: usize = 1_000;

/// By how many microseconds a clock must be elsewhere for it to be called a step.
const A_STEP: u64 = 1_000_000;

const NO_WAITS: Waits = Waits { swap: Duration::ZERO, confirm: Duration::ZERO };
