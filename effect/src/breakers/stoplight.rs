//! Stoplight 5.7, with its defaults: three consecutive failures, however far apart, turn it red for 60 s; then a lock
//! lets one call at a time probe, and one success turns it green.
//!
//! Its weaknesses: the open time never grows, and the result of a call that started before the trip counts: a late
//! success turns it green. A race, in which workers that had read the old state probe one after the other, is not
//! simulated.

use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::Reply;

const THRESHOLD: u32 = 3;
const COOL_OFF: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Stoplight {
    failures: u32,
    /// The end of the cool-off; `None` while green.
    red_until: Option<Timestamp>,
    is_locked: bool,
    rounds: u32,
}

impl Breaker for Stoplight {
    fn ask(&mut self, _: usize, _: RandomBits, now: Timestamp) -> Answer {
        match self.red_until {
            None => Answer::Go(Ticket::Plain),
            Some(until) if now < until => Answer::Wait(Until::At(until)),
            Some(_) if self.is_locked => Answer::Wait(Until::Change),
            Some(_) => {
                self.is_locked = true;
                Answer::Go(Ticket::Probe)
            }
        }
    }

    fn settle(&mut self, _: usize, ticket: Ticket, reply: &Reply, _: RandomBits, now: Timestamp) {
        if ticket.is_probe() {
            self.is_locked = false;
        }
        if reply.failure.is_none() {
            self.failures = 0;
            self.red_until = None;
            return;
        }
        self.failures += 1;
        let turns_red = ticket.is_probe() || self.red_until.is_none() && self.failures >= THRESHOLD;
        if turns_red {
            self.red_until = Some(now + COOL_OFF);
            self.rounds += 1;
        }
    }

    fn status(&self) -> Status {
        if self.red_until.is_none() { Status::Closed } else { Status::Open }
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
    fn three_failures_however_far_apart_open_it_for_a_minute() {
        let mut breaker = Stoplight::default();
        assert!([0, 5_000, 10_000].iter().all(|second| call(&mut breaker, false, *second)));
        assert!(!call(&mut breaker, true, 10_059));
        assert!(call(&mut breaker, false, 10_060));
        assert!(!call(&mut breaker, true, 10_119));
        assert!(call(&mut breaker, true, 10_120));
        assert_eq!((breaker.status(), breaker.rounds()), (Status::Closed, 2));
    }

    #[test]
    fn a_late_success_closes_it() {
        let mut breaker = Stoplight::default();
        (0..3).for_each(|second| assert!(call(&mut breaker, false, second)));
        breaker.settle(0, Ticket::Plain, &reply(true, Duration::from_secs(9)), RandomBits(0), at(9));
        assert_eq!(breaker.status(), Status::Closed);
    }
}
