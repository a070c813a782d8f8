//! A breaker in each process, as the usual libraries work: the processes share nothing, so each has to learn of an
//! outage, and probe a recovery, on its own.
//!
//! [`Counting`] has the defaults of gobreaker, which Convoy's article names as an example: more than five consecutive
//! failures open it for 60 s, one call at a time is admitted while it is half-open, and one success closes it. Outcomes
//! of calls from before the last change are ignored.

use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::Reply;

/// One breaker for each process.
pub(super) struct PerProcess<B> {
    breakers: Vec<B>,
}

impl<B> PerProcess<B> {
    pub(super) fn new(processes: usize, make: fn() -> B) -> Self {
        Self { breakers: (0..processes).map(|_| make()).collect() }
    }
}

impl<B: Breaker> Breaker for PerProcess<B> {
    fn ask(&mut self, process: usize, random: RandomBits, now: Timestamp) -> Answer {
        self.breakers[process].ask(process, random, now)
    }

    fn settle(&mut self, process: usize, ticket: Ticket, reply: &Reply, random: RandomBits, now: Timestamp) {
        self.breakers[process].settle(process, ticket, reply, random, now);
    }

    /// Open if the breaker of any process is.
    fn status(&self) -> Status {
        let is_closed = self.breakers.iter().all(|breaker| breaker.status() == Status::Closed);
        if is_closed { Status::Closed } else { Status::Open }
    }

    fn rounds(&self) -> u32 {
        self.breakers.iter().map(Breaker::rounds).max().unwrap_or(0)
    }
}

const MAX_FAILURES: u32 = 6;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Counts consecutive failures.
#[derive(Default)]
pub(super) struct Counting {
    failures: u32,
    /// The end of the open time; `None` while closed.
    open_until: Option<Timestamp>,
    is_probing: bool,
    rounds: u32,
}

impl Counting {
    fn open(&mut self, now: Timestamp) {
        self.open_until = Some(now + TIMEOUT);
        self.failures = 0;
        self.rounds += 1;
    }
}

impl Breaker for Counting {
    fn ask(&mut self, _: usize, _: RandomBits, now: Timestamp) -> Answer {
        match self.open_until {
            None => Answer::Go(Ticket::Plain),
            Some(until) if now < until => Answer::Wait(Until::At(until)),
            Some(_) if self.is_probing => Answer::Wait(Until::Change),
            Some(_) => {
                self.is_probing = true;
                Answer::Go(Ticket::Probe)
            }
        }
    }

    fn settle(&mut self, _: usize, ticket: Ticket, reply: &Reply, _: RandomBits, now: Timestamp) {
        let is_probe = ticket.is_probe();
        if is_probe {
            self.is_probing = false;
        } else if self.open_until.is_some() {
            return;
        }
        match reply.failure {
            None => {
                self.failures = 0;
                self.open_until = None;
            }
            Some(_) => {
                self.failures += 1;
                if is_probe || self.failures >= MAX_FAILURES {
                    self.open(now);
                }
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
    use super::super::testing::{at, call};
    use super::*;

    #[test]
    fn six_failures_open_it_for_a_minute_and_one_success_closes_it() {
        let mut breaker = Counting::default();
        assert!((0..6).all(|second| call(&mut breaker, false, second)));
        assert!(!call(&mut breaker, true, 64), "opened at 5 s");
        assert!(call(&mut breaker, false, 65), "the probe");
        assert!(!call(&mut breaker, true, 124));
        assert!(call(&mut breaker, true, 125));
        assert_eq!((breaker.status(), breaker.rounds()), (Status::Closed, 2));
    }

    #[test]
    fn each_process_learns_on_its_own() {
        let mut breaker = PerProcess::new(2, Counting::default);
        assert!((0..6).all(|second| call(&mut breaker, false, second)));
        assert_eq!(breaker.status(), Status::Open);
        assert!(matches!(breaker.ask(0, RandomBits(0), at(6)), Answer::Wait(_)));
        assert!(matches!(breaker.ask(1, RandomBits(0), at(6)), Answer::Go(_)));
    }
}
