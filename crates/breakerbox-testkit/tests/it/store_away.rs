//! A fleet whose store is down, loses its data, or can't be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{
    Attribution, Breakerbox, CallError, CircuitStatus, Consistency, OnStoreLoss, OverrideCommand,
    OverrideError, Refusal, StoreHealth,
};
use breakerbox_testkit::faults::{Fault, FaultyStore, REFUSED_WRITE};
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_each_goes_on_alone_and_then_all_agree() {
    for fault in [Fault::Refuses, Fault::BlackHole, Fault::LosesAnswers] {
        let fleet = Fleet::new(3, &simple());
        for process in &fleet.processes {
            process.succeed().await.unwrap();
            process.way.set(fault);
            // Two consecutive failures are reported, but the report is lost.
            process.fail().await;
            process.fail().await;
            sleep(ms(150)).await;
        }
        // Whatever is tried, no call waits longer than the store timeout.
        for _ in 0..20 {
            for process in &fleet.processes {
                let start = Instant::now();
                let _ = process.succeed().await;
                assert!(start.elapsed() <= ms(500), "{fault:?}: {:?}", start.elapsed());
            }
            sleep(ms(250)).await;
        }
        for process in &fleet.processes {
            let Some(StoreHealth::Degraded { error }) = process.breakers.store_health() else {
                panic!("{fault:?} goes unnoticed");
            };
            let why = if fault == Fault::Refuses { "connection refused" } else { "did not answer" };
            assert!(error.contains(why), "{fault:?}: {error}");
            assert_eq!(process.health.lock().unwrap().len(), 1);
            assert!(process.breakers.counts().unanswered_reports > 0, "{fault:?}");
        }
        for _ in 0..3 {
            fleet.processes[0].fail().await;
        }
        assert_eq!(
            fleet.statuses(),
            [CircuitStatus::Open, CircuitStatus::Closed, CircuitStatus::Closed],
            "{fault:?}"
        );
        for process in &fleet.processes {
            process.way.set(Fault::None);
        }
        fleet.all_become(CircuitStatus::Open, Duration::from_secs(5)).await;
        for process in &fleet.processes {
            assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_all_is_admitted_or_refused_as_was_said() {
    for on_loss in [OnStoreLoss::Admit, OnStoreLoss::Refuse] {
        let fleet = Fleet::new(0, &simple());
        let process = Process::with(1, &fleet.store, &simple(), |builder| builder.on_store_loss(on_loss));
        process.succeed().await.unwrap();
        process.way.set(Fault::Refuses);
        sleep(Duration::from_secs(5)).await;
        for _ in 0..10 {
            // The process must detect that the store is down.
            process.fail().await;
            sleep(ms(300)).await;
        }
        for answer in
            [process.succeed().await, process.circuit.try_acquire().map(drop).map_err(CallError::Refused)]
        {
            match on_loss {
                OnStoreLoss::Admit => assert_eq!(answer, Ok(())),
                _ => assert_eq!(answer, Err(CallError::Refused(Refusal::StoreLost))),
            }
        }
        process.way.set(Fault::None);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(process.succeed().await, Ok(()));
        assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_can_not_be_read_concerns_no_other() {
    let fleet = Fleet::new(2, &simple());
    for process in &fleet.processes {
        process.succeed().await.unwrap();
        process.way.spoil(Some("e1"));
    }
    sleep(ms(1_500)).await;
    let others: Vec<_> =
        fleet.processes.iter().map(|process| process.breakers.circuit("e2").unwrap()).collect();
    for n in [0, 1, 0] {
        let _ = others[n].call(async { Err::<(), _>("down") }).await;
        // Both are in one batch.
        let _ = fleet.processes[n].succeed().await;
        sleep(ms(150)).await;
    }
    sleep(ms(1_500)).await;
    assert!(others.iter().all(|circuit| circuit.status() == CircuitStatus::Open), "{others:?}");
    // Each process keeps this circuit on its own meanwhile, and reports so.
    for _ in 0..3 {
        fleet.processes[0].fail().await;
    }
    assert_eq!(fleet.statuses(), [CircuitStatus::Open, CircuitStatus::Closed]);
    let by = Attribution::new("ann", "maintenance").unwrap();
    for process in &fleet.processes {
        let keys: Vec<_> =
            process.breakers.unreadable().into_iter().map(|unreadable| unreadable.key).collect();
        assert_eq!(keys, ["e1"]);
        assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
        let told = process.circuit.apply_override(OverrideCommand::ForceOpen, &by).await;
        assert_eq!(told, Err(OverrideError::Unreadable));
        process.way.spoil(None);
    }
    fleet.all_become(CircuitStatus::Open, Duration::from_secs(5)).await;
    for process in &fleet.processes {
        assert_eq!(process.breakers.unreadable(), []);
        assert!(process.health.lock().unwrap().is_empty(), "it was there all the time");
    }
}

/// A process that applied `on_store_loss` while the store was down made no decisions of its own, so the fleet's
/// guarantee of one probe applies again as soon as the store is reachable.
#[tokio::test(start_paused = true)]
async fn when_the_store_is_back_one_probes_and_nobody_waits_for_the_next_look() {
    for on_loss in [OnStoreLoss::Admit, OnStoreLoss::Refuse] {
        let mut fleet = Fleet::new(0, &simple());
        for n in 0..3 {
            fleet
                .processes
                .push(Process::with(n, &fleet.store, &simple(), |builder| builder.on_store_loss(on_loss)));
        }
        fleet.trip().await;
        for process in &fleet.processes {
            process.way.set(Fault::Refuses);
        }
        let is_lost = |process: &Process| process.breakers.store_health() != Some(StoreHealth::Connected);
        let limit = Instant::now() + Duration::from_secs(60);
        // Until after the cool-off: the next caller that acquires is to probe.
        sleep(Duration::from_secs(31)).await;
        while !fleet.processes.iter().all(is_lost) {
            assert!(Instant::now() < limit, "{on_loss:?}");
            sleep(ms(10)).await;
        }
        for process in &fleet.processes {
            process.way.set(Fault::None);
        }
        let mut probes = Vec::new();
        let back = Instant::now();
        while back.elapsed() < Duration::from_secs(3) {
            for process in &fleet.processes {
                let was_lost = is_lost(process);
                if let Ok(permit) = process.circuit.acquire().await {
                    if permit.is_probe() {
                        probes.push((back.elapsed(), permit));
                    } else {
                        assert!(was_lost && on_loss == OnStoreLoss::Admit, "{on_loss:?}: it is open");
                        permit.ignored();
                    }
                }
            }
            sleep(ms(1)).await;
        }
        let after: Vec<_> = probes.iter().map(|(after, _)| *after).collect();
        assert_eq!(after.len(), 1, "{on_loss:?}: {after:?}");
        assert!(after[0] <= ms(600), "{on_loss:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operators_word_is_everybodys_and_holds_while_the_store_is_away() {
    let fleet = Fleet::new(3, &simple());
    for process in &fleet.processes {
        process.succeed().await.unwrap();
    }
    let by = Attribution::new("ops", "maintenance").unwrap();
    let [first, second, third] = &fleet.processes[..] else { panic!("three") };
    assert_eq!(first.circuit.try_override(OverrideCommand::ForceOpen, &by), Err(OverrideError::Shared));
    assert!(first.circuit.apply_override(OverrideCommand::ForceOpen, &by).await.unwrap().is_some());
    fleet.all_become(CircuitStatus::Open, ms(100)).await;
    assert_eq!(second.circuit.try_acquire().map(drop), Err(Refusal::ForcedOpen));
    third.way.set(Fault::Refuses);
    for _ in 0..10 {
        assert_eq!(third.succeed().await, Err(CallError::Refused(Refusal::ForcedOpen)));
        sleep(ms(500)).await;
    }
    assert_eq!(
        third.circuit.apply_override(OverrideCommand::Reset, &by).await,
        Err(OverrideError::StoreAway)
    );
    second.circuit.apply_override(OverrideCommand::Reset, &by).await.unwrap();
    third.way.set(Fault::None);
    fleet.all_become(CircuitStatus::Closed, Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_refuses_nothing_though_the_store_is_away() {
    let fleet = Fleet::new(0, &simple());
    let way = FaultyStore::new(Arc::clone(&fleet.store) as Arc<dyn Store>);
    let told = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&told);
    let breakers = Breakerbox::builder()
        .policy(simple().build().unwrap())
        .store(Arc::clone(&way))
        .on_store_loss(OnStoreLoss::Refuse)
        .dry_run(move |_, refusal| {
            assert_eq!(*refusal, Refusal::StoreLost);
            count.fetch_add(1, Ordering::SeqCst);
        })
        .build();
    let circuit = breakers.circuit("e1").unwrap();
    way.set(Fault::Refuses);
    for _ in 0..20 {
        assert_eq!(circuit.call(async { Ok::<_, ()>(()) }).await, Ok(()));
        sleep(ms(500)).await;
    }
    assert!(told.load(Ordering::SeqCst) > 5 && circuit.try_acquire().is_ok());
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_lost_no_caller_waits_for_it_or_asks_it() {
    let fleet = Fleet::with(1, &simple(), |builder| builder.consistency(Consistency::Strict));
    let process = &fleet.processes[0];
    process.way.set(Fault::Refuses);
    while process.breakers.store_health() == Some(StoreHealth::Connected) {
        process.fail().await;
    }
    process.way.set(Fault::BlackHole);
    let (asked, began) = (process.way.requests(), Instant::now());
    for n in 0..100 {
        let circuit = process.breakers.circuit(&format!("e{n}")).unwrap();
        let _ = circuit.acquire().await;
    }
    assert_eq!((process.way.requests(), began.elapsed()), (asked, Duration::ZERO));
    sleep(Duration::from_secs(5)).await;
    process.way.set(Fault::None);
    // The check that is in progress may wait for its whole timeout.
    sleep(ms(1_050)).await;
    assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
}

#[tokio::test(start_paused = true)]
async fn probes_that_overlap_because_the_store_lost_a_lease_are_counted() {
    let fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    sleep(Duration::from_secs(31)).await;
    let before = fleet.store.snapshot();
    let [first, second] = &fleet.processes[..] else { panic!("two") };
    let probe = first.circuit.acquire().await.unwrap();
    assert!(probe.is_probe());
    fleet.store.restore(before);
    // The other process has not received the lease, as happens where messages are lost with the writes.
    let third = Process::new(5, &fleet.store, &simple());
    let beside = third.circuit.acquire().await.unwrap();
    assert!(beside.is_probe());
    beside.success();
    sleep(ms(100)).await;
    probe.success();
    sleep(ms(100)).await;
    let counts =
        |process: &Process| (process.breakers.counts().overlaps, process.breakers.counts().late_results);
    assert_eq!((counts(first), counts(second), counts(&third)), ((1, 1), (0, 0), (0, 0)));
}

/// Returns the changes in the store's health that a process reported.
fn health_changes(process: &Process) -> Vec<StoreHealth> {
    process.health.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_reads_and_refuses_writes_is_lost_within_a_second_and_open_circuits_recover() {
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        let mut fleet = Fleet::new(0, &simple());
        for n in 0..2 {
            let settings = |builder: breakerbox::BreakerboxBuilder| builder.consistency(consistency);
            fleet.processes.push(Process::with(n, &fleet.store, &simple(), settings));
        }
        fleet.trip().await;
        let since = Instant::now();
        fleet.processes.iter().for_each(|process| process.way.set(Fault::RefusesWrites));
        // There is no traffic at all.
        let is_lost = |process: &Process| process.breakers.store_health() != Some(StoreHealth::Connected);
        while !fleet.processes.iter().all(is_lost) {
            assert!(since.elapsed() < Duration::from_secs(1), "{consistency:?}: it goes unnoticed");
            sleep(ms(1)).await;
        }
        // Reads succeed all the time, but the store stays lost. Calls do not wait for it, and the process
        // probes the destination on its own.
        for _ in 0..120 {
            for process in &fleet.processes {
                let began = Instant::now();
                let _ = process.succeed().await;
                assert_eq!(began.elapsed(), Duration::ZERO, "{consistency:?}");
                let changes = health_changes(process);
                let [StoreHealth::Degraded { error }] = &changes[..] else { panic!("{changes:?}") };
                assert!(error.contains(REFUSED_WRITE), "{error}");
            }
            sleep(ms(500)).await;
        }
        assert_eq!(fleet.statuses(), [CircuitStatus::Closed, CircuitStatus::Closed], "{consistency:?}");
        fleet.processes.iter().for_each(|process| process.way.set(Fault::None));
        let since = Instant::now();
        while fleet.processes.iter().any(is_lost) {
            assert!(since.elapsed() < Duration::from_secs(1), "{consistency:?}: it stays away");
            sleep(ms(1)).await;
        }
        // The decisions made while disconnected are in the store.
        sleep(ms(1_500)).await;
        let stored = fleet.store.read(&["e1".into()]).await.unwrap().all().unwrap().value;
        assert_eq!(stored[0].as_ref().map(breakerbox::Record::status), Some(CircuitStatus::Closed));
        for process in &fleet.processes {
            assert_eq!(health_changes(process).len(), 2, "{consistency:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_write_that_fails_does_not_lose_the_store() {
    let fleet = Fleet::with(1, &simple(), |builder| builder.consistency(Consistency::Strict));
    let process = &fleet.processes[0];
    for fault in [Fault::RefusesWrites, Fault::Refuses, Fault::LosesAnswers] {
        for _ in 0..20 {
            process.way.set(fault);
            let before = process.way.requests();
            // Only the first request fails; everything sent after it succeeds.
            let heal = async { process.way.set(Fault::None) };
            let _ = tokio::join!(process.succeed(), heal);
            assert!(process.way.requests() > before, "{fault:?}: it was tried");
            // Until the process has checked whether there is a bigger problem.
            sleep(ms(1_000)).await;
        }
        assert_eq!(health_changes(process), [], "{fault:?}");
    }
}
