//! When a process must report; and that no rule can be met over a fleet in which no process must report.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert, prop_oneof, proptest};

use super::*;
use crate::outcome::{Outcome, OutcomeKind};
use crate::policy::PolicyBuilder;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn only(set: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    let none = Policy::builder().failure_rate(None).consecutive_failures(None).min_calls(10);
    set(none).build().unwrap()
}

fn totals(successes: u64, failures: u64, failure_run: u64) -> Totals {
    Totals { successes, failures, failure_run, ..Totals::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_process_reports_what_it_must_and_nothing_else() {
    let (rate, run) = (only(|p| p.failure_rate(50)), only(|p| p.consecutive_failures(5)));
    let (sum, mean) = (only(|p| p.failures(50)), only(|p| p.mean_latency(ms(100))));
    let slow = only(|p| p.slow_call(ms(100)).slow_rate(50));
    let took = |latency: u64, calls: u64| Totals { latency_sum: ms(latency * calls), ..totals(calls, 0, 0) };
    let was_slow = |slow: u64, calls: u64| Totals { slow, ..totals(calls, 0, 0) };
    let (began, nothing) = (Some(NOW.back_by(ms(400))), totals(0, 0, 0));
    let long_ago = Some(NOW.back_by(ms(1_000)));
    #[rustfmt::skip]
    let table = [
        ("well",                                  &rate, totals(60, 0, 0), nothing, None,     Due::Never),
        ("nothing to say",                        &rate, nothing,          nothing, None,     Due::Never),
        ("few failures, now and then",            &rate, totals(60, 3, 0), nothing, None,     Due::Never),
        ("a run that no rule asks for",           &rate, totals(60, 3, 3), nothing, began,    Due::Never),
        ("at the rate, with few calls",           &rate, totals(1, 1, 0),  nothing, None,     Due::Soon),
        ("well, and many of them",                &run,  totals(60, 3, 0), nothing, None,     Due::Never),
        ("one failure, just now",                 &run,  totals(60, 1, 1), nothing, began,    Due::After(ms(600))),
        ("one failure, a second ago",             &run,  totals(60, 1, 1), nothing, long_ago, Due::Soon),
        ("two in a row",                          &run,  totals(60, 2, 2), nothing, began,    Due::Soon),
        ("one, and one that was reported before", &run,  totals(0, 1, 1),  totals(9, 1, 1), began, Due::Soon),
        ("one after a success, and one before",   &run,  totals(1, 1, 1),  totals(9, 1, 1), began, Due::After(ms(600))),
        ("a sum needs every failure",             &sum,  totals(60, 1, 0), nothing, None,     Due::Soon),
        ("a sum without failures",                &sum,  totals(60, 0, 0), nothing, None,     Due::Never),
        ("quick",                                 &mean, took(99, 9),      nothing, None,     Due::Never),
        ("as slow as the mean may be",            &mean, took(100, 1),     nothing, None,     Due::Soon),
        ("some slow calls",                       &slow, was_slow(4, 9),   nothing, None,     Due::Never),
        ("half of them slow",                     &slow, was_slow(1, 2),   nothing, None,     Due::Soon),
    ];
    for (what, policy, unreported, reported, run_began, expected) in table {
        let all = reported.then(&unreported);
        let known = Known { unreported: &unreported, all: &all, own: &unreported, run_began };
        assert_eq!(due(policy, &known, NOW), expected, "{what}");
    }
    let (few, own) = (totals(9, 1, 0), totals(9, 9, 0));
    let known = Known { unreported: &few, all: &few, own: &own, run_began: None };
    assert_eq!(due(&rate, &known, NOW), Due::Soon, "a rule holds over its own outcomes");
}

#[test]
fn a_key_is_suspected_by_what_was_reported() {
    let (rate, run) = (only(|p| p.failure_rate(50)), only(|p| p.consecutive_failures(5)));
    let short = only(|p| p.consecutive_failures(3));
    for (what, policy, reported, expected) in [
        ("nothing", &rate, totals(0, 0, 0), false),
        ("below the rate", &rate, totals(59, 1, 1), false),
        ("at the rate, with few calls", &rate, totals(1, 1, 0), true),
        ("a run that no rule asks for", &rate, totals(59, 3, 3), false),
        ("less than half of the run", &run, totals(59, 2, 2), false),
        ("half of the run", &run, totals(59, 3, 3), true),
        ("one is no run", &short, totals(59, 1, 1), false),
        ("two of three", &short, totals(59, 2, 2), true),
    ] {
        assert_eq!(is_suspicious(policy, &reported), expected, "{what}");
    }
}

#[test]
fn suspicion_lasts_until_the_store_says_otherwise_and_calls_are_not_repeated_at_once() {
    let policy = only(|p| p.failure_rate(50));
    let (bad, well) = (totals(1, 1, 0), totals(9, 1, 0));
    let mut suspicion = Suspicion::default();
    assert!(suspicion.learn(&bad, &policy, NOW), "the first calls");
    assert_eq!(suspicion.look_due_in(NOW + ms(50)), Some(ms(200)), "the others may have answered");
    assert!(!suspicion.learn(&bad, &policy, NOW + ms(250)), "not again at once");
    assert_eq!(suspicion.look_due_in(NOW + ms(250)), Some(ms(1_000)), "less and less often");
    assert!(suspicion.learn(&bad, &policy, NOW + ms(1_000)), "a call may have been lost");
    suspicion.report();
    assert!(!suspicion.learn(&bad, &policy, NOW + ms(1_000)));
    assert_eq!(suspicion.look_due_in(NOW + ms(1_000)), Some(ms(250)), "after news, soon");
    assert!(suspicion.holds(NOW + policy.window()));
    assert!(!suspicion.learn(&well, &policy, NOW + ms(1_100)) && !suspicion.holds(NOW + ms(1_100)));
    let mut called = Suspicion::default();
    called.handle_report_call(&policy, NOW);
    assert!(!called.learn(&bad, &policy, NOW + ms(1)), "whoever was called does not call the caller");
    assert!(called.holds(NOW + ms(1)) && !called.holds(NOW + policy.window() + ms(1)));
}

#[test]
fn a_judge_gives_the_others_their_time_from_its_call_on() {
    let mut pending_trip = PendingTrip::begin(NOW);
    let confirm = ms(600);
    let called_at = NOW + ms(300);
    let mut suspicion = Suspicion { called_at: Some(NOW.back_by(ms(1))), ..Suspicion::default() };
    let mut look = |after: u64| pending_trip.go_on(confirm, &mut suspicion, called_at + ms(after));
    let wait = |wait: u64, call: bool| PendingTripStep::Wait { wait: ms(wait), call };
    assert_eq!(look(0), wait(200, true), "what was called for before the rule held may be too old");
    assert_eq!(look(150), wait(200, false));
    assert_eq!(look(450), wait(150, true), "a call may be lost");
    assert_eq!(look(600), PendingTripStep::Decide);
    assert_eq!(pending_trip.since, NOW, "the cool-off counts from when calls were first refused");
    let mut none = Suspicion::default();
    assert_eq!(
        PendingTrip::begin(NOW).go_on(Duration::ZERO, &mut none, NOW),
        PendingTripStep::Decide,
        "no others"
    );
    let mut heard = Suspicion { called_at: Some(NOW), ..Suspicion::default() };
    assert_eq!(
        PendingTrip::begin(NOW).go_on(confirm, &mut heard, NOW + ms(1)),
        wait(200, false),
        "another called"
    );
}

/// Generates one process's outcomes, oldest first. Each is a success or a failure with a latency.
fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let kind = prop_oneof![Just(OutcomeKind::Success), Just(OutcomeKind::Failure)];
    vec(
        (kind, 0_u64..300).prop_map(|(kind, latency)| Outcome {
            kind,
            latency: ms(latency),
            retry_after: None,
        }),
        0..12,
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    (0..5, 1_u64..12, 1_u64..=100).prop_map(|(rule, few, percent)| {
        let none = Policy::builder().failure_rate(None).consecutive_failures(None).min_calls(few);
        let policy = match rule {
            0 => none.failure_rate(percent),
            1 => none.failures(few),
            2 => none.consecutive_failures(few),
            3 => none.mean_latency(ms(percent * 3)),
            _ => none.slow_call(ms(150)).slow_rate(percent),
        };
        policy.build().unwrap()
    })
}

fn sum_of(outcomes: &[Outcome], policy: &Policy) -> Totals {
    outcomes.iter().fold(Totals::default(), |sum, outcome| {
        let failed = outcome.kind == OutcomeKind::Failure;
        sum.then(&Totals {
            successes: u64::from(!failed),
            failures: u64::from(failed),
            slow: u64::from(outcome.is_slow(policy)),
            latency_sum: outcome.latency,
            failure_run: u64::from(failed),
        })
    })
}

proptest! {
    /// If all outcomes, reported and unreported, together meet a rule, then a process must report, or the reported
    /// outcomes are suspicious, so that all processes are called to report. All runs of consecutive failures began a
    /// second ago.
    #[test]
    fn no_rule_holds_while_all_keep_silent(
        policy in policies(),
        reported in outcomes(),
        unreported in vec(outcomes(), 1..5),
    ) {
        let store = sum_of(&reported, &policy);
        let parts: Vec<_> = unreported.iter().map(|outcomes| sum_of(outcomes, &policy)).collect();
        // In any order of time, the fleet's run of failures is at most the sum of the runs of processes whose latest
        // outcome failed.
        let mut all = parts.iter().fold(store, Totals::then);
        let runs = parts.iter().map(|part| part.failure_run).sum::<u64>();
        let any_success = parts.iter().any(|part| part.successes > 0);
        all.failure_run = runs + if any_success { 0 } else { store.failure_run };
        let is_obliged = |part: &Totals| {
            let known = Known {
                unreported: part,
                all: &store.then(part),
                own: part,
                run_began: (part.failure_run > 0).then_some(NOW.back_by(RUN_OPEN_FOR)),
            };
            due(&policy, &known, NOW) == Due::Soon
        };
        let silent = !is_suspicious(&policy, &store) && !parts.iter().any(is_obliged);
        let is_news = TripRule::first_broken(&policy, &store).is_none();
        prop_assert!(
            !silent || !is_news || TripRule::first_broken(&policy, &all).is_none(),
            "{policy:?} {store:?} {parts:?}"
        );
    }

    /// A sum of totals is at the limit of a rate or a mean only if at least one of the summed totals is.
    #[test]
    fn the_mediant_inequality_holds(policy in policies(), parts in vec(outcomes(), 1..6)) {
        let parts: Vec<_> = parts.iter().map(|outcomes| sum_of(outcomes, &policy)).collect();
        let all = parts.iter().fold(Totals::default(), Totals::then);
        let is_one = parts.iter().any(|part| TripRule::is_at_limit(&policy, part));
        prop_assert!(is_one || !TripRule::is_at_limit(&policy, &all), "{policy:?} {parts:?}");
    }
}
