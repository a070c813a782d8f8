//! The ramp in a circuit that has just closed.

use breakerbox_core::{
    Circuit, CircuitStatus, Decision, Outcome, OverrideCommand, Permit, Refusal, Settlement,
};

use crate::rig::{Rig, at, failed, ok, secs, simple};

/// Returns a circuit that closed at 30 s.
fn recovered() -> Rig {
    let (mut rig, probe) = Rig::half_open(simple().consecutive_failures(100).failures(3));
    rig.settle(probe, &ok());
    assert_eq!(rig.status(), CircuitStatus::Closed);
    rig
}

/// Returns all permits that can be acquired now.
fn fill(rig: &mut Rig) -> Vec<Permit> {
    std::iter::from_fn(|| match rig.try_acquire() {
        Decision::Admitted(permit) => Some(permit),
        Decision::Refused(Refusal::Ramping { .. }) => None,
        Decision::Refused(other) => panic!("{other:?}"),
    })
    .take(1_000)
    .collect()
}

#[test]
fn traffic_comes_back_one_two_four_and_then_all_of_it() {
    let mut rig = recovered();
    let mut limits = vec![];
    loop {
        let permits = fill(&mut rig);
        limits.push(permits.len());
        if permits.len() == 1_000 {
            break;
        }
        permits.into_iter().for_each(|permit| assert_eq!(rig.settle(permit, &ok()), Settlement::Counted));
    }
    assert_eq!(limits, [1, 2, 4, 8, 16, 32, 1_000]);
}

#[test]
fn a_ramping_refusal_knows_the_limit_and_no_time() {
    let mut rig = recovered();
    let _one = rig.permit();
    let refusal = rig.refusal();
    assert_eq!(refusal, Refusal::Ramping { in_flight: 1, limit: 1 });
    assert_eq!(refusal.retry_at(), None);
}

#[test]
fn trip_rules_apply_as_ever_and_a_trip_ends_the_ramp() {
    let mut rig = recovered();
    rig.fail(3);
    assert_eq!(rig.status(), CircuitStatus::Open);
    assert!(rig.circuit.ramp().is_none());
}

#[test]
fn a_failure_halves_the_limit() {
    let mut rig = recovered();
    rig.succeed(1 + 2);
    assert_eq!(rig.ramp(), (0, 4));
    rig.call(&failed());
    assert_eq!(rig.ramp(), (0, 2));
}

#[test]
fn cancelled_and_ignored_calls_give_their_place_back() {
    let mut rig = recovered();
    rig.call(&Outcome::ignored());
    let permit = rig.permit();
    rig.drop_permit(permit);
    assert_eq!(rig.ramp(), (0, 1));
}

#[test]
fn it_ends_after_a_window_without_a_refusal() {
    let mut rig = recovered();
    rig.now = rig.now + secs(60);
    assert_eq!(fill(&mut rig).len(), 1_000);
    assert!(rig.circuit.ramp().is_none());
}

#[test]
fn it_ends_at_once_when_the_policy_turns_it_off() {
    let mut rig = recovered();
    rig.policy = simple().ramp_cap(None).build().unwrap();
    assert_eq!(fill(&mut rig).len(), 1_000);
}

#[test]
fn a_process_that_first_sees_a_circuit_closed_a_moment_ago_ramps_too() {
    let rig = recovered();
    let seen = |now| Circuit::from_record(rig.record(), &rig.policy, at(now));
    assert!(seen(30_000).ramp().is_some());
    assert!(seen(89_999).ramp().is_some());
    assert!(seen(90_000).ramp().is_none());
    let never_opened = Rig::new(simple());
    assert!(Circuit::from_record(never_opened.record().clone(), &rig.policy, at(1)).ramp().is_none());
}

#[test]
fn permits_of_before_the_ramp_ended_still_count() {
    let mut rig = recovered();
    let ramped = rig.permit();
    rig.policy = simple().ramp_cap(None).build().unwrap();
    let _ = rig.permit();
    assert_eq!(rig.settle(ramped, &failed()), Settlement::Counted);
}

#[test]
fn a_circuit_that_may_still_ramp_is_not_forgotten() {
    let mut rig = Rig::open();
    rig.apply_override(OverrideCommand::Disable);
    rig.apply_override(OverrideCommand::Enable);
    rig.succeed(1);
    assert_eq!((rig.status(), rig.record().trips), (CircuitStatus::Closed, 0));
    assert!(!rig.circuit.is_forgettable(&rig.policy, rig.now + secs(59)));
    assert!(rig.circuit.is_forgettable(&rig.policy, rig.now + secs(60)));
}
