//! A process whose own calls fail, while the fleet's do not, refuses calls by itself.

use std::time::Duration;

use breakerbox_core::fleet::{Consistency, ReportDue};
use breakerbox_core::{CircuitStatus, OutcomeKind, OverrideCommand, Permit, Policy, PolicyBuilder, Refusal};

use crate::fleet_rig::Fleet;
use crate::rig::{failed, ms, ok, operator, secs, simple};

const BOTH: [Consistency; 2] = [Consistency::LocalFirst, Consistency::Strict];

fn policy() -> PolicyBuilder {
    simple().cool_off(secs(10)).cool_off_factor(2.0).probes(2)
}

/// Makes a successful call in the second process.
fn others_succeed(fleet: &mut Fleet) {
    fleet.pass(ms(1));
    let permit = fleet.try_acquire(1).unwrap();
    fleet.settle(1, permit, &ok());
    fleet.pass(ms(1));
}

/// Returns a fleet in which the first process has just opened its process-local circuit.
fn opened_locally(consistency: Consistency, policy: &PolicyBuilder) -> Fleet {
    let mut fleet = Fleet::with(3, policy, consistency);
    fail_here(&mut fleet);
    fleet
}

/// Fails calls in the first process, each after another process's success, until the first process opens its local
/// circuit.
fn fail_here(fleet: &mut Fleet) {
    for failures in 0.. {
        assert!(failures < 20, "{failures} failures, and it goes on");
        others_succeed(fleet);
        let Ok(permit) = fleet.try_acquire(0) else { break };
        fleet.settle(0, permit, &failed());
        if fleet.members[0].is_open_locally() {
            break;
        }
    }
    assert!(fleet.members[0].is_open_locally());
}

fn refused_for(fleet: &mut Fleet) -> Duration {
    match fleet.try_acquire(0) {
        Err(Refusal::OpenLocally { retry_in, .. }) => retry_in,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_opens_for_itself_at_the_limit_and_the_others_notice_nothing() {
    let rules: [(&str, PolicyBuilder, u32); 3] = [
        ("a run", policy(), 3),
        ("a rate", policy().consecutive_failures(None).failure_rate(50).min_calls(4), 4),
        ("a number", policy().consecutive_failures(None).failure_rate(60).min_calls(5), 5),
    ];
    for consistency in BOTH {
        for (rule, policy, limit) in &rules {
            let mut fleet = Fleet::with(3, policy, consistency);
            (0..20).for_each(|_| others_succeed(&mut fleet));
            for n in 0..*limit {
                assert!(!fleet.members[0].is_open_locally(), "{consistency:?}, {rule}: after {n}");
                others_succeed(&mut fleet);
                let permit = fleet.try_acquire(0).unwrap();
                fleet.settle(0, permit, &failed());
            }
            assert_eq!(refused_for(&mut fleet), secs(10), "{consistency:?}, {rule}");
            assert!(fleet.try_acquire(1).is_ok() && fleet.try_acquire(2).is_ok(), "{consistency:?}, {rule}");
            assert_eq!(
                (fleet.store.record.clone(), fleet.changes.len()),
                (None, 0),
                "nothing is written, nobody hears"
            );
            assert_eq!(fleet.status(0), CircuitStatus::Closed, "{consistency:?}, {rule}");
            assert!(!fleet.members[1].is_open_locally());
        }
    }
}

#[test]
fn where_all_fail_the_shared_circuit_opens_and_no_local_one() {
    for consistency in BOTH {
        let mut fleet = Fleet::with(3, &policy(), consistency);
        fleet.trip();
        assert!(fleet.members.iter().all(|member| !member.is_open_locally()), "{consistency:?}");
        // This also applies if a process had a local circuit before: the shared circuit replaces it.
        let mut fleet = opened_locally(consistency, &policy());
        others_succeed(&mut fleet);
        for n in [1, 2, 1] {
            fleet.pass(ms(1));
            fleet.fail(n, 1);
        }
        if consistency == Consistency::LocalFirst {
            fleet.decide(1);
        }
        assert_eq!(
            fleet.store.record.as_ref().map(breakerbox_core::Record::status),
            Some(CircuitStatus::Open)
        );
        fleet.read(0);
        assert!(!fleet.members[0].is_open_locally(), "{consistency:?}");
        assert!(matches!(fleet.try_acquire(0), Err(Refusal::Open { .. })), "{consistency:?}");
    }
}

#[test]
fn it_probes_for_itself_one_at_a_time_and_its_cool_off_grows() {
    for consistency in BOTH {
        let mut fleet = opened_locally(consistency, &policy());
        for cool_off in [10, 20, 40] {
            assert_eq!(refused_for(&mut fleet), secs(cool_off), "{consistency:?}");
            fleet.pass(secs(cool_off) - ms(1));
            assert_eq!(refused_for(&mut fleet), ms(1), "{consistency:?}");
            fleet.pass(ms(1));
            others_succeed(&mut fleet);
            let probe = fleet.try_acquire(0).unwrap();
            assert!(!probe.is_probe(), "an ordinary call for the fleet");
            assert_eq!(refused_for(&mut fleet), secs(12), "until the probe is given up at the latest");
            fleet.settle(0, probe, &failed());
        }
        fleet.pass(secs(80));
        for _ in 0..2 {
            let probe = fleet.try_acquire(0).unwrap();
            assert!(fleet.try_acquire(0).is_err(), "{consistency:?}: one at a time");
            fleet.settle(0, probe, &ok());
        }
        // There is no ramp, because the destination was healthy all the time.
        let calls: Vec<_> = (0..100).map(|_| fleet.try_acquire(0).unwrap()).collect();
        assert!(!fleet.members[0].is_open_locally() && calls.len() == 100, "{consistency:?}");
        assert_eq!((fleet.store.record.clone(), fleet.changes.len()), (None, 0), "{consistency:?}");
    }
}

#[test]
fn what_a_local_probe_turns_out_to_be_counts_for_the_fleet() {
    for consistency in BOTH {
        let mut fleet = opened_locally(consistency, &policy());
        fleet.pass(secs(10));
        let before = fleet.store.totals(&fleet.policy, fleet.now);
        let probe = fleet.try_acquire(0).unwrap();
        fleet.settle(0, probe, &failed());
        let after = fleet.store.totals(&fleet.policy, fleet.now);
        assert_eq!(after.failures, before.failures + 1, "{consistency:?}");
    }
}

#[test]
fn a_probe_that_never_settles_is_followed_by_another_and_is_late() {
    for consistency in BOTH {
        let mut fleet = opened_locally(consistency, &policy().probes(1));
        fleet.pass(secs(10));
        let lost = fleet.try_acquire(0).unwrap();
        fleet.pass(secs(12) - ms(1));
        assert!(fleet.try_acquire(0).is_err(), "{consistency:?}");
        fleet.pass(ms(1));
        let next = fleet.try_acquire(0).unwrap();
        fleet.settle(0, lost, &ok());
        assert!(fleet.members[0].is_open_locally(), "{consistency:?}: the lost one changes nothing");
        fleet.settle(0, next, &ok());
        assert!(!fleet.members[0].is_open_locally(), "{consistency:?}");
    }
}

#[test]
fn a_call_from_before_the_trip_neither_closes_nor_opens_it() {
    for consistency in BOTH {
        let mut fleet = Fleet::with(3, &policy().probes(1), consistency);
        let slow: Vec<Permit> = (0..4).map(|_| fleet.try_acquire(0).unwrap()).collect();
        fail_here(&mut fleet);
        let mut slow = slow.into_iter();
        fleet.settle(0, slow.next().unwrap(), &ok());
        assert!(fleet.members[0].is_open_locally(), "{consistency:?}");
        fleet.pass(secs(10));
        let probe = fleet.try_acquire(0).unwrap();
        fleet.settle(0, probe, &ok());
        assert!(!fleet.members[0].is_open_locally(), "{consistency:?}");
        // These calls took longer than everything above, and fail: they started before the circuit closed.
        for permit in slow {
            others_succeed(&mut fleet);
            fleet.settle(0, permit, &breakerbox_core::Outcome::failure(secs(11)));
        }
        assert!(fleet.try_acquire(0).is_ok(), "{consistency:?}");
    }
}

#[test]
fn it_is_forgiven_as_any_circuit_is() {
    for consistency in BOTH {
        for (closed_for, next) in [(secs(99), 20), (secs(100), 10)] {
            let mut fleet = opened_locally(consistency, &policy().probes(1));
            fleet.pass(secs(10));
            let probe = fleet.try_acquire(0).unwrap();
            fleet.settle(0, probe, &ok());
            fleet.pass(closed_for);
            fail_here(&mut fleet);
            assert_eq!(refused_for(&mut fleet), secs(next), "{consistency:?}, closed for {closed_for:?}");
        }
    }
}

#[test]
fn it_disables_nothing_however_often_it_trips() {
    let disables = policy().disable_after(2).disable_min(Duration::ZERO);
    let mut fleet = opened_locally(Consistency::LocalFirst, &disables);
    for _ in 0..5 {
        fleet.pass(secs(600));
        others_succeed(&mut fleet);
        let probe = fleet.try_acquire(0).unwrap();
        fleet.settle(0, probe, &failed());
    }
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::OpenLocally { .. })));
    assert_eq!(fleet.store.record, None);
}

#[test]
fn an_operator_overrules_it() {
    for consistency in BOTH {
        let mut fleet = opened_locally(consistency, &policy());
        let record = fleet.store.record.clone();
        let by = operator();
        let (_, order) =
            fleet.step(1, |member, at| member.apply_override(record, OverrideCommand::ForceClosed, &by, at));
        assert!(fleet.swap(1, &order.unwrap()));
        fleet.read(0);
        for _ in 0..20 {
            let permit = fleet.try_acquire(0).unwrap();
            fleet.settle(0, permit, &failed());
        }
        assert!(!fleet.members[0].is_open_locally(), "{consistency:?}");
    }
}

#[test]
fn there_is_none_where_there_are_no_others() {
    // With an exclusive store.
    let mut fleet = Fleet::new(2, &policy().consecutive_failures(None).failure_rate(90).min_calls(3));
    fleet.members[0] = fleet.members[0].clone().exclusive();
    (0..20).for_each(|_| others_succeed(&mut fleet));
    for _ in 0..10 {
        let permit = fleet.try_acquire(0).unwrap();
        fleet.settle(0, permit, &failed());
        others_succeed(&mut fleet);
    }
    assert!(!fleet.members[0].is_open_locally());

    // While the store is unavailable, the circuit itself depends on this process's outcomes alone.
    let mut fleet = opened_locally(Consistency::LocalFirst, &policy());
    fleet.members[0].leave();
    assert!(!fleet.members[0].is_open_locally());
    fleet.fail(0, 1);
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::Open { .. })), "it knows what it saw");
}

#[test]
fn what_the_store_has_not_heard_is_told_before_it_opens_for_itself() {
    let mut fleet = Fleet::new(2, &policy());
    let calls: Vec<_> = (0..3).map(|_| fleet.try_acquire(0).unwrap()).collect();
    let mut calls = calls.into_iter();
    fleet.report(0, calls.next().unwrap(), &failed());
    let first = fleet.delta(0).unwrap();
    // Two more calls fail while the first failure is being reported.
    for permit in calls {
        fleet.report(0, permit, &failed());
    }
    let merged = fleet.store.merge(&first, fleet.now);
    let reported = fleet.step(0, |member, at| member.reported(&merged, at));
    assert!(!reported.learnt.opened_locally && !fleet.members[0].is_open_locally());
    assert_eq!(reported.report, ReportDue::Nothing);
    fleet.send_report(0);
    assert_eq!(fleet.try_acquire(0), Err(Refusal::TripPending), "three in a row, and nobody contradicts");
}

#[test]
fn a_ramp_keeps_no_place_of_a_call_that_is_refused_here() {
    let ramps = Policy::builder().failure_rate(None).consecutive_failures(3).jitter(0).probes(1).ramp_cap(64);
    let mut fleet = Fleet::new(2, &ramps.cool_off(secs(10)).cool_off_factor(1.0));
    fleet.trip();
    fleet.pass(secs(10));
    let probe = fleet.try_acquire(1).unwrap();
    fleet.settle(1, probe, &ok());
    fleet.read(0);
    fail_here(&mut fleet);
    for _ in 0..50 {
        refused_for(&mut fleet);
    }
    let in_flight = fleet.members[0].circuit().ramp().map(breakerbox_core::Ramp::in_flight);
    assert_eq!(in_flight, Some(0));
}

#[test]
fn a_probe_whose_ticket_was_settled_elsewhere_ends_as_that_did() {
    for (kind, is_open) in [(OutcomeKind::Success, false), (OutcomeKind::Failure, true)] {
        let mut fleet = opened_locally(Consistency::LocalFirst, &policy().probes(1));
        fleet.pass(secs(10));
        let probe = fleet.try_acquire(0).unwrap();
        fleet.step(0, |member, at| member.release(probe, kind, at.policy, at.draw, at.now));
        assert_eq!(fleet.members[0].is_open_locally(), is_open, "{kind:?}");
        assert_eq!(fleet.try_acquire(0).is_err(), is_open, "{kind:?}");
    }
}
