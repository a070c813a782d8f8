//! Circuits that a fleet shares through a store. With local-first consistency, calls are decided by what this process
//! knows, and its counts are reported to the store in the background; with strict consistency, every call accesses
//! the store twice.
//!
//! | part | what it does |
//! | --- | --- |
//! | `queue` | the circuits to report, and when to report them |
//! | `report` | sends reports that are due, calls for other processes' reports, and applies the responses |
//! | `swap` | swaps records in; if a response is lost, reads the record instead of retrying |
//! | `lease` | takes a probe's lease, with one request per circuit at a time |
//! | `ramp`, `ramp_entry` | takes and releases slots in a recently closed circuit's ramp |
//! | `names` | the names of circuits in the store |
//! | `listen` | learns what other processes swapped in, and rereads what may have been missed |
//! | `strict` | strict consistency: accesses the store at every call |
//! | `runtime` | the runtime for the background tasks |
//! | `shared` | the state that all handles share |
//! | `running_tasks` | the background tasks that are running |
//! | `flush` | reports everything, and waits for the resulting transitions |
//! | `shutdown` | a process's last reports, when it drops its handles or its runtime |
//! | `store_handle` | the store, or the same one reopened for the last reports |
//! | `unreadable` | circuits whose records cannot be read, which this process does not share |
//! | `availability` | decides from the store's responses whether it can be used |
//! | `health` | checks the store, and determines the behaviour while it is unavailable |
//!
//! The core decides ([`breakerbox_core::fleet`]); this module moves data. Every request to the store has a timeout,
//! and the store has a small circuit breaker of its own, so that calls do not wait during an outage.

mod availability;
mod flush;
mod health;
mod lease;
mod listen;
mod names;
mod queue;
mod ramp;
mod ramp_entry;
mod report;
mod running_tasks;
mod runtime;
mod shared;
mod shutdown;
mod store_handle;
mod strict;
mod swap;
mod unreadable;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_core::fleet::{Consistency, Learnt, Member, ReportDue, StepContext, Waits};
use tokio::sync::{Semaphore, watch};

use self::availability::Access;
pub use self::flush::FlushError;
use self::health::Health;
pub use self::health::OnStoreLoss;
pub(crate) use self::lease::Lease;
use self::lease::Requests;
use self::names::Names;
pub use self::names::StoredKeys;
use self::queue::{Queue, Urgency};
use self::ramp::Ramps;
use self::running_tasks::RunningTasks;
pub use self::runtime::BackgroundTask;
pub(crate) use self::runtime::Runtime;
pub(crate) use self::shared::Shared;
use self::shutdown::ShutdownGuard;
pub(crate) use self::shutdown::last_handle;
use self::store_handle::StoreHandle;
pub(crate) use self::strict::Settling;
pub use self::swap::OverrideError;
use self::unreadable::Unread;
use crate::cell::Cell;
use crate::clock::Clock;
use crate::observe::StoreHealth;
use crate::registry::RegistryEntry;
use crate::store::{Answer, Store, StoreError};

/// The default timeout for requests to the store. The store's own timeout should be a little shorter, so that its
/// error, which states the operation, comes first.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_millis(500);

/// The settings of a process that shares its circuits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The interval at which pending reports are sent, in one batch.
    pub(crate) flush_every: Duration,
    /// The timeout for a request to the store.
    pub(crate) store_timeout: Duration,
    /// The interval at which circuits that are not closed are read again, together with a batch of the closed ones.
    pub(crate) reread_every: Duration,
    pub(crate) on_loss: OnStoreLoss,
    pub(crate) consistency: Consistency,
    /// Whether this process is the store's only user.
    pub(crate) is_exclusive: bool,
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
            is_exclusive: false,
            stored_keys: StoredKeys::default(),
        }
    }
}

/// The state that a process needs to share its circuits.
pub(crate) struct Fleet {
    pub(crate) store: StoreHandle,
    settings: Settings,
    health: Health,
    queue: Queue,
    requests: Requests,
    ramps: Ramps,
    unread: Unread,
    names: Names,
    /// The position among the closed circuits at which the next reread continues.
    reread_from: AtomicUsize,
    /// Limits the number of records being swapped in the background.
    swaps: Semaphore,
    /// Locked while the circuits are adjusted to a step of the store's clock, so that no response is applied to a
    /// circuit whose times are still by the previous clock.
    clock_steps: Mutex<()>,
    pub(crate) running_tasks: RunningTasks,
    /// The number of the registry's handles that users hold.
    pub(crate) handles: AtomicUsize,
    is_closed: AtomicBool,
    /// Ends the background loops, when set to true or dropped.
    stop: watch::Sender<bool>,
    pub(crate) runtime: Runtime,
}

impl Fleet {
    pub(crate) fn new(store: Arc<dyn Store>, settings: Settings, runtime: Runtime) -> Self {
        Self {
            store: StoreHandle::new(store),
            settings,
            health: Health::default(),
            queue: Queue::default(),
            requests: Requests::default(),
            ramps: Ramps::default(),
            unread: Unread::default(),
            names: Names::default(),
            reread_from: AtomicUsize::new(0),
            swaps: Semaphore::new(MAX_SWAPS),
            clock_steps: Mutex::default(),
            running_tasks: RunningTasks::default(),
            handles: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            stop: watch::Sender::new(false),
            runtime,
        }
    }

    fn waits(&self) -> Waits {
        let confirm = match self.settings.consistency {
            // All counts of all processes are already in the store.
            Consistency::Strict => Duration::ZERO,
            // There are no other processes.
            _ if self.settings.is_exclusive => Duration::ZERO,
            // A report is due with the next batch, and then in flight. If another process calls for it, it does not
            // wait for a batch in the distant future.
            _ => self.settings.flush_every.min(SUCCESS_REPORT_DELAY) + self.settings.store_timeout,
        };
        Waits { swap: self.settings.store_timeout, confirm }
    }

    pub(crate) fn health(&self) -> StoreHealth {
        self.health.report()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Ends the background loops, and stops all requests to the store.
    fn stop(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.stop.send_replace(true);
    }
}

/// Starts the background tasks. They run until the registry is closed or its last handle is dropped.
pub(crate) fn start(shared: &Arc<Shared>) {
    let Some(fleet) = &shared.fleet else { return };
    let loops = [Arc::downgrade(shared), Arc::downgrade(shared), Arc::downgrade(shared)];
    let [reporting, listening, watching] = loops;
    let until_stopped = |work| until_stopped(fleet.stop.subscribe(), work);
    let (guard, reporting) =
        (ShutdownGuard::new(shared), until_stopped(Box::pin(report::keep_reporting(reporting))));
    fleet.runtime.spawn(async move {
        reporting.await;
        guard.disarm();
    });
    // Subscribe now, not when the task first runs.
    let changes = fleet.store.changes();
    fleet.runtime.spawn(until_stopped(Box::pin(listen::keep_listening(listening, changes))));
    fleet.runtime.spawn(until_stopped(Box::pin(health::keep_watching(watching))));
}

/// Runs `work` until shutdown is requested, or the registry is dropped.
async fn until_stopped(mut stop: watch::Receiver<bool>, mut work: BackgroundTask) {
    let mut stopped = pin!(async move { stop.wait_for(|stop| *stop).await.map(drop) });
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => stopped.as_mut().poll(context).map(drop),
    })
    .await;
}

impl Shared {
    /// Performs one step of a shared circuit at `store_time`; if that is `None`, at an estimate of the store's time.
    pub(crate) fn step_member<R>(
        &self,
        cell: &Arc<Cell>,
        store_time: Option<Timestamp>,
        step: impl FnOnce(&mut Member, StepContext<'_>) -> R,
    ) -> R {
        let waits = self.fleet.as_ref().map_or(NO_WAITS, Fleet::waits);
        let (result, due) = cell.step(&self.times, |member, at| {
            let (draw, now) = (self.times.draw(), store_time.unwrap_or(at.store_time));
            let result = step(member, StepContext { policy: at.policy, draw, now, waits });
            (result, member.report_due(at.policy, now))
        });
        self.queue_report(cell, &due);
        result
    }

    /// Sends a read to the store, with a timeout. Fails at once if the store is lost.
    pub(crate) async fn read_store<T>(
        &self,
        fleet: &Fleet,
        request: impl Future<Output = Result<Answer<T>, StoreError>>,
    ) -> Result<Answer<T>, StoreError> {
        self.request(fleet, Access::Read, request).await
    }

    /// Sends a write to the store, with a timeout. Fails at once if the store is lost.
    pub(crate) async fn write_store<T>(
        &self,
        fleet: &Fleet,
        request: impl Future<Output = Result<Answer<T>, StoreError>>,
    ) -> Result<Answer<T>, StoreError> {
        self.request(fleet, Access::Write, request).await
    }

    async fn request<T>(
        &self,
        fleet: &Fleet,
        access: Access,
        request: impl Future<Output = Result<Answer<T>, StoreError>>,
    ) -> Result<Answer<T>, StoreError> {
        if fleet.is_closed() {
            return Err(StoreError::Unavailable(Box::new(FlushError::Closed)));
        }
        let limit = fleet.settings.store_timeout;
        let sent = fleet.health.admit(access)?;
        let sent_at = self.times.now();
        let answer = match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::TimedOut { limit }),
        };
        if let Ok(answer) = &answer {
            self.note_store_time(fleet, answer.now, sent_at);
        }
        if let Some(change) = fleet.health.settle(sent, answer.as_ref().err()) {
            self.store_went(change);
        }
        answer
    }

    /// Records the store's time from the response to a request that was sent at `sent_at`.
    fn note_store_time(&self, fleet: &Fleet, now: Timestamp, sent_at: Timestamp) {
        let _steps = fleet.clock_steps.lock().unwrap_or_else(PoisonError::into_inner);
        let local_time = self.times.now();
        let before = self.times.to_store_time(local_time);
        if self.times.note(now, sent_at) > CLOCK_STEP_MICROS {
            let after = self.times.to_store_time(local_time);
            self.registry.for_each(|cell| cell.clock_moved(&self.times, before, after));
        }
    }

    /// Applies the result of reading a record from the store: publishes the change, and swaps in a newer record.
    pub(crate) fn apply_learnt(self: &Arc<Self>, cell: &Arc<Cell>, learnt: Learnt) {
        if let Some(change) = learnt.change {
            self.observers.notify(cell.key(), change);
            self.waiters.wake_one(cell);
        }
        if learnt.overlapped {
            self.count_overlap();
        }
        if learnt.opened_locally {
            self.count_opened_here();
        }
        if let Some(proposal) = learnt.publish {
            self.swap_later(cell, *proposal);
        }
    }

    /// Sends a report to the store, now or through the queue.
    pub(crate) fn report(self: &Arc<Self>, cell: &Arc<Cell>, report: ReportDue) {
        match report {
            ReportDue::Swap(proposal) => self.swap_later(cell, *proposal),
            report => self.queue_report(cell, &report),
        }
    }

    /// Adds a circuit to the report queue, unless no report is due.
    fn queue_report(&self, cell: &Arc<Cell>, report: &ReportDue) {
        let Some(fleet) = self.fleet.as_ref().filter(|fleet| !fleet.is_closed()) else { return };
        let now = self.times.now();
        let with_batch = |at: Timestamp| fleet.settings.batch_time(at);
        let (urgency, at) = match report {
            ReportDue::Nothing | ReportDue::Swap(_) => return,
            // No caller waits for this single outcome: it was counted here while the store was unavailable.
            ReportDue::Now | ReportDue::One { .. } => (Urgency::High, now),
            ReportDue::In(wait) => (Urgency::High, now + *wait),
            ReportDue::Soon => (Urgency::High, with_batch(now)),
            ReportDue::After(wait) => (Urgency::High, with_batch(now + *wait)),
            ReportDue::Later => (Urgency::Low, with_batch(now + SUCCESS_REPORT_DELAY)),
        };
        fleet.queue.push(cell, urgency, at);
    }
}

impl Settings {
    /// Returns the time at which to send a report that is due at `at`. All reports that are due within `flush_every`
    /// are sent in one request, because a further request costs a store more than a further key in the same request.
    fn batch_time(&self, at: Timestamp) -> Timestamp {
        let every = u64::try_from(self.flush_every.as_micros()).unwrap_or(u64::MAX).max(1);
        Timestamp::from_micros((at.as_micros() / every).saturating_add(1).saturating_mul(every))
    }
}

/// How long a report may be delayed if it contains only successes for a circuit under suspicion.
const SUCCESS_REPORT_DELAY: Duration = Duration::from_secs(1);

/// The maximum number of concurrent swaps in the background.
const MAX_SWAPS: usize = 64;

/// The approximate number of circuits in one request to the store.
const BATCH: usize = 1_000;

/// The minimum deviation of the store's clock that counts as a step, in microseconds.
const CLOCK_STEP_MICROS: u64 = 1_000_000;

const NO_WAITS: Waits = Waits { swap: Duration::ZERO, confirm: Duration::ZERO };
