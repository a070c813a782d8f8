//! The library's decisions, including those on the fast path, are the same as the core's.

use std::time::Duration;

use breakerbox::{Policy, PolicyBuilder};
use breakerbox_core as core;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

use crate::service::{Service, secs};

#[derive(Clone, Debug)]
enum Action {
    Wait(Duration),
    Ask,
    /// Settle the n-th unsettled permit. The second number selects success, failure, ignored or dropped.
    Settle(usize, u8),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0_u64..3_000).prop_map(|ms| Action::Wait(Duration::from_millis(ms))),
        1 => (5_u64..100).prop_map(|s| Action::Wait(secs(s))),
        6 => proptest::strategy::Just(Action::Ask),
        6 => (any::<usize>(), 0..10_u8).prop_map(|(n, how)| Action::Settle(n, how)),
    ]
}

const POLICIES: usize = 4;

fn policy(n: usize) -> PolicyBuilder {
    let base = Policy::builder().jitter(0);
    match n {
        0 => base,
        1 => base.min_calls(3).failure_rate(40).consecutive_failures(None).probes(1),
        2 => base.min_calls(2).mean_latency(Duration::from_millis(900)).window(secs(10)).ramp_cap(None),
        _ => base.min_calls(2).slow_call(secs(2)).slow_rate(40).failures(4).ramp_cap(4),
    }
}

proptest! {
    #[test]
    fn the_library_decides_as_the_core_does(n in 0..POLICIES, actions in proptest::collection::vec(action(), 1..150)) {
        let service = Service::new(&policy(n));
        let rules = policy(n).build().unwrap();
        let circuit = service.circuit("e1");
        let now = || breakerbox::Clock::now(&service.clock);
        let mut model = core::Circuit::new(&rules, now());
        let mut random = (1..).map(core::RandomBits);
        let mut draw = || random.next().unwrap();
        let mut out = Vec::new();
        for action in actions {
            match action {
                Action::Wait(time) => service.clock.advance(time),
                Action::Ask => {
                    let decision = model.try_acquire(&rules, draw(), now()).decision;
                    match (circuit.try_acquire(), decision) {
                        (Ok(permit), core::Decision::Admitted(expected)) => {
                            prop_assert_eq!(permit.is_probe(), expected.is_probe());
                            out.push((permit, expected));
                        }
                        (Err(refusal), core::Decision::Refused(expected)) => prop_assert_eq!(refusal, expected),
                        (asked, expected) => prop_assert_eq!(format!("{asked:?}"), format!("{expected:?}")),
                    }
                }
                Action::Settle(n, how) if !out.is_empty() => {
                    let (permit, expected) = out.swap_remove(n % out.len());
                    let latency = now().since(expected.started_at());
                    let settle = |model: &mut core::Circuit, expected, outcome, draw| {
                        model.settle(expected, &outcome, &rules, draw, now()).settlement
                    };
                    let (settlement, expected) = match how {
                        0..=5 => (permit.success(), settle(&mut model, expected, core::Outcome::success(latency), draw())),
                        6..=7 => (permit.failure(), settle(&mut model, expected, core::Outcome::failure(latency), draw())),
                        8 => (permit.ignored(), settle(&mut model, expected, core::Outcome::ignored(), draw())),
                        _ => {
                            drop(permit);
                            let settlement = model.settle_dropped(expected, &rules, draw(), now()).settlement;
                            (settlement, settlement)
                        }
                    };
                    prop_assert_eq!(settlement, expected);
                }
                Action::Settle(..) => {}
            }
            prop_assert_eq!(circuit.status(), model.status());
        }
        prop_assert_eq!(circuit.totals(), model.totals(now()));
        let (real, expected) = (circuit.record(), model.record());
        prop_assert_eq!((real.trips, real.retry_at, real.epoch), (expected.trips, expected.retry_at, expected.epoch));
    }
}
