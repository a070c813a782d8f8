//! The reports that a fleet makes, and that it decides correctly although it makes no others.

use std::time::Duration;

use breakerbox_core::fleet::{MemberAnswer, ReportDue};
use breakerbox_core::{CircuitStatus, OutcomeKind, Policy, Refusal};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert, prop_oneof, proptest};

use crate::fleet_rig::Fleet;
use crate::rig::{failed, ms, ok, secs, simple};

/// Makes one call, whose outcome is not reported yet. Returns the report that is due.
fn call(fleet: &mut Fleet, n: usize, succeeds: bool) -> ReportDue {
    let permit = fleet.try_acquire(n).unwrap();
    let outcome = if succeeds { ok() } else { failed() };
    fleet.report(n, permit, &outcome).report
}

#[test]
fn a_key_that_is_well_is_never_reported() {
    let mut fleet = Fleet::new(1, &simple().failure_rate(50).min_calls(10));
    for n in 0..1_000 {
        let is_well = n % 100 != 50;
        let report = call(&mut fleet, 0, is_well);
        if is_well {
            assert_eq!((n, report), (n, ReportDue::Nothing));
        } else {
            assert_eq!((n, report), (n, ReportDue::After(secs(1))), "a success may follow");
        }
        fleet.pass(ms(100));
    }
    assert!(!fleet.tell_due(0), "successes followed");
}

#[test]
fn a_failure_that_no_success_follows_is_reported_after_a_second() {
    let mut fleet = Fleet::new(2, &simple());
    call(&mut fleet, 0, true);
    assert_eq!(call(&mut fleet, 0, false), ReportDue::After(secs(1)));
    fleet.pass(ms(900));
    assert!(!fleet.tell_due(0));
    fleet.pass(ms(100));
    assert!(fleet.tell_due(0));
    assert_eq!(fleet.store.totals(&fleet.policy, fleet.now).failures, 1);
}

#[test]
fn failures_spread_thinly_over_many_open_the_circuit() {
    let mut fleet = Fleet::new(5, &simple().consecutive_failures(5));
    for n in 0..5 {
        assert_eq!(call(&mut fleet, n, false), ReportDue::After(secs(1)));
        fleet.pass(ms(1));
    }
    fleet.pass(secs(1));
    for n in 0..5 {
        fleet.tell_due(n);
    }
    let judge = (0..5).find(|n| fleet.members[*n].is_trip_pending()).expect("all five are reported");
    fleet.decide(judge);
    assert_eq!(fleet.store.record.as_ref().map(breakerbox_core::Record::status), Some(CircuitStatus::Open));
}

#[test]
fn who_is_called_reports_all_it_has_until_the_store_says_that_all_is_well() {
    let mut fleet = Fleet::new(2, &simple().consecutive_failures(None).failure_rate(50).min_calls(4));
    for _ in 0..20 {
        call(&mut fleet, 1, true);
    }
    fleet.pass(ms(10));
    fleet.loses_calls = true;
    for _ in 0..2 {
        assert_eq!(call(&mut fleet, 0, false), ReportDue::Soon);
    }
    assert!(fleet.tell_due(0));
    assert!(!fleet.tell_due(1), "it was not called");
    assert_eq!(call(&mut fleet, 1, true), ReportDue::Nothing);
    fleet.step(1, |member, at| member.handle_report_call(at.policy, at.now));
    assert_eq!(fleet.step(1, |member, at| member.report_due(at.policy, at.now)), ReportDue::Now);
    assert!(fleet.tell_due(1));
    assert_eq!(fleet.store.totals(&fleet.policy, fleet.now).successes, 21);
    assert_eq!(call(&mut fleet, 1, true), ReportDue::Nothing, "2 of 23 is not suspicious");
}

#[test]
fn under_suspicion_every_outcome_is_reported() {
    let mut fleet = Fleet::new(1, &simple().consecutive_failures(None).failure_rate(50).min_calls(9));
    call(&mut fleet, 0, false);
    assert!(fleet.tell_due(0));
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Later, "1 of 1 failed");
    assert!(fleet.tell_due(0));
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Later, "1 of 2");
    assert!(fleet.tell_due(0));
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Nothing, "1 of 3");
}

#[test]
fn a_lost_call_is_repeated_while_a_process_judges() {
    let mut fleet = Fleet::new(2, &simple().consecutive_failures(None).failure_rate(50).min_calls(4));
    for _ in 0..20 {
        call(&mut fleet, 1, true);
    }
    fleet.loses_calls = true;
    let calls: Vec<_> = (0..4).map(|_| fleet.try_acquire(0).unwrap()).collect();
    for permit in calls {
        fleet.report(0, permit, &failed());
    }
    assert!(fleet.tell_due(0));
    assert_eq!(fleet.try_acquire(0), Err(Refusal::TripPending));
    fleet.loses_calls = false;
    fleet.pass(ms(200));
    assert!(fleet.tell_due(0), "it looks again, and calls again");
    fleet.decide(0);
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::OpenLocally { .. })), "4 of 24");
    assert_eq!(fleet.store.record, None);
}

/// A step of the property test: a call by one process, or the passing of time.
#[derive(Clone, Debug)]
enum Step {
    Call(usize, bool),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![Just(OutcomeKind::Success), Just(OutcomeKind::Failure)];
    let call = (0_usize..4, kind).prop_map(|(n, kind)| Step::Call(n, kind == OutcomeKind::Success));
    vec(prop_oneof![4 => call, 1 => (1_u64..400).prop_map(Step::Pass)], 1..60)
}

fn policies() -> impl Strategy<Value = breakerbox_core::PolicyBuilder> {
    (0..4, 2_u64..8, 20_u64..=100).prop_map(|(rule, few, percent)| {
        let none = Policy::builder().failure_rate(None).consecutive_failures(None).jitter(0).ramp_cap(None);
        let none = none.min_calls(few).window(Duration::from_secs(600));
        match rule {
            0 | 1 => none.failure_rate(percent),
            2 => none.failures(few),
            _ => none.consecutive_failures(few),
        }
    })
}

proptest! {
    /// A fleet whose processes report only what they must trips like a single circuit over all of their outcomes.
    ///
    /// Once calls have ended and every process has had time to report, the circuit is open if all outcomes meet a rule.
    /// It never opens if they never met one. For the consecutive-failures rule, the circuit is certain to open only if
    /// no process's last call before the final run of failures failed, because a store drops a whole run of failures
    /// when it learns of a success after the run's first failure.
    #[test]
    fn a_frugal_fleet_decides_by_all_outcomes(policy in policies(), steps in steps()) {
        let mut fleet = Fleet::new(4, &policy);
        let mut outcomes = Vec::new();
        for step in &steps {
            fleet.pass(ms(1));
            match *step {
                Step::Pass(time) => fleet.pass(ms(time)),
                Step::Call(n, succeeds) => {
                    let MemberAnswer::Decided(acquired) = fleet.answer(n) else { panic!("all are known") };
                    // A process with a pending trip refuses calls; a call that is not made has no outcome.
                    let Ok(permit) = crate::fleet_rig::decided(acquired.decision) else { continue };
                    let outcome = if succeeds { ok() } else { failed() };
                    fleet.report(n, permit, &outcome);
                    outcomes.push((n, succeeds));
                }
            }
            (0..4).for_each(|n| _ = fleet.tell_due(n));
            if fleet.store.record.is_some() {
                break;
            }
        }
        // All processes have time to report and to decide.
        for _ in 0..10 {
            fleet.pass(ms(300));
            (0..4).for_each(|n| _ = fleet.tell_due(n));
        }
        let is_open = fleet.store.record.is_some();
        let run = run_of(&outcomes);
        let before_run = &outcomes[..outcomes.len() - run];
        let latest_of = |n: usize| before_run.iter().rev().find(|(of, _)| *of == n);
        let is_certain = (0..4).all(|n| latest_of(n).is_none_or(|(_, succeeds)| *succeeds));
        if is_certain || fleet.policy.consecutive_failures().is_none() {
            prop_assert!(is_open || !holds(&fleet.policy, &outcomes), "{:?} {outcomes:?}", fleet.policy);
        }
        let held = (0..=outcomes.len()).any(|many| holds(&fleet.policy, &outcomes[..many]));
        prop_assert!(held || !is_open, "{:?} {outcomes:?}", fleet.policy);
    }
}

fn run_of(outcomes: &[(usize, bool)]) -> usize {
    outcomes.iter().rev().take_while(|(_, succeeds)| !succeeds).count()
}

/// Whether these outcomes meet a rule. Computed independently, from the rules' definition.
fn holds(policy: &Policy, outcomes: &[(usize, bool)]) -> bool {
    let failures = outcomes.iter().filter(|(_, succeeds)| !succeeds).count() as u64;
    let (calls, run) = (outcomes.len() as u64, run_of(outcomes) as u64);
    let is_rate = |limit: u8| calls >= policy.min_calls() && failures * 100 >= calls * u64::from(limit);
    policy.failures().is_some_and(|limit| failures >= limit)
        || policy.consecutive_failures().is_some_and(|limit| run >= limit)
        || policy.failure_rate().is_some_and(is_rate)
}

#[test]
fn a_plain_sum_of_failures_waits_for_no_other_process() {
    let mut fleet = Fleet::new(2, &simple().consecutive_failures(None).failures(3));
    let began = fleet.now;
    for _ in 0..3 {
        call(&mut fleet, 0, false);
    }
    fleet.send_report(0);
    let record = fleet.store.record.as_ref().expect("no success could object");
    assert_eq!((record.status(), record.retry_at), (CircuitStatus::Open, Some(began + secs(30))));
}
