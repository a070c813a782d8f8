//! Strict consistency: an outcome counted in one process is known to every process at its next acquire.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{MemorySnapshot, Store};
use breakerbox::{
    Breakerbox, BreakerboxBuilder, CallError, CircuitStatus, Classification, Consistency, OnStoreLoss,
    Refusal, Settlement, StoreHealth,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

/// Sets strict consistency without regular reads, so that a process learns of changes only when it acquires.
fn strictly(builder: BreakerboxBuilder) -> BreakerboxBuilder {
    builder.consistency(Consistency::Strict).reread_every(Duration::from_secs(1_000_000))
}

#[tokio::test(start_paused = true)]
async fn a_healthy_call_takes_two_requests_whatever_the_rate() {
    let fleet = Fleet::with(1, &simple(), strictly);
    let process = &fleet.processes[0];
    for _ in 0..1_000 {
        process.succeed().await.unwrap();
    }
    assert_eq!(process.way.requests(), 2_000);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(process.way.requests(), 2_000, "and nothing is told again");
}

#[tokio::test(start_paused = true)]
async fn whatever_one_counted_the_others_know_at_their_next_ask() {
    let fleet = Fleet::with(3, &simple(), strictly);
    for process in &fleet.processes {
        process.fail().await;
    }
    for process in &fleet.processes {
        let refused = process.succeed().await;
        assert!(matches!(refused, Err(CallError::Refused(Refusal::Open { .. }))), "{refused:?}");
        assert_eq!(process.observed(), [CircuitStatus::Open]);
    }
    sleep(Duration::from_secs(30)).await;
    fleet.processes[1].succeed().await.unwrap();
    fleet.processes[2].succeed().await.unwrap();
    assert_eq!(fleet.processes[2].circuit.status(), CircuitStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_success_of_anybody_ends_the_run_of_failures() {
    let fleet = Fleet::with(2, &simple(), strictly);
    for n in 0..10 {
        for process in &fleet.processes {
            process.fail().await;
            sleep(ms(1)).await;
        }
        // From each process in turn, so that neither has a reason to refuse on its own.
        fleet.processes[n % 2].succeed().await.unwrap();
        sleep(ms(1)).await;
    }
    assert_eq!(fleet.statuses(), [CircuitStatus::Closed; 2]);
}

#[tokio::test(start_paused = true)]
async fn whoever_can_not_wait_is_told_what_to_use() {
    let fleet = Fleet::with(1, &simple(), strictly);
    let circuit = &fleet.processes[0].circuit;
    assert_eq!(circuit.try_acquire().map(drop), Err(Refusal::StoreRequired));
    let refused = circuit.call_blocking(|| Ok::<_, ()>(()));
    assert_eq!(refused, Err(CallError::Refused(Refusal::StoreRequired)));
    assert!(Refusal::StoreRequired.to_string().contains("acquire"));
}

#[tokio::test(start_paused = true)]
async fn settling_says_what_the_store_made_of_it() {
    let fleet = Fleet::with(1, &simple(), strictly);
    let second = &fleet.processes[0];
    let way = FaultyStore::deaf(Arc::clone(&fleet.store) as Arc<dyn Store>);
    let breakers =
        strictly(Breakerbox::builder()).policy(simple().build().unwrap()).store(Arc::clone(&way)).build();
    let circuit = breakers.circuit("e1").unwrap();
    let [late, counted, not_received] = [
        circuit.acquire().await.unwrap(),
        circuit.acquire().await.unwrap(),
        circuit.acquire().await.unwrap(),
    ];
    assert_eq!(counted.settle_and_confirm(Classification::SUCCESS).await, Settlement::Counted);
    way.set(Fault::LosesAnswers);
    let start = Instant::now();
    assert_eq!(not_received.settle_and_confirm(Classification::SUCCESS).await, Settlement::Unconfirmed);
    assert_eq!((start.elapsed(), breakers.counts().unanswered_reports), (ms(500), 1));
    way.set(Fault::None);
    sleep(ms(1)).await;
    for _ in 0..3 {
        second.fail().await;
    }
    assert_eq!(circuit.status(), CircuitStatus::Closed, "nobody told");
    assert_eq!(late.settle_and_confirm(Classification::FAILURE).await, Settlement::Late);
    assert_eq!((breakers.counts().late_results, circuit.status()), (1, CircuitStatus::Open));
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_takes_no_outcome_with_it() {
    let fleet = Fleet::with(2, &simple(), strictly);
    let [first, second] = &fleet.processes[..] else { panic!("two") };
    first.way.delay(ms(50));
    for _ in 0..3 {
        let permit = first.circuit.acquire().await.unwrap();
        drop(permit.settle_and_confirm(Classification::FAILURE));
    }
    sleep(ms(200)).await;
    assert!(matches!(second.succeed().await, Err(CallError::Refused(Refusal::Open { .. }))));
}

#[tokio::test(start_paused = true)]
async fn one_process_probes_at_a_time_and_the_others_are_told() {
    let fleet = Fleet::with(4, &simple().probes(2), strictly);
    for process in &fleet.processes {
        process.way.delay(ms(7));
    }
    for _ in 0..3 {
        fleet.processes[0].fail().await;
    }
    for probe in 0..2 {
        sleep(Duration::from_secs(31)).await;
        let asks = fleet.processes.iter().map(|process| {
            let circuit = process.circuit.clone();
            tokio::spawn(async move {
                let permit = circuit.acquire().await?;
                assert!(permit.is_probe());
                sleep(ms(100)).await;
                assert_eq!(permit.settle_and_confirm(Classification::SUCCESS).await, Settlement::Counted);
                Ok::<_, Refusal>(())
            })
        });
        let mut admitted = 0;
        for ask in asks.collect::<Vec<_>>() {
            match ask.await.unwrap() {
                Ok(()) => admitted += 1,
                Err(refusal) => assert!(matches!(refusal, Refusal::Probing { .. }), "{refusal:?}"),
            }
        }
        assert_eq!(admitted, 1, "probe {probe}");
    }
    fleet.processes[3].succeed().await.unwrap();
    assert_eq!(fleet.processes[3].circuit.status(), CircuitStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_missing_answer_is_dealt_with_as_a_store_that_is_away() {
    for on_loss in [OnStoreLoss::Local, OnStoreLoss::Admit, OnStoreLoss::Refuse] {
        let fleet = Fleet::with(1, &simple(), strictly);
        let settings = |builder| strictly(builder).on_store_loss(on_loss);
        let process = Process::with(2, &fleet.store, &simple(), settings);
        process.succeed().await.unwrap();
        for _ in 0..2 {
            process.way.set(Fault::LosesAnswers);
            let start = Instant::now();
            let asked = process.circuit.acquire().await;
            assert_eq!(start.elapsed(), ms(500), "the store's time limit");
            process.way.set(Fault::None);
            assert_eq!(
                process.breakers.store_health(),
                Some(StoreHealth::Connected),
                "it is not given up yet"
            );
            match on_loss {
                OnStoreLoss::Refuse => assert_eq!(asked.map(drop), Err(Refusal::StoreLost)),
                OnStoreLoss::Admit => {
                    let settlement = asked.unwrap().settle_and_confirm(Classification::FAILURE).await;
                    assert_eq!(settlement, Settlement::Uncounted);
                }
                _ => assert_eq!(
                    asked.unwrap().settle_and_confirm(Classification::SUCCESS).await,
                    Settlement::Counted,
                    "what is known here decides, and the store counts again"
                ),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_each_goes_on_alone_and_then_all_agree() {
    for fault in [Fault::Refuses, Fault::BlackHole, Fault::LosesAnswers] {
        let fleet = Fleet::with(3, &simple(), |builder| builder.consistency(Consistency::Strict));
        for process in &fleet.processes {
            process.succeed().await.unwrap();
            process.way.set(fault);
        }
        for _ in 0..20 {
            for process in &fleet.processes {
                let start = Instant::now();
                let _ = process.succeed().await;
                assert!(
                    start.elapsed() <= ms(1_000),
                    "{fault:?}: {:?}, to ask and to settle",
                    start.elapsed()
                );
            }
            sleep(ms(250)).await;
        }
        for process in &fleet.processes {
            assert!(
                matches!(process.breakers.store_health(), Some(StoreHealth::Degraded { .. })),
                "{fault:?}"
            );
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
        // Everything is strict again.
        sleep(ms(1_000)).await;
        let before = fleet.processes[1].way.requests();
        assert!(fleet.processes[1].succeed().await.is_err());
        assert!(fleet.processes[1].way.requests() > before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_forgot_everything_is_told_before_anybody_is_admitted() {
    let fleet = Fleet::with(2, &simple(), strictly);
    for _ in 0..3 {
        fleet.processes[0].fail().await;
    }
    fleet.store.restore(MemorySnapshot::default());
    let refused = fleet.processes[0].succeed().await;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::Probing { .. }))), "{refused:?}");
    sleep(ms(10)).await;
    for process in &fleet.processes {
        let refused = process.succeed().await;
        assert!(matches!(refused, Err(CallError::Refused(Refusal::Open { .. }))), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overlap_shows_when_the_result_is_refused_though_nobody_told_of_it() {
    let fleet = Fleet::with(1, &simple(), strictly);
    let other = &fleet.processes[0];
    let way = FaultyStore::deaf(Arc::clone(&fleet.store) as Arc<dyn Store>);
    let breakers = strictly(Breakerbox::builder()).policy(simple().build().unwrap()).store(way).build();
    let circuit = breakers.circuit("e1").unwrap();
    for _ in 0..3 {
        other.fail().await;
    }
    sleep(Duration::from_secs(31)).await;
    let before = fleet.store.snapshot();
    let probe = circuit.acquire().await.unwrap();
    fleet.store.restore(before);
    let late = Process::with(3, &fleet.store, &simple(), strictly);
    late.succeed().await.unwrap();
    assert_eq!(probe.settle_and_confirm(Classification::SUCCESS).await, Settlement::Late);
    assert_eq!(breakers.counts().overlaps, 1);
}
