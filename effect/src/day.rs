//! The simulated day: one event loop over all lanes, in virtual time.
//!
//! The sender has as many workers as it needs, so that the delay of a delivery is the breaker's alone: that dead
//! endpoints occupy the workers of a sender without a breaker is not simulated, in favour of that row. A lane has at most
//! [`Scenario::in_flight`] calls in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};
use breakerbox_model::delivery::RetrySchedule;
use rand::RngExt;

use crate::breakers::{Answer, Notify, Row, Status, Ticket, Until};
use crate::draws::{exponential, generator};
use crate::lane::{Deliveries, Lane, Slot, Trip};
use crate::measures::Measures;
use crate::own_network::{NetworkChange, OwnNetwork, PACE};
use crate::population::{Endpoint, Kind, Reply, TIMEOUT};

/// How long a circuit is not closed before its owner is notified.
const NOTIFY_AFTER: Duration = Duration::from_secs(60);
/// The shortest outage that an owner should hear of, and one that the owner must hear of.
const WORTH_TELLING: Duration = Duration::from_secs(60);
const MUST_TELL: Duration = Duration::from_secs(3_600);
/// A delivery that took longer is late.
const LATE: Duration = Duration::from_secs(60);

/// What happens on a day, whatever the breaker.
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) length: Duration,
    /// The maximum number of calls in flight for one endpoint.
    pub(crate) in_flight: usize,
    pub(crate) schedule: RetrySchedule,
    /// The number of waiting deliveries from which further ones make no difference, so that most are left out.
    pub(crate) enough_waiting: Option<usize>,
}

/// The least number of seconds between two events while [enough](Scenario::enough_waiting) wait.
const MANY_WAIT_GAP: f64 = 30.0;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The leader or the cron job runs.
    Tick,
    /// A call ends.
    Settle { lane: u32, call: u32 },
    /// A lane has something to do.
    Wake { lane: u32 },
    /// An event for an endpoint is accepted.
    Arrive { lane: u32 },
    /// It is time to notify the owner, if the circuit has not closed since.
    Notify { lane: u32, outage: u32 },
    /// A circuit may probe at once, because the sender's own network is back.
    ProbeAtOnce { lane: u32, outage: u32 },
}

/// A call in flight.
struct Call {
    delivery: Slot,
    process: usize,
    ticket: Ticket,
    reply: Reply,
    /// Whether the delivery was brought forward.
    is_pulled: bool,
}

/// The state of a day.
struct Day<'a> {
    scenario: &'a Scenario,
    row: &'a Row,
    now: Timestamp,
    end: Timestamp,
    agenda: BinaryHeap<Reverse<(Timestamp, Event)>>,
    lanes: Vec<Lane<'a>>,
    deliveries: Deliveries,
    calls: Vec<Option<Call>>,
    free_calls: Vec<u32>,
    measures: Measures,
    own_network: Option<OwnNetwork>,
    /// The attempts at endpoints that are down until the first trip, for [`run_one`].
    down_before_trip: Option<u64>,
    longest_ok: Duration,
    longest_failed: Duration,
    /// When a circuit last closed.
    closed_at: Option<Timestamp>,
}

/// Simulates a day and returns its measures.
pub(crate) fn run(scenario: &Scenario, row: &Row) -> Measures {
    let mut day = Day::new(scenario, row, row.processes);
    day.run();
    day.finish()
}

/// Simulates a sender with one endpoint and so many processes. Returns the number of calls to the endpoint while it was
/// down and after the first trip, and the number of attempts to recover meanwhile.
pub(crate) fn run_one(scenario: &Scenario, row: &Row, processes: usize) -> (u64, u32) {
    let mut day = Day::new(scenario, row, processes);
    day.run();
    let rounds = day.lanes.iter().map(|lane| lane.breaker.rounds()).sum::<u32>();
    let before = day.down_before_trip.unwrap_or(day.measures.while_down);
    (day.measures.while_down - before, rounds.saturating_sub(1))
}

/// How long an endpoint's only outage lasted for its callers.
pub(crate) struct Recovery {
    /// The time from the end of the outage until the circuit was closed; `None` if it did not open, or was closed again
    /// before.
    pub(crate) lag: Option<Duration>,
    pub(crate) longest_ok: Duration,
    pub(crate) longest_failed: Duration,
}

/// Simulates a sender with one endpoint, whose last outage ends at this time, until its circuit is closed, or until the
/// end of the scenario.
pub(crate) fn run_recovery(scenario: &Scenario, row: &Row, outage_ends: Timestamp) -> Recovery {
    let mut day = Day::new(scenario, row, row.processes);
    let settled = outage_ends + TIMEOUT + Duration::from_secs(1);
    while day.step() && (day.now < settled || day.lanes[0].status != Status::Closed) {
        let is_quick = day.now >= outage_ends + day.longest_failed + Duration::from_millis(500);
        if is_quick && day.lanes[0].status == Status::Closed && day.lanes[0].in_flight == 0 {
            break;
        }
    }
    let is_open = day.lanes[0].status != Status::Closed;
    let closed_at = if is_open { Some(day.end) } else { day.closed_at };
    let lag = closed_at.filter(|at| *at > outage_ends).map(|at| at.since(outage_ends));
    Recovery { lag, longest_ok: day.longest_ok, longest_failed: day.longest_failed }
}

impl<'a> Day<'a> {
    fn new(scenario: &'a Scenario, row: &'a Row, processes: usize) -> Self {
        let lane = |(number, endpoint)| Lane::new(endpoint, number, scenario.seed, row, processes);
        let mut day = Self {
            scenario,
            row,
            now: Timestamp::ZERO,
            end: Timestamp::ZERO + scenario.length,
            agenda: BinaryHeap::new(),
            lanes: (0..).zip(&scenario.endpoints).map(lane).collect(),
            deliveries: Deliveries::default(),
            calls: Vec::new(),
            free_calls: Vec::new(),
            measures: Measures::default(),
            own_network: row.detects_own_outages.then(OwnNetwork::default),
            down_before_trip: None,
            longest_ok: Duration::ZERO,
            longest_failed: Duration::ZERO,
            closed_at: None,
        };
        let lanes = u32::try_from(day.lanes.len()).expect("fewer than 2^32 endpoints");
        for lane in 0..lanes {
            day.plan_arrival(lane);
        }
        if let Some(every) = row.tick {
            day.plan(Timestamp::ZERO + every, Event::Tick);
        }
        day
    }

    fn run(&mut self) {
        while self.step() {}
        self.now = self.end;
    }

    /// Handles the next event. Returns whether the day goes on.
    fn step(&mut self) -> bool {
        let Some(Reverse((at, event))) = self.agenda.pop().filter(|Reverse((at, _))| *at < self.end) else {
            return false;
        };
        self.now = at;
        match event {
            Event::Tick => self.tick(),
            Event::Arrive { lane } => self.arrive(lane),
            Event::Settle { lane, call } => self.settle(lane, call),
            Event::Notify { lane, outage } => self.notify_if_still_open(lane, outage),
            Event::ProbeAtOnce { lane, outage } => self.probe_at_once(lane, outage),
            Event::Wake { lane } => {
                if self.lane(lane).wake_at == Some(at) {
                    self.lane(lane).wake_at = None;
                    self.send(lane);
                }
            }
        }
        true
    }

    fn lane(&mut self, lane: u32) -> &mut Lane<'a> {
        &mut self.lanes[lane as usize]
    }

    fn plan(&mut self, at: Timestamp, event: Event) {
        self.agenda.push(Reverse((at, event)));
    }

    fn plan_arrival(&mut self, lane: u32) {
        let enough = self.scenario.enough_waiting;
        let this = self.lane(lane);
        let mut gap = exponential(&mut this.arrivals) / this.endpoint.rate;
        if enough.is_some_and(|enough| this.waiting() >= enough) {
            gap = gap.max(MANY_WAIT_GAP);
        }
        let at = self.now + Duration::try_from_secs_f64(gap).unwrap_or(Duration::MAX);
        if at < self.end {
            self.plan(at, Event::Arrive { lane });
        }
    }

    fn arrive(&mut self, lane: u32) {
        let now = self.now;
        self.measures.events += 1;
        let key = self.lane(lane).arrivals.random();
        let slot = self.deliveries.add(key, now);
        self.lanes[lane as usize].enqueue(slot, &mut self.deliveries, now);
        self.plan_arrival(lane);
        self.send(lane);
    }

    fn tick(&mut self) {
        let now = self.now;
        for lane in 0..u32::try_from(self.lanes.len()).unwrap_or(u32::MAX) {
            self.lane(lane).breaker.tick(now);
            if self.follow_status(lane) {
                self.send(lane);
            }
        }
        if let Some(every) = self.row.tick {
            self.plan(now + every, Event::Tick);
        }
    }

    /// Sends what the breaker admits.
    fn send(&mut self, lane: u32) {
        let (now, limit) = (self.now, self.scenario.in_flight);
        let mut wake: Option<Timestamp> = None;
        self.lanes[lane as usize].collect_due(&mut self.deliveries, now);
        for process in 0..self.lanes[lane as usize].processes() {
            let mut is_refused = false;
            loop {
                let this = &mut self.lanes[lane as usize];
                if this.in_flight >= limit {
                    break;
                }
                let Some(slot) = this.next(process, &self.deliveries, now) else { break };
                let random = RandomBits(this.random.random());
                match this.breaker.ask(process, random, now) {
                    Answer::Go(ticket) => {
                        let is_pulled = this.take(slot, process, &mut self.deliveries, now);
                        self.start(lane, slot, process, ticket, is_pulled);
                    }
                    Answer::Wait(until) => {
                        is_refused = true;
                        if let Until::At(at) = until {
                            wake = Some(wake.map_or(at, |known| known.min(at)));
                        }
                        break;
                    }
                }
            }
            self.lanes[lane as usize].set_blocked(process, is_refused, now);
        }
        self.follow_status(lane);
        let this = &mut self.lanes[lane as usize];
        let next = this.next_wake().into_iter().chain(wake).filter(|at| *at > now).min();
        if let Some(at) = next.filter(|at| this.wake_at.is_none_or(|known| *at < known)) {
            this.wake_at = Some(at);
            self.plan(at, Event::Wake { lane });
        }
    }

    fn start(&mut self, lane: u32, slot: Slot, process: usize, ticket: Ticket, is_pulled: bool) {
        let now = self.now;
        let this = &mut self.lanes[lane as usize];
        let delivery = &mut self.deliveries[slot];
        let mut rng = generator(&[delivery.key, u64::from(delivery.requests)]);
        let reply = this.endpoint.call(&mut rng, now);
        delivery.requests += 1;
        this.in_flight += 1;
        self.measures.attempts += 1;
        if reply.failure.is_some() {
            self.measures.add_failed(this.endpoint.kind);
        }
        self.measures.while_down += u64::from(this.endpoint.faults.is_down(now));
        self.measures.at_dead += u64::from(this.endpoint.kind.is_dead());
        let call = Call { delivery: slot, process, ticket, reply, is_pulled };
        let number = self.free_calls.pop().unwrap_or_else(|| {
            self.calls.push(None);
            u32::try_from(self.calls.len() - 1).expect("fewer than 2^32 calls in flight")
        });
        self.calls[number as usize] = Some(call);
        self.plan(now + reply.latency, Event::Settle { lane, call: number });
    }

    fn settle(&mut self, lane: u32, call: u32) {
        let now = self.now;
        let Some(Call { delivery: slot, process, ticket, reply, is_pulled }) =
            self.calls[call as usize].take()
        else {
            return;
        };
        self.free_calls.push(call);
        let this = &mut self.lanes[lane as usize];
        this.in_flight -= 1;
        let is_probe = ticket.is_probe();
        let random = RandomBits(this.random.random());
        this.breaker.settle(process, ticket, &reply, random, now);
        let delivery = &mut self.deliveries[slot];
        if reply.failure.is_none() {
            self.measures.delivered += 1;
            self.measures.add_delay(this.endpoint.kind, delivery.delayed);
            self.measures.late += u64::from(now.since(delivery.accepted_at) > LATE + reply.latency);
            self.longest_ok = self.longest_ok.max(reply.latency);
            self.deliveries.remove(slot);
        } else {
            this.failed_at = now;
            self.longest_failed = self.longest_failed.max(reply.latency);
            if is_probe {
                delivery.failed_probe = this.outage;
            }
            if !is_pulled {
                delivery.attempts += 1;
                let jitter =
                    generator(&[delivery.key, u64::from(delivery.attempts), 1]).random_range(-1.0..1.0);
                match self.scenario.schedule.due_after(delivery.attempts, jitter, None) {
                    Some(wait) => delivery.due_at = now + wait,
                    // Its attempts are used up, which takes longer than a day.
                    None => delivery.due_at = self.end,
                }
            }
            this.back_off(slot, !is_pulled, &self.deliveries);
        }
        self.follow_status(lane);
        self.follow_network(lane, &reply);
        self.send(lane);
    }

    fn follow_network(&mut self, lane: u32, reply: &Reply) {
        let now = self.now;
        match self.own_network.as_mut().and_then(|network| network.record(lane, reply, now)) {
            Some(NetworkChange::Lost) => self.measures.operator_notifications += 1,
            Some(NetworkChange::Back { since }) => {
                let opened = |(number, lane): (u32, &Lane<'_>)| {
                    let trip = lane.trip.as_ref().filter(|trip| trip.at >= since)?;
                    (trip.at <= now).then_some((number, lane.outage))
                };
                let opened: Vec<_> = (0..).zip(&self.lanes).filter_map(opened).collect();
                let mut at = now;
                for (lane, outage) in opened {
                    self.plan(at, Event::ProbeAtOnce { lane, outage });
                    self.plan(now + NOTIFY_AFTER, Event::Notify { lane, outage });
                    at = at + PACE;
                }
            }
            None => {}
        }
    }

    fn probe_at_once(&mut self, lane: u32, outage: u32) {
        let now = self.now;
        let this = self.lane(lane);
        if this.outage == outage && this.status == Status::Open {
            let random = RandomBits(this.random.random());
            this.breaker.probe_at_once(random, now);
            self.send(lane);
        }
    }

    /// Compares the circuit's state with the last known one. Returns whether it changed.
    fn follow_status(&mut self, lane: u32) -> bool {
        let now = self.now;
        let this = &mut self.lanes[lane as usize];
        let status = this.breaker.status();
        if status == this.status {
            return false;
        }
        this.sum_up(now);
        let was = std::mem::replace(&mut this.status, status);
        if was == Status::Closed {
            self.opened(lane);
        }
        let this = &mut self.lanes[lane as usize];
        match status {
            Status::Closed => {
                self.closed_at = Some(now);
                if let Some(trip) = this.trip.take() {
                    self.measures.to_recover.extend(trip.waited());
                }
            }
            Status::Disabled => {
                self.measures.wrongly_disabled += u64::from(!this.endpoint.kind.is_dead());
                if self.row.notify != Notify::Never {
                    self.notify(lane);
                }
            }
            Status::Open => {}
        }
        true
    }

    fn opened(&mut self, lane: u32) {
        let now = self.now;
        self.down_before_trip.get_or_insert(self.measures.while_down);
        let this = &mut self.lanes[lane as usize];
        let faults = &this.endpoint.faults;
        // Calls that started during the span can still fail after its end.
        let belongs = |span: &usize| now < faults.impaired(*span).until + TIMEOUT + Duration::from_secs(1);
        let span = faults.latest_impaired(now).filter(belongs);
        this.outage += 1;
        this.trip = Some(Trip::new(now, span));
        match span {
            None => self.measures.false_trips += 1,
            Some(index) if this.tripped_in != span => {
                this.tripped_in = span;
                self.measures.to_trip.push(now.since(faults.impaired(index).from));
            }
            Some(_) => {}
        }
        let outage = this.outage;
        match self.row.notify {
            Notify::OnTrip => self.notify(lane),
            Notify::AfterAMinute => self.plan(now + NOTIFY_AFTER, Event::Notify { lane, outage }),
            Notify::Never | Notify::OnDisable => {}
        }
    }

    fn notify_if_still_open(&mut self, lane: u32, outage: u32) {
        let this = &self.lanes[lane as usize];
        let Some(trip) = this.trip.as_ref().filter(|_| this.outage == outage) else { return };
        let is_explained = |network: &OwnNetwork| network.explains(trip.at, this.failed_at);
        if !self.own_network.as_ref().is_some_and(is_explained) {
            self.notify(lane);
        }
    }

    /// Notifies the owner, and counts whether that was right: the endpoint had an outage of its own between the trip and
    /// now, of at least a minute, or it flaps.
    fn notify(&mut self, lane: u32) {
        let now = self.now;
        let this = self.lane(lane);
        let Some(trip) = &this.trip else { return };
        let tripped_at = trip.at;
        let outages = this.endpoint.faults.outages();
        let is_worth_telling = this.endpoint.kind == Kind::Flapping
            || outages.iter().any(|outage| {
                outage.length() >= WORTH_TELLING && outage.from <= now && tripped_at <= outage.until + TIMEOUT
            });
        this.was_notified |= is_worth_telling;
        this.was_notified_wrongly |= !is_worth_telling;
    }

    fn finish(mut self) -> Measures {
        for lane in &mut self.lanes {
            lane.sum_up(self.end);
            for delay in lane.unfinished(&self.deliveries, self.end) {
                self.measures.add_delay(lane.endpoint.kind, delay);
                self.measures.late += u64::from(!lane.endpoint.kind.is_dead());
            }
            self.measures.to_recover.extend(lane.trip.as_ref().and_then(Trip::waited));
            let must_tell = lane
                .endpoint
                .faults
                .outages()
                .iter()
                .any(|outage| outage.length() >= MUST_TELL && outage.error_rate >= 1.0);
            self.measures.to_notify += u64::from(must_tell);
            self.measures.not_notified += u64::from(must_tell && !lane.was_notified);
            self.measures.wrongly_notified += u64::from(lane.was_notified_wrongly);
        }
        self.measures
    }
}
