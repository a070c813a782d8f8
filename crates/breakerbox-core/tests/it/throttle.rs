//! Random sequences of calls through a throttle: for any calls, results and times, the throttle's guarantees are met.

use std::collections::BinaryHeap;
use std::time::Duration;

use breakerbox_core::throttle::{
    Levels, LoadSignal, Pass, Priority, Reason, Shed, Strategy as By, Throttle, ThrottlePolicy,
};
use breakerbox_core::{RandomBits, Timestamp};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

const BOTH: [By; 2] = [By::Adaptive, By::Sre];

fn throttle(by: By) -> Throttle {
    Throttle::new(&ThrottlePolicy::builder().strategy(by).build().unwrap())
}

fn level() -> impl Strategy<Value = u16> {
    0..Levels::STANDARD.count()
}

fn priority(level: u16) -> Priority {
    Levels::STANDARD.priority(level).unwrap()
}

/// One call: the time since the previous one, its priority, and its result.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap_micros: u64,
    level: u16,
    signal: Option<LoadSignal>,
    draw: u128,
}

fn signal() -> impl Strategy<Value = Option<LoadSignal>> {
    prop_oneof![
        4 => Just(Some(LoadSignal::Accept)),
        4 => Just(Some(LoadSignal::Reject)),
        1 => Just(Some(LoadSignal::Neither)),
        1 => Just(None), // Never answered.
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![8 => 0_u64..5_000, 2 => 0_u64..200_000, 1 => 0_u64..5_000_000];
    (gap, level(), signal(), any::<u128>()).prop_map(|(gap_micros, level, signal, draw)| Step {
        gap_micros,
        level,
        signal,
        draw,
    })
}

/// Makes each call `repeat` times, and returns the time at the end.
fn live(throttle: &Throttle, steps: &[Step], repeat: usize) -> u64 {
    let mut now = 1_000_000;
    for step in steps.iter().flat_map(|step| std::iter::repeat_n(step, repeat)) {
        now += step.gap_micros;
        let at = Timestamp::from_micros(now);
        if let Ok(pass) = throttle.try_acquire(priority(step.level), RandomBits(step.draw), at)
            && let Some(signal) = step.signal
        {
            throttle.settle(pass, signal, at);
        }
    }
    now
}

proptest! {
    #[test]
    fn nothing_is_shed_where_nothing_was_ever_rejected(
        calls in vec((0_u64..200_000, 0_u64..500_000, level(), any::<bool>()), 1..400),
    ) {
        let throttle = throttle(By::Adaptive);
        let mut in_flight: BinaryHeap<Answer> = BinaryHeap::new();
        let mut now = 1_000_000;
        for (gap, latency, level, cancelled) in calls {
            now += gap;
            while in_flight.peek().is_some_and(|answer| answer.at <= now) {
                let Answer { at, pass, signal } = in_flight.pop().unwrap();
                throttle.settle(pass, signal, Timestamp::from_micros(at));
            }
            let pass = throttle.try_acquire(priority(level), RandomBits(0), Timestamp::from_micros(now));
            prop_assert!(pass.is_ok(), "shed at {now}: {pass:?}");
            let signal = if cancelled { LoadSignal::Neither } else { LoadSignal::Accept };
            in_flight.push(Answer { at: now + latency, pass: pass.unwrap(), signal });
        }
    }

    /// Settles each call before the next one starts, because the formula treats a call in flight as not accepted.
    #[test]
    fn the_formula_sheds_nothing_where_all_was_accepted(calls in vec((0_u64..2_000_000, level()), 1..400)) {
        let throttle = throttle(By::Sre);
        let mut now = 1_000_000;
        for (gap, level) in calls {
            now += gap;
            let pass = throttle.try_acquire(priority(level), RandomBits(0), Timestamp::from_micros(now));
            prop_assert!(pass.is_ok(), "shed at {now}: {pass:?}");
            throttle.settle(pass.unwrap(), LoadSignal::Accept, Timestamp::from_micros(now));
        }
    }

    #[test]
    fn idle_time_heals(steps in vec(step(), 1..50), repeat in 1_usize..50, level in level()) {
        let throttle = throttle(By::Adaptive);
        let ended = live(&throttle, &steps, repeat);
        let pass = throttle.try_acquire(priority(level), RandomBits(0), Timestamp::from_micros(ended + 30_000_000));
        prop_assert!(pass.is_ok());
    }

    #[test]
    fn whoever_keeps_asking_passes(steps in vec(step(), 1..50), repeat in 1_usize..50, level in level()) {
        let throttle = throttle(By::Adaptive);
        let ended = live(&throttle, &steps, repeat);
        let passed = (1..=1_000).any(|second| {
            throttle.try_acquire(priority(level), RandomBits(0), Timestamp::from_micros(ended + second * 1_000_000)).is_ok()
        });
        prop_assert!(passed);
    }

    #[test]
    fn a_higher_level_passes_where_a_lower_one_does(steps in vec(step(), 1..50), repeat in 1_usize..50) {
        let answers: Vec<_> = (0..Levels::STANDARD.count())
            .map(|level| {
                let throttle = throttle(By::Adaptive);
                let ended = live(&throttle, &steps, repeat);
                throttle.try_acquire(priority(level), RandomBits(0), Timestamp::from_micros(ended)).is_ok()
            })
            .collect();
        prop_assert!(answers.is_sorted_by(|higher, lower| higher >= lower), "{answers:?}");
    }

    #[test]
    fn hostile_times_and_orders_do_no_harm(
        times in vec((prop_oneof![any::<u64>(), 0..100_u64, u64::MAX - 100..=u64::MAX], signal(), level()), 1..200),
    ) {
        for by in BOTH {
            let throttle = throttle(by);
            let mut passes: Vec<Pass> = Vec::new();
            for (micros, signal, level) in &times {
                let now = Timestamp::from_micros(*micros);
                match throttle.try_acquire(priority(*level), RandomBits(u128::from(*micros) << 64), now) {
                    Ok(pass) => passes.push(pass),
                    Err(shed) => prop_assert!(is_sane(&shed), "{shed:?}"),
                }
                let _ = throttle.retry(now);
                if let Some(signal) = signal && passes.len() > 3 {
                    throttle.settle(passes.swap_remove(passes.len() / 2), *signal, now);
                }
            }
        }
    }

    #[test]
    fn retries_are_at_most_the_given_share(percent in 0_u64..=100, accepts in 0_u64..500) {
        let throttle = Throttle::new(&ThrottlePolicy::builder().retry_percent(percent).build().unwrap());
        let now = Timestamp::from_millis(1_000);
        for _ in 0..accepts {
            let pass = throttle.try_acquire(Priority::HIGH, RandomBits(0), now).unwrap();
            throttle.settle(pass, LoadSignal::Accept, now);
        }
        let granted = (0..1_000).filter(|_| throttle.retry(now)).count() as u64;
        prop_assert_eq!(granted, accepts * percent / 100);
    }
}

/// A result that has not arrived yet. The earliest result compares as the greatest, so that a heap returns it first.
#[derive(PartialEq, Eq)]
struct Answer {
    at: u64,
    pass: Pass,
    signal: LoadSignal,
}

impl Ord for Answer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Answer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn is_sane(shed: &Shed) -> bool {
    let cause = match shed.reason() {
        Reason::Probability(probability) => probability > 0.0 && probability <= 1.0,
        Reason::Rate(rate) => rate.is_finite() && rate >= 0.0,
        _ => false,
    };
    cause && shed.retry_in() <= Duration::from_secs(60)
}

#[test]
fn threads_share_a_throttle() {
    for by in BOTH {
        let throttle = throttle(by);
        std::thread::scope(|scope| {
            for level in 0..Levels::STANDARD.count() {
                let throttle = &throttle;
                scope.spawn(move || {
                    for n in 0..20_000 {
                        let now = Timestamp::from_micros(1_000_000 + n * 100);
                        let Ok(pass) = throttle.try_acquire(priority(level), RandomBits(u128::MAX), now)
                        else {
                            continue;
                        };
                        let signal = if n % 3 == 0 { LoadSignal::Accept } else { LoadSignal::Reject };
                        throttle.settle(pass, signal, now);
                    }
                });
            }
        });
        let later = Timestamp::from_millis(1_000_000);
        assert!(throttle.try_acquire(Priority::LOW, RandomBits(u128::MAX), later).is_ok(), "{by:?}");
    }
}

#[test]
fn a_throttle_is_forgettable_once_it_has_forgotten() {
    for by in BOTH {
        let throttle = throttle(by);
        assert!(throttle.is_forgettable(Timestamp::from_millis(100_000)), "it has seen nothing");
        let asked_at = Timestamp::from_millis(200_000);
        let _pass = throttle.try_acquire(Priority::HIGH, RandomBits(0), asked_at).unwrap();
        for (seconds, forgettable) in [(0, false), (1, false), (20, false), (61, true), (100_000, true)] {
            let now = asked_at + Duration::from_secs(seconds);
            assert_eq!(throttle.is_forgettable(now), forgettable, "{by:?} after {seconds} s");
        }
    }
}

#[test]
fn a_shed_says_why_and_when_to_come_back() {
    let throttle = throttle(By::Adaptive);
    let shed = (0..).find_map(|n| {
        let now = Timestamp::from_millis(1_000 + n);
        let pass = throttle.try_acquire(Priority::LOW, RandomBits(0), now);
        pass.map(|pass| throttle.settle(pass, LoadSignal::Reject, now)).err()
    });
    let text = shed.unwrap().to_string();
    let (why, when) = text.split_once("; ").unwrap();
    assert!(why.starts_with("shed: about ") && why.ends_with(" calls a second are let through"), "{text}");
    assert!(when.starts_with("it may be worth asking again in "), "{text}");
}
