//! The breaker of "Per-Endpoint Circuit Breaker State Machines Stored in Redis", with its published weaknesses.
//!
//! Five failures without a success open it, in a window of 60 s that restarts and does not slide; it stays open for 30 s;
//! then a token lets one call at a time probe, and one success closes it. The open time never grows. A failure that
//! arrives while it is open, from a call that started before, prolongs the open time; a late success while it is half-open
//! closes it. Times are whole seconds, as in the script. The key expires 150 s after its last use. The token lasts as
//! long as a call may take, as in the article.

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::{Reply, TIMEOUT};

const THRESHOLD: u32 = 5;
const WINDOW: u64 = 60;
const RESET_TIMEOUT: u64 = 30;
const KEPT_FOR: u64 = WINDOW + RESET_TIMEOUT + 60;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Closed,
    Open,
    HalfOpen,
}

#[derive(Default)]
pub(super) struct Lua {
    state: State,
    failures: u32,
    /// In seconds, as are all times here.
    window_start: u64,
    opened_at: u64,
    used_at: u64,
    token_until: Timestamp,
    rounds: u32,
}

const fn seconds(now: Timestamp) -> u64 {
    now.as_micros() / 1_000_000
}

impl Lua {
    /// Runs the parts of the script that come before any outcome.
    fn refresh(&mut self, now: u64) {
        if now - self.used_at > KEPT_FOR {
            *self = Self {
                window_start: now,
                rounds: self.rounds,
                token_until: self.token_until,
                ..Self::default()
            };
        }
        self.used_at = now;
        if now - self.window_start > WINDOW {
            self.failures = 0;
            self.window_start = now;
        }
    }
}

impl Breaker for Lua {
    fn ask(&mut self, _: usize, _: RandomBits, now: Timestamp) -> Answer {
        let second = seconds(now);
        self.refresh(second);
        if self.state == State::Open && second - self.opened_at >= RESET_TIMEOUT {
            self.state = State::HalfOpen;
        }
        match self.state {
            State::Closed => Answer::Go(Ticket::Plain),
            State::Open => {
                Answer::Wait(Until::At(Timestamp::from_millis((self.opened_at + RESET_TIMEOUT) * 1_000)))
            }
            State::HalfOpen if now < self.token_until => Answer::Wait(Until::At(self.token_until)),
            State::HalfOpen => {
                self.token_until = now + TIMEOUT;
                Answer::Go(Ticket::Probe)
            }
        }
    }

    fn settle(&mut self, _: usize, _: Ticket, reply: &Reply, _: RandomBits, now: Timestamp) {
        let now = seconds(now);
        self.refresh(now);
        if reply.failure.is_none() {
            if self.state != State::Open {
                self.state = State::Closed;
                self.failures = 0;
                self.window_start = now;
            }
            return;
        }
        self.failures += 1;
        if self.state == State::HalfOpen || self.failures >= THRESHOLD {
            self.rounds += u32::from(self.state != State::Open);
            self.state = State::Open;
            self.opened_at = now;
        }
    }

    fn status(&self) -> Status {
        if self.state == State::Closed { Status::Closed } else { Status::Open }
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, call, reply};
    use super::*;

    #[test]
    fn five_failures_open_it_for_half_a_minute_for_ever_the_same() {
        let mut breaker = Lua::default();
        assert!((0..5).all(|second| call(&mut breaker, false, second)));
        for round in 0..10 {
            let opened_at = 4 + 30 * round;
            assert!(!call(&mut breaker, false, opened_at + 29));
            assert!(call(&mut breaker, false, opened_at + 30), "round {round}");
        }
        assert!(call(&mut breaker, true, 334));
        assert_eq!((breaker.status(), breaker.rounds()), (Status::Closed, 11));
    }

    #[test]
    fn only_one_call_probes() {
        let mut breaker = Lua::default();
        (0..5).for_each(|second| assert!(call(&mut breaker, false, second)));
        assert!(matches!(breaker.ask(0, RandomBits(0), at(40)), Answer::Go(Ticket::Probe)));
        assert!(matches!(breaker.ask(0, RandomBits(0), at(41)), Answer::Wait(_)));
    }

    #[test]
    fn the_window_restarts_and_loses_failures() {
        let mut breaker = Lua::default();
        assert!((0..100).all(|n| call(&mut breaker, false, n * 16)), "four in each window");
    }

    #[test]
    fn a_late_failure_prolongs_the_open_time() {
        let mut breaker = Lua::default();
        (0..5).for_each(|second| assert!(call(&mut breaker, false, second)));
        breaker.settle(0, Ticket::Plain, &reply(false, TIMEOUT), RandomBits(0), at(15));
        assert!(!call(&mut breaker, true, 40));
        assert!(call(&mut breaker, true, 45));
    }
}
