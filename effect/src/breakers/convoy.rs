//! Convoy's asynchronous breaker, with its published weaknesses.
//!
//! A leader samples the attempts of every endpoint every 30 s. A closed or half-open circuit trips if at least 10
//! attempts were counted and 70 % of them failed; an open circuit becomes half-open at the first sample after 30 s; a
//! half-open circuit closes if 5 % of the attempts succeeded, and meanwhile admits every call. Attempts are counted over
//! the last 5 minutes until the circuit trips for the first time, and from its last reset time on afterwards: that window
//! no longer slides, so after a recovery the successes of hours have to be outweighed before it trips again. A circuit
//! without attempts is forgotten after 5 minutes. After 10 trips in a row the endpoint is disabled.

use std::collections::VecDeque;
use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::Reply;

pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(30);
const WINDOW: Duration = Duration::from_secs(300);
const TIMEOUT: Duration = Duration::from_secs(30);
const MIN_REQUESTS: u64 = 10;
const FAILURE_PERCENT: u64 = 70;
const SUCCESS_PERCENT: u64 = 5;
const DISABLE_AFTER: u32 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Closed,
    Open,
    HalfOpen,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    successes: u64,
    failures: u64,
}

impl Counts {
    fn add(&mut self, ok: bool) {
        if ok { self.successes += 1 } else { self.failures += 1 }
    }

    const fn requests(self) -> u64 {
        self.successes + self.failures
    }
}

#[derive(Default)]
pub(super) struct Convoy {
    state: State,
    will_reset_at: Option<Timestamp>,
    trips_in_a_row: u32,
    rounds: u32,
    is_disabled: bool,
    /// The counts of each sample period of the last 5 minutes, with the period's start.
    recent: VecDeque<(Timestamp, Counts)>,
    /// The counts since the reset time.
    since_reset: Counts,
    /// When the leader last wrote the circuit's state.
    updated_at: Timestamp,
}

impl Convoy {
    /// Returns the attempts that the leader's query counts.
    fn sampled(&self) -> Counts {
        if self.state != State::Open && self.will_reset_at.is_some() {
            return self.since_reset;
        }
        self.recent.iter().fold(Counts::default(), |sum, (_, counts)| Counts {
            successes: sum.successes + counts.successes,
            failures: sum.failures + counts.failures,
        })
    }

    fn reset_at(&mut self, at: Timestamp) {
        self.will_reset_at = Some(at);
        self.since_reset = Counts::default();
    }
}

impl Breaker for Convoy {
    fn ask(&mut self, _: usize, _: RandomBits, _: Timestamp) -> Answer {
        if self.is_disabled || self.state == State::Open {
            return Answer::Wait(Until::Change);
        }
        Answer::Go(if self.state == State::HalfOpen { Ticket::Probe } else { Ticket::Plain })
    }

    fn settle(&mut self, _: usize, _: Ticket, reply: &Reply, _: RandomBits, now: Timestamp) {
        let ok = reply.failure.is_none();
        match self.recent.back_mut() {
            Some((_, counts)) => counts.add(ok),
            None => {
                let mut counts = Counts::default();
                counts.add(ok);
                self.recent.push_back((now, counts));
            }
        }
        if self.will_reset_at.is_some_and(|at| now >= at) {
            self.since_reset.add(ok);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        while self.recent.front().is_some_and(|(from, _)| now.since(*from) > WINDOW) {
            self.recent.pop_front();
        }
        let counts = self.sampled();
        let requests = counts.requests();
        self.recent.push_back((now, Counts::default()));
        if requests == 0 {
            // Not part of the result, so it is not written again and expires.
            if now.since(self.updated_at) >= WINDOW {
                self.state = State::Closed;
                self.will_reset_at = None;
                self.trips_in_a_row = 0;
            }
            return;
        }
        self.updated_at = now;
        if self.state == State::HalfOpen && counts.successes * 100 >= SUCCESS_PERCENT * requests {
            self.state = State::Closed;
            self.trips_in_a_row = 0;
            self.reset_at(now + TIMEOUT);
        } else if self.state != State::Open
            && requests >= MIN_REQUESTS
            && counts.failures * 100 >= FAILURE_PERCENT * requests
        {
            self.state = State::Open;
            self.trips_in_a_row += 1;
            self.rounds += 1;
            self.reset_at(now + TIMEOUT);
        }
        if self.state == State::Open && self.will_reset_at.is_some_and(|at| now >= at) {
            self.state = State::HalfOpen;
        }
        if self.state != State::Open && self.trips_in_a_row >= DISABLE_AFTER {
            self.is_disabled = true;
        }
    }

    fn status(&self) -> Status {
        match self.state {
            _ if self.is_disabled => Status::Disabled,
            State::Closed => Status::Closed,
            State::Open | State::HalfOpen => Status::Open,
        }
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, call};
    use super::*;

    /// Makes a call each second and runs the leader, for so many seconds.
    fn run(breaker: &mut Convoy, ok: bool, seconds: std::ops::Range<u64>) -> usize {
        seconds
            .filter(|second| {
                if second % 30 == 0 {
                    breaker.tick(at(*second));
                }
                call(breaker, ok, *second)
            })
            .count()
    }

    #[test]
    fn a_dead_endpoint_is_sampled_flooded_and_in_the_end_disabled() {
        let mut breaker = Convoy::default();
        assert_eq!(run(&mut breaker, false, 1..30), 29);
        assert_eq!(run(&mut breaker, false, 30..60), 0, "open from the first sample");
        assert_eq!(run(&mut breaker, false, 60..90), 30, "half-open admits every call");
        run(&mut breaker, false, 90..900);
        assert_eq!((breaker.status(), breaker.rounds()), (Status::Disabled, 10));
    }

    #[test]
    fn too_little_traffic_never_trips() {
        let mut breaker = Convoy::default();
        for minute in 0..600 {
            breaker.tick(at(minute * 60));
            assert!(call(&mut breaker, false, minute * 60));
        }
    }

    #[test]
    fn after_a_recovery_the_window_does_not_slide() {
        let mut breaker = Convoy::default();
        run(&mut breaker, false, 1..60);
        run(&mut breaker, true, 60..3_600);
        assert_eq!(breaker.status(), Status::Closed);
        let sent = run(&mut breaker, false, 3_600..7_200);
        assert_eq!(sent, 3_600, "an hour of successes hides an hour of failures");
    }
}
