//! linkerd's failure accrual: seven consecutive failures shut the endpoint for 1 s; then one call is admitted, and if it
//! fails, the time doubles, up to 60 s, with up to 50 % jitter. One success opens it again and resets the time. Results
//! that arrive while it is shut are ignored. Each proxy decides on its own.

use std::time::Duration;

use breakerbox_core::{RandomBits, Timestamp};

use super::{Answer, Breaker, Status, Ticket, Until};
use crate::population::Reply;

const MAX_FAILURES: u32 = 7;
const MIN_PENALTY: Duration = Duration::from_secs(1);
const MAX_PENALTY: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.5;

#[derive(Default)]
pub(super) struct Linkerd {
    failures: u32,
    /// The end of the penalty, and the penalty without jitter; `None` while calls are admitted.
    shut: Option<(Timestamp, Duration)>,
    is_probing: bool,
    rounds: u32,
}

impl Linkerd {
    fn shut(&mut self, penalty: Duration, random: RandomBits, now: Timestamp) {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // 53 bits fit both.
        let unit = (random.0 >> 75) as u64 as f64 / (1_u64 << 53) as f64;
        self.shut = Some((now + penalty.mul_f64(1.0 + JITTER * unit), penalty));
        self.failures = 0;
        self.rounds += 1;
    }
}

impl Breaker for Linkerd {
    fn ask(&mut self, _: usize, _: RandomBits, now: Timestamp) -> Answer {
        match self.shut {
            None => Answer::Go(Ticket::Plain),
            Some((until, _)) if now < until => Answer::Wait(Until::At(until)),
            Some(_) if self.is_probing => Answer::Wait(Until::Change),
            Some(_) => {
                self.is_probing = true;
                Answer::Go(Ticket::Probe)
            }
        }
    }

    fn settle(&mut self, _: usize, ticket: Ticket, reply: &Reply, random: RandomBits, now: Timestamp) {
        match (self.shut, ticket.is_probe()) {
            (Some((_, penalty)), true) => {
                self.is_probing = false;
                match reply.failure {
                    None => self.shut = None,
                    Some(_) => self.shut((penalty * 2).min(MAX_PENALTY), random, now),
                }
            }
            (None, false) if reply.failure.is_some() => {
                self.failures += 1;
                if self.failures >= MAX_FAILURES {
                    self.shut(MIN_PENALTY, random, now);
                }
            }
            (None, false) => self.failures = 0,
            _ => {}
        }
    }

    fn status(&self) -> Status {
        if self.shut.is_none() { Status::Closed } else { Status::Open }
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
    fn the_penalty_doubles_to_a_minute_and_one_success_ends_it() {
        let mut breaker = Linkerd::default();
        assert!((0..7).all(|second| call(&mut breaker, false, second)));
        let mut penalties = Vec::new();
        let mut now = 6;
        for _ in 0..8 {
            let Answer::Wait(Until::At(until)) = breaker.ask(0, RandomBits(0), at(now)) else {
                panic!("shut")
            };
            penalties.push(until.since(at(now)).as_secs());
            now = until.as_micros() / 1_000_000;
            assert!(call(&mut breaker, false, now));
        }
        assert_eq!(penalties, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(call(&mut breaker, true, now + 61));
        assert_eq!((breaker.status(), breaker.rounds()), (Status::Closed, 9));
    }
}
