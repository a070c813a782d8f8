//! Permits that leave the process that granted them: settled by another one, after a restart, late, twice,
//! never.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{
    Breakerbox, CircuitStatus, Consistency, Outcome, OutcomeKind, OwnedPermit, Refusal, Settlement, Ticket,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

const COOL_OFF: Duration = Duration::from_secs(30);

async fn asked(process: &Process) -> OwnedPermit {
    process.circuit.acquire_owned_within(Duration::ZERO).await.unwrap()
}

async fn settle(breakers: &Breakerbox, ticket: &Ticket, kind: OutcomeKind) -> Settlement {
    let outcome = Outcome::new(kind, ms(20));
    breakers.settle_ticket(ticket, outcome).await.unwrap()
}

fn written_and_read(ticket: &Ticket) -> Ticket {
    serde_json::from_str(&serde_json::to_string(ticket).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_call_counts_wherever_it_is_settled() {
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        let mut fleet = Fleet::new(0, &simple());
        for n in 0..2 {
            let with = |builder: breakerbox::BreakerboxBuilder| builder.consistency(consistency);
            fleet.processes.push(Process::with(n, &fleet.store, &simple(), with));
        }
        let [giver, other] = &fleet.processes[..] else { panic!() };
        for kind in [OutcomeKind::Success, OutcomeKind::Failure, OutcomeKind::Failure] {
            let permit = asked(giver).await;
            let ticket = written_and_read(&permit.ticket());
            assert!(!ticket.is_probe() && ticket.deadline().is_none());
            assert_eq!(settle(&other.breakers, &ticket, kind).await, Settlement::Counted);
            // Long after it would have counted as a failure.
            sleep(ms(1_500)).await;
            permit.settled_elsewhere(kind);
        }
        sleep(ms(1_500)).await;
        assert_eq!(fleet.counted().await, (1, 2), "{consistency:?}");
        let permit = asked(giver).await;
        settle(&other.breakers, &permit.ticket(), OutcomeKind::Failure).await;
        fleet.all_become(CircuitStatus::Open, ms(3_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_store_is_read_first() {
    let mut fleet = Fleet::new(1, &simple());
    let before = asked(&fleet.processes[0]).await.ticket();
    fleet.processes[0] = Process::new(5, &fleet.store, &simple());
    assert_eq!(
        settle(&fleet.processes[0].breakers, &before, OutcomeKind::Success).await,
        Settlement::Counted
    );

    // The same with a record: the circuit was opened and closed before.
    fleet.processes.push(Process::new(6, &fleet.store, &simple()));
    sleep(ms(1_100)).await;
    fleet.trip().await;
    sleep(COOL_OFF).await;
    fleet.processes[0].succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, ms(1_000)).await;
    let after = asked(&fleet.processes[0]).await.ticket();
    assert_ne!(after.epoch, before.epoch);
    let started_anew = Process::new(7, &fleet.store, &simple());
    assert_eq!(settle(&started_anew.breakers, &after, OutcomeKind::Success).await, Settlement::Counted);
    assert_eq!(settle(&started_anew.breakers, &before, OutcomeKind::Failure).await, Settlement::Late);
    assert_eq!(started_anew.breakers.counts().late_results, 1);
    assert_eq!(started_anew.circuit.totals().failures, 0);
}

#[tokio::test(start_paused = true)]
async fn what_came_after_the_trip_is_late_and_moves_no_deadline() {
    let fleet = Fleet::new(3, &simple());
    let permit = asked(&fleet.processes[2]).await;
    let ticket = permit.ticket();
    fleet.trip().await;
    let retry_at = fleet.processes[1].circuit.record().retry_at;
    for process in &fleet.processes {
        assert_eq!(settle(&process.breakers, &ticket, OutcomeKind::Failure).await, Settlement::Late);
    }
    permit.settled_elsewhere(OutcomeKind::Failure);
    assert_eq!(fleet.processes[1].circuit.record().retry_at, retry_at);
}

#[tokio::test(start_paused = true)]
async fn who_has_missed_a_recovery_asks_before_it_calls_anything_late() {
    let fleet = Fleet::new(2, &simple());
    let way = FaultyStore::deaf(Arc::clone(&fleet.store) as Arc<dyn Store>);
    let deaf = Breakerbox::builder().policy(simple().build().unwrap()).store(Arc::clone(&way)).build();
    deaf.circuit("e1").unwrap().acquire().await.unwrap().ignored();
    fleet.trip().await;
    sleep(COOL_OFF).await;
    fleet.processes[0].succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, ms(1_000)).await;
    let ticket = asked(&fleet.processes[0]).await.ticket();
    assert!(deaf.circuit("e1").unwrap().record().epoch < ticket.epoch, "it has missed all of it");
    assert_eq!(settle(&deaf, &ticket, OutcomeKind::Success).await, Settlement::Counted);
}

#[tokio::test(start_paused = true)]
async fn a_probe_settled_elsewhere_counts_once_and_the_next_one_need_not_wait() {
    let fleet = Fleet::new(2, &simple().probes(2));
    let [giver, other] = &fleet.processes[..] else { panic!() };
    fleet.trip().await;
    sleep(COOL_OFF).await;
    for (n, status) in [(0, CircuitStatus::HalfOpen), (1, CircuitStatus::Closed)] {
        let permit = asked(giver).await;
        assert!(permit.is_probe(), "no. {n} at once, and not after the lease of the one before");
        let ticket = written_and_read(&permit.ticket());
        assert!(ticket.is_probe());
        assert!(matches!(other.circuit.acquire().await, Err(Refusal::Probing { .. })));
        assert_eq!(settle(&other.breakers, &ticket, OutcomeKind::Success).await, Settlement::Counted);
        for process in [giver, other] {
            assert_eq!(settle(&process.breakers, &ticket, OutcomeKind::Failure).await, Settlement::Late);
        }
        permit.settled_elsewhere(OutcomeKind::Success);
        fleet.all_become(status, ms(1_000)).await;
    }
    for process in &fleet.processes {
        assert_eq!(process.breakers.counts().overlaps, 0, "nobody else was given one");
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_missed_a_lease_asks_before_it_judges_a_probe() {
    let fleet = Fleet::new(2, &simple().probes(2));
    let way = FaultyStore::deaf(Arc::clone(&fleet.store) as Arc<dyn Store>);
    let deaf = Breakerbox::builder().policy(simple().probes(2).build().unwrap()).store(way).build();
    fleet.trip().await;
    sleep(COOL_OFF).await;
    let first = asked(&fleet.processes[0]).await;
    assert!(matches!(deaf.circuit("e1").unwrap().acquire().await, Err(Refusal::Probing { .. })));
    first.success();
    sleep(ms(10)).await;
    let second = asked(&fleet.processes[0]).await;
    assert_eq!(settle(&deaf, &second.ticket(), OutcomeKind::Success).await, Settlement::Counted);
    second.settled_elsewhere(OutcomeKind::Success);
    fleet.all_become(CircuitStatus::Closed, ms(1_000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_settled_after_a_restart_while_its_lease_lasts() {
    for (waits, kind, settlement, status) in [
        (5, OutcomeKind::Success, Settlement::Counted, CircuitStatus::Closed),
        (5, OutcomeKind::Failure, Settlement::Counted, CircuitStatus::Open),
        (5, OutcomeKind::Ignored, Settlement::Uncounted, CircuitStatus::HalfOpen),
        // After its deadline, which is two seconds before the lease ends.
        (11, OutcomeKind::Success, Settlement::Counted, CircuitStatus::Open),
        (13, OutcomeKind::Success, Settlement::Late, CircuitStatus::HalfOpen),
        (13, OutcomeKind::Failure, Settlement::Late, CircuitStatus::HalfOpen),
    ] {
        let mut fleet = Fleet::new(2, &simple());
        fleet.trip().await;
        sleep(COOL_OFF).await;
        let permit = asked(&fleet.processes[0]).await;
        let ticket = permit.ticket();
        // The process dies without reporting anything.
        fleet.processes[0].way.set(Fault::BlackHole);
        drop(permit);
        fleet.processes.clear();
        fleet.processes.push(Process::new(9, &fleet.store, &simple()));
        sleep(Duration::from_secs(waits)).await;
        let settled = settle(&fleet.processes[0].breakers, &ticket, kind).await;
        assert_eq!(settled, settlement, "{kind:?} after {waits} s");
        assert_eq!(fleet.processes[0].circuit.status(), status, "{kind:?} after {waits} s");
    }
}

#[tokio::test(start_paused = true)]
async fn eight_who_settle_one_probe_at_once_settle_it_once() {
    let fleet = Fleet::new(8, &simple().probes(3));
    fleet.trip().await;
    sleep(COOL_OFF).await;
    let permit = asked(&fleet.processes[0]).await;
    let ticket = permit.ticket();
    let settling = fleet.processes.iter().map(|process| {
        process.way.delay(ms(10));
        let (breakers, ticket) = (process.breakers.clone(), ticket.clone());
        tokio::spawn(async move { settle(&breakers, &ticket, OutcomeKind::Success).await })
    });
    let settling: Vec<_> = settling.collect();
    let mut counted = 0;
    for settled in settling {
        counted += u32::from(settled.await.unwrap() == Settlement::Counted);
    }
    assert_eq!(counted, 1);
    permit.settled_elsewhere(OutcomeKind::Success);
    assert_eq!(fleet.processes[0].circuit.record().probe_successes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_place_on_the_ramp_comes_back_when_its_call_is_settled_elsewhere_or_never() {
    let fleet = Fleet::new(2, &simple().ramp_cap(8));
    let [giver, other] = &fleet.processes[..] else { panic!() };
    fleet.trip().await;
    sleep(COOL_OFF).await;
    giver.succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, ms(1_000)).await;

    let permit = asked(giver).await;
    assert!(matches!(giver.circuit.try_acquire(), Err(Refusal::Ramping { in_flight: 1, limit: 1 })));
    let ticket = permit.ticket();
    settle(&other.breakers, &ticket, OutcomeKind::Success).await;
    let waiting = giver.circuit.clone();
    let waiting = tokio::spawn(async move { waiting.acquire_owned_within(ms(500)).await });
    tokio::task::yield_now().await;
    let began = Instant::now();
    permit.settled_elsewhere(OutcomeKind::Success);
    let places = [waiting.await.unwrap().expect("whoever waited is woken"), asked(giver).await];
    assert!(began.elapsed() < ms(100), "at once");
    assert!(matches!(giver.circuit.try_acquire(), Err(Refusal::Ramping { in_flight: 2, limit: 2 })));

    // They expire: their slots are released, and each counts as a failure.
    let tickets = places.each_ref().map(OwnedPermit::ticket);
    sleep(ms(2_000)).await;
    drop(places);
    assert_eq!(giver.circuit.totals().failures, 2);
    assert!(giver.circuit.acquire().await.is_ok(), "no place is lost");
    assert_eq!(tickets.map(|ticket| ticket.is_probe()), [false; 2]);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nothing_is_called_late_and_no_probe_is_split() {
    let fleet = Fleet::new(3, &simple());
    let [giver, other, stranger] = &fleet.processes[..] else { panic!() };
    other.succeed().await.unwrap();
    let before = asked(giver).await.ticket();
    sleep(ms(1_100)).await;
    fleet.trip().await;
    sleep(COOL_OFF).await;
    let probe = asked(giver).await;
    let ticket = probe.ticket();
    sleep(ms(100)).await;
    for process in [other, stranger] {
        process.way.set(Fault::Refuses);
    }
    assert_eq!(settle(&other.breakers, &before, OutcomeKind::Success).await, Settlement::Unconfirmed);
    for _ in 0..5 {
        let settled = settle(&other.breakers, &ticket, OutcomeKind::Success).await;
        assert!(matches!(settled, Settlement::Unconfirmed | Settlement::Late), "{settled:?}");
        assert_eq!(other.circuit.status(), CircuitStatus::HalfOpen);
    }
    other.way.set(Fault::None);
    sleep(ms(2_500)).await;
    assert_eq!(settle(&other.breakers, &ticket, OutcomeKind::Success).await, Settlement::Counted);
    probe.settled_elsewhere(OutcomeKind::Success);
    assert_eq!(other.circuit.status(), CircuitStatus::Closed);
}

#[tokio::test]
async fn without_a_store_a_ticket_is_its_own_registrys() {
    let breakers = Breakerbox::builder().policy(simple().build().unwrap()).build();
    let circuit = breakers.circuit("e1").unwrap();
    let [first, late] = [(); 2].map(|()| circuit.try_acquire_owned().unwrap());
    let (ticket, late_ticket) = (first.ticket(), late.ticket());
    for _ in 0..3 {
        assert_eq!(settle(&breakers, &ticket, OutcomeKind::Failure).await, Settlement::Counted);
    }
    assert_eq!(circuit.status(), CircuitStatus::Open);
    assert_eq!(settle(&breakers, &late_ticket, OutcomeKind::Success).await, Settlement::Late);
    [first, late].into_iter().for_each(|permit| permit.settled_elsewhere(OutcomeKind::Failure));
    let nobodys = Ticket::new("".into(), ticket.epoch, ticket.started_at, ticket.kind);
    assert!(breakers.settle_ticket(&nobodys, Outcome::ignored()).await.is_err());
}

#[tokio::test]
async fn a_call_without_a_circuit_counts_nowhere() {
    let breakers = Breakerbox::builder().max_circuits(0).build();
    let permit = breakers.circuit("e1").unwrap().try_acquire_owned().unwrap();
    let ticket = permit.ticket();
    assert_eq!(settle(&breakers, &ticket, OutcomeKind::Failure).await, Settlement::Uncounted);
    permit.settled_elsewhere(OutcomeKind::Failure);
}
