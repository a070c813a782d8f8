//! Sampled fleets: workers check calls while circuits are closed, open and half-open, and without the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use breakerbox::store::Store;
use breakerbox::{CircuitStatus, OnStoreLoss};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

use super::rig::{Bench, Choices, convoy, ms, secs};

#[tokio::test(start_paused = true)]
async fn while_half_open_one_at_a_time_gets_through() {
    let bench = Bench::with(4, Choices { policy: convoy().probes(3), ..Choices::default() });
    bench.leader().await;
    for agent in &bench.agents {
        assert_eq!(agent.check("e1").await, "free");
    }
    bench.trip("e1").await;
    sleep(ms(10)).await;
    for agent in &bench.agents {
        assert_eq!(agent.check("e1").await, "open");
    }
    sleep(secs(30)).await;
    // No caller waits for a tick.
    let mut lease = None;
    for round in 0..20 {
        let agent = &bench.agents[round % 4];
        match agent.sampling.check("e1").await.unwrap() {
            Ok(checked) => {
                assert!(checked.is_probe() && checked.time_left().unwrap() > secs(9));
                assert!(lease.replace(checked).is_none(), "round {round}");
            }
            Err(refusal) => assert_eq!(refusal.name(), "probing"),
        }
    }
    lease.take().unwrap().settle();
    sleep(ms(10)).await;
    let next = bench.agents[3].sampling.check("e1").await.unwrap().unwrap();
    assert!(next.is_probe(), "settling releases the lease early");
    let taken_at = Instant::now();
    drop(next);
    assert_eq!(bench.agents[2].check("e1").await, "probing", "dropping does not: the call may still run");
    while bench.agents[1].check("e1").await != "probe" {
        assert!(taken_at.elapsed() < secs(13));
        sleep(ms(100)).await;
    }
    assert!(taken_at.elapsed() >= secs(12), "probe_timeout and 2 s");
    assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen, "no check counts for anything");
}

#[tokio::test(start_paused = true)]
async fn between_two_ticks_no_more_than_the_probes_get_through() {
    let choices = Choices { policy: convoy().probes(3), sample_every: secs(15), ..Choices::default() };
    let bench = Bench::with(3, choices);
    bench.leader().await;
    bench.trip("e1").await;
    sleep(secs(31)).await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen);
    for round in 0..3 {
        // None of this is in the table: neither a missing row nor an empty poll may end the probing
        // permanently.
        let mut calls = 0;
        for _ in 0..200 {
            for agent in &bench.agents {
                if let Ok(checked) = agent.sampling.check("e1").await.unwrap() {
                    calls += 1;
                    checked.settle();
                }
            }
            sleep(ms(10)).await;
        }
        assert_eq!(calls, 3, "round {round}");
        assert_eq!(bench.agents[1].check("e1").await, "probing");
        bench.table.clear();
        bench.tick().await;
        sleep(ms(100)).await;
    }
    bench.table.fail("e1", 3);
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Open);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_circuit_of_the_leaders_making_has_a_lease_to_give() {
    let bench = Bench::new(2);
    bench.leader().await;
    bench.trip("e1").await;
    sleep(secs(30)).await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen);
    let first = bench.agents[0].sampling.check("e1").await.unwrap().unwrap();
    assert!(first.is_probe());
    assert_eq!(bench.agents[1].check("e1").await, "probing");
    bench.table.succeed("e1", 1);
    bench.tick().await;
    first.settle();
    sleep(ms(100)).await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed);
    assert_eq!(bench.agents[0].sampling.counts().late_results, 0, "a check is no result");
}

#[tokio::test(start_paused = true)]
async fn checks_of_a_closed_circuit_cost_the_store_nothing() {
    let bench = Bench::new(1);
    bench.leader().await;
    let agent = &bench.agents[0];
    assert_eq!(agent.check("e1").await, "free");
    let before = agent.way.requests();
    for _ in 0..1_000 {
        assert_eq!(agent.check("e1").await, "free");
    }
    assert_eq!(agent.way.requests(), before);
    assert_eq!(bench.store.len(), 0, "and leave no trace");
}

#[tokio::test(start_paused = true)]
async fn without_the_store_each_does_as_it_was_told_and_nothing_ticks() {
    for (on_loss, closed, open) in [
        (OnStoreLoss::Local, "free", "open"),
        (OnStoreLoss::Admit, "free", "free"),
        (OnStoreLoss::Refuse, "store_lost", "store_lost"),
    ] {
        let bench = Bench::with(1, Choices { on_loss, ..Choices::default() });
        bench.leader().await;
        let agent = &bench.agents[0];
        assert_eq!(agent.check("well").await, "free");
        bench.trip("e1").await;
        agent.way.set(Fault::Refuses);
        let lost = || agent.sampling.store_health() != Some(breakerbox::StoreHealth::Connected);
        bench.until("the loss is noticed", lost).await;
        assert_eq!((agent.check("well").await, agent.check("e1").await), (closed, open), "{on_loss:?}");
        sleep(secs(30)).await;
        bench.until("its term ends", || !agent.leads()).await;
        if on_loss == OnStoreLoss::Local {
            assert_eq!(agent.check("e1").await, "probe", "one for each circuit and process");
            assert_eq!(agent.check("e1").await, "probing");
        }
        agent.way.set(Fault::None);
        bench.table.succeed("well", 1);
        bench.tick().await;
        sleep(secs(3)).await;
        assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen, "{on_loss:?}");
        bench.table.succeed("e1", 1);
        bench.tick().await;
        assert_eq!(agent.status("e1"), CircuitStatus::Closed, "{on_loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_only_watches_keeps_its_own_circuits() {
    let mut bench = Bench::new(1);
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    let refused = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&refused);
    let watching = bench.agent_with(1, Arc::clone(&way), way, move |builder| {
        builder.dry_run(move |_, _| _ = count.fetch_add(1, Ordering::SeqCst))
    });
    bench.agents.push(watching);
    bench.until("both lead, for different fleets", || bench.leaders().len() == 2).await;
    bench.table.fail("e1", 10);
    bench
        .until("both ticked", || bench.agents.iter().all(|agent| agent.status("e1") == CircuitStatus::Open))
        .await;
    assert_eq!(bench.agents[1].check("e1").await, "free");
    assert_eq!(refused.load(Ordering::SeqCst), 1);
    assert_eq!(bench.agents[0].check("e1").await, "open");
    sleep(secs(31)).await;
    bench.tick().await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::HalfOpen);
    assert_eq!(bench.status("dry-run e1").await, CircuitStatus::HalfOpen);
    assert_eq!(bench.store.len(), 2, "neither takes the other's circuits for its own");
}
