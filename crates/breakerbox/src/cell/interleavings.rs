//! Every interleaving of two threads, found by loom: `cargo xtask test`, or
//! `RUSTFLAGS="--cfg breakerbox_loom" cargo test -p breakerbox --lib --release interleavings`.

use loom::sync::Arc as Shared;
use loom::thread;

use super::*;
use crate::clock::{AnyClock, ManualClock};
use crate::random::RandomSource;

fn times(clock: &ManualClock) -> Times {
    Times::new(AnyClock::Custom(Arc::new(clock.clone())), None, RandomSource::Random)
}

/// Trips at the second failure in a row; one probe closes.
fn cell(clock: &ManualClock) -> Shared<Cell> {
    let policy = Policy::builder().failure_rate(None).consecutive_failures(2).probes(1).ramp_cap(None);
    Shared::new(Cell::new("e1", Arc::new(policy.build().unwrap()), &times(clock)))
}

fn held(cell: &Cell, clock: &ManualClock) -> Held {
    match cell.acquire_fast(&times(clock)) {
        Some(Ok(held)) => held,
        other => panic!("{other:?}"),
    }
}

fn succeed(cell: &Cell, held: Held, clock: &ManualClock) -> bool {
    cell.count_fast(&held, &times(clock))
        || cell.settle(held, &times(clock), Outcome::success).settled.settlement != core::Settlement::Late
}

fn fail(cell: &Cell, held: Held, clock: &ManualClock) {
    cell.settle(held, &times(clock), Outcome::failure);
}

/// Runs in another thread.
fn beside<T: 'static>(
    cell: &Shared<Cell>,
    clock: &ManualClock,
    work: impl FnOnce(&Cell, &ManualClock) -> T + 'static,
) -> thread::JoinHandle<T> {
    let (cell, clock) = (Shared::clone(cell), clock.clone());
    thread::spawn(move || work(&cell, &clock))
}

#[test]
fn successes_beside_a_failure_are_all_counted() {
    loom::model(|| {
        let clock = ManualClock::new();
        let cell = cell(&clock);
        let (first, second) = (held(&cell, &clock), held(&cell, &clock));
        let other = beside(&cell, &clock, move |cell, clock| succeed(cell, first, clock));
        fail(&cell, second, &clock);
        assert!(other.join().unwrap());
        let totals = cell.totals(&times(&clock));
        assert_eq!((totals.successes, totals.failures), (1, 1));
    });
}

#[test]
fn a_success_beside_a_trip_counts_before_it_or_not_at_all() {
    loom::model(|| {
        let clock = ManualClock::new();
        let cell = cell(&clock);
        let permits = [held(&cell, &clock), held(&cell, &clock)];
        let racing = held(&cell, &clock);
        let other = beside(&cell, &clock, move |cell, clock| succeed(cell, racing, clock));
        permits.into_iter().for_each(|permit| fail(&cell, permit, &clock));
        let counted = other.join().unwrap();
        // A success between the two failures breaks the run; else the circuit is open and knows of no success.
        let totals = cell.totals(&times(&clock));
        match cell.status() {
            Status::Closed => assert!(counted && totals.successes == 1),
            Status::Open => assert_eq!(totals.calls(), 0),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn of_two_askers_after_the_cool_off_one_probes() {
    loom::model(|| {
        let clock = ManualClock::new();
        let cell = cell(&clock);
        for _ in 0..2 {
            let permit = held(&cell, &clock);
            fail(&cell, permit, &clock);
        }
        clock.advance(Duration::from_secs(3_600));
        let acquire = |cell: &Cell, clock: &ManualClock| match cell.acquire_fast(&times(clock)) {
            Some(answer) => answer.is_ok(),
            None => {
                let MemberAnswer::Decided(asked) = cell.try_acquire(&times(clock), false) else {
                    panic!("alone")
                };
                matches!(asked.decision, Decision::Admitted(_))
            }
        };
        let other = beside(&cell, &clock, acquire);
        let mine = acquire(&cell, &clock);
        assert_ne!(mine, other.join().unwrap(), "exactly one");
    });
}

#[test]
fn what_is_handed_in_at_the_end_of_a_bucket_is_neither_lost_nor_doubled() {
    loom::model(|| {
        let clock = ManualClock::new();
        let cell = cell(&clock);
        let (first, second) = (held(&cell, &clock), held(&cell, &clock));
        let other = beside(&cell, &clock, move |cell, clock| succeed(cell, first, clock));
        assert_eq!(cell.totals(&times(&clock)).failures, 0);
        assert!(succeed(&cell, second, &clock));
        assert!(other.join().unwrap());
        assert_eq!(cell.totals(&times(&clock)).successes, 2);
    });
}
