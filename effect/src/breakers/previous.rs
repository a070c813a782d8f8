//! Breakerbox with its previous defaults, as a small state machine of its own, so that later changes of the engine do
//! not change this row.
//!
//! Five consecutive failures within 60 s, or half of at least ten calls within 60 s, open it for 30 s. Each further trip
//! doubles the time, up to 10 min, with 10 % jitter, until the circuit has been closed for 10 min. Three probes in turn
//! close it, and a ramp brings the traffic back: one call in flight at first, twice as many after each full round.

use std::collections::VecDeque;
use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::Reply;

const WINDOW: Duration = Duration::from_secs(60);
const MIN_CALLS: usize = 10;
const CONSECUTIVE: usize = 5;
const COOL_OFF: Duration = Duration::from_secs(30);
const COOL_OFF_MAX: Duration = Duration::from_secs(600);
const FORGIVE_AFTER: Duration = Duration::from_secs(600);
const JITTER: f64 = 0.1;
const PROBES: u32 = 3;
const RAMP_CAP: u32 = 64;

enum State {
    Closed,
    Open { retry_at: Timestamp },
    HalfOpen { successes: u32, is_probing: bool },
}

struct Ramp {
    limit: u32,
    in_flight: u32,
    round: u32,
    refused_at: Timestamp,
}

pub(super) struct Previous {
    state: State,
    /// Whether each call of the last minute succeeded.
    window: VecDeque<(Timestamp, bool)>,
    trips: u32,
    closed_at: Timestamp,
    ramp: Option<Ramp>,
    rounds: u32,
}

impl Default for Previous {
    fn default() -> Self {
        Self {
            state: State::Closed,
            window: VecDeque::new(),
            trips: 0,
            closed_at: Timestamp::ZERO,
            ramp: None,
            rounds: 0,
        }
    }
}

impl Previous {
    fn trip(&mut self, random: RandomBits, now: Timestamp) {
        let was_closed = matches!(self.state, State::Closed);
        if was_closed && now.since(self.closed_at) >= FORGIVE_AFTER {
            self.trips = 0;
        }
        let grown = COOL_OFF * 2_u32.pow(self.trips.min(10));
        self.trips += 1;
        self.rounds += 1;
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // 53 bits fit both.
        let unit = (random.0 >> 75) as u64 as f64 / (1_u64 << 53) as f64;
        let cool_off = grown.min(COOL_OFF_MAX).mul_f64(1.0 + JITTER * (2.0 * unit - 1.0)).min(COOL_OFF_MAX);
        self.state = State::Open { retry_at: now + cool_off };
        self.window.clear();
        self.ramp = None;
    }

    /// Counts a call of a closed circuit. Returns whether a trip rule is met.
    fn count(&mut self, ok: bool, now: Timestamp) -> bool {
        self.window.push_back((now, ok));
        while self.window.front().is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            self.window.pop_front();
        }
        if ok {
            // Failures before it were counted when they came; a success can only lower the rate.
            return false;
        }
        let run = self.window.iter().rev().take_while(|(_, ok)| !ok).take(CONSECUTIVE).count();
        let failures = self.window.iter().filter(|(_, ok)| !ok).count();
        run >= CONSECUTIVE || self.window.len() >= MIN_CALLS && failures * 2 >= self.window.len()
    }
}

impl Breaker for Previous {
    fn ask(&mut self, _: usize, _: RandomBits, now: Timestamp) -> Answer {
        if let State::Open { retry_at } = self.state {
            if now < retry_at {
                return Answer::Wait(Until::At(retry_at));
            }
            self.state = State::HalfOpen { successes: 0, is_probing: false };
        }
        if let State::HalfOpen { is_probing, .. } = &mut self.state {
            if *is_probing {
                return Answer::Wait(Until::Change);
            }
            *is_probing = true;
            return Answer::Go(Ticket::Probe);
        }
        if let Some(ramp) = &mut self.ramp {
            if ramp.limit >= RAMP_CAP || now.since(ramp.refused_at) >= WINDOW {
                self.ramp = None;
            } else if ramp.in_flight >= ramp.limit {
                ramp.refused_at = now;
                return Answer::Wait(Until::Change);
            } else {
                ramp.in_flight += 1;
            }
        }
        Answer::Go(Ticket::Plain)
    }

    fn settle(&mut self, _: usize, ticket: Ticket, reply: &Reply, random: RandomBits, now: Timestamp) {
        let ok = reply.failure.is_none();
        match &mut self.state {
            State::HalfOpen { successes, is_probing } if ticket.is_probe() => {
                *is_probing = false;
                *successes += u32::from(ok);
                if !ok {
                    self.trip(random, now);
                } else if *successes >= PROBES {
                    self.state = State::Closed;
                    self.closed_at = now;
                    self.ramp = Some(Ramp { limit: 1, in_flight: 0, round: 0, refused_at: now });
                }
            }
            State::Closed => {
                if let Some(ramp) = &mut self.ramp {
                    ramp.in_flight = ramp.in_flight.saturating_sub(1);
                    ramp.round = if ok { ramp.round + 1 } else { 0 };
                    if !ok {
                        ramp.limit = (ramp.limit / 2).max(1);
                    } else if ramp.round >= ramp.limit {
                        (ramp.limit, ramp.round) = (ramp.limit * 2, 0);
                    }
                }
                if self.count(ok, now) {
                    self.trip(random, now);
                }
            }
            // From before the trip: late.
            State::Open { .. } | State::HalfOpen { .. } => {}
        }
    }

    fn status(&self) -> Status {
        if matches!(self.state, State::Closed) { Status::Closed } else { Status::Open }
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn probe_from(&self) -> Option<Timestamp> {
        match self.state {
            State::Open { retry_at } => Some(retry_at),
            State::HalfOpen { is_probing: false, .. } => Some(Timestamp::ZERO),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, call};
    use super::*;

    #[test]
    fn the_cool_off_doubles_from_half_a_minute_to_ten() {
        let mut breaker = Previous::default();
        assert!((0..5).all(|second| call(&mut breaker, false, second)));
        let mut seconds = Vec::new();
        let mut now = 4;
        for _ in 0..7 {
            let retry_at = breaker.probe_from().unwrap();
            seconds.push(retry_at.since(at(now)).as_secs());
            now = retry_at.as_micros().div_ceil(1_000_000);
            assert!(call(&mut breaker, false, now));
        }
        // The low bits of the times used as random bits give the longest negative jitter.
        assert_eq!(seconds, [27, 54, 108, 216, 432, 540, 540]);
    }

    #[test]
    fn failures_further_apart_than_the_window_never_open_it() {
        let mut breaker = Previous::default();
        assert!((0..500).all(|n| call(&mut breaker, false, n * 16)), "a run of four in any minute");
        assert!((0..5).all(|n| call(&mut breaker, false, 10_000 + n * 12)));
        assert_eq!(breaker.status(), Status::Open);
    }

    #[test]
    fn three_probes_close_it_and_a_ramp_follows() {
        let mut breaker = Previous::default();
        (0..5).for_each(|second| assert!(call(&mut breaker, false, second)));
        assert!((40..43).all(|second| call(&mut breaker, true, second)));
        assert_eq!(breaker.status(), Status::Closed);
        assert!(matches!(breaker.ask(0, RandomBits(0), at(50)), Answer::Go(_)));
        assert!(matches!(breaker.ask(0, RandomBits(0), at(50)), Answer::Wait(Until::Change)));
    }
}
