//! A fleet member whose store is unavailable: the decisions that it makes alone, and their effect later.

use breakerbox_core::fleet::{Consistency, Proposal, ReportDue};
use breakerbox_core::{CircuitStatus, OverrideCommand, Record, Refusal, Settlement};

use crate::fleet_rig::Fleet;
use crate::rig::{failed, ms, ok, operator, secs, simple};

#[test]
fn alone_each_process_goes_on_from_what_it_knows() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.fail(0, 2);
    (0..2).for_each(|n| fleet.members[n].leave());
    fleet.fail(0, 1);
    assert_eq!([0, 1].map(|n| fleet.status(n)), [CircuitStatus::Open, CircuitStatus::Closed]);
    fleet.pass(secs(30));
    assert!(fleet.try_acquire(0).unwrap().is_probe(), "one probe for each circuit and process");
    assert_eq!(fleet.delta(1), None, "nothing is told");
}

#[test]
fn what_was_decided_alone_is_proposed_and_loses_against_whoever_was_first() {
    let mut fleet = Fleet::new(3, &simple());
    (0..3).for_each(|n| fleet.members[n].leave());
    let decided_at = fleet.now;
    fleet.fail(0, 3);
    fleet.pass(secs(1));
    fleet.fail(1, 3);
    for n in 0..3 {
        let record = fleet.store.record.clone();
        let learnt = fleet.step(n, |member, at| member.rejoin(record, at));
        fleet.apply_learnt(n, learnt);
    }
    fleet.all_read();
    let record = fleet.store.record.clone().unwrap();
    assert_eq!(record.status(), CircuitStatus::Open);
    assert_eq!(record.retry_at, Some(decided_at + secs(30)), "as the first of them decided");
    for n in 0..3 {
        assert_eq!(fleet.members[n].circuit().record(), record, "{n} agrees");
    }
    let heard = |n| fleet.changes.iter().filter(|(by, _)| *by == n).count();
    assert_eq!([0, 1, 2].map(heard), [1, 1, 1], "nobody hears that what is open is open");
}

#[test]
fn a_probe_is_never_split_between_the_store_and_being_alone() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    let given_by_the_store = fleet.try_acquire(0).unwrap();
    fleet.members[0].leave();
    assert_eq!(fleet.settle(0, given_by_the_store, &ok()), Settlement::Late);
    assert_eq!(fleet.status(0), CircuitStatus::HalfOpen);
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::Probing { .. })), "the lease still holds");
    fleet.pass(secs(12));
    let given_alone = fleet.try_acquire(0).unwrap();
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    fleet.apply_learnt(0, learnt);
    assert_eq!(fleet.settle(0, given_alone, &ok()), Settlement::Late);
    let agreed = fleet.store.record.clone().unwrap();
    assert_eq!((fleet.members[0].circuit().record(), fleet.status(0)), (agreed, CircuitStatus::HalfOpen));
    assert!(fleet.try_acquire(0).unwrap().is_probe(), "now by the store");
}

#[test]
fn what_was_counted_before_a_decision_made_alone_is_not_told_in_the_epoch_after_it() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    let permit = fleet.try_acquire(0).unwrap();
    fleet.report(0, permit, &failed());
    fleet.members[0].leave();
    fleet.fail(0, 2);
    assert_eq!(fleet.status(0), CircuitStatus::Open, "by itself");
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    assert!(probe.is_probe());
    fleet.settle(0, probe, &ok());
    assert_eq!(fleet.status(0), CircuitStatus::Closed);
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    fleet.apply_learnt(0, learnt);
    assert_eq!(fleet.store.record.as_ref().map(Record::status), Some(CircuitStatus::Closed));
    assert_eq!(fleet.delta(0), None, "its failures belong to an epoch that the fleet never knew");
}

#[test]
fn what_was_swapped_in_while_it_went_alone_is_not_swapped_in_again_on_return() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.members[0].leave();
    let by = operator();
    let (_, proposal) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::ForceOpen, &by, at));
    assert!(fleet.swap(0, &proposal.unwrap()));
    assert_eq!(fleet.status(0), CircuitStatus::Open);
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    assert_eq!(learnt.publish, None);
}

#[test]
fn what_was_decided_alone_stays_when_an_older_swap_turns_out_to_have_won() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
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
    assert!(fleet.store.swap(&trip, fleet.now), "but nobody hears of it");
    fleet.members[0].leave();
    fleet.pass(ms(1));
    fleet.fail(0, 1);
    assert_eq!(fleet.status(0), CircuitStatus::Open, "by itself, a moment later");
    let alone = fleet.members[0].circuit().epoch();
    fleet.step(0, |member, at| member.won(&trip, at.policy, at.now));
    assert_eq!(fleet.members[0].circuit().epoch(), alone, "epochs only grow");
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    fleet.apply_learnt(0, learnt);
    assert_eq!(fleet.store.record.as_ref().map(|record| record.epoch), Some(alone));
}

/// Lets the first member close the circuit while the store is unavailable, and rejoin. Returns the member's proposal.
pub(crate) fn closed_alone() -> (Fleet, Proposal) {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.members[0].leave();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    assert_eq!(fleet.status(0), CircuitStatus::Closed);
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    let proposal = *learnt.publish.unwrap();
    let permit = fleet.try_acquire(0).unwrap();
    assert_eq!(fleet.settle(0, permit, &ok()), Settlement::Counted);
    (fleet, proposal)
}

#[test]
fn what_is_counted_in_an_epoch_that_the_store_has_not_taken_waits_for_it() {
    let (mut fleet, proposal) = closed_alone();
    fleet.send_report(0);
    assert_eq!(fleet.store.totals(&fleet.policy, fleet.now).calls(), 0, "nothing for the epoch before");
    assert!(fleet.swap(0, &proposal));
    fleet.send_report(0);
    assert_eq!(fleet.store.totals(&fleet.policy, fleet.now).successes, 1);
}

#[test]
fn what_was_decided_alone_and_came_too_late_is_proposed_again() {
    let (mut fleet, proposal) = closed_alone();
    fleet.pass(secs(1));
    // The swap is too late; the member reads the record again and makes a new proposal.
    assert!(!fleet.swap(0, &proposal));
    assert_eq!(fleet.store.record.as_ref().map(Record::status), Some(CircuitStatus::Closed));
    fleet.send_report(0);
    assert_eq!(fleet.store.totals(&fleet.policy, fleet.now).successes, 1);
}

#[test]
fn whatever_the_store_has_instead_counts_though_its_epoch_is_the_same() {
    let (mut fleet, proposal) = closed_alone();
    let _lease = fleet.take_lease(1).unwrap();
    let there = fleet.store.record.clone();
    assert!(!fleet.swap(0, &proposal));
    assert_eq!(fleet.store.record, there, "nothing is put over it");
    let there = there.unwrap();
    let here = fleet.members[0].circuit().record();
    assert!(here.last_success > there.last_success, "what it has seen itself it goes on to know");
    assert!(here.epoch > there.epoch, "epochs only grow");
    let here = here.with_latest_outcomes(there.latest_outcomes());
    assert_eq!(
        {
            let mut record = here;
            record.epoch = there.epoch;
            record
        },
        there
    );
    fleet.send_report(0);
    assert_eq!(fleet.store.totals(&fleet.policy, fleet.now).calls(), 0);
}

#[test]
fn what_was_decided_alone_is_proposed_until_the_store_has_it_and_counts_wait_for_that() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.members[0].leave();
    fleet.fail(0, 3);
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    let learnt = fleet.step(0, |member, at| member.rejoin(None, at));
    assert!(learnt.publish.is_some(), "but it is lost on its way");
    let call = fleet.try_acquire(0).unwrap();
    fleet.report(0, call, &ok());
    assert_eq!(fleet.delta(0), None, "the store does not know the epoch that this belongs to");
    fleet.read(0);
    assert_eq!(
        fleet.store.record.as_ref().map(Record::status),
        Some(CircuitStatus::Closed),
        "so it is proposed again"
    );
    assert_eq!(
        fleet.delta(0).map(|delta| delta.epoch),
        fleet.store.record.as_ref().map(|record| record.epoch)
    );
}

#[test]
fn what_was_counted_alone_is_not_told_in_an_epoch_that_the_store_stayed_in() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0).probes(1));
    fleet.trip();
    fleet.pass(secs(30));
    let _lost = fleet.try_acquire(1).unwrap();
    fleet.read(0);
    fleet.members[0].leave();
    fleet.pass(secs(15));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    let call = fleet.try_acquire(0).unwrap();
    fleet.report(0, call, &ok());
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    assert!(learnt.publish.is_some(), "it closed the circuit, but that is lost on its way");
    let _probe = fleet.take_lease(1).unwrap();
    fleet.read(0);
    assert_eq!(fleet.status(0), CircuitStatus::HalfOpen, "another process was first");
    assert_eq!(fleet.delta(0), None);
}

#[test]
fn an_order_is_a_write_of_its_own_and_newer_than_what_was_decided_alone() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    let by = operator();
    // The store has lost everything: the known state is published, and the override is a separate write.
    let (learnt, order) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::Disable, &by, at));
    let versions = (learnt.publish.unwrap().step.record.version, order.unwrap().step.record.version);
    assert_ne!(versions.0, versions.1);

    let mut fleet = Fleet::new(2, &simple());
    fleet.members[0].leave();
    fleet.pass(ms(300));
    fleet.fail(0, 3);
    // The member had estimated the store's time to be later than it is.
    fleet.now = breakerbox_core::Timestamp::from_micros(fleet.now.as_micros() - 200_000);
    let (_, order) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::Disable, &by, at));
    assert!(fleet.swap(0, &order.unwrap()));
    assert_eq!(fleet.status(0), CircuitStatus::Disabled);
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    assert_eq!(learnt.publish, None, "nothing is put over what an operator said");
}

#[test]
fn strictly_nothing_is_counted_for_an_epoch_that_the_store_has_left_to_this_process() {
    let mut fleet = Fleet::with(2, &simple(), Consistency::Strict);
    fleet.waits.confirm = std::time::Duration::ZERO;
    fleet.fail(0, 3);
    fleet.members[0].leave();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    let call = fleet.try_acquire(0).unwrap();
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    assert!(learnt.publish.is_some(), "and it is on its way");
    let reported = fleet.report(0, call, &ok()).report;
    let own = fleet.members[0].circuit().epoch();
    assert!(matches!(reported, ReportDue::One { epoch, .. } if epoch == own), "{reported:?}");
}

#[test]
fn an_order_holds_against_what_is_decided_alone_before_its_answer_comes() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.members[0].leave();
    let by = operator();
    let (_, order) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::ForceClosed, &by, at));
    let order = order.unwrap();
    assert!(fleet.store.swap(&order, fleet.now), "but the answer takes its time");
    fleet.pass(ms(10));
    fleet.fail(0, 3);
    assert_eq!(fleet.status(0), CircuitStatus::Open);
    fleet.step(0, |member, at| member.won(&order, at.policy, at.now));
    assert!(fleet.try_acquire(0).is_ok(), "as the operator said");
    let alone = fleet.members[0].circuit().epoch();
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    fleet.apply_learnt(0, learnt);
    let record = fleet.store.record.clone().unwrap();
    assert_eq!(record.mode, order.step.record.mode, "the same order");
    assert!(
        record.epoch == alone && alone > order.step.record.epoch,
        "in an epoch that is newer than the trip's"
    );
}
