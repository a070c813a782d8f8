//! A fleet of one process, with a store that responds at once, decides like a circuit that is not shared.

use std::time::Duration;

use breakerbox_core::fleet::{Consistency, Member, Waits};
use breakerbox_core::{Outcome, OutcomeKind, Permit, Policy, PolicyBuilder, Refusal};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use crate::fleet_rig::{Fleet, WAITS};

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Ask,
    /// Settle the n-th call in flight.
    Settle(usize, Outcome),
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let kind = prop_oneof![
        4 => Just(OutcomeKind::Success),
        6 => Just(OutcomeKind::Failure),
        1 => Just(OutcomeKind::Ignored),
    ];
    let retry_after =
        prop_oneof![9 => Just(None), 1 => (1_u64..100).prop_map(|s| Some(Duration::from_secs(s)))];
    (kind, 0_u64..3_000, retry_after).prop_map(|(kind, ms, retry_after)| {
        Outcome::new(kind, Duration::from_millis(ms)).with_retry_after(retry_after)
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop_oneof![8 => 0_u64..5_000, 1 => 0_u64..100_000, 1 => 0_u64..1_000_000].prop_map(Step::Pass),
        5 => Just(Step::Ask),
        5 => (any::<usize>(), outcome()).prop_map(|(n, outcome)| Step::Settle(n, outcome)),
    ]
}

fn policy() -> impl Strategy<Value = PolicyBuilder> {
    let rule = 0..5;
    (rule, 1_u64..8, 1_u64..3, any::<bool>()).prop_map(|(rule, few, probes, ramps)| {
        let none = Policy::builder().failure_rate(None).consecutive_failures(None).jitter(0).probes(probes);
        let none = none.min_calls(few).window(Duration::from_secs(10));
        let none = if ramps { none } else { none.ramp_cap(None) };
        match rule {
            0 => none.failure_rate(50),
            1 => none.failures(few),
            2 => none.consecutive_failures(few),
            3 => none.mean_latency(Duration::from_millis(1_500)),
            _ => none.slow_call(Duration::from_millis(1_000)).slow_rate(60),
        }
    })
}

/// Returns the parts of a decision that callers see.
fn described(answer: &Result<Permit, Refusal>) -> (&'static str, Option<Duration>) {
    match answer {
        Ok(permit) if permit.is_probe() => ("probe", None),
        Ok(_) => ("admitted", None),
        Err(refusal) => (refusal.name(), refusal.retry_in()),
    }
}

proptest! {
    #[test]
    fn it_decides_as_a_circuit_does(policy in policy(), strictly: bool, steps in vec(step(), 1..200)) {
        let consistency = if strictly { Consistency::Strict } else { Consistency::LocalFirst };
        let mut fleet = Fleet::with(1, &policy, consistency);
        fleet.waits = Waits { confirm: Duration::ZERO, ..WAITS };
        fleet.members[0] = fleet.members[0].clone().exclusive();
        // The second member is not shared, and is compared with the first.
        fleet.members.push(Member::alone(&fleet.policy, fleet.now));
        let mut in_flight: Vec<[Permit; 2]> = Vec::new();
        for step in steps {
            fleet.pass(Duration::from_micros(1));
            match step {
                Step::Pass(ms) => fleet.pass(Duration::from_millis(ms)),
                Step::Ask => {
                    let answers = [0, 1].map(|n| fleet.try_acquire(n));
                    prop_assert_eq!(described(&answers[0]), described(&answers[1]));
                    if let [Ok(shared), Ok(own)] = answers {
                        in_flight.push([shared, own]);
                    }
                }
                Step::Settle(n, outcome) if !in_flight.is_empty() => {
                    let permits = in_flight.swap_remove(n % in_flight.len());
                    let mut settlements = Vec::new();
                    for (n, permit) in permits.into_iter().enumerate() {
                        settlements.push(fleet.settle(n, permit, &outcome));
                    }
                    prop_assert_eq!(settlements[0], settlements[1]);
                }
                Step::Settle(..) => {}
            }
            prop_assert_eq!(fleet.status(0), fleet.status(1));
            let changes = |of: usize| {
                let of_one = fleet.changes.iter().filter(move |(n, _)| *n == of);
                of_one.map(|(_, c)| (c.from, c.to, c.cause.clone(), c.trips, c.retry_at)).collect::<Vec<_>>()
            };
            prop_assert_eq!(changes(0), changes(1));
        }
    }
}
