//! Several processes of a fleet over one store: trips, probes, and shared counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use breakerbox::store::{ListQuery, Store};
use breakerbox::{
    Attribution, Breakerbox, BreakerboxBuilder, CallError, CircuitStatus, Consistency, OverrideCommand,
    Refusal, StoredKeys,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{Fleet, Process, ms, simple};

#[tokio::test(start_paused = true)]
async fn a_trip_is_everybodys_and_so_is_the_recovery() {
    let fleet = Fleet::new(3, &simple());
    for process in &fleet.processes {
        process.succeed().await.unwrap();
    }
    // Until the fleet has received these outcomes, no process knows that they came first.
    sleep(ms(1_100)).await;
    fleet.trip().await;
    for process in &fleet.processes {
        assert!(matches!(process.succeed().await, Err(CallError::Refused(Refusal::Open { .. }))));
    }
    sleep(Duration::from_secs(30)).await;
    fleet.processes[2].succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, ms(100)).await;
    for process in &fleet.processes {
        assert_eq!(process.breakers.counts().late_results, 0);
        assert_eq!(process.observed(), [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Closed]);
    }
}

/// With hashed keys, a fleet works as usual, and the store never sees a key.
#[tokio::test(start_paused = true)]
async fn keys_can_be_kept_out_of_the_store() {
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        let settings = match consistency {
            Consistency::Strict => |builder: BreakerboxBuilder| {
                builder.stored_keys(StoredKeys::Hashed).consistency(Consistency::Strict)
            },
            _ => |builder: BreakerboxBuilder| builder.stored_keys(StoredKeys::Hashed),
        };
        let fleet = Fleet::with(3, &simple(), settings);
        fleet.trip().await;
        for process in &fleet.processes {
            assert!(matches!(process.succeed().await, Err(CallError::Refused(Refusal::Open { .. }))));
        }
        let page = fleet.store.list(&ListQuery::default()).await.unwrap();
        let [(name, record)] = &page.circuits[..] else { panic!("{page:?}") };
        assert!(name.starts_with('#') && name.len() == 33, "{name}");
        assert_eq!((record.status(), &record.tenant), (CircuitStatus::Open, &None));

        sleep(Duration::from_secs(30)).await;
        fleet.processes[2].succeed().await.unwrap();
        fleet.all_become(CircuitStatus::Closed, ms(100)).await;
        for process in &fleet.processes {
            let event: Vec<_> =
                process.changes.lock().unwrap().iter().map(|event| event.key.to_string()).collect();
            assert_eq!(event, ["e1"; 3], "observers hear of keys");
        }
        // An operator's override, and a process that starts later, find the same circuit.
        let by = Attribution::new("tests", "closed for repair").unwrap();
        fleet.processes[0].circuit.apply_override(OverrideCommand::ForceOpen, &by).await.unwrap();
        fleet.all_become(CircuitStatus::Open, ms(3_000)).await;
        let late = Process::with(9, &fleet.store, &simple(), settings);
        assert!(late.circuit.acquire().await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_call_brings_is_told_though_its_circuit_was_forgotten_meanwhile() {
    let fleet = Fleet::new(2, &simple().consecutive_failures(1));
    let [one, other] = &fleet.processes[..] else { panic!() };
    let permit = one.circuit.acquire().await.unwrap();
    // Nothing has happened to the circuit, so nothing is lost: this process has not even read the store.
    one.breakers.tidy();
    permit.failure();
    // No more calls acquire.
    sleep(ms(3_000)).await;
    assert_eq!(one.circuit.status(), CircuitStatus::Open);
    assert!(matches!(other.circuit.acquire().await, Err(Refusal::Open { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_reaches_the_store_after_the_trip_is_late_and_counted_as_such() {
    let fleet = Fleet::new(3, &simple());
    let slow = &fleet.processes[2];
    slow.succeed().await.unwrap();
    sleep(ms(1_500)).await;
    slow.way.delay(ms(480));
    let trip = async {
        for _ in 0..3 {
            fleet.processes[0].fail().await;
        }
        fleet.all_become(CircuitStatus::Open, ms(3_000)).await;
    };
    let fail = async {
        sleep(ms(400)).await;
        // These outcomes are sent within 100 ms, and arrive after the trip.
        slow.fail().await;
        slow.fail().await;
    };
    tokio::join!(trip, fail);
    sleep(ms(1_000)).await;
    assert_eq!(slow.breakers.counts().late_results, 2);
    assert_eq!(fleet.processes[0].breakers.counts().late_results, 0);
}

#[tokio::test(start_paused = true)]
async fn who_boots_later_asks_the_store_first() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    fleet.processes.push(Process::new(7, &fleet.store, &simple()));
    let late = &fleet.processes[2];
    assert!(matches!(late.succeed().await, Err(CallError::Refused(Refusal::Open { .. }))));
    let sync = Process::new(8, &fleet.store, &simple());
    assert!(sync.circuit.try_acquire().is_ok(), "who can't wait takes it for closed");
    sleep(ms(10)).await;
    assert!(
        matches!(sync.circuit.try_acquire(), Err(Refusal::Open { .. })),
        "and knows better a moment later"
    );
}

#[tokio::test(start_paused = true)]
async fn who_can_not_wait_asks_the_store_once_and_gets_the_probe_while_it_is_of_use() {
    let fleet = Fleet::new(2, &simple());
    let late = Process::new(7, &fleet.store, &simple());
    late.way.delay(ms(50));
    for _ in 0..1_000 {
        drop(late.circuit.try_acquire().unwrap());
    }
    sleep(ms(10)).await;
    assert_eq!(late.way.requests(), 1, "a thousand asks, one request");

    fleet.trip().await;
    sleep(Duration::from_secs(30)).await;
    let before = late.way.requests();
    for _ in 0..1_000 {
        assert!(matches!(late.circuit.try_acquire(), Err(Refusal::Probing { .. })));
    }
    sleep(ms(200)).await;
    assert!(late.way.requests() <= before + 4, "a reading, a swap, and what goes on anyway");
    // The lease was not used in time: the next caller acquires a new one.
    sleep(Duration::from_secs(15)).await;
    assert!(matches!(late.circuit.try_acquire(), Err(Refusal::Probing { .. })));
    sleep(ms(200)).await;
    let probe = late.circuit.try_acquire().unwrap();
    assert!(matches!(late.circuit.try_acquire(), Err(Refusal::Probing { .. })), "once");
    assert!(probe.is_probe() && probe.time_left().is_some_and(|left| left > Duration::from_secs(9)));
}

#[tokio::test(start_paused = true)]
async fn no_ask_waits_longer_than_the_store_may_take_and_what_it_was_granted_later_is_not_lost() {
    // A read and a swap that together take longer than one request may, and a swap whose response is lost.
    for (delay, fault_after) in [(ms(300), None), (ms(100), Some(ms(150))), (ms(450), Some(ms(460)))] {
        let fleet = Fleet::new(2, &simple());
        fleet.trip().await;
        sleep(Duration::from_secs(30)).await;
        let asker = &fleet.processes[0];
        asker.way.delay(delay);
        if let Some(after) = fault_after {
            let way = Arc::clone(&asker.way);
            tokio::spawn(async move {
                sleep(after).await;
                way.set(Fault::LosesAnswers);
                sleep(ms(900)).await;
                way.set(Fault::None);
            });
        }
        let start = Instant::now();
        let answer = asker.circuit.acquire().await.map(drop);
        assert_eq!(start.elapsed(), ms(500), "{delay:?}");
        assert!(matches!(answer, Err(Refusal::Probing { .. })), "{delay:?}: {answer:?}");
        let limit = Instant::now() + Duration::from_secs(5);
        let probe = loop {
            if let Ok(permit) = asker.circuit.try_acquire() {
                break permit;
            }
            assert!(Instant::now() < limit, "{delay:?}: the lease was taken, and nobody has it");
            sleep(ms(10)).await;
        };
        assert!(probe.is_probe(), "{delay:?}");
        probe.success();
        fleet.all_become(CircuitStatus::Closed, Duration::from_secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_asker_is_gone_is_the_next_ones() {
    let fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    sleep(Duration::from_secs(30)).await;
    let asker = &fleet.processes[0];
    asker.way.delay(ms(100));
    let impatient = tokio::time::timeout(ms(250), async {
        let faults = async {
            sleep(ms(150)).await;
            asker.way.set(Fault::LosesAnswers);
            std::future::pending::<()>().await;
        };
        tokio::join!(asker.circuit.acquire(), faults).0.is_ok()
    });
    assert!(impatient.await.is_err(), "given up when the swap was made and its answer under way");
    asker.way.set(Fault::None);
    sleep(Duration::from_secs(1)).await;
    assert!(asker.circuit.acquire().await.is_ok_and(|permit| permit.is_probe()));
}

#[tokio::test(start_paused = true)]
async fn of_all_processes_one_probes_at_a_time() {
    let fleet = Fleet::new(8, &simple().probes(3).cool_off_factor(1.0));
    for process in &fleet.processes {
        process.way.delay(ms(7));
    }
    let counts = Arc::new([0, 0, 0].map(AtomicU32::new));
    for _ in 0..20 {
        fleet.trip().await;
        sleep(Duration::from_secs(30)).await;
        let before = counts[0].load(Ordering::SeqCst);
        let limit = Instant::now() + Duration::from_secs(60);
        while fleet.statuses().iter().any(|status| *status != CircuitStatus::Closed) {
            assert!(Instant::now() < limit, "{:?}", fleet.statuses());
            let asks = fleet.processes.iter().map(|process| {
                let (circuit, counts) = (process.circuit.clone(), Arc::clone(&counts));
                tokio::spawn(async move {
                    let [probes, under_way, overlaps] = &*counts;
                    let Ok(permit) = circuit.acquire().await else { return };
                    if permit.is_probe() {
                        probes.fetch_add(1, Ordering::SeqCst);
                        overlaps.fetch_add(under_way.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        sleep(ms(20)).await;
                        under_way.fetch_sub(1, Ordering::SeqCst);
                    }
                    permit.success();
                })
            });
            for ask in asks.collect::<Vec<_>>() {
                ask.await.unwrap();
            }
            sleep(ms(5)).await;
        }
        assert_eq!(counts[0].load(Ordering::SeqCst) - before, 3, "each recovery takes three probes");
    }
    assert_eq!(counts[2].load(Ordering::SeqCst), 0, "and none beside another");
}

#[tokio::test(start_paused = true)]
async fn nothing_that_has_to_be_reported_is_kept_from_the_fleet() {
    // A rule on the total requires every failure, and all other counts are reported with it.
    let fleet = Fleet::new(3, &simple().consecutive_failures(None).failures(1_000));
    for n in 0..300_u64 {
        let process = &fleet.processes[usize::try_from(n % 3).unwrap()];
        if n % 7 == 0 || n > 296 {
            process.fail().await;
        } else {
            process.succeed().await.unwrap();
        }
        sleep(ms(n % 11)).await;
    }
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.counted().await, (300 - 46, 46));
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_before_the_store_has_told_its_time_is_not_lost() {
    let fleet = Fleet::new(1, &simple());
    let process = &fleet.processes[0];
    process.way.delay(ms(50));
    process.circuit.try_acquire().unwrap().success();
    process.circuit.try_acquire().unwrap().failure();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.counted().await, (1, 1), "though the clocks are days apart");
}

#[tokio::test(start_paused = true)]
async fn what_fails_after_a_closing_is_reported_though_nobody_calls_any_more() {
    let fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    sleep(Duration::from_secs(31)).await;
    fleet.processes[0].succeed().await.unwrap();
    fleet.all_become(CircuitStatus::Closed, ms(100)).await;
    // The other process, which only received the change, makes one call and then none.
    fleet.processes[1].fail().await;
    sleep(ms(1_150)).await;
    assert_eq!(fleet.totals().await.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn requests_do_not_depend_on_the_number_of_calls() {
    let mut requests = Vec::new();
    for calls_in_a_millisecond in [1, 50] {
        let fleet = Fleet::new(1, &simple());
        let process = &fleet.processes[0];
        for _ in 0..10_000 {
            for _ in 0..calls_in_a_millisecond {
                process.succeed().await.unwrap();
            }
            sleep(ms(1)).await;
        }
        requests.push(process.way.requests());
    }
    assert!(requests[1] <= requests[0] + 2 && requests[0] < 40, "{requests:?} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn who_misses_that_an_override_ended_reads_it_again() {
    let fleet = Fleet::new(1, &simple());
    let deaf = Breakerbox::builder()
        .policy(simple().build().unwrap())
        .store(FaultyStore::deaf(Arc::clone(&fleet.store) as Arc<dyn Store>))
        .build();
    let circuit = deaf.circuit("e1").unwrap();
    let by = Attribution::new("ops", "maintenance").unwrap();
    for (command, admits) in [(OverrideCommand::ForceClosed, true), (OverrideCommand::Disable, false)] {
        fleet.processes[0].circuit.apply_override(command, &by).await.unwrap();
        sleep(ms(2_100)).await;
        assert_eq!(circuit.acquire().await.is_ok(), admits, "{command:?}");
    }
}
