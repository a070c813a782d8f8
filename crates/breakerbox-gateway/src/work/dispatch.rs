//! Dispatch: lanes get their turns, gates are asked, rows are claimed, requests are made. One loop plans; each claim and each
//! attempt is a task of its own, and their number is that of the slots.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox::throttle::Throttles;
use breakerbox::{Breakerbox, Epoch};
use breakerbox_core::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tracing::{error, warn};

use super::chores::Chores;
use super::destination::{Destination, Destinations};
use super::gates::{self, Pass, Refused, Said};
use crate::delivery::lanes::{Lanes, Sleep, Turn};
use crate::objects::{LaneId, Priority};
use crate::queue::{Claim, Claimed, Directory, Leased, Queue, WaitingLane};
use crate::send::Courier;
use crate::telemetry::Metrics;

/// How many turns go into one claim at the most, so that a commit stays short.
const TURNS_AT_ONCE: usize = 256;

/// How long a lane is left alone whose claim failed.
const AFTER_A_FAULT: Duration = Duration::from_millis(500);

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
}

/// Moves deliveries to their receivers.
pub struct Dispatch {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) chores: Arc<dyn Chores>,
    pub(super) breakers: Breakerbox,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) metrics: Arc<Metrics>,
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
    /// Lanes that are known.
    pub lanes: usize,
    /// Lanes that sleep.
    pub lanes_asleep: usize,
    /// Deliveries that wait in those, as far as is known.
    pub parked: u64,
}

/// Turns of one lane that passed all gates, and wait for their rows.
struct Planned {
    destination: Arc<Destination>,
    passes: [Vec<Pass>; 4],
}

impl Dispatch {
    /// Nothing is under way yet: see [`run`](Self::run).
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        let Parts { queue, chores, directory, breakers, throttles, courier, metrics } = parts;
        Arc::new(Self {
            queue,
            chores,
            courier,
            metrics,
            settings,
            destinations: Destinations::new(directory, breakers.clone(), throttles),
            breakers,
            lanes: Mutex::new(Lanes::new(settings.slots)),
            outages: Mutex::default(),
            dynamic: Mutex::default(),
            orphans: Mutex::default(),
            woken: Notify::new(),
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
        let lanes = self.lanes();
        let (known, asleep, parked) = lanes.count();
        let (slots, slots_in_use) = (lanes.slots().total(), lanes.slots().used());
        Seen { slots, slots_in_use, lanes: known, lanes_asleep: asleep, parked }
    }

    /// Requests in flight, and settlements on their way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.queue.now()
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
            if let Some(key) = &waiting.dynamic {
                let mut dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
                dynamic.entry(waiting.lane).or_insert_with(|| Arc::clone(key));
            }
            let Some(destination) = self.destination(waiting) else { continue };
            let mut lanes = self.lanes();
            lanes.know(waiting.lane, &waiting.tenant, destination.max_in_flight());
            for (priority, due) in Priority::ALL.into_iter().zip(waiting.next_due) {
                if let Some(due_at) = due {
                    lanes.arrived(waiting.lane, priority, waiting.count, due_at, now);
                }
            }
        }
        self.wake();
    }

    fn destination(&self, waiting: &WaitingLane) -> Option<Arc<Destination>> {
        self.destinations.find(waiting.lane, &waiting.tenant, || waiting.dynamic.clone(), self.now())
    }

    /// The destination of a lane that has had deliveries before.
    pub(super) fn destination_of(&self, lane: LaneId) -> Option<Arc<Destination>> {
        let tenant = self.lanes().tenant(lane)?.clone();
        let key = || self.dynamic.lock().unwrap_or_else(PoisonError::into_inner).get(&lane).cloned();
        self.destinations.find(lane, &tenant, key, self.now())
    }

    /// Gives out turns, asks the gates for each, and sends the claims off.
    async fn plan(self: &Arc<Self>) {
        loop {
            // Whoever can't write what became of requests makes no more of them.
            if let Ok(permit) = self.unsettled.acquire().await {
                drop(permit);
            }
            if self.is_stopping() {
                return;
            }
            let now = self.now();
            self.lanes().tick(now);
            let mut planned = HashMap::<LaneId, Planned>::new();
            let mut turns = 0;
            while turns < TURNS_AT_ONCE {
                let Some(turn) = self.lanes().next(now) else { break };
                turns += 1;
                self.take_turn(turn, &mut planned, now);
            }
            if !planned.is_empty() {
                planned.keys().for_each(|lane| self.lanes().claiming(*lane));
                let dispatch = Arc::clone(self);
                self.spawn(async move { dispatch.claim(planned).await });
            }
            if turns < TURNS_AT_ONCE {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn take_turn(self: &Arc<Self>, turn: Turn, planned: &mut HashMap<LaneId, Planned>, now: Timestamp) {
        let Some(destination) = self.destination_of(turn.lane) else {
            // Its endpoint is gone, and so are its deliveries, or will be in a moment.
            self.lanes().refused(turn.lane, turn.priority, Sleep::Disabled, now);
            return;
        };
        let priority = turn.priority.unwrap_or(Priority::High);
        match gates::ask(&destination, priority, now) {
            Said::Pass(pass) => match turn.priority {
                Some(priority) => {
                    let planned = planned.entry(turn.lane).or_insert_with(|| Planned::new(destination));
                    planned.passes[priority.index()].push(pass);
                }
                // The circuit closed meanwhile, and nothing is due.
                None => {
                    gates::give_token_back(&destination);
                    self.lanes().unused(turn.lane, None, now);
                }
            },
            Said::Refused(refused) => self.refused(turn.lane, turn.priority, priority, refused),
            Said::Wait => {
                // One asks for all of a lane: the others' turns would only be refused.
                self.lanes().claiming(turn.lane);
                let dispatch = Arc::clone(self);
                self.spawn(async move { dispatch.ask_and_claim(destination, turn).await });
            }
        }
    }

    /// A gate refused what had a slot, by a turn or without one.
    pub(super) fn refused(&self, lane: LaneId, turn: Option<Priority>, priority: Priority, refused: Refused) {
        let now = self.now();
        self.metrics.refusals.of(refused.gate()).inc();
        match (refused, turn) {
            (Refused::Sleep(sleep), _) => self.lanes().refused(lane, turn, sleep, now),
            (Refused::Shed(until), Some(turn)) => self.lanes().shed(lane, turn, until, now),
            (Refused::Shed(until), None) => {
                let mut lanes = self.lanes();
                lanes.unused(lane, None, now);
                lanes.hold(lane, priority, until, now);
            }
        }
        self.wake();
    }

    /// A turn of a lane whose circuit's store has to be asked.
    async fn ask_and_claim(self: Arc<Self>, destination: Arc<Destination>, turn: Turn) {
        let priority = turn.priority.unwrap_or(Priority::High);
        let asked = gates::ask_patiently(&destination, priority, self.now()).await;
        let now = self.now();
        let pass = match asked {
            Ok(pass) => pass,
            Err(refused) => {
                self.lanes().claim_failed(turn.lane, 0, now);
                self.refused(turn.lane, turn.priority, priority, refused);
                return;
            }
        };
        let lease = self.lease(&destination);
        let (claim, outage) = if pass.permit.is_probe() {
            let outage = self.outage(&destination);
            (Claim::Probe { lane: turn.lane, outage, lease }, Some(outage))
        } else if let Some(priority) = turn.priority {
            (Claim::Due { lane: turn.lane, priority, limit: 1, lease }, None)
        } else {
            gates::give_token_back(&destination);
            self.lanes().claim_failed(turn.lane, 1, now);
            return;
        };
        self.metrics.claims.inc();
        match self.queue.claim(vec![claim]).await {
            Ok(claimed) => {
                let mut pass = Some(pass);
                self.start(&destination, 1, claimed, |_| pass.take(), outage);
                if pass.is_some() {
                    gates::give_token_back(&destination);
                }
            }
            Err(error) => self.claim_failed(&destination, 1, &error),
        }
    }

    async fn claim(self: Arc<Self>, planned: HashMap<LaneId, Planned>) {
        let mut claims = Vec::with_capacity(planned.len());
        let mut lanes = Vec::with_capacity(planned.len());
        for (lane, planned) in planned {
            let lease = self.lease(&planned.destination);
            let before = claims.len();
            for priority in Priority::ALL {
                let limit = count(planned.passes[priority.index()].len());
                if limit > 0 {
                    claims.push(Claim::Due { lane, priority, limit, lease });
                }
            }
            lanes.push((planned, claims.len() - before));
        }
        self.metrics.claims.inc_by(count(claims.len()).into());
        match self.queue.claim(claims).await {
            Ok(claimed) => {
                let mut claimed = claimed.into_iter();
                for (mut planned, claims) in lanes {
                    let asked = count(planned.passes.iter().map(Vec::len).sum());
                    let claimed: Vec<_> = claimed.by_ref().take(claims).collect();
                    let passes = &mut planned.passes;
                    let pass = |priority: Priority| passes[priority.index()].pop();
                    self.start(&planned.destination, asked, claimed, pass, None);
                    for _ in planned.passes.iter().flatten() {
                        gates::give_token_back(&planned.destination);
                    }
                }
            }
            Err(error) => {
                for (planned, _) in lanes {
                    let asked = planned.passes.iter().map(Vec::len).sum();
                    self.claim_failed(&planned.destination, asked, &error);
                }
            }
        }
    }

    /// Begins the attempts of what was claimed for a lane.
    fn start(
        self: &Arc<Self>,
        destination: &Arc<Destination>,
        asked: u32,
        claimed: Vec<Claimed>,
        mut pass: impl FnMut(Priority) -> Option<Pass>,
        outage: Option<Epoch>,
    ) {
        let now = self.now();
        let next_due = claimed.last().map_or([None; 4], |claimed| claimed.next_due);
        let deliveries: Vec<Leased> = claimed.into_iter().flat_map(|claimed| claimed.deliveries).collect();
        let mut found = [0; 4];
        deliveries.iter().for_each(|leased| found[leased.priority.index()] += 1);
        self.lanes().claimed(destination.lane, asked, found, next_due, now);
        self.metrics.claimed.inc_by(count(deliveries.len()).into());
        for leased in deliveries {
            match pass(leased.priority) {
                Some(pass) => {
                    let (dispatch, destination) = (Arc::clone(self), Arc::clone(destination));
                    self.spawn(dispatch.attempt(destination, leased, pass, outage));
                }
                None => {
                    error!(delivery = %leased.id, "claimed without a pass");
                    self.lanes().unused(leased.lane, None, now);
                    let dispatch = Arc::clone(self);
                    self.spawn(async move { dispatch.hand_back(leased).await });
                }
            }
        }
        self.wake();
    }

    fn claim_failed(&self, destination: &Destination, asked: usize, error: &crate::queue::QueueError) {
        warn!(%error, "can't claim; trying again");
        (0..asked).for_each(|_| gates::give_token_back(destination));
        let now = self.now();
        let mut lanes = self.lanes();
        lanes.claim_failed(destination.lane, count(asked), now);
        lanes.sleep(destination.lane, Sleep::Until(now + AFTER_A_FAULT), now);
        drop(lanes);
        self.wake();
    }

    /// Gives back a delivery that was leased and not tried.
    pub(super) async fn hand_back(&self, leased: Leased) {
        self.metrics.handed_back.inc();
        match self.queue.hand_back(leased.id, leased.lease).await {
            Ok(_) => {
                let due_at = leased.pulled_from.unwrap_or(leased.created_at);
                let now = self.now();
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

impl Planned {
    fn new(destination: Arc<Destination>) -> Self {
        Self { destination, passes: Default::default() }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
