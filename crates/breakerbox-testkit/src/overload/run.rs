//! One run: one scenario, one kind of admission control, one seed, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use breakerbox_core::throttle::{LoadSignal, Pass, Priority};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::arrivals::Arrivals;
use super::backend::Backend;
use super::gate::{GateKind, Gates};
use super::measures::{Measures, Recorder};
use super::scenario::Scenario;

/// Runs a scenario with one kind of admission control. The same seed gives the same results.
#[must_use]
pub fn simulate(scenario: &Scenario, gate: GateKind, seed: u64) -> Measures {
    let mut rng = SmallRng::seed_from_u64(seed);
    let arrivals = Arrivals::new(scenario, SmallRng::from_rng(&mut rng));
    let mut run = Run {
        gates: Gates::new(gate, scenario.clients.get(), &scenario.backend),
        backend: Backend::of(&scenario.backend),
        rng,
        due: BinaryHeap::new(),
        in_flight: Vec::new(),
        free: Vec::new(),
        answers: 0,
        recorder: Recorder::new(scenario),
    };
    for arrival in arrivals {
        run.answer_until(arrival.at_micros);
        let call = Call {
            client: arrival.client,
            priority: arrival.priority,
            came_at: arrival.at_micros,
            retries_left: scenario.retries,
        };
        run.attempt(call, arrival.at_micros, true);
    }
    run.answer_until(u64::MAX);
    run.recorder.finish()
}

/// One call, with all its retries.
#[derive(Clone, Copy)]
struct Call {
    client: usize,
    priority: Priority,
    came_at: u64,
    retries_left: u32,
}

struct InFlight {
    call: Call,
    pass: Option<Pass>,
    verdict: LoadSignal,
}

struct Run {
    gates: Gates,
    backend: Backend,
    rng: SmallRng,
    /// The responses that are due: for each, its time, a sequence number that breaks ties, and its index in
    /// `in_flight`.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    answers: u64,
    recorder: Recorder,
}

impl Run {
    fn attempt(&mut self, call: Call, now: u64, is_first: bool) {
        let asked = self.gates.try_acquire(call.client, call.priority, &mut self.rng, now);
        if is_first {
            self.recorder.arrived(call.client, call.priority, asked.is_ok(), now);
        }
        let pass = match asked {
            Ok(pass) => pass,
            Err(hold) => return self.recorder.held(hold),
        };
        let answer = self.backend.call(call.priority, &mut self.rng, now);
        self.recorder.sent(now);
        let place = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() - 1
        });
        self.in_flight[place] = Some(InFlight { call, pass, verdict: answer.verdict });
        self.answers += 1;
        self.due.push(Reverse((answer.at_micros, self.answers, place)));
    }

    fn answer_until(&mut self, now: u64) {
        while let Some(&Reverse((at, _, place))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            self.free.push(place);
            if let Some(answered) = self.in_flight[place].take() {
                self.answer(answered, at);
            }
        }
    }

    fn answer(&mut self, answered: InFlight, now: u64) {
        let InFlight { mut call, pass, verdict } = answered;
        self.gates.settle(call.client, pass, verdict, now);
        if verdict == LoadSignal::Accept {
            self.recorder.succeeded(call.priority, call.came_at);
        } else if call.retries_left > 0
            && now < self.recorder.end_micros()
            && self.gates.retry(call.client, now)
        {
            call.retries_left -= 1;
            self.attempt(call, now, false);
        }
    }
}
