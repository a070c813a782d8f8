//! The lane of one endpoint: the deliveries that wait for it, the choice of a probe, and the time for which the breaker
//! held them back.
//!
//! A breaker that each process has for itself makes one queue for each process. The time for which a queue was blocked
//! by the breaker, although its circuit should have been closed, is summed up once for the queue: the delay of a delivery
//! is the difference of two readings of that sum.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::ProbeChoice;
use rand::rngs::SmallRng;

use crate::breakers::{Breaker, Pull, Row, Status};
use crate::draws::generator;
use crate::faults::Faults;
use crate::population::Endpoint;

/// The position of a delivery in [`Deliveries`].
pub(crate) type Slot = u32;

/// A delivery that has not arrived yet.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// Identifies the delivery among all of the day; the results of its calls depend on it.
    pub(crate) key: u64,
    pub(crate) accepted_at: Timestamp,
    pub(crate) due_at: Timestamp,
    /// The attempts that count against the retry schedule.
    pub(crate) attempts: u32,
    /// All calls that were made for it.
    pub(crate) requests: u32,
    /// The queue's blocked time when the delivery joined it.
    blocked_at_entry: Duration,
    /// How long the breaker has held it back.
    pub(crate) delayed: Duration,
    /// The outage in which it last failed a probe; 0 if it never did.
    pub(crate) failed_probe: u32,
}

/// All deliveries that have not arrived yet.
#[derive(Default)]
pub(crate) struct Deliveries {
    all: Vec<Delivery>,
    free: Vec<Slot>,
}

impl Deliveries {
    pub(crate) fn add(&mut self, key: u64, now: Timestamp) -> Slot {
        let delivery = Delivery {
            key,
            accepted_at: now,
            due_at: now,
            attempts: 0,
            requests: 0,
            blocked_at_entry: Duration::ZERO,
            delayed: Duration::ZERO,
            failed_probe: 0,
        };
        if let Some(slot) = self.free.pop() {
            self[slot] = delivery;
            return slot;
        }
        self.all.push(delivery);
        Slot::try_from(self.all.len() - 1).expect("fewer than 2^32 deliveries wait")
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.free.push(slot);
    }
}

impl std::ops::Index<Slot> for Deliveries {
    type Output = Delivery;

    fn index(&self, slot: Slot) -> &Delivery {
        &self.all[slot as usize]
    }
}

impl std::ops::IndexMut<Slot> for Deliveries {
    fn index_mut(&mut self, slot: Slot) -> &mut Delivery {
        &mut self.all[slot as usize]
    }
}

/// The due deliveries of one process.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Slot>,
    /// Since when the breaker has refused the first delivery; `None` if it does not.
    blocked_since: Option<Timestamp>,
    /// The up-time for which the queue was blocked, until `blocked_since`.
    blocked: Duration,
}

impl Queue {
    fn blocked_until(&self, faults: &Faults, now: Timestamp) -> Duration {
        let up = |since| faults.up_until(now).saturating_sub(faults.up_until(since));
        self.blocked + self.blocked_since.map_or(Duration::ZERO, up)
    }
}

/// The trip that a lane is in, from the first opening of its circuit until it closes.
pub(crate) struct Trip {
    pub(crate) at: Timestamp,
    /// The impaired span that caused it; `None` if the circuit should not have opened.
    pub(crate) span: Option<usize>,
    /// The impaired span after which deliveries wait, and how long they have waited in each process.
    recovering: Option<(usize, Vec<Duration>)>,
}

/// The lane of one endpoint.
pub(crate) struct Lane<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) breaker: Box<dyn Breaker>,
    /// For the breaker's own random choices.
    pub(crate) random: SmallRng,
    pub(crate) arrivals: SmallRng,
    pub(crate) in_flight: usize,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) status: Status,
    pub(crate) trip: Option<Trip>,
    /// The number of trips so far, which identifies an outage. Counts from 1.
    pub(crate) outage: u32,
    /// The latest impaired span in which the circuit tripped.
    pub(crate) tripped_in: Option<usize>,
    /// When a call last failed.
    pub(crate) failed_at: Timestamp,
    pub(crate) was_notified: bool,
    pub(crate) was_notified_wrongly: bool,
    queues: Vec<Queue>,
    /// The deliveries that wait for their next attempt, by due time.
    backing_off: BTreeSet<(Timestamp, Slot)>,
    /// Those that may be brought forward to probe.
    pullable: BTreeSet<(Timestamp, Slot)>,
    pull: Pull,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, number: u64, seed: u64, row: &Row, processes: usize) -> Self {
        Self {
            endpoint,
            breaker: row.breaker(processes),
            random: generator(&[seed, 3, number]),
            arrivals: generator(&[seed, 4, number]),
            in_flight: 0,
            wake_at: None,
            status: Status::Closed,
            trip: None,
            outage: 0,
            tripped_in: None,
            failed_at: Timestamp::ZERO,
            was_notified: false,
            was_notified_wrongly: false,
            queues: (0..processes).map(|_| Queue::default()).collect(),
            backing_off: BTreeSet::new(),
            pullable: BTreeSet::new(),
            pull: row.pull,
        }
    }

    pub(crate) fn processes(&self) -> usize {
        self.queues.len()
    }

    /// Returns the number of due deliveries.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// Returns the process that makes a delivery's next attempt.
    fn process_of(&self, delivery: &Delivery) -> usize {
        let spread = delivery.key.rotate_left(delivery.attempts * 11) % self.queues.len() as u64;
        usize::try_from(spread).unwrap_or(0)
    }

    /// Adds a delivery that is due.
    pub(crate) fn enqueue(&mut self, slot: Slot, deliveries: &mut Deliveries, now: Timestamp) {
        let process = self.process_of(&deliveries[slot]);
        let queue = &mut self.queues[process];
        deliveries[slot].blocked_at_entry = queue.blocked_until(&self.endpoint.faults, now);
        queue.waiting.push_back(slot);
    }

    /// Adds a delivery that waits until its `due_at`. `may_be_pulled` says whether it may be brought forward in this wait.
    pub(crate) fn back_off(&mut self, slot: Slot, may_be_pulled: bool, deliveries: &Deliveries) {
        let entry = (deliveries[slot].due_at, slot);
        self.backing_off.insert(entry);
        let pulls = match self.pull {
            Pull::Never => false,
            Pull::OncePerWait => may_be_pulled,
            Pull::Always => true,
        };
        if pulls {
            self.pullable.insert(entry);
        }
    }

    /// Moves the deliveries that are due by now into their queues.
    pub(crate) fn collect_due(&mut self, deliveries: &mut Deliveries, now: Timestamp) {
        while let Some(entry) = self.backing_off.first().copied().filter(|(due_at, _)| *due_at <= now) {
            self.backing_off.remove(&entry);
            self.pullable.remove(&entry);
            self.enqueue(entry.1, deliveries, now);
        }
    }

    /// Returns the next delivery to send from this process's queue. If the circuit waits for a probe, this is the delivery
    /// that probes, which may not be due yet.
    pub(crate) fn next(&self, process: usize, deliveries: &Deliveries, now: Timestamp) -> Option<Slot> {
        let is_probe = self.breaker.probe_from().is_some_and(|from| from <= now);
        if !is_probe {
            return self.queues[process].waiting.front().copied();
        }
        let is_fresh = |slot: &Slot| deliveries[*slot].failed_probe != self.outage;
        let mut due = self.queues[process].waiting.iter().copied();
        let mut later = self.pullable.iter().map(|(_, slot)| *slot);
        ProbeChoice::ALL.into_iter().find_map(|choice| match choice {
            ProbeChoice::FreshDue => due.clone().find(is_fresh),
            ProbeChoice::FreshLater => later.clone().find(is_fresh),
            ProbeChoice::Due => due.next(),
            ProbeChoice::Later => later.next(),
        })
    }

    /// Takes a delivery out of its queue, or out of its wait. Returns whether it was brought forward.
    pub(crate) fn take(
        &mut self,
        slot: Slot,
        process: usize,
        deliveries: &mut Deliveries,
        now: Timestamp,
    ) -> bool {
        let entry = (deliveries[slot].due_at, slot);
        if self.backing_off.remove(&entry) {
            self.pullable.remove(&entry);
            return true;
        }
        let queue = &mut self.queues[process];
        if queue.waiting.front() == Some(&slot) {
            queue.waiting.pop_front();
        } else {
            queue.waiting.retain(|waiting| *waiting != slot);
        }
        let delivery = &mut deliveries[slot];
        delivery.delayed +=
            queue.blocked_until(&self.endpoint.faults, now).saturating_sub(delivery.blocked_at_entry);
        false
    }

    /// Records whether the breaker refuses the deliveries in this queue from now on.
    pub(crate) fn set_blocked(&mut self, process: usize, is_refused: bool, now: Timestamp) {
        let faults = &self.endpoint.faults;
        let queue = &mut self.queues[process];
        let blocked = queue.blocked_until(faults, now);
        if let (Some(since), Some(trip)) = (queue.blocked_since, &mut self.trip) {
            trip.add_wait(process, since, now, faults);
        }
        queue.blocked = blocked;
        queue.blocked_since = (is_refused && !queue.waiting.is_empty()).then_some(now);
    }

    /// Sums up the blocked time of every queue until now, without changing whether it is blocked.
    pub(crate) fn sum_up(&mut self, now: Timestamp) {
        for process in 0..self.queues.len() {
            self.set_blocked(process, self.queues[process].blocked_since.is_some(), now);
        }
    }

    /// Returns when the lane has something to do without an outcome or an arrival.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        let due = self.backing_off.first().map(|(due_at, _)| *due_at);
        let may_probe =
            !self.pullable.is_empty() || self.queues.iter().any(|queue| !queue.waiting.is_empty());
        let probe = self.breaker.probe_from().filter(|_| may_probe);
        due.into_iter().chain(probe).min()
    }

    /// Returns every delivery that has not arrived, with its delay until now.
    pub(crate) fn unfinished(&self, deliveries: &Deliveries, now: Timestamp) -> Vec<Duration> {
        let faults = &self.endpoint.faults;
        let waiting = self.queues.iter().flat_map(|queue| {
            let blocked = queue.blocked_until(faults, now);
            let delay = move |slot: &Slot| {
                let delivery = &deliveries[*slot];
                delivery.delayed + blocked.saturating_sub(delivery.blocked_at_entry)
            };
            queue.waiting.iter().map(delay)
        });
        waiting.chain(self.backing_off.iter().map(|(_, slot)| deliveries[*slot].delayed)).collect()
    }
}

impl Trip {
    pub(crate) fn new(at: Timestamp, span: Option<usize>) -> Self {
        Self { at, span, recovering: None }
    }

    /// Returns how long deliveries waited after the end of the outage; `None` if none did.
    pub(crate) fn waited(&self) -> Option<Duration> {
        self.recovering.as_ref().and_then(|(_, waited)| waited.iter().max().copied())
    }

    /// Adds the time for which a process's deliveries were refused after the end of the impaired span.
    fn add_wait(&mut self, process: usize, since: Timestamp, now: Timestamp, faults: &Faults) {
        let Some(span) = self.span.and(faults.latest_impaired(now)) else { return };
        let since = since.max(faults.impaired(span).until);
        if since >= now {
            return;
        }
        // A circuit that was open during two spans has recovered from neither in between.
        if self.recovering.as_ref().is_none_or(|(known, _)| *known != span) {
            self.recovering = Some((span, Vec::new()));
        }
        if let Some((_, waited)) = &mut self.recovering {
            waited.resize(waited.len().max(process + 1), Duration::ZERO);
            waited[process] += now.since(since);
        }
    }
}
