//! Late messages: responses and pushed changes that reach a process after newer ones, for example because it was
//! paused.

use breakerbox_core::fleet::LeaseAnswer;
use breakerbox_core::{CircuitStatus, Record};

use crate::fleet_rig::Fleet;
use crate::rig::{failed, ms, ok, secs, simple};

/// How long a closed record is kept, in seconds.
const KEPT: u64 = 600;

/// Returns the states that the `n`-th member published to its observers.
fn heard(fleet: &Fleet, n: usize) -> Vec<CircuitStatus> {
    fleet.changes.iter().filter(|(by, _)| *by == n).map(|(_, change)| change.to).collect()
}

fn announce(fleet: &mut Fleet, n: usize, record: Record) {
    let learnt = fleet.step(n, |member, at| member.handle_change(record, at));
    fleet.apply_learnt(n, learnt);
}

#[test]
fn a_lease_whose_answer_comes_after_the_next_lease_is_heard_of_once() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    // The first process takes a lease, and is paused before it receives the response.
    let record = fleet.store.record.clone();
    let (_, answer) = fleet.step(0, |member, at| member.lease(record, at));
    let LeaseAnswer::Swap(lease) = answer else { panic!("{answer:?}") };
    assert!(fleet.store.swap(&lease, fleet.now));
    let announced = fleet.store.record.clone().unwrap();
    fleet.read(1);
    fleet.pass(fleet.policy.probe_timeout() + secs(3));
    let _next = fleet.try_acquire(1).unwrap();
    let next = fleet.store.record.clone().unwrap();
    assert_eq!(next.epoch, announced.epoch, "the lease ended, and the next is of the same half-open state");

    announce(&mut fleet, 0, announced);
    announce(&mut fleet, 0, next.clone());
    let (change, _) = fleet.step(0, |member, at| member.leased(&lease, at.policy, at.now));
    assert_eq!(change, None);
    assert_eq!(heard(&fleet, 0), [CircuitStatus::HalfOpen]);
    assert_eq!(fleet.members[0].circuit().record(), next, "the newer lease counts");
}

#[test]
fn an_old_announcement_does_not_revive_a_record_that_expired() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    fleet.pass(secs(30));
    let probe = fleet.try_acquire(1).unwrap();
    let announced = fleet.store.record.clone().unwrap();
    fleet.settle(1, probe, &ok());
    // The first process is paused: the closed record expires before it continues.
    fleet.pass(secs(KEPT + 1));
    fleet.store.record = None;
    announce(&mut fleet, 0, announced);
    let learnt = fleet.step(0, |member, at| member.rejoin(None, at));
    assert_eq!(learnt.publish, None);
    assert_eq!(fleet.status(0), CircuitStatus::Closed);
}

#[test]
fn a_record_that_this_process_let_go_of_counts_in_a_newer_epoch() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip();
    let open = fleet.store.record.clone().unwrap();
    fleet.members[0].leave();
    fleet.pass(secs(KEPT));
    let learnt = fleet.step(0, |member, at| member.rejoin(None, at));
    let gone = learnt.change.clone().expect("it is closed, as far as can be known").epoch;
    fleet.apply_learnt(0, learnt);
    // The second process still knows the record, and publishes it again.
    fleet.store.record = Some(open.clone());
    fleet.read(0);
    assert_eq!(heard(&fleet, 0), [CircuitStatus::Closed, CircuitStatus::Open]);
    let epoch = fleet.members[0].circuit().epoch();
    assert!(epoch > gone && gone > open.epoch, "{epoch:?}, {gone:?}, {:?}", open.epoch);
    assert_eq!(fleet.store.record.as_ref().map(|record| record.epoch), Some(epoch), "and is swapped in");
}

#[test]
fn a_probe_that_began_alone_is_not_the_stores() {
    let mut fleet = Fleet::new(2, &simple().cool_off_factor(1.0));
    fleet.trip();
    fleet.members[0].leave();
    fleet.pass(secs(30));
    let alone = fleet.try_acquire(0).unwrap();
    assert!(alone.is_probe());
    let record = fleet.store.record.clone();
    let learnt = fleet.step(0, |member, at| member.rejoin(record, at));
    fleet.apply_learnt(0, learnt);
    let published = fleet.store.record.clone().unwrap();
    assert_eq!((published.status(), published.lease), (CircuitStatus::HalfOpen, None));
    fleet.settle(0, alone, &failed());
    assert_eq!(fleet.store.record, Some(published), "its result is late");
}

#[test]
fn what_a_destination_asks_for_outlives_the_answer_to_an_earlier_report() {
    let mut fleet = Fleet::new(1, &simple());
    let [first, second, third] = [(); 3].map(|()| fleet.try_acquire(0).unwrap());
    fleet.report(0, first, &failed());
    fleet.report(0, second, &failed());
    let delta = fleet.delta(0).unwrap();
    let merged = fleet.store.merge(&delta, fleet.now);
    // This call fails while the report on the other two is on its way.
    fleet.pass(ms(1));
    fleet.report(0, third, &failed().with_retry_after(secs(300)));
    fleet.hear(0, &merged);
    fleet.send_report(0);
    fleet.decide(0);
    let record = fleet.store.record.clone().unwrap();
    let cool_off = record.retry_at.unwrap().since(record.opened_at.unwrap());
    assert!(cool_off > secs(290), "{cool_off:?}");
}
