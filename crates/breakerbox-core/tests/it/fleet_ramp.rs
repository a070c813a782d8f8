//! A fleet's ramp: one limit for all members, as they take slots from the store and release them.

use breakerbox_core::fleet::{Consistency, RampState, RampStep};
use breakerbox_core::{CircuitStatus, Outcome, OutcomeKind, Permit, PolicyBuilder, Refusal, Timestamp};

use crate::fleet_rig::Fleet;
use crate::rig::{at, failed, ms, ok, secs, simple};

fn policy() -> PolicyBuilder {
    simple().consecutive_failures(3).ramp_cap(8)
}

/// Returns members of a circuit that has just closed, with a policy that needs more failures to trip than these tests
/// cause.
fn closed(members: usize, consistency: Consistency) -> Fleet {
    let mut fleet = Fleet::with(members, &policy(), consistency);
    fleet.trip();
    fleet.pass(secs(31));
    let probe = fleet.try_acquire(0).unwrap();
    assert!(probe.is_probe());
    fleet.settle(0, probe, &ok());
    fleet.all_read();
    assert!((0..members).all(|n| fleet.status(n) == CircuitStatus::Closed));
    fleet.policy = policy().consecutive_failures(100).build().unwrap();
    fleet
}

/// Returns all permits that the members can acquire now, and the refusal that follows.
fn fill(fleet: &mut Fleet) -> (Vec<(usize, Permit)>, Option<Refusal>) {
    let mut permits = Vec::new();
    for turn in 0..100 {
        let n = turn % fleet.members.len();
        match fleet.try_acquire(n) {
            Ok(permit) => permits.push((n, permit)),
            Err(refusal) => return (permits, Some(refusal)),
        }
    }
    (permits, None)
}

fn settle(fleet: &mut Fleet, permits: Vec<(usize, Permit)>, outcome: &Outcome) {
    for (n, permit) in permits {
        fleet.settle(n, permit, outcome);
    }
}

#[test]
fn the_limit_holds_over_all_members_and_doubles_with_each_round() {
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        let mut fleet = closed(3, consistency);
        for limit in [1, 2, 4] {
            let (permits, refusal) = fill(&mut fleet);
            assert_eq!(refusal, Some(Refusal::Ramping { in_flight: limit, limit }));
            assert_eq!(permits.len(), limit as usize);
            settle(&mut fleet, permits, &ok());
        }
        assert_eq!(fill(&mut fleet).1, None, "over at the cap");
        assert!(fleet.members.iter().all(|member| member.circuit().ramp().is_none()));
    }
}

#[test]
fn a_failure_of_anybody_halves_the_limit_for_all() {
    let mut fleet = closed(3, Consistency::LocalFirst);
    for _ in 0..2 {
        let (permits, _) = fill(&mut fleet);
        settle(&mut fleet, permits, &ok());
    }
    let (mut permits, _) = fill(&mut fleet);
    assert_eq!(permits.len(), 4);
    let (n, permit) = permits.pop().unwrap();
    fleet.settle(n, permit, &failed());
    settle(&mut fleet, permits, &Outcome::ignored());
    assert_eq!(fill(&mut fleet).0.len(), 2, "and the ignored ones change nothing");
}

#[test]
fn a_member_that_dies_with_its_place_does_not_keep_it() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    let _lost = fleet.try_acquire(1).unwrap();
    fleet.pass(secs(11));
    assert_eq!(fleet.try_acquire(0).unwrap_err(), Refusal::Ramping { in_flight: 1, limit: 1 });
    fleet.pass(secs(1));
    assert!(fleet.try_acquire(0).is_ok(), "probe_timeout and the margin later");
}

#[test]
fn whoever_joins_later_joins_the_ramp_as_it_is() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    let (permits, _) = fill(&mut fleet);
    settle(&mut fleet, permits, &ok());
    // More than a window after closing: refusals keep the ramp active.
    for _ in 0..3 {
        fleet.pass(secs(30));
        let (permits, refusal) = fill(&mut fleet);
        assert!(refusal.is_some());
        settle(&mut fleet, permits, &Outcome::ignored());
    }
    let now = fleet.now;
    fleet.members.push(breakerbox_core::fleet::Member::of_fleet(&fleet.policy, Consistency::LocalFirst, now));
    fleet.read(2);
    let _two = [fleet.try_acquire(2).unwrap(), fleet.try_acquire(2).unwrap()];
    assert_eq!(fleet.try_acquire(2).unwrap_err(), Refusal::Ramping { in_flight: 2, limit: 2 });
}

#[test]
fn a_ramp_that_is_over_costs_each_member_one_request() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    loop {
        let permit = fleet.try_acquire(0);
        match permit {
            Ok(permit) if permit.slot().is_some() => fleet.settle(0, permit, &ok()),
            _ => break,
        };
    }
    assert!(fleet.members[0].circuit().ramp().is_none());
    assert!(fleet.members[1].circuit().ramp().is_some(), "it has not asked yet");
    assert_eq!(fleet.try_acquire(1).unwrap().slot(), None);
    assert!(fleet.members[1].circuit().ramp().is_none());
}

#[test]
fn it_ends_after_a_window_without_a_refusal() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    fleet.pass(secs(59));
    assert_eq!(fill(&mut fleet).0.len(), 1);
    fleet.pass(secs(59));
    assert!(
        fleet.try_acquire(0).unwrap().slot().is_some(),
        "59 s after the refusal; the place of before has expired"
    );
    fleet.pass(secs(1));
    assert_eq!(fill(&mut fleet).1, None);
}

#[test]
fn without_the_store_each_member_has_a_ramp_of_its_own() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    let _place = fleet.try_acquire(0).unwrap();
    fleet.members.iter_mut().for_each(breakerbox_core::fleet::Member::leave);
    for n in 0..2 {
        assert_eq!(fleet.try_acquire(n).unwrap().slot(), None);
        assert_eq!(fleet.try_acquire(n).unwrap_err(), Refusal::Ramping { in_flight: 1, limit: 1 });
    }
}

#[test]
fn where_no_other_process_uses_the_store_the_ramp_is_its_own() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    fleet.members[0] = fleet.members[0].clone().exclusive();
    assert_eq!(fleet.try_acquire(0).unwrap().slot(), None);
    assert_eq!(fleet.try_acquire(0).unwrap_err(), Refusal::Ramping { in_flight: 1, limit: 1 });
}

#[test]
fn the_next_limit_follows_from_what_the_ramp_is() {
    let policy = policy().build().unwrap();
    let state =
        |limit, successes| RampState { step: 7, limit: Some(limit), successes, refused_at: at(1_000) };
    let over = Some(RampStep { expected: 7, limit: None });
    let to = |limit| Some(RampStep { expected: 7, limit: Some(limit) });
    for (limit, successes, failures, next) in [
        (1, 0, 0, None),
        (1, 1, 0, to(2)),
        (2, 1, 0, None),
        (2, 2, 0, to(4)),
        (2, 9, 0, to(4)),
        (4, 4, 0, over),
        (8, 0, 0, over),
        (4, 4, 1, to(2)),
        (4, 0, 2, to(1)),
        (4, 0, 99, to(1)),
        (1, 0, 1, None),
        (1, 1, 1, to(1)),
    ] {
        let acquired = state(limit, successes).next_step(failures, &policy, at(1_000) + ms(10));
        assert_eq!(acquired, next, "{limit} {successes} {failures}");
    }
    let later: Timestamp = at(1_000) + policy.window();
    assert_eq!(state(2, 0).next_step(1, &policy, later), over, "a window without a refusal");
    let off = simple().ramp_cap(None).build().unwrap();
    assert_eq!(state(2, 0).next_step(0, &off, at(1_000)), over);
    let done = RampState { limit: None, ..state(1, 1) };
    assert_eq!(done.next_step(1, &policy, later), None);
}

#[test]
fn dropped_permits_give_their_place_back_as_they_count() {
    let mut fleet = closed(2, Consistency::LocalFirst);
    let permit = fleet.try_acquire(0).unwrap();
    let dropped = permit.outcome_of_drop(&fleet.policy, fleet.now);
    assert_eq!(dropped.kind, OutcomeKind::Ignored);
    fleet.settle(0, permit, &dropped);
    assert!(fleet.try_acquire(0).is_ok());
}
