//! The dispatcher: its lanes and destinations, and how it runs, wakes and stops. [`turns`](super::turns) plans and
//! claims deliveries, [`attempt`](super::attempt) makes the requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox::throttle::Throttles;
use breakerbox::{Breakerbox, Epoch};
use breakerbox_core::Timestamp;
use breakerbox_egress::HttpSender;
use breakerbox_model::delivery::LocalFaultPace;
use breakerbox_model::delivery::lanes::{IdleLaneLimits, LaneCounts, Lanes};
use breakerbox_model::objects::{LaneId, Priority};
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::{Directory, Leased, Queue, WaitingLane};
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use super::destination::{Destination, Destinations};
use super::maintenance_records::MaintenanceRecords;
use super::own_outages::OwnOutages;
use crate::telemetry::Metrics;

/// Limits for dispatching deliveries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The maximum number of requests in flight in this process.
    pub slots: u32,
    /// How much longer a delivery's lease lasts than its request timeout.
    pub lease_margin: Duration,
    /// The maximum number of settlements waiting to be written to disk.
    pub max_unsettled: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { slots: 512, lease_margin: Duration::from_secs(30), max_unsettled: 4_096 }
    }
}

/// The dependencies of [`Dispatch`].
pub struct Parts {
    /// The queue of deliveries.
    pub queue: Arc<dyn Queue>,
    /// Disables endpoints, continues resend jobs, and deletes old history and reminders.
    pub maintenance_records: Arc<dyn MaintenanceRecords>,
    /// Tenants and endpoints, in memory.
    pub directory: Arc<Directory>,
    /// The circuits of all tenants.
    pub breakers: Breakerbox,
    /// The throttles of all destinations. `None` disables throttling, so no call is shed.
    pub throttles: Option<Throttles>,
    /// Sends HTTP requests.
    pub http_sender: Arc<dyn HttpSender>,
    /// The metrics that dispatch updates.
    pub metrics: Arc<Metrics>,
    /// The wall clock, for signatures and recorded times.
    pub wall: WallClock,
}

/// Sends deliveries to their receivers.
pub struct Dispatch {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) maintenance_records: Arc<dyn MaintenanceRecords>,
    pub(super) breakers: Breakerbox,
    pub(super) http_sender: Arc<dyn HttpSender>,
    pub(super) metrics: Arc<Metrics>,
    wall: WallClock,
    pub(super) settings: Settings,
    pub(super) destinations: Destinations,
    lanes: Mutex<Lanes>,
    /// The circuits that are not closed, each with the epoch of the first trip of its outage.
    pub(super) outages: Mutex<HashMap<Arc<str>, Epoch>>,
    /// The circuit keys of dynamic lanes.
    pub(super) dynamic: Mutex<HashMap<LaneId, Arc<str>>>,
    /// The circuits that an endpoint stopped using. Maintenance resets those that no other endpoint uses.
    pub(super) orphans: Mutex<Vec<Arc<str>>>,
    woken: Notify,
    /// Notified when an accepted event has deliveries that are not written yet.
    pub(super) deferred: Notify,
    /// Notified when a reminder has to be checked.
    wakeup: Arc<Notify>,
    /// The pace at which lanes retry after a local fault.
    pub(super) local_faults: Mutex<LocalFaultPace>,
    pub(super) unsettled: Semaphore,
    pub(super) own_outages: Arc<OwnOutages>,
    stopping: AtomicBool,
    running: AtomicUsize,
    idle: Notify,
}

/// Slots and lanes at one moment, for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DispatchSnapshot {
    /// The maximum number of requests in flight.
    pub slots: u32,
    /// The number of requests in flight.
    pub slots_in_use: u32,
    /// The number of lanes in each state, and of deliveries that wait in sleeping lanes or for a throttle.
    pub lanes: LaneCounts,
}

impl Dispatch {
    /// Creates a dispatcher, which does nothing until [`run`](Self::run) is called.
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        let Parts { queue, maintenance_records, directory, breakers, throttles, http_sender, metrics, wall } =
            parts;
        Arc::new(Self {
            queue,
            maintenance_records,
            http_sender,
            metrics,
            wall,
            settings,
            destinations: Destinations::new(directory, breakers.clone(), throttles),
            breakers,
            lanes: Mutex::new(Lanes::new(settings.slots)),
            outages: Mutex::default(),
            dynamic: Mutex::default(),
            orphans: Mutex::default(),
            woken: Notify::new(),
            deferred: Notify::new(),
            wakeup: Arc::default(),
            local_faults: Mutex::default(),
            unsettled: Semaphore::new(settings.max_unsettled),
            own_outages: Arc::default(),
            stopping: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
        })
    }

    /// Gives lanes their turns until [`stop`](Self::stop) is called.
    pub async fn run(self: Arc<Self>) {
        while !self.is_stopping() {
            // Subscribed before planning, so that no wakeup is missed in between.
            let woken = self.woken.notified();
            self.plan().await;
            let alarm = self.lanes().next_alarm();
            match alarm {
                None => woken.await,
                Some(at) => {
                    let _ = tokio::time::timeout(at.since(self.now()), woken).await;
                }
            }
        }
    }

    /// Stops starting requests, and waits at most `grace` until those in flight have ended and are settled. Returns
    /// whether all of them are settled.
    pub async fn stop(&self, grace: Duration) -> bool {
        self.stopping.store(true, Ordering::Release);
        self.woken.notify_waiters();
        self.woken.notify_one();
        let all_ended = async {
            loop {
                let idle = self.idle.notified();
                if self.running.load(Ordering::Acquire) == 0 {
                    return;
                }
                idle.await;
            }
        };
        tokio::time::timeout(grace, all_ended).await.is_ok()
    }

    /// Returns a snapshot of slots and lanes.
    #[must_use]
    pub fn snapshot(&self) -> DispatchSnapshot {
        let now = self.now();
        let lanes = self.lanes();
        DispatchSnapshot {
            slots: lanes.slots().total(),
            slots_in_use: lanes.slots().used(),
            lanes: lanes.count(now),
        }
    }

    /// Returns the number of requests in flight plus the settlements not yet written.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Returns the handle that is notified when a reminder has to be checked.
    pub(super) fn wakeup(&self) -> Arc<Notify> {
        Arc::clone(&self.wakeup)
    }

    /// Reports that a reminder has to be checked.
    pub(super) fn wake_scheduler(&self) {
        self.wakeup.notify_one();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.queue.now()
    }

    /// Returns the wall-clock time, for signatures that receivers verify and for recorded times.
    pub(super) fn wall(&self) -> Timestamp {
        (self.wall)()
    }

    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Spawns a task that [`stop`](Self::stop) waits for.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        struct Running(Arc<Dispatch>);
        impl Drop for Running {
            fn drop(&mut self) {
                if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.0.idle.notify_waiters();
                }
            }
        }
        self.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(self));
        tokio::spawn(async move {
            let _running = running;
            work.await;
        });
    }

    /// Reports that deliveries are waiting in these lanes.
    pub(super) fn arrived(&self, lanes_waiting: &[WaitingLane]) {
        if lanes_waiting.is_empty() {
            return;
        }
        let now = self.now();
        for waiting in lanes_waiting {
            let Some(max_in_flight) = self.destinations.max_in_flight(waiting) else { continue };
            let mut lanes = self.lanes();
            if let Some(key) = &waiting.dynamic {
                // Under the lanes' lock, as in removal, so that every known lane has its key.
                let mut dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
                dynamic.entry(waiting.lane).or_insert_with(|| Arc::clone(key));
            }
            lanes.register(waiting.lane, &waiting.tenant, max_in_flight);
            for (priority, due) in Priority::ALL.into_iter().zip(waiting.next_due) {
                if let Some(due_at) = due {
                    lanes.arrived(waiting.lane, priority, waiting.count, due_at, now);
                }
            }
        }
        self.wake();
    }

    /// Removes idle lanes, each with its destination and its circuit key.
    pub(super) fn forget_idle(&self, keep: &IdleLaneLimits) {
        let now = self.now();
        let known = {
            let mut lanes = self.lanes();
            let mut dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.tidy(keep, |lane| dynamic.contains_key(&lane), now);
            dynamic.retain(|lane, _| lanes.contains(*lane));
            lanes.known()
        };
        self.destinations.tidy(|lane| known.contains(&lane));
    }

    /// Returns the destination of a lane. `None` if the lane is unknown, or its endpoint or tenant was deleted.
    pub(super) fn destination_of(&self, lane: LaneId) -> Option<Arc<Destination>> {
        let tenant = self.lanes().tenant(lane)?.clone();
        let key = || self.dynamic.lock().unwrap_or_else(PoisonError::into_inner).get(&lane).cloned();
        self.destinations.find(lane, &tenant, key, self.now())
    }

    /// Ends the lease of a delivery that was not attempted, so that it waits in its lane again.
    pub(super) async fn hand_back(&self, leased: Leased) {
        self.metrics.handed_back.inc();
        match self.queue.hand_back(leased.id, leased.lease).await {
            Ok(_) => {
                let now = self.now();
                // `created_at` is wall-clock time.
                let due_at = leased.pulled_from.unwrap_or_else(|| leased.created_at.min(now));
                self.lanes().arrived(leased.lane, leased.priority, 1, due_at, now);
                self.wake();
            }
            Err(error) => {
                warn!(delivery = %leased.id, %error, "can't hand back a delivery; it waits until its lease expires");
            }
        }
    }

    pub(super) fn lease(&self, destination: &Destination) -> Duration {
        destination.timeout() + self.settings.lease_margin
    }

    /// Returns the epoch in which the circuit's outage began.
    pub(super) fn outage(&self, destination: &Destination) -> Epoch {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let known = outages.get(destination.key()).copied();
        known.unwrap_or_else(|| {
            // The outage began before this process started.
            let epoch = destination.circuit.record().epoch;
            outages.insert(Arc::from(destination.key()), epoch);
            epoch
        })
    }
}
