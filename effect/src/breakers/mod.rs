//! The breakers that are compared: one file for each rule, written from its publication.
//!
//! Every breaker gets the same sender: a delivery that is refused waits without using up an attempt, and asks again as
//! soon as the breaker can give another answer. Most of the published systems do less: they poll, or count the refusal
//! as a failed attempt.

mod convoy;
mod linkerd;
mod lua;
mod ours;
mod per_process;
mod previous;
mod razorpay;
mod stoplight;

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Permit, Policy, RandomBits, Timestamp};

use crate::population::Reply;

pub(crate) use ours::{gateway_policy, policy_with};

/// The number of processes of the sender, for breakers that do not share their state.
pub(crate) const PROCESSES: usize = 8;

/// A breaker's answer to a delivery that is due.
#[derive(Debug)]
pub(crate) enum Answer {
    Go(Ticket),
    Wait(Until),
}

/// When a refused delivery can ask again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    At(Timestamp),
    /// After the next outcome of a call, or the next run of the leader.
    Change,
}

/// What a breaker needs to know about a call when the call ends.
#[derive(Debug)]
pub(crate) enum Ticket {
    Plain,
    /// A probe.
    Probe,
    /// A permit of this project's engine.
    Permit(Permit),
}

impl Ticket {
    pub(crate) const fn is_probe(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Probe => true,
            Self::Permit(permit) => permit.is_probe(),
        }
    }
}

/// The state of a circuit, as far as the comparison needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Closed,
    /// Open or half-open.
    Open,
    Disabled,
}

/// The breaker of one endpoint.
pub(crate) trait Breaker: Send {
    /// Decides on a delivery that is due in this process.
    fn ask(&mut self, process: usize, random: RandomBits, now: Timestamp) -> Answer;

    /// Records how a call ended.
    fn settle(&mut self, process: usize, ticket: Ticket, reply: &Reply, random: RandomBits, now: Timestamp);

    /// Runs the leader or the cron job, if the rule has one.
    fn tick(&mut self, _now: Timestamp) {}

    fn status(&self) -> Status;

    /// Returns how often the circuit has opened, counting each failed attempt to recover.
    fn rounds(&self) -> u32;

    /// Allows an open circuit to probe at once, because the fault was on the sender's side.
    fn probe_at_once(&mut self, _random: RandomBits, _now: Timestamp) {}

    /// Returns the time from which the sender may choose a delivery as a probe; `None` if it may not, or the rule does not
    /// let the sender choose.
    fn probe_from(&self) -> Option<Timestamp> {
        None
    }
}

/// Which owners a rule notifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notify {
    Never,
    /// At each trip.
    OnTrip,
    /// Once a circuit has not been closed for a minute.
    AfterAMinute,
    /// When an endpoint is disabled.
    OnDisable,
}

/// Which delivery the sender uses as a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pull {
    /// The first that is due.
    Never,
    /// If none is due, one that waits for its retry, at most once in each of its waits.
    OncePerWait,
    /// If none is due, one that waits for its retry, as often as the cool-off ends.
    Always,
}

/// One row of the comparison.
pub(crate) struct Row {
    pub(crate) name: String,
    /// The name in the plot.
    pub(crate) label: &'static str,
    /// The rule, in a sentence.
    pub(crate) rule: String,
    pub(crate) processes: usize,
    pub(crate) notify: Notify,
    pub(crate) pull: Pull,
    /// How often the leader or the cron job runs.
    pub(crate) tick: Option<Duration>,
    /// Whether the rule detects outages of the sender's own network.
    pub(crate) detects_own_outages: bool,
    make: Box<dyn Fn(usize) -> Box<dyn Breaker> + Send + Sync>,
}

impl Row {
    fn new<B: Breaker + 'static>(
        name: &str,
        label: &'static str,
        rule: &str,
        make: impl Fn(usize) -> B + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            label,
            rule: rule.to_owned(),
            processes: 1,
            notify: Notify::Never,
            pull: Pull::Never,
            tick: None,
            detects_own_outages: false,
            make: Box::new(move |processes| Box::new(make(processes))),
        }
    }

    /// Creates the breaker of one endpoint, for a sender with this many processes.
    pub(crate) fn breaker(&self, processes: usize) -> Box<dyn Breaker> {
        (self.make)(processes)
    }

    /// Returns a row with this project's engine and this policy.
    pub(crate) fn ours(name: &str, rule: &str, policy: Policy) -> Self {
        let policy = Arc::new(policy);
        let row = Self::new(name, "Breakerbox", rule, move |_| ours::Ours::new(policy.clone()));
        Self { notify: Notify::AfterAMinute, pull: Pull::OncePerWait, detects_own_outages: true, ..row }
    }
}

/// The names of rows that others are compared with.
pub(crate) const NO_BREAKER: &str = "no breaker";
pub(crate) const OURS: &str = "Breakerbox";
/// The four published breakers that Breakerbox has presets for.
pub(crate) const PUBLISHED: [&str; 4] = ["Convoy", "Razorpay Reminders", "Redis and Lua", "Stoplight"];

/// Returns the rows of the comparison, in the order of the report.
pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(NO_BREAKER, "no breaker (delay 0)", "every delivery is sent when it is due", |_| None_),
        Row {
            processes: PROCESSES,
            ..Row::new(
                "one breaker in each of 8 processes",
                "in each process",
                "opens after 6 consecutive failures, for 60 s; one call while half-open; closes after one success; \
                 the processes share nothing",
                |processes| per_process::PerProcess::new(processes, per_process::Counting::default),
            )
        },
        Row {
            tick: Some(convoy::SAMPLE_EVERY),
            notify: Notify::OnDisable,
            ..Row::new(
                PUBLISHED[0],
                "Convoy",
                "a leader samples every 30 s; opens at 70 % failures of at least 10 in 5 min, for 30 s; half-open \
                 admits every call; closes at 5 % successes; disables after 10 trips in a row; after the first trip \
                 the window no longer slides",
                |_| convoy::Convoy::default(),
            )
        },
        Row {
            tick: Some(razorpay::RUN_EVERY),
            ..Row::new(
                PUBLISHED[1],
                "Razorpay",
                "a cron job runs every minute; opens at a mean latency of 5 s or 20 errors since its last run, for 5 \
                 min; then all calls return at once",
                |_| razorpay::Razorpay::default(),
            )
        },
        Row::new(
            PUBLISHED[2],
            "Redis + Lua",
            "opens after 5 failures without a success, in a window of 60 s that restarts, for 30 s; a token lets one \
             call probe; closes after one success; a late failure prolongs the open time",
            |_| lua::Lua::default(),
        ),
        Row {
            notify: Notify::OnTrip,
            ..Row::new(
                PUBLISHED[3],
                "Stoplight",
                "opens after 3 consecutive failures, for 60 s; a lock lets one call probe; closes after one success, \
                 also a late one",
                |_| stoplight::Stoplight::default(),
            )
        },
        Row {
            processes: PROCESSES,
            ..Row::new(
                "linkerd",
                "linkerd",
                "opens after 7 consecutive failures, for 1 s, doubling to 60 s with up to 50 % jitter; one call in \
                 probation; closes after one success; in each of 8 processes",
                |processes| per_process::PerProcess::new(processes, linkerd::Linkerd::default),
            )
        },
        Row {
            notify: Notify::OnTrip,
            pull: Pull::Always,
            ..Row::new(
                "Breakerbox, previous defaults",
                "previous defaults",
                "opens after 5 consecutive failures, or at 50 % failures of at least 10, within 60 s, for 30 s, \
                 doubling to 10 min; forgives after 10 min; 3 probes, one at a time; then a ramp",
                |_| previous::Previous::default(),
            )
        },
        Row::ours(OURS, &ours::rule(&gateway_policy()), gateway_policy()),
    ]
}

/// No breaker at all.
struct None_;

impl Breaker for None_ {
    fn ask(&mut self, _: usize, _: RandomBits, _: Timestamp) -> Answer {
        Answer::Go(Ticket::Plain)
    }

    fn settle(&mut self, _: usize, _: Ticket, _: &Reply, _: RandomBits, _: Timestamp) {}

    fn status(&self) -> Status {
        Status::Closed
    }

    fn rounds(&self) -> u32 {
        0
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Drives a breaker by hand.

    use super::*;
    use crate::faults::Failure;

    pub(crate) fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    pub(crate) fn reply(ok: bool, latency: Duration) -> Reply {
        Reply { failure: (!ok).then_some(Failure::Status), latency }
    }

    /// Asks, and settles at once. Returns whether the call was admitted.
    pub(crate) fn call(breaker: &mut impl Breaker, ok: bool, seconds: u64) -> bool {
        let now = at(seconds);
        match breaker.ask(0, RandomBits(u128::from(seconds) << 64), now) {
            Answer::Go(ticket) => {
                let reply = reply(ok, Duration::from_millis(100));
                breaker.settle(0, ticket, &reply, RandomBits(u128::from(seconds) << 64), now);
                true
            }
            Answer::Wait(_) => false,
        }
    }
}
