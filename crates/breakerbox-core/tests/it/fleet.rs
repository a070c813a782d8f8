//! How a fleet member handles its own counts, the store's responses and messages from other members.

use breakerbox_core::fleet::{
    Consistency, Learnt, LeaseAnswer, Member, MemberAnswer, MemberSettled, ReportDue, Waits,
};
use breakerbox_core::{
    Cause, CircuitStatus, Outcome, OverrideCommand, Record, Refusal, Settlement, TripRule,
};

use crate::fleet_rig::{Fleet, WAITS};
use crate::rig::{failed, ms, ok, operator, secs, simple};

#[test]
fn whoever_boots_inherits_what_the_fleet_knows() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.members.push(Member::of_fleet(&fleet.policy, Consistency::LocalFirst, fleet.now));
    assert_eq!(fleet.answer(2), MemberAnswer::Unknown);
    assert!(matches!(fleet.try_acquire(2), Err(Refusal::Open { .. })), "it reads before it answers");
    assert_eq!((fleet.changes[0].0, fleet.changes[0].1.to), (2, CircuitStatus::Open));
}

#[test]
fn who_can_not_wait_takes_an_unknown_circuit_for_closed() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.members.push(Member::of_fleet(&fleet.policy, Consistency::LocalFirst, fleet.now));
    let answer = fleet.step(2, |member, at| member.acquire_at_once(at.policy, at.draw, at.now));
    let MemberAnswer::Decided(acquired) = answer else { panic!("{answer:?}") };
    let permit = crate::fleet_rig::decided(acquired.decision).unwrap();
    fleet.read(2);
    assert_eq!(fleet.settle(2, permit, &failed()), Settlement::Late, "it belongs to no epoch of the fleet's");
}

#[test]
fn failures_of_two_open_the_circuit_once_and_all_hear_why() {
    let mut fleet = Fleet::new(3, &simple());
    fleet.fail(0, 1);
    fleet.pass(ms(1));
    fleet.fail(1, 1);
    fleet.pass(ms(1));
    fleet.fail(0, 1);
    fleet.decide(0);
    fleet.all_read();
    assert!((0..3).all(|n| fleet.status(n) == CircuitStatus::Open));
    let heard: Vec<_> = fleet.changes.iter().map(|(n, change)| (*n, change.to, change.epoch)).collect();
    let epoch = fleet.store.record.as_ref().unwrap().epoch;
    assert_eq!(heard, [0, 1, 2].map(|n| (n, CircuitStatus::Open, epoch)));
    let rule = Cause::Rule(TripRule::ConsecutiveFailures);
    assert!(fleet.changes.iter().all(|(_, change)| change.cause == rule));
    fleet.all_read();
    assert_eq!(fleet.changes.len(), 3, "nobody hears twice");
}

#[test]
fn who_hears_of_its_own_swap_before_the_answer_hears_of_it_once() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(ms(30_000));
    let record = fleet.store.record.clone();
    let (_, answer) = fleet.step(0, |member, at| member.lease(record, at));
    let LeaseAnswer::Swap(proposal) = answer else { panic!("{answer:?}") };
    assert!(fleet.store.swap(&proposal, fleet.now));
    fleet.read(0);
    assert_eq!(fleet.changes.pop().map(|(_, change)| change.to), Some(CircuitStatus::HalfOpen));
    let (change, permit) = fleet.step(0, |member, at| member.leased(&proposal, at.policy, at.now));
    assert_eq!(change, None, "it was told already");
    assert_eq!(fleet.settle(0, permit.unwrap(), &ok()), Settlement::Counted, "and the probe is its own");
    assert_eq!(fleet.status(0), CircuitStatus::Closed);
}

#[test]
fn one_broken_process_refuses_for_itself_and_opens_nothing_against_the_others() {
    let rate = simple().consecutive_failures(None).failure_rate(50).min_calls(4);
    let mut fleet = Fleet::new(2, &rate);
    // The other process has successes that it has not reported yet.
    let healthy: Vec<_> = (0..20).map(|_| fleet.try_acquire(1).unwrap()).collect();
    for permit in healthy {
        fleet.report(1, permit, &ok());
    }
    let broken: Vec<_> = (0..4).map(|_| fleet.try_acquire(0).unwrap()).collect();
    for permit in broken {
        let MemberSettled { report, .. } = fleet.report(0, permit, &failed());
        assert!(matches!(report, ReportDue::Soon | ReportDue::Now));
    }
    assert_eq!(fleet.try_acquire(0), Err(Refusal::TripPending));
    fleet.send_report(0);
    assert_eq!(fleet.try_acquire(0), Err(Refusal::TripPending), "it waits for the others' word");
    assert!(fleet.try_acquire(1).is_ok());
    fleet.decide(0);
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::OpenLocally { .. })), "4 of 24 is no reason to open");
    assert_eq!((fleet.store.record, fleet.changes.len()), (None, 0), "no epoch, no event");
}

#[test]
fn a_process_that_nobody_contradicts_opens_the_circuit_by_itself() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.fail(0, 3);
    assert_eq!((fleet.try_acquire(0), fleet.status(0)), (Err(Refusal::TripPending), CircuitStatus::Closed));
    let began = fleet.now;
    fleet.pass(ms(599));
    fleet.send_report(0);
    assert_eq!(fleet.status(0), CircuitStatus::Closed);
    fleet.pass(ms(1));
    fleet.send_report(0);
    assert_eq!(fleet.status(0), CircuitStatus::Open);
    let retry_at = fleet.store.record.as_ref().and_then(|record| record.retry_at);
    assert_eq!(retry_at, Some(began + secs(30)), "the time that it refused before is part of the cool-off");
}

#[test]
fn the_cool_off_is_at_least_as_long_as_the_call_that_tripped_took() {
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        let mut fleet = Fleet::with(2, &simple(), consistency);
        fleet.fail(0, 2);
        let permit = fleet.try_acquire(0).unwrap();
        let quick = fleet.try_acquire(0).unwrap();
        fleet.settle(0, permit, &Outcome::failure(secs(45)));
        let began = fleet.now;
        if consistency == Consistency::LocalFirst {
            fleet.settle(0, quick, &Outcome::failure(ms(1)));
            fleet.pass(WAITS.confirm);
            fleet.send_report(0);
        }
        let record = fleet.store.record.clone().unwrap();
        let opened = (record.status(), record.retry_at);
        assert_eq!(opened, (CircuitStatus::Open, Some(began + secs(45))), "{consistency:?}");
        fleet.pass(secs(45));
        fleet.read(1);
        let probe = fleet.try_acquire(1).unwrap();
        fleet.pass(secs(9));
        fleet.settle(1, probe, &Outcome::failure(secs(70)));
        let record = fleet.store.record.clone().unwrap();
        assert_eq!(record.retry_at, Some(fleet.now + secs(70)), "{consistency:?}");
    }
}

#[test]
fn of_two_that_see_the_trip_one_wins_and_the_other_follows() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.fail(0, 1);
    fleet.pass(ms(1));
    fleet.fail(1, 1);
    let calls = [0, 1].map(|n| fleet.try_acquire(n).unwrap());
    let mut proposals = Vec::new();
    for (n, permit) in calls.into_iter().enumerate() {
        fleet.pass(ms(1));
        fleet.report(n, permit, &failed());
        fleet.send_report(n);
    }
    fleet.pass(WAITS.confirm);
    for n in 0..2 {
        let delta = fleet.delta(n).unwrap();
        let merged = fleet.store.merge(&delta, fleet.now);
        let reported = fleet.step(n, |member, at| member.reported(&merged, at));
        let ReportDue::Swap(proposal) = reported.report else { panic!("{reported:?}") };
        proposals.push(proposal);
    }
    let won = [0, 1].map(|n| fleet.swap(n, &proposals[n]));
    assert_eq!(won, [true, false]);
    let records = [0, 1].map(|n| Some(fleet.members[n].circuit().record()));
    assert!(records.iter().all(|record| *record == fleet.store.record));
    assert_eq!(fleet.changes.len(), 2);
}

#[test]
fn a_decision_that_waited_too_long_is_not_written() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.fail(0, 1);
    fleet.pass(ms(1));
    fleet.fail(1, 1);
    let permit = fleet.try_acquire(0).unwrap();
    fleet.pass(ms(1));
    fleet.settle(0, permit, &failed());
    fleet.pass(WAITS.confirm);
    let delta = fleet.delta(0).unwrap();
    let merged = fleet.store.merge(&delta, fleet.now);
    let reported = fleet.step(0, |member, at| member.reported(&merged, at));
    let ReportDue::Swap(proposal) = reported.report else { panic!("{reported:?}") };
    fleet.pass(WAITS.swap + ms(1));
    assert!(!fleet.swap(0, &proposal));
    assert_eq!(fleet.store.record, None);
}

#[test]
fn at_the_end_of_the_cool_off_one_of_all_probes() {
    let mut fleet = Fleet::new(3, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    assert!((0..3).all(|n| fleet.answer(n) == MemberAnswer::LeaseDue));
    let probe = fleet.try_acquire(1).unwrap();
    assert!(probe.is_probe());
    // The other processes assume that they may probe, and learn from the store that they may not.
    for n in [0, 2] {
        assert!(matches!(fleet.take_lease(n), Err(Refusal::Probing { .. })));
    }
    assert_eq!(fleet.settle(1, probe, &ok()), Settlement::Counted);
    fleet.all_read();
    assert!((0..3).all(|n| fleet.status(n) == CircuitStatus::Closed));
    // All processes share one ramp.
    let _in_flight = fleet.try_acquire(2).unwrap();
    for n in 0..3 {
        assert!(matches!(fleet.try_acquire(n), Err(Refusal::Ramping { in_flight: 1, limit: 1 })));
    }
}

#[test]
fn several_probes_may_come_from_several_processes() {
    let mut fleet = Fleet::new(3, &simple().probes(3));
    fleet.trip();
    fleet.pass(secs(30));
    for n in 0..3 {
        assert_eq!(fleet.store.record.as_ref().unwrap().probe_successes, u32::try_from(n).unwrap());
        fleet.read(n);
        let probe = fleet.try_acquire(n).unwrap();
        fleet.settle(n, probe, &ok());
    }
    assert_eq!(fleet.store.record.as_ref().map(Record::status), Some(CircuitStatus::Closed));
}

#[test]
fn what_a_prober_hears_from_before_its_lease_does_not_cost_it_its_result() {
    let mut fleet = Fleet::new(3, &simple().probes(2));
    fleet.trip();
    fleet.pass(secs(30));
    let first = fleet.try_acquire(0).unwrap();
    let with_the_first_lease = fleet.store.record.clone();
    fleet.settle(0, first, &ok());
    let released = fleet.store.record.clone();
    fleet.read(1);
    let second = fleet.try_acquire(1).unwrap();
    let lease = fleet.store.record.clone();
    // Records that were on their way for longer than it took to get the lease.
    for stale in [released, with_the_first_lease] {
        let learnt = fleet.step(1, |member, at| member.learn(stale, at));
        assert_eq!(learnt, Learnt::default());
        assert!(matches!(fleet.try_acquire(1), Err(Refusal::Probing { .. })));
    }
    assert_eq!(fleet.store.record, lease);
    assert_eq!(fleet.settle(1, second, &ok()), Settlement::Counted);
    assert_eq!(
        (fleet.status(1), fleet.store.record.clone().unwrap().status()),
        (CircuitStatus::Closed, CircuitStatus::Closed)
    );

    // The same applies to the response to its own swap, if others received the change earlier.
    fleet.all_read();
    fleet.trip();
    fleet.pass(secs(60));
    let first = fleet.try_acquire(1).unwrap();
    let MemberSettled { report: ReportDue::Swap(result), .. } = fleet.report(1, first, &ok()) else {
        panic!("a result")
    };
    assert!(fleet.store.swap(&result, fleet.now));
    fleet.read(1);
    let second = fleet.try_acquire(1).unwrap();
    assert_eq!(fleet.step(1, |member, at| member.won(&result, at.policy, at.now)), None);
    assert_eq!(fleet.settle(1, second, &ok()), Settlement::Counted);
    assert_eq!(fleet.status(1), CircuitStatus::Closed);

    // A lease that has ended protects nothing: another process's lease is newer.
    fleet.all_read();
    fleet.trip();
    fleet.pass(secs(120));
    let slow = fleet.try_acquire(1).unwrap();
    fleet.pass(secs(12));
    let quick = fleet.try_acquire(2).unwrap();
    fleet.read(1);
    assert_eq!(fleet.members[1].circuit().record().lease, fleet.store.record.as_ref().unwrap().lease);
    assert_eq!(fleet.settle(1, slow, &ok()), Settlement::Late);
    assert_eq!(fleet.settle(2, quick, &ok()), Settlement::Counted);
}

#[test]
fn the_prober_that_vanished_holds_up_the_fleet_for_its_lease_and_its_result_is_late() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    let lost = fleet.try_acquire(0).unwrap();
    fleet.read(1);
    fleet.pass(ms(11_999));
    assert!(matches!(fleet.try_acquire(1), Err(Refusal::Probing { .. })));
    fleet.pass(ms(1));
    // After a pause beyond its lease, the result is late, whether or not another process has acquired meanwhile.
    let MemberSettled { settled, report } = fleet.report(0, lost, &ok());
    assert_eq!((settled.settlement, report), (Settlement::Late, ReportDue::Nothing));
    assert!(fleet.try_acquire(1).unwrap().is_probe());
    assert_eq!(fleet.store.record.as_ref().map(Record::status), Some(CircuitStatus::HalfOpen));
}

#[test]
fn a_result_that_was_decided_in_time_and_written_too_late_changes_nothing() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.pass(ms(11_999));
    let ReportDue::Swap(proposal) = fleet.report(0, probe, &ok()).report else { panic!("a result") };
    fleet.pass(ms(1));
    assert!(!fleet.swap(0, &proposal), "the lease is over");
    assert_eq!(fleet.store.record.as_ref().map(Record::status), Some(CircuitStatus::HalfOpen));
}

#[test]
fn a_failure_in_flight_at_the_trip_moves_no_deadline() {
    let mut fleet = Fleet::new(3, &simple());
    let in_flight = fleet.try_acquire(2).unwrap();
    let unreported = fleet.try_acquire(2).unwrap();
    fleet.report(2, unreported, &failed());
    fleet.trip();
    let before = fleet.store.record.clone();
    fleet.pass(secs(5));
    assert_eq!(fleet.settle(2, in_flight, &failed()), Settlement::Late);
    fleet.send_report(2);
    assert_eq!(fleet.store.record, before);
}

#[test]
fn counts_of_another_epoch_come_back_as_late_and_are_gone() {
    let mut fleet = Fleet::new(3, &simple());
    // The process is cut off, with failures that no other process knows of.
    fleet.loses_calls = true;
    let cut_off: Vec<_> = (0..2).map(|_| fleet.try_acquire(2).unwrap()).collect();
    for permit in cut_off {
        fleet.report(2, permit, &failed());
    }
    for n in [0, 1, 0] {
        fleet.pass(ms(1));
        fleet.fail(n, 1);
    }
    fleet.decide(0);
    fleet.pass(secs(30));
    fleet.read(1);
    let probe = fleet.try_acquire(1).unwrap();
    fleet.settle(1, probe, &ok());
    let recovered = fleet.store.record.clone();
    assert_eq!(recovered.as_ref().map(Record::status), Some(CircuitStatus::Closed));
    fleet.send_report(2);
    assert_eq!((fleet.store.record.clone(), fleet.status(2)), (recovered, CircuitStatus::Closed));
    fleet.pass(secs(60));
    fleet.fail(2, 1);
    assert_eq!(fleet.status(2), CircuitStatus::Closed, "one failure, not three");
}

#[test]
fn a_store_that_forgot_is_told_again() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    let known = fleet.store.record.clone().unwrap();
    let older = {
        let mut record = known.clone();
        record.epoch = breakerbox_core::Epoch(known.epoch.0 - 1);
        record
    };
    for lost in [None, Some(older)] {
        fleet.store.record = lost;
        fleet.read(0);
        let back = fleet.store.record.clone().unwrap();
        assert_eq!(
            (back.epoch, back.status(), back.retry_at),
            (known.epoch, CircuitStatus::Open, known.retry_at)
        );
        fleet.read(1);
        assert_eq!(fleet.status(1), CircuitStatus::Open);
    }
    assert!(fleet.changes.is_empty(), "nothing has changed");
}

#[test]
fn what_a_store_lets_go_of_when_nobody_needs_it_is_forgotten() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    fleet.settle(0, probe, &ok());
    let kept = fleet.store.record.clone().unwrap();
    assert_eq!(kept.keep_for(&fleet.policy), Some(secs(600)), "its trips are not yet forgiven");
    fleet.pass(secs(600));
    fleet.store.record = None;
    fleet.read(0);
    assert_eq!((fleet.store.record.clone(), fleet.status(0)), (None, CircuitStatus::Closed));
    fleet.fail(0, 1);
    assert_eq!(fleet.try_acquire(0).map(|permit| permit.is_probe()), Ok(false));
}

#[test]
fn overrides_hold_against_everything_that_is_under_way() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    let record = fleet.store.record.clone();
    let (_, proposal) = fleet
        .step(1, |member, at| member.apply_override(record, OverrideCommand::ForceOpen, &operator(), at));
    assert!(fleet.swap(1, &proposal.unwrap()));
    fleet.settle(0, probe, &ok());
    fleet.all_read();
    for n in 0..2 {
        assert_eq!(fleet.try_acquire(n), Err(Refusal::ForcedOpen));
    }
}

#[test]
fn a_store_whose_clock_stepped_back_has_the_record_moved_with_it() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.now = breakerbox_core::Timestamp::from_micros(fleet.now.as_micros() - 3_600_000_000);
    let refusal = fleet.try_acquire(0).unwrap_err();
    assert_eq!(refusal.retry_in(), Some(secs(30) - WAITS.confirm), "not an hour more");
    fleet.read(1);
    fleet.pass(secs(30));
    assert!(fleet.try_acquire(1).unwrap().is_probe());
}

#[test]
fn a_delta_that_nobody_answered_is_not_told_again() {
    let mut fleet = Fleet::new(2, &simple());
    let calls: Vec<_> = (0..3).map(|_| fleet.try_acquire(0).unwrap()).collect();
    for permit in calls {
        fleet.report(0, permit, &failed());
    }
    let lost = fleet.delta(0).unwrap();
    assert_eq!(lost.buckets[0].failures, 3);
    assert_eq!(fleet.delta(0), None, "its answer is awaited");
    let now = fleet.now;
    fleet.members[0].report_unanswered(now);
    assert!(fleet.try_acquire(0).is_ok(), "what was lost is no reason to refuse");
    assert_eq!(fleet.delta(0), None);
}

#[test]
fn without_a_link_it_is_the_circuit_and_nothing_else() {
    let mut fleet = Fleet::new(1, &simple());
    fleet.waits = Waits { confirm: ms(0), ..WAITS };
    fleet.members[0] = Member::alone(&fleet.policy, fleet.now);
    fleet.fail(0, 3);
    assert_eq!((fleet.status(0), fleet.changes.len()), (CircuitStatus::Open, 1));
    assert_eq!(fleet.delta(0), None);
    fleet.pass(secs(30));
    assert!(fleet.try_acquire(0).unwrap().is_probe());
}

#[test]
fn a_record_of_somebody_whose_clock_is_a_little_ahead_is_left_alone() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.trip();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(0).unwrap();
    // The process only estimates the store's time, and writes its estimates.
    fleet.pass(ms(15));
    fleet.settle(0, probe, &failed());
    fleet.now = breakerbox_core::Timestamp::from_micros(fleet.now.as_micros() - 15_000);
    let version = fleet.store.record.as_ref().unwrap().version;
    fleet.read(1);
    assert!(matches!(fleet.answer(1), MemberAnswer::Decided(_)), "there is no need to ask the store");
    assert!(fleet.take_lease(1).is_err());
    assert_eq!(fleet.store.record.as_ref().unwrap().version, version, "nor to write anything");
}

#[test]
fn an_order_forgets_neither_the_latest_success_nor_the_failures_since() {
    let by = operator();
    let mut fleet = Fleet::new(2, &simple());
    let order = |fleet: &mut Fleet, command| {
        let record = fleet.store.record.clone();
        let (_, proposal) = fleet.step(0, |member, at| member.apply_override(record, command, &by, at));
        assert!(fleet.swap(0, &proposal.unwrap()));
        let record = fleet.store.record.clone().unwrap();
        assert_eq!(record.latest_outcomes(), fleet.members[0].circuit().record().latest_outcomes());
        (record.last_success, record.failing_since)
    };
    fleet.fail(0, 1);
    let failed_at = fleet.now;
    fleet.pass(ms(5));
    assert_eq!(order(&mut fleet, OverrideCommand::ForceOpen), (None, Some(failed_at)), "it never succeeded");
    fleet.pass(ms(5));
    assert_eq!(order(&mut fleet, OverrideCommand::Reset), (None, None));
    // The store learns of successes only through the window, which an override clears.
    for command in [OverrideCommand::ForceOpen, OverrideCommand::Disable, OverrideCommand::Reset] {
        order(&mut fleet, OverrideCommand::Reset);
        fleet.pass(ms(5));
        let permit = fleet.try_acquire(0).unwrap();
        fleet.report(0, permit, &ok());
        let succeeded_at = fleet.now;
        fleet.pass(ms(5));
        assert_eq!(order(&mut fleet, command), (Some(succeeded_at), None), "{command:?}");
    }
    // The process that applies the override knows the stored record, and its own outcomes.
    fleet.read(1);
    assert_eq!(
        fleet.members[1].circuit().record().last_success,
        fleet.store.record.as_ref().unwrap().last_success
    );
}

#[test]
fn nothing_counts_for_the_fleet_while_an_operator_overrides() {
    let mut fleet = Fleet::new(2, &simple());
    let by = operator();
    let (_, proposal) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::ForceClosed, &by, at));
    assert!(fleet.swap(0, &proposal.unwrap()));
    fleet.members[0].leave();
    fleet.fail(0, 3);
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    fleet.apply_learnt(0, learnt);
    assert_eq!(fleet.delta(0), None, "not when it was alone either");
}

#[test]
fn who_has_seen_nothing_bad_leaves_the_judging_to_those_who_have() {
    let mut fleet = Fleet::new(3, &simple());
    // The second process has a success that it has not reported yet.
    let well = fleet.try_acquire(1).unwrap();
    fleet.report(1, well, &ok());
    fleet.pass(ms(1));
    fleet.fail(0, 3);
    fleet.send_report(1);
    assert_eq!(fleet.store.record, None, "it was told of three failures, and of no success after them");
    assert!(fleet.try_acquire(1).is_ok(), "and has no reason to refuse");
    let well = fleet.try_acquire(2).unwrap();
    fleet.report(2, well, &ok());
    fleet.send_report(2);
    fleet.pass(ms(1_100));
    fleet.send_report(0);
    assert!(matches!(fleet.try_acquire(0), Err(Refusal::OpenLocally { .. })), "it refuses for itself");
    assert_eq!(fleet.store.record, None);
}

#[test]
fn an_answer_from_before_a_record_was_written_does_not_make_it_forgotten() {
    let mut fleet = Fleet::new(2, &simple());
    let by = operator();
    let (_, proposal) =
        fleet.step(0, |member, at| member.apply_override(None, OverrideCommand::Reset, &by, at));
    assert!(fleet.swap(0, &proposal.unwrap()));
    fleet.pass(ms(1));
    let learnt = fleet.step(0, |member, at| member.learn(None, at));
    fleet.apply_learnt(0, learnt);
    fleet.read(0);
    let heard = fleet.changes.iter().filter(|(n, _)| *n == 0).count();
    assert_eq!(heard, 1, "nobody hears twice");
}
