//! The breaker of Razorpay's Reminders, with its published weaknesses.
//!
//! A cron job compares the mean latency and the number of errors since its last run with the client's limits, and opens
//! the circuit for a fixed time. There is no half-open state: once the time is over, the next run finds no errors, closes
//! the circuit, and all calls return at once. The article does not state the interval and the limits; the circuit opens
//! 50 times and saves 250 minutes a day, so the open time is 5 minutes.

use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::Reply;

pub(super) const RUN_EVERY: Duration = Duration::from_secs(60);
const MAX_ERRORS: u32 = 20;
const MAX_MEAN_LATENCY: Duration = Duration::from_secs(5);
const OPEN_FOR: Duration = Duration::from_secs(300);

#[derive(Default)]
pub(super) struct Razorpay {
    errors: u32,
    calls: u32,
    latency: Duration,
    open_until: Option<Timestamp>,
    rounds: u32,
}

impl Breaker for Razorpay {
    fn ask(&mut self, _: usize, _: RandomBits, _: Timestamp) -> Answer {
        match self.open_until {
            None => Answer::Go(Ticket::Plain),
            Some(_) => Answer::Wait(Until::Change),
        }
    }

    fn settle(&mut self, _: usize, _: Ticket, reply: &Reply, _: RandomBits, _: Timestamp) {
        self.calls += 1;
        self.latency += reply.latency;
        self.errors += u32::from(reply.failure.is_some());
    }

    fn tick(&mut self, now: Timestamp) {
        let is_breached =
            self.errors >= MAX_ERRORS || self.calls > 0 && self.latency >= MAX_MEAN_LATENCY * self.calls;
        (self.errors, self.calls, self.latency) = (0, 0, Duration::ZERO);
        match self.open_until {
            Some(until) if now < until => {}
            Some(_) if !is_breached => self.open_until = None,
            None if !is_breached => {}
            _ => {
                self.open_until = Some(now + OPEN_FOR);
                self.rounds += 1;
            }
        }
    }

    fn status(&self) -> Status {
        if self.open_until.is_none() { Status::Closed } else { Status::Open }
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
    fn opens_at_the_next_run_and_lets_everything_back_at_once() {
        let mut breaker = Razorpay::default();
        assert!((0..20).all(|second| call(&mut breaker, false, second)));
        assert!(call(&mut breaker, true, 59), "not before the run");
        breaker.tick(at(60));
        assert!(!call(&mut breaker, true, 61));
        (2..6).for_each(|minute| breaker.tick(at(minute * 60)));
        assert!(!call(&mut breaker, true, 359));
        breaker.tick(at(360));
        assert!((360..420).all(|second| call(&mut breaker, false, second)), "no half-open state");
        breaker.tick(at(420));
        assert_eq!((breaker.status(), breaker.rounds()), (Status::Open, 2));
    }

    #[test]
    fn a_slow_endpoint_opens_it() {
        let mut breaker = Razorpay::default();
        breaker.settle(0, Ticket::Plain, &reply(true, Duration::from_secs(6)), RandomBits(0), at(1));
        breaker.tick(at(60));
        assert_eq!(breaker.status(), Status::Open);
    }
}
