//! Dispatch: what is known of lanes and destinations, and how it runs, is woken and stops. Who has a turn and what comes of it
//! is in [`turns`](super::turns), what becomes of a request in [`attempt`](super::attempt).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox::throttle::Throttles;
use breakerbox::{Breakerbox, Epoch};
use breakerbox_core::Timestamp;
use breakerbox_egress::Courier;
use breakerbox_model::delivery::LocalFaultPace;
use breakerbox_model::delivery::lanes::{KeepIdle, LaneCounts, Lanes};
use breakerbox_model::objects::{LaneId, Priority};
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::{Directory, Leased, Queue, WaitingLane};
use tokio::sync::{Notify, Semaphore};
use tracing::warn;

use super::chores::Chores;
use super::destination::{Destination, Destinations};
use crate::telemetry::Metrics;

/// The numbers of dispatch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Requests in flight, all in all.
    pub slots: u32,
    /// How much longer than a request's time limit its lease is.
    pub lease_margin: Duration,
    /// How many settlements may be on their way to the disk.
    pub max_unsettled: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { slots: 512, lease_margin: Duration::from_secs(30), max_unsettled: 4_096 }
    }
}

/// What dispatch works with.
pub struct Parts {
    /// Where deliveries wait.
    pub queue: Arc<dyn Queue>,
    /// What it has others write down.
    pub chores: Arc<dyn Chores>,
    /// Tenants and endpoints.
    pub directory: Arc<Directory>,
    /// All circuits.
    pub breakers: Breakerbox,
    /// All throttles; none: nothing is shed.
    pub throttles: Option<Throttles>,
    /// Makes requests.
    pub courier: Arc<dyn Courier>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The wall clock.
    pub wall: WallClock,
}

/// Moves deliveries to their receivers.
pub struct Dispatch {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) chores: Arc<dyn Chores>,
    pub(super) breakers: Breakerbox,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) metrics: Arc<Metrics>,
    wall: WallClock,
    pub(super) settings: Settings,
    pub(super) destinations: Destinations,
    lanes: Mutex<Lanes>,
    /// Since when circuits are out, by the epoch of their first trip.
    pub(super) outages: Mutex<HashMap<Arc<str>, Epoch>>,
    /// Keys of the circuits of dynamic lanes.
    pub(super) dynamic: Mutex<HashMap<LaneId, Arc<str>>>,
    /// Circuits of endpoints that were deleted.
    pub(super) orphans: Mutex<Vec<Arc<str>>>,
    woken: Notify,
    /// Notified when an event was accepted whose deliveries are not all written.
    pub(super) deferred: Notify,
    /// Rung when there is something to decide about a reminder.
    bell: Arc<Notify>,
    /// When lanes try again that met a fault of the gateway's own.
    pub(super) local_faults: Mutex<LocalFaultPace>,
    pub(super) unsettled: Semaphore,
    stopping: AtomicBool,
    running: AtomicUsize,
    idle: Notify,
}

/// What dispatch is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Requests in flight that there may be.
    pub slots: u32,
    /// Requests in flight.
    pub slots_in_use: u32,
    /// Lanes by state, and what waits in those that sleep or for a throttle.
    pub lanes: LaneCounts,
}

impl Dispatch {
    /// Nothing is under way yet: see [`run`](Self::run).
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        let Parts { queue, chores, directory, breakers, throttles, courier, metrics, wall } = parts;
        Arc::new(Self {
            queue,
            chores,
            courier,
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
            bell: Arc::default(),
            local_faults: Mutex::default(),
            unsettled: Semaphore::new(settings.max_unsettled),
            stopping: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
        })
    }

    /// Gives turns until it is told to stop.
    pub async fn run(self: Arc<Self>) {
        while !self.is_stopping() {
            // Before planning: what happens meanwhile is not missed.
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

    /// Begins nothing new, and waits until what is in flight has ended and is settled, at most so long. Answers whether all
    /// of it has.
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

    /// What it is at.
    #[must_use]
    pub fn look(&self) -> Seen {
        let now = self.now();
        let lanes = self.lanes();
        Seen { slots: lanes.slots().total(), slots_in_use: lanes.slots().used(), lanes: lanes.count(now) }
    }

    /// Requests in flight, and settlements on their way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Rung when there is something to decide about a reminder.
    pub(super) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// There is something to decide about a reminder.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.queue.now()
    }

    /// The wall-clock time: for what receivers check, and for what is recorded.
    pub(super) fn wall(&self) -> Timestamp {
        (self.wall)()
    }

    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Runs a piece of work that a stop waits for.
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

    /// Something waits in these lanes.
    pub(super) fn arrived(&self, lanes_waiting: &[WaitingLane]) {
        if lanes_waiting.is_empty() {
            return;
        }
        let now = self.now();
        for waiting in lanes_waiting {
            let Some(max_in_flight) = self.destinations.max_in_flight(waiting) else { continue };
            let mut lanes = self.lanes();
            if let Some(key) = &waiting.dynamic {
                // Under the lanes' lock, as it is forgotten: a lane that is known has its key.
                let mut dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
                dynamic.entry(waiting.lane).or_insert_with(|| Arc::clone(key));
            }
            lanes.know(waiting.lane, &waiting.tenant, max_in_flight);
            for (priority, due) in Priority::ALL.into_iter().zip(waiting.next_due) {
                if let Some(due_at) = due {
                    lanes.arrived(waiting.lane, priority, waiting.count, due_at, now);
                }
            }
        }
        self.wake();
    }

    /// Forgets idle lanes, and with each of them its destination and its circuit's key.
    pub(super) fn forget_idle(&self, keep: &KeepIdle) {
        let now = self.now();
        let known = {
            let mut lanes = self.lanes();
            let mut dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.tidy(keep, |lane| dynamic.contains_key(&lane), now);
            dynamic.retain(|lane, _| lanes.knows(*lane));
            lanes.known()
        };
        self.destinations.tidy(|lane| known.contains(&lane));
    }

    /// The destination of a lane that has had deliveries before.
    pub(super) fn destination_of(&self, lane: LaneId) -> Option<Arc<Destination>> {
        let tenant = self.lanes().tenant(lane)?.clone();
        let key = || self.dynamic.lock().unwrap_or_else(PoisonError::into_inner).get(&lane).cloned();
        self.destinations.find(lane, &tenant, key, self.now())
    }

    /// Gives back a delivery that was leased and not tried.
    pub(super) async fn hand_back(&self, leased: Leased) {
        self.metrics.handed_back.inc();
        match self.queue.hand_back(leased.id, leased.lease).await {
            Ok(_) => {
                let now = self.now();
                // It was made by the wall clock.
                let due_at = leased.pulled_from.unwrap_or_else(|| leased.created_at.min(now));
                self.lanes().arrived(leased.lane, leased.priority, 1, due_at, now);
                self.wake();
            }
            Err(error) => {
                warn!(delivery = %leased.id, %error, "can't hand back; it waits until its lease ends");
            }
        }
    }

    pub(super) fn lease(&self, destination: &Destination) -> Duration {
        destination.timeout() + self.settings.lease_margin
    }

    /// Since when a circuit is out.
    pub(super) fn outage(&self, destination: &Destination) -> Epoch {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let known = outages.get(destination.key()).copied();
        known.unwrap_or_else(|| {
            // It was out before this process began.
            let epoch = destination.circuit.record().epoch;
            outages.insert(Arc::from(destination.key()), epoch);
            epoch
        })
    }
}
