//! A small scheduler in virtual time, with a clock that jumps. Each run is fired exactly once.
//!
//! Real time only advances. The wall clock is real time plus a shift, and the shift changes. The scheduler sees only
//! the wall clock: it calculates the next step when a reminder is due and when a run has ended, and stores the
//! result.

use proptest::prelude::*;

use super::*;
use crate::reminder::{RunResult, Step};

/// An event that affects the clock or the scheduler, at a minute of real time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The wall clock jumps by this many minutes.
    Jump(i64),
    /// The scheduler does not run for this many minutes.
    Down(u64),
    /// A gate refuses for this many minutes: runs are parked, and sent afterwards.
    Parked(u64),
}

struct Fired {
    scheduled_at: Timestamp,
    skipped: u32,
    /// The wall-clock time.
    at: Timestamp,
}

struct World {
    progress: Progress,
    events: Vec<(u64, Event)>,
    /// The duration of a run, in minutes.
    takes: u64,
}

impl World {
    /// Runs the simulation for this many minutes of real time.
    fn run(mut self, minutes: u64) -> Vec<Fired> {
        let mut fired = Vec::new();
        let (mut shift, mut down_until, mut parked_until) = (0_i64, 0, 0);
        let mut open: Option<(u64, Option<Timestamp>)> = None;
        let mut next_at: Option<Timestamp> = None;
        let mut finished = false;
        for real in 0..minutes {
            for (_, event) in self.events.iter().filter(|(at, _)| *at == real) {
                // After downtime or a clock jump, the scheduler checks again at once, not only when it had planned
                // to.
                next_at = None;
                match event {
                    Event::Jump(by) => shift += by,
                    Event::Down(of) => down_until = real + of,
                    Event::Parked(of) => parked_until = real + of,
                }
            }
            let now = minute(1_000_000_u64.saturating_add(real).checked_add_signed(shift).unwrap());
            if real < down_until || finished {
                continue;
            }
            // One run may end and the next begin in the same minute.
            loop {
                let step = match &mut open {
                    Some((_, sent @ None)) if real >= parked_until => {
                        *sent = Some(now);
                        continue;
                    }
                    Some((ends, sent @ Some(_))) if real >= *ends => {
                        let step = self.progress.ended(RunResult::Delivered, *sent, now);
                        self.progress.last = self.progress.last_when_ended(*sent);
                        open = None;
                        step
                    }
                    Some(_) => break,
                    None if next_at.is_some_and(|at| at > now) => break,
                    None => self.progress.due(now),
                };
                match step {
                    Step::Fire { run, scheduled_at, skipped } => {
                        assert_eq!(run, self.progress.runs + 1);
                        assert!(run < 10_000, "it fires and fires");
                        self.progress.runs = run;
                        self.progress.last = Some(scheduled_at);
                        fired.push(Fired { scheduled_at, skipped, at: now });
                        open = Some((real + self.takes, None));
                    }
                    Step::Wait(until) => {
                        assert!(until > now);
                        next_at = Some(until);
                        break;
                    }
                    Step::Finish => {
                        finished = true;
                        break;
                    }
                    Step::Stop(reason) => panic!("nothing has failed: {reason}"),
                }
            }
        }
        fired
    }
}

fn world(repeat: Repeat, catch_up: CatchUp, events: Vec<(u64, Event)>) -> World {
    World { progress: fresh(from(minute(1_000_000), repeat), catch_up), events, takes: 0 }
}

/// All occurrences up to this one.
fn occurrences(schedule: &Schedule, until: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(schedule.first(), |last| schedule.after(*last))
        .take_while(|at| *at <= until)
        .collect()
}

#[track_caller]
fn each_once(world: World, minutes: u64) {
    let schedule = world.progress.schedule.clone();
    let fired: Vec<Timestamp> = world.run(minutes).iter().map(|run| run.scheduled_at).collect();
    assert_eq!(fired, occurrences(&schedule, *fired.last().unwrap()));
    assert!(fired.len() > 10, "{}", fired.len());
}

#[test]
fn an_hour_back_fires_nothing_twice() {
    for repeat in [every(300), every(3_600), cron("*/5 * * * *", "UTC"), cron("30 * * * *", "UTC")] {
        for jump in [1, 30, 61, 299] {
            let world = world(repeat.clone(), CatchUp::All, vec![(jump, Event::Jump(-60))]);
            let schedule = world.progress.schedule.clone();
            let fired = world.run(1_000);
            for pair in fired.windows(2) {
                let expected = schedule.after(pair[0].scheduled_at);
                assert_eq!(Some(pair[1].scheduled_at), expected, "{repeat:?}, at {jump}");
                assert_eq!(pair[1].at, pair[1].scheduled_at, "on time by the clock that there is");
            }
            let clock_ends = minute(1_000_000 + 999 - 60);
            assert_eq!(fired.len(), occurrences(&schedule, clock_ends).len(), "{repeat:?}, at {jump}");
        }
    }
}

#[test]
fn an_hour_forward_is_as_down_time() {
    let jump = vec![(100, Event::Jump(60))];
    let all = world(every(600), CatchUp::All, jump.clone()).run(300);
    let seen: Vec<u64> =
        all.iter().map(|run| run.scheduled_at.since(minute(1_000_000)).as_secs() / 60).collect();
    assert_eq!(seen, (0..=350).step_by(10).collect::<Vec<_>>(), "each, and each once");
    assert_eq!(all.iter().filter(|run| run.at == minute(1_000_160)).count(), 7, "six were missed");

    let latest = world(every(600), CatchUp::Latest, jump).run(300);
    let seen: Vec<u64> =
        latest.iter().map(|run| run.scheduled_at.since(minute(1_000_000)).as_secs() / 60).collect();
    let expected: Vec<u64> = (0..=90).step_by(10).chain((160..=350).step_by(10)).collect();
    assert_eq!(seen, expected);
    assert_eq!(latest.iter().map(|run| run.skipped).sum::<u32>(), 6);
}

/// The clock is an hour ahead for a while, and then corrected.
#[test]
fn a_clock_that_was_wrong_for_a_while() {
    for repeat in [every(300), cron("*/5 * * * *", "Europe/Berlin")] {
        let events = vec![(100, Event::Jump(60)), (117, Event::Jump(-60))];
        each_once(world(repeat, CatchUp::All, events), 1_000);
    }
}

#[test]
fn down_time_and_parking_lose_nothing() {
    for repeat in [every(300), cron("*/5 * * * *", "America/New_York")] {
        let events = vec![(33, Event::Down(200)), (400, Event::Parked(200))];
        let slow = World { takes: 7, ..world(repeat, CatchUp::All, events) };
        each_once(slow, 4_000);
    }
}

/// A run serves the latest occurrence at the time it was sent. The next run serves the latest one after that.
#[test]
fn a_parked_run_stands_for_the_latest() {
    let events = vec![(95, Event::Parked(60))];
    let fired = World { takes: 65, ..world(every(600), CatchUp::Latest, events) }.run(400);
    let seen: Vec<(u64, u64, u32)> = fired
        .iter()
        .map(|run| {
            let minutes = |at: Timestamp| at.since(minute(1_000_000)).as_secs() / 60;
            (minutes(run.at), minutes(run.scheduled_at), run.skipped)
        })
        .collect();
    // The run for 60 began at 65 and ended at 130; the next run then began and was parked until 155, so it stands for
    // 150.
    assert_eq!(seen[..4], [(0, 0, 0), (65, 60, 5), (130, 130, 6), (195, 190, 3)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// For any events in any order: `all` fires each occurrence once and in order, and `latest` fires none twice.
    #[test]
    fn whatever_happens(
        period in 1_u64..90,
        by_cron in any::<bool>(),
        takes in 0_u64..30,
        events in prop::collection::vec((0_u64..1_500, prop_oneof![
            prop::sample::select(vec![-60_i64, 60]).prop_map(Event::Jump),
            (-90_i64..90).prop_map(Event::Jump),
            (1_u64..300).prop_map(Event::Down),
            (1_u64..300).prop_map(Event::Parked),
        ]), 0..6),
    ) {
        let repeat = if by_cron { cron(&format!("*/{} * * * *", period.min(59)), "Europe/Berlin") } else { every(period * 60) };
        let world = |catch_up| World { takes, ..world(repeat.clone(), catch_up, events.clone()) };
        let schedule = world(CatchUp::All).progress.schedule;

        let all: Vec<Timestamp> = world(CatchUp::All).run(2_000).iter().map(|run| run.scheduled_at).collect();
        prop_assert_eq!(&all, &occurrences(&schedule, *all.last().unwrap()));

        let latest = world(CatchUp::Latest).run(2_000);
        for pair in latest.windows(2) {
            prop_assert!(pair[0].scheduled_at < pair[1].scheduled_at);
        }
        let due = occurrences(&schedule, latest.last().unwrap().scheduled_at);
        prop_assert!(latest.iter().all(|run| due.contains(&run.scheduled_at)));
        let accounted = latest.iter().map(|run| run.skipped as usize + 1).sum::<usize>();
        prop_assert!(accounted <= due.len(), "{} of {}", accounted, due.len());
    }
}
