//! A fleet member whose store is available again: its proposals remain, epochs only increase, and observers get every
//! change.

use breakerbox_core::fleet::{Consistency, Learnt, LeaseAnswer, Member, ReportDue, StepContext};
use breakerbox_core::{CircuitStatus, Decision, Mode, OverrideCommand, Refusal, Settlement};

use crate::fleet_alone::closed_alone;
use crate::fleet_rig::Fleet;
use crate::rig::{failed, ms, ok, operator, secs, simple};

/// Returns the states that the `n`-th member published to its observers, after checking that each follows from the
/// previous one, with increasing epochs.
fn heard_in_order(fleet: &Fleet, n: usize) -> Vec<CircuitStatus> {
    let heard: Vec<_> = fleet.changes.iter().filter(|(by, _)| *by == n).map(|(_, change)| change).collect();
    for pair in heard.windows(2) {
        assert!(pair[0].epoch < pair[1].epoch, "{heard:#?}");
        assert_eq!(pair[0].to, pair[1].from, "{heard:#?}");
    }
    assert!(heard.iter().all(|change| change.from != change.to), "{heard:#?}");
    heard.iter().map(|change| change.to).collect()
}

fn returns(fleet: &mut Fleet, n: usize) -> Learnt {
    let record = fleet.store.record.clone();
    let learnt = fleet.step(n, |member, at| member.rejoin(record, at));
    fleet.changes.extend(learnt.change.clone().map(|change| (n, change)));
    learnt
}

#[test]
fn what_could_not_be_published_stays_a_proposal_however_often_the_store_comes_and_goes() {
    let (mut fleet, _lost_on_its_way) = closed_alone();
    let alone = fleet.members[0].circuit().record();
    for _ in 0..3 {
        fleet.members[0].leave();
        fleet.pass(secs(1));
        let learnt = returns(&mut fleet, 0);
        assert_eq!(fleet.members[0].circuit().epoch(), alone.epoch);
        assert_eq!(learnt.publish.as_ref().map(|publish| publish.step.record.epoch), Some(alone.epoch));
    }
    fleet.members[0].leave();
    let learnt = returns(&mut fleet, 0);
    fleet.apply_learnt(0, learnt);
    assert_eq!(
        fleet.store.record.as_ref().map(|record| (record.status(), record.epoch)),
        Some((CircuitStatus::Closed, alone.epoch))
    );
    fleet.read(1);
    assert_eq!(fleet.status(1), CircuitStatus::Closed);
    assert_eq!(heard_in_order(&fleet, 0), [CircuitStatus::HalfOpen, CircuitStatus::Closed]);
}

#[test]
fn what_is_swapped_in_while_the_process_is_alone_again_is_published() {
    let (mut fleet, proposal) = closed_alone();
    fleet.members[0].leave();
    assert!(fleet.swap(0, &proposal), "and its answer is found when the store is away again");
    let learnt = returns(&mut fleet, 0);
    assert_eq!((learnt.publish, fleet.status(0)), (None, CircuitStatus::Closed));
    assert_eq!(fleet.members[0].circuit().epoch(), fleet.store.record.as_ref().unwrap().epoch);
}

#[test]
fn observers_hear_in_a_newer_epoch_that_the_stores_record_replaces_what_was_decided_alone() {
    // The first process closes the circuit alone at 30 s. The second probed for the fleet before that, and failed.
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.trip();
    fleet.members[0].leave();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(1).unwrap();
    fleet.settle(1, probe, &failed());
    let failed_again = fleet.store.record.clone().unwrap();
    fleet.pass(secs(1));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    fleet.pass(secs(1));
    let learnt = returns(&mut fleet, 0);
    assert_eq!(fleet.status(0), CircuitStatus::Open, "at once");
    let published = *learnt.publish.unwrap();
    assert!(fleet.swap(0, &published));
    fleet.all_read();
    let record = fleet.store.record.clone().unwrap();
    assert_eq!(
        (record.retry_at, record.trips),
        (failed_again.retry_at, failed_again.trips),
        "the store's record wins"
    );
    for n in 0..2 {
        assert_eq!(fleet.members[n].circuit().epoch(), record.epoch, "{n}");
    }
    assert_eq!(
        heard_in_order(&fleet, 0),
        [CircuitStatus::HalfOpen, CircuitStatus::Closed, CircuitStatus::Open]
    );
    assert_eq!(
        heard_in_order(&fleet, 1),
        [CircuitStatus::HalfOpen, CircuitStatus::Open],
        "for it nothing has changed"
    );
}

#[test]
fn a_probe_that_is_under_way_is_not_disturbed_by_what_was_decided_alone() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.trip();
    fleet.members[0].leave();
    fleet.pass(secs(30));
    let of_the_fleet = fleet.try_acquire(1).unwrap();
    fleet.pass(secs(1));
    let alone = fleet.try_acquire(0).unwrap();
    fleet.settle(0, alone, &ok());
    let leased = fleet.store.record.clone();
    let learnt = returns(&mut fleet, 0);
    assert_eq!((learnt.publish, fleet.store.record.clone()), (None, leased), "nothing is put over its lease");
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::Probing { .. })));
    fleet.pass(secs(1));
    assert_eq!(fleet.settle(1, of_the_fleet, &failed()), Settlement::Counted);
    fleet.read(0);
    assert_eq!(
        heard_in_order(&fleet, 0),
        [CircuitStatus::HalfOpen, CircuitStatus::Closed, CircuitStatus::HalfOpen, CircuitStatus::Open]
    );
}

#[test]
fn a_probe_that_vanished_holds_up_what_was_decided_alone_for_its_lease_and_no_longer() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.trip();
    fleet.members[0].leave();
    fleet.pass(secs(30));
    let _vanished = fleet.try_acquire(1).unwrap();
    fleet.pass(secs(1));
    let alone = fleet.try_acquire(0).unwrap();
    fleet.settle(0, alone, &ok());
    assert_eq!(returns(&mut fleet, 0).publish, None);
    let renewed = fleet.members[0].circuit().epoch();
    fleet.pass(secs(11));
    // The process is refused with a retry time, and then gets the probe.
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::Probing { .. })));
    assert_eq!(fleet.store.record.as_ref().map(|record| record.epoch), Some(renewed));
    let probe = fleet.try_acquire(0).unwrap();
    assert!(probe.is_probe());
    fleet.settle(0, probe, &ok());
    fleet.all_read();
    assert_eq!([0, 1].map(|n| fleet.status(n)), [CircuitStatus::Closed; 2]);
    heard_in_order(&fleet, 0);
}

#[test]
fn who_is_alone_or_holds_a_proposal_is_read_again_though_its_circuit_is_closed() {
    let (mut fleet, proposal) = closed_alone();
    assert_eq!(fleet.status(0), CircuitStatus::Closed);
    assert!(!fleet.members[0].tells_by_itself(), "the store does not have it");
    assert!(fleet.swap(0, &proposal));
    assert!(fleet.members[0].tells_by_itself());
    fleet.members[0].leave();
    assert!(!fleet.members[0].tells_by_itself(), "somebody must bring it back");
}

#[test]
fn who_decides_before_it_has_heard_the_stores_time_publishes_in_the_stores_time() {
    for ahead in [false, true] {
        let mut fleet = Fleet::new(1, &simple());
        let there = fleet.now;
        // The process's own clock is hours behind or ahead.
        let hours = secs(3 * 3_600);
        fleet.now = if ahead { there + hours } else { there.before(hours) };
        fleet.members.push(Member::of_fleet(&fleet.policy, Consistency::LocalFirst, fleet.now));
        fleet.members[1].leave();
        fleet.fail(1, 3);
        fleet.pass(secs(10));
        let alone = fleet.members[1].circuit().record();
        let (before, after) = (fleet.now, there + secs(10));
        fleet.members[1].clock_moved(&fleet.policy, before, after);
        fleet.now = after;
        let learnt = returns(&mut fleet, 1);
        fleet.apply_learnt(1, Learnt { change: None, ..learnt });
        let record = fleet.store.record.clone().unwrap();
        assert_eq!((record.opened_at, record.changed_at), (Some(there), there), "{ahead}");
        assert_eq!((record.retry_at, record.failing_since), (Some(there + secs(30)), Some(there)), "{ahead}");
        assert!(record.epoch >= alone.epoch && record.epoch.0 >= there.as_micros(), "{ahead}: {record:?}");
        fleet.read(0);
        assert!(
            matches!(fleet.try_acquire(0), Err(Refusal::Open { retry_in, .. }) if retry_in == secs(20)),
            "{ahead}"
        );
        // The clock is adjusted repeatedly.
        fleet.members[1].clock_moved(&fleet.policy, after, after + secs(5));
        assert_eq!(
            fleet.members[1].circuit().record().retry_at,
            record.retry_at,
            "what is in the store stays"
        );
    }
}

#[test]
fn what_was_counted_before_the_stores_time_was_heard_is_not_told_in_another_epoch() {
    let mut fleet = Fleet::new(1, &simple().cool_off_factor(1.0));
    let there = fleet.now;
    fleet.now = there.before(secs(3_600));
    fleet.members.push(Member::of_fleet(&fleet.policy, Consistency::LocalFirst, fleet.now));
    fleet.members[1].leave();
    fleet.fail(1, 3);
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(1).unwrap();
    fleet.settle(1, probe, &ok());
    let call = fleet.try_acquire(1).unwrap();
    fleet.report(1, call, &ok());
    let counted_in = fleet.members[1].circuit().epoch();
    let before = fleet.now;
    fleet.now = there;
    fleet.members[1].clock_moved(&fleet.policy, before, there);
    let learnt = returns(&mut fleet, 1);
    fleet.apply_learnt(1, Learnt { change: None, ..learnt });
    assert!(fleet.store.record.as_ref().is_some_and(|record| record.epoch > counted_in));
    assert_eq!(fleet.delta(1), None);
}

/// How long a closed record is kept, in seconds.
const KEPT: u64 = 600;

#[test]
fn epochs_grow_for_observers_when_a_record_expired_and_another_process_publishes() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    for n in 0..2 {
        fleet.read(n);
        fleet.members[n].leave();
    }
    fleet.pass(secs(KEPT));
    // One process decides alone just before the store is available again, without a record.
    let _probe = fleet.step(1, |member, at| member.try_acquire(at.policy, at.draw, at.now));
    fleet.pass(secs(1));
    fleet.store.record = None;
    assert!(returns(&mut fleet, 0).publish.is_none());
    let learnt = returns(&mut fleet, 1);
    fleet.apply_learnt(1, learnt);
    fleet.read(0);
    assert_eq!(fleet.status(0), CircuitStatus::HalfOpen);
    assert!(heard_in_order(&fleet, 0).ends_with(&[CircuitStatus::Closed, CircuitStatus::HalfOpen]));
}

#[test]
fn an_old_state_is_not_published_when_the_record_may_have_expired() {
    // How long a process that saw an open circuit missed the store, and whether it publishes that state again.
    for (away, is_published) in [(KEPT - 1, true), (KEPT, false)] {
        let mut fleet = Fleet::new(2, &simple());
        fleet.trip();
        fleet.pass(secs(5));
        fleet.read(0);
        fleet.members[0].leave();
        fleet.pass(secs(away));
        // The record was flushed, or the others closed the circuit and it expired; the process cannot tell.
        fleet.store.record = None;
        let learnt = returns(&mut fleet, 0);
        assert_eq!(learnt.publish.is_some(), is_published, "{away}");
        let (status, heard) = if is_published {
            (CircuitStatus::Open, vec![])
        } else {
            (CircuitStatus::Closed, vec![CircuitStatus::Closed])
        };
        assert_eq!((fleet.status(0), heard_in_order(&fleet, 0)), (status, heard), "{away}");
    }
    // The same applies to decisions that the process made alone.
    for (ago, is_published) in [(KEPT - 1, true), (KEPT, false)] {
        let mut fleet = Fleet::new(1, &simple());
        fleet.members[0].leave();
        fleet.pass(secs(3_600));
        fleet.fail(0, 3);
        fleet.pass(secs(ago));
        let learnt = returns(&mut fleet, 0);
        assert_eq!(learnt.publish.is_some(), is_published, "{ago}");
    }
    // Only an operator ends an override.
    let mut fleet = Fleet::new(1, &simple());
    let by = operator();
    let (_, order) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::Disable, &by, at));
    assert!(fleet.swap(0, &order.unwrap()));
    fleet.members[0].leave();
    fleet.pass(secs(86_400));
    fleet.store.record = None;
    assert!(returns(&mut fleet, 0).publish.is_some());
}

#[test]
fn whoever_joins_hears_only_of_what_is_not_as_it_thought() {
    let mut fleet = Fleet::new(1, &simple());
    fleet.members.push(Member::of_fleet(&fleet.policy, Consistency::LocalFirst, fleet.now));
    fleet.fail(0, 3);
    fleet.pass(secs(1));
    fleet.send_report(0);
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    fleet.read(1);
    assert_eq!(fleet.members[1].circuit().record(), fleet.store.record.clone().unwrap());
    assert_eq!(heard_in_order(&fleet, 1), [], "closed is what it was");
}

#[test]
fn who_missed_a_probe_that_failed_hears_that_it_did() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.trip();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &failed());
    fleet.read(1);
    let heard: Vec<_> = fleet.changes.iter().filter(|(n, _)| *n == 1).map(|(_, change)| change).collect();
    let [change] = heard[..] else { panic!("{heard:?}") };
    assert_eq!((change.from, change.to, change.trips), (CircuitStatus::HalfOpen, CircuitStatus::Open, 2));
}

#[test]
fn an_older_swap_that_turns_out_to_have_won_is_not_heard_after_a_newer_state() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.fail(0, 1);
    fleet.pass(ms(1));
    fleet.fail(1, 1);
    fleet.pass(ms(1));
    let permit = fleet.try_acquire(0).unwrap();
    fleet.settle(0, permit, &failed());
    fleet.pass(crate::fleet_rig::WAITS.confirm);
    let delta = fleet.delta(0).unwrap();
    let merged = fleet.store.merge(&delta, fleet.now);
    let ReportDue::Swap(trip) = fleet.step(0, |member, at| member.reported(&merged, at)).report else {
        panic!("a trip")
    };
    assert!(fleet.store.swap(&trip, fleet.now), "its answer takes its time");
    fleet.pass(secs(30));
    fleet.read(1);
    let _probe = fleet.try_acquire(1).unwrap();
    fleet.read(0);
    let change = fleet.step(0, |member, at| member.won(&trip, at.policy, at.now));
    assert_eq!(change, None);
    assert_eq!(heard_in_order(&fleet, 0), [CircuitStatus::HalfOpen]);
}

#[test]
fn who_missed_that_an_override_ended_hears_of_what_came_of_that() {
    let mut fleet = Fleet::new(2, &simple());
    let order = |fleet: &mut Fleet, command| {
        let (record, by) = (fleet.store.record.clone(), operator());
        let (_, order) = fleet.step(0, |member, at| member.apply_override(record, command, &by, at));
        assert!(fleet.swap(0, &order.unwrap()));
    };
    order(&mut fleet, OverrideCommand::ForceClosed);
    fleet.read(1);
    fleet.changes.clear();
    order(&mut fleet, OverrideCommand::Release);
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    fleet.read(1);
    let heard: Vec<_> = fleet.changes.iter().filter(|(n, _)| *n == 1).map(|(_, change)| change).collect();
    let [change] = heard[..] else { panic!("{heard:?}") };
    assert_eq!(
        (change.from, change.to, &change.mode),
        (CircuitStatus::HalfOpen, CircuitStatus::Closed, &Mode::Automatic)
    );
}

#[test]
fn an_answer_that_a_newer_change_has_overtaken_shows_no_lost_write() {
    let mut fleet = Fleet::with(2, &simple(), Consistency::Strict);
    let (overtaken, answered_at) = (fleet.store.record.clone(), fleet.now);
    fleet.pass(ms(20));
    let (record, by) = (fleet.store.record.clone(), operator());
    let (_, order) =
        fleet.step(1, |member, at| member.apply_override(record, OverrideCommand::ForceOpen, &by, at));
    assert!(fleet.swap(1, &order.unwrap()));
    fleet.read(0);
    fleet.pass(ms(20));

    let late = overtaken.clone();
    let (learnt, answer) =
        fleet.step(0, |member, at| member.lease(late, StepContext { now: answered_at, ..at }));
    assert_eq!((learnt.publish, learnt.change), (None, None));
    let LeaseAnswer::Decided(acquired) = answer else { panic!("{answer:?}") };
    let is_forced_open = |decision| matches!(decision, Decision::Refused(Refusal::ForcedOpen));
    assert!(is_forced_open(acquired.decision), "the newer record decides");

    // The same record in a newer response: the store has lost a write.
    let (learnt, _) = fleet.step(0, |member, at| member.lease(overtaken, at));
    assert_eq!(learnt.publish.map(|publish| publish.step.record.status()), Some(CircuitStatus::Open));
}
