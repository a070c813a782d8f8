//! Runs of failures: they outlive the window, in one process and in a fleet.

use std::time::Duration;

use breakerbox_core::fleet::{Member, ReportDue};
use breakerbox_core::{Cause, CircuitStatus, FailureRun, Policy, TripRule};

use crate::fleet_rig::Fleet;
use crate::rig::{Rig, failed, ms, ok, secs, simple};

const HOUR: Duration = Duration::from_secs(3_600);

/// Makes one call, and reports its outcome a second later, if it must be reported.
fn call(fleet: &mut Fleet, n: usize, succeeds: bool) -> ReportDue {
    let permit = fleet.try_acquire(n).unwrap();
    let outcome = if succeeds { ok() } else { failed() };
    let due = fleet.report(n, permit, &outcome).report;
    fleet.pass(secs(1));
    fleet.tell_due(n);
    due
}

fn run_in_store(fleet: &Fleet) -> u64 {
    fleet.store.totals(&fleet.policy, fleet.now).failure_run
}

/// The endpoint is called once in two hours, with the default policy. A gateway disables after 10 trips and 72 hours.
#[test]
fn a_low_traffic_zombie_is_disabled_too() {
    let mut rig = Rig::new(Policy::builder().disable_after(10));
    let began = rig.now;
    while rig.status() != CircuitStatus::Disabled {
        rig.fail(1);
        rig.now = rig.now + 2 * HOUR;
        assert!(rig.now.since(began) < 80 * HOUR, "{:?}", rig.record());
    }
    let [first, .., last] = rig.changes.as_slice() else { panic!("{:?}", rig.changes) };
    assert_eq!(first.cause, Cause::Rule(TripRule::ConsecutiveFailures));
    assert_eq!(first.at.since(began), 8 * HOUR, "the fifth failure");
    assert_eq!(last.at.since(began), 72 * HOUR);
}

#[test]
fn a_success_between_failures_that_are_far_apart_prevents_the_trip() {
    let mut rig = Rig::new(simple());
    for _ in 0..10 {
        for outcome in [failed(), failed(), ok()] {
            rig.call(&outcome);
            rig.now = rig.now + 24 * HOUR;
        }
    }
    assert_eq!(rig.status(), CircuitStatus::Closed);
    rig.fail(2);
    rig.now = rig.now + FailureRun::KEPT_FOR;
    rig.fail(2);
    assert_eq!(rig.status(), CircuitStatus::Closed, "after a week, failures are forgotten");
    rig.fail(1);
    assert_eq!(rig.status(), CircuitStatus::Open);
}

#[test]
fn a_circuit_with_a_run_is_not_idle() {
    let policy = simple().build().unwrap();
    let now = crate::rig::at(0);
    let mut rig = Rig::new(simple());
    let mut member = Member::alone(&policy, now);
    let breakerbox_core::fleet::MemberAnswer::Decided(acquired) =
        member.try_acquire(&policy, rig.draw(), now)
    else {
        panic!("a closed circuit decides")
    };
    let breakerbox_core::Decision::Admitted(permit) = acquired.decision else { panic!("and admits") };
    member.settle(permit, &failed(), &policy, rig.draw(), now);
    for (later, calls, idle) in
        [(secs(1), true, false), (HOUR, false, false), (FailureRun::KEPT_FOR, false, true)]
    {
        assert_eq!(member.is_forgettable(&policy, now + later), idle, "after {later:?}");
        assert_eq!(member.is_forgettable_but_for_run(&policy, now + later), !calls, "after {later:?}");
    }
}

#[test]
fn failures_of_many_processes_that_are_far_apart_open_the_circuit() {
    let mut fleet = Fleet::new(3, &simple().consecutive_failures(5));
    for n in 0..4 {
        call(&mut fleet, n % 3, false);
        assert_eq!(run_in_store(&fleet), n as u64 + 1);
        fleet.pass(2 * HOUR);
    }
    call(&mut fleet, 1, false);
    assert!(fleet.members[1].is_trip_pending());
    fleet.decide(1);
    assert_eq!(fleet.store.record.as_ref().unwrap().status(), CircuitStatus::Open);
}

#[test]
fn a_success_of_a_process_that_knows_of_the_run_is_reported_and_ends_it() {
    let mut fleet = Fleet::new(1, &simple());
    call(&mut fleet, 0, false);
    fleet.pass(HOUR);
    assert!(
        !fleet.step(0, |member, at| member.allows_fast_path(at.policy, at.now)),
        "it must be counted at once"
    );
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Later);
    assert_eq!(run_in_store(&fleet), 0);
    assert!(fleet.step(0, |member, at| member.allows_fast_path(at.policy, at.now)));
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Nothing, "and the next one costs nothing");
}

/// Another process's success is older than the window when that process is called to report. It still ends the run.
#[test]
fn a_success_that_is_older_than_the_window_is_reported_when_called_for() {
    let mut fleet = Fleet::new(2, &simple().consecutive_failures(4));
    for _ in 0..2 {
        call(&mut fleet, 0, false);
        fleet.pass(2 * HOUR);
        assert_eq!(call(&mut fleet, 1, true), ReportDue::Nothing, "it knows of no failure");
        fleet.pass(2 * HOUR);
    }
    // The second failure made the key suspicious, and the call for reports reached the second process.
    fleet.pass(ms(10));
    fleet.tell_due(1);
    for _ in 0..3 {
        call(&mut fleet, 0, false);
        fleet.tell_due(1);
        fleet.pass(2 * HOUR);
    }
    assert_eq!(fleet.store.record, None, "there was a success between them");
    assert!(run_in_store(&fleet) <= 3);
}

/// A gateway's own store keeps runs across restarts. The new process does not know of them.
#[test]
fn after_a_restart_the_first_success_ends_the_run_that_an_exclusive_store_kept() {
    let mut fleet = Fleet::new(1, &simple());
    call(&mut fleet, 0, false);
    let restart = |fleet: &mut Fleet| {
        fleet.members[0] =
            Member::of_fleet(&fleet.policy, breakerbox_core::fleet::Consistency::LocalFirst, fleet.now)
                .exclusive();
        fleet.read(0);
    };
    restart(&mut fleet);
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Later);
    assert_eq!(run_in_store(&fleet), 0);
    assert_eq!(call(&mut fleet, 0, true), ReportDue::Nothing);
    call(&mut fleet, 0, false);
    restart(&mut fleet);
    call(&mut fleet, 0, false);
    assert_eq!(run_in_store(&fleet), 2, "and a failure extends it");
}
