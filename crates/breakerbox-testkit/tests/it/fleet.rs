//! Several processes of a fleet over one store, in tokio's own time, which stands still unless everybody waits for it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::store::{MemoryStore, Store};
use breakerbox::{
    Attribution, Breakerbox, CallError, Circuit, CircuitChange, Clock, Command, ObeyError, OnStoreLoss,
    Policy, PolicyBuilder, Refusal, Status, StoreHealth, Timestamp,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

/// Tokio's time.
#[derive(Clone, Copy)]
struct TokioClock {
    start: Instant,
    ahead: Duration,
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.ahead + self.start.elapsed()
    }
}

struct Fleet {
    store: Arc<MemoryStore>,
    processes: Vec<Process>,
}

struct Process {
    breakers: Breakerbox,
    circuit: Circuit,
    way: Arc<FaultyStore>,
    changes: Arc<Mutex<Vec<CircuitChange>>>,
    health: Arc<Mutex<Vec<StoreHealth>>>,
}

fn simple() -> PolicyBuilder {
    Policy::builder().failure_rate(None).consecutive_failures(3).jitter(0).probes(1).ramp_cap(None)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Fleet {
    fn new(processes: u64, policy: &PolicyBuilder) -> Self {
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(1_000_000) };
        let store = Arc::new(MemoryStore::with_clock(clock));
        let processes = (0..processes).map(|n| Process::new(n, &store, policy)).collect();
        Self { store, processes }
    }

    fn statuses(&self) -> Vec<Status> {
        self.processes.iter().map(|process| process.circuit.status()).collect()
    }

    /// Waits until all are in this state, for at most so long.
    async fn all_become(&self, status: Status, within: Duration) {
        let limit = Instant::now() + within;
        while self.statuses().iter().any(|is| *is != status) {
            assert!(Instant::now() < limit, "{:?}", self.statuses());
            sleep(ms(1)).await;
        }
    }

    /// Successes and failures that the store knows of.
    async fn counted(&self) -> (u64, u64) {
        let nothing = breakerbox::store::Delta {
            key: "e1".into(),
            epoch: breakerbox::Epoch::default(),
            window: Duration::from_secs(60),
            buckets: Vec::new(),
            last_success: None,
            run_began: None,
            keep_for: Duration::from_secs(60),
        };
        let totals = self.store.merge(&[nothing]).await.unwrap().value[0].totals;
        (totals.successes, totals.failures)
    }

    /// Opens the circuit, by failures of the first two.
    async fn trip(&self) {
        for n in [0, 1, 0] {
            self.processes[n].fail().await;
            sleep(ms(150)).await;
        }
        self.all_become(Status::Open, ms(3_000)).await;
    }
}

impl Process {
    fn new(n: u64, store: &Arc<MemoryStore>, policy: &PolicyBuilder) -> Self {
        Self::with(n, store, policy, OnStoreLoss::Local)
    }

    fn with(n: u64, store: &Arc<MemoryStore>, policy: &PolicyBuilder, on_loss: OnStoreLoss) -> Self {
        // Clocks that are hours apart.
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(10 + n * 3_600) };
        let way = FaultyStore::new(Arc::clone(store) as Arc<dyn Store>);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let health = Arc::new(Mutex::new(Vec::new()));
        let (heard, news) = (Arc::clone(&changes), Arc::clone(&health));
        let breakers = Breakerbox::builder()
            .policy(policy.build().unwrap())
            .clock(clock)
            .store(Arc::clone(&way))
            .on_store_loss(on_loss)
            .observer(move |change| heard.lock().unwrap().push(change.clone()))
            .store_observer(move |health| news.lock().unwrap().push(health.clone()))
            .build();
        let circuit = breakers.circuit("e1").unwrap();
        Self { breakers, circuit, way, changes, health }
    }

    async fn fail(&self) {
        let _ = self.circuit.call(async { Err::<(), _>("down") }).await;
    }

    async fn succeed(&self) -> Result<(), CallError<&'static str>> {
        self.circuit.call(async { Ok(()) }).await
    }

    fn heard(&self) -> Vec<Status> {
        self.changes.lock().unwrap().iter().map(|change| change.change.to).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_trip_is_everybodys_and_so_is_the_recovery() {
    let fleet = Fleet::new(3, &simple());
    for process in &fleet.processes {
        process.succeed().await.unwrap();
    }
    // Until the fleet has heard of them, nobody knows that they came first.
    sleep(ms(1_100)).await;
    fleet.trip().await;
    for process in &fleet.processes {
        assert!(matches!(process.succeed().await, Err(CallError::Refused(Refusal::Open { .. }))));
    }
    sleep(Duration::from_secs(30)).await;
    fleet.processes[2].succeed().await.unwrap();
    fleet.all_become(Status::Closed, ms(100)).await;
    for process in &fleet.processes {
        assert_eq!(process.breakers.counts().late_results, 0);
        assert_eq!(process.heard(), [Status::Open, Status::HalfOpen, Status::Closed]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_boots_later_asks_the_store_first() {
    let mut fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    fleet.processes.push(Process::new(7, &fleet.store, &simple()));
    let late = &fleet.processes[2];
    assert!(matches!(late.succeed().await, Err(CallError::Refused(Refusal::Open { .. }))));
    let sync = Process::new(8, &fleet.store, &simple());
    assert!(sync.circuit.ask().is_ok(), "who can't wait takes it for closed");
    sleep(ms(10)).await;
    assert!(matches!(sync.circuit.ask(), Err(Refusal::Open { .. })), "and knows better a moment later");
}

#[tokio::test(start_paused = true)]
async fn who_can_not_wait_asks_the_store_once_and_gets_the_probe_while_it_is_of_use() {
    let fleet = Fleet::new(2, &simple());
    let late = Process::new(7, &fleet.store, &simple());
    late.way.delay(ms(50));
    for _ in 0..1_000 {
        drop(late.circuit.ask().unwrap());
    }
    sleep(ms(10)).await;
    assert_eq!(late.way.requests(), 1, "a thousand asks, one request");

    fleet.trip().await;
    sleep(Duration::from_secs(30)).await;
    let before = late.way.requests();
    for _ in 0..1_000 {
        assert!(matches!(late.circuit.ask(), Err(Refusal::Probing { .. })));
    }
    sleep(ms(200)).await;
    assert!(late.way.requests() <= before + 4, "a reading, a swap, and what goes on anyway");
    // Nobody came for it in time: the next one asks anew.
    sleep(Duration::from_secs(15)).await;
    assert!(matches!(late.circuit.ask(), Err(Refusal::Probing { .. })));
    sleep(ms(200)).await;
    let probe = late.circuit.ask().unwrap();
    assert!(matches!(late.circuit.ask(), Err(Refusal::Probing { .. })), "once");
    assert!(probe.is_probe() && probe.time_left().is_some_and(|left| left > Duration::from_secs(9)));
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
        while fleet.statuses().iter().any(|status| *status != Status::Closed) {
            assert!(Instant::now() < limit, "{:?}", fleet.statuses());
            let asks = fleet.processes.iter().map(|process| {
                let (circuit, counts) = (process.circuit.clone(), Arc::clone(&counts));
                tokio::spawn(async move {
                    let [probes, under_way, overlaps] = &*counts;
                    let Ok(permit) = circuit.ask_store().await else { return };
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
async fn while_the_store_is_away_each_goes_on_alone_and_then_all_agree() {
    for fault in [Fault::Refuses, Fault::BlackHole, Fault::LosesAnswers] {
        let fleet = Fleet::new(3, &simple());
        for process in &fleet.processes {
            process.succeed().await.unwrap();
            process.way.set(fault);
        }
        // Whatever is tried, no call waits longer than the store may take.
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
            assert!(process.breakers.counts().unheard > 0, "{fault:?}");
        }
        for _ in 0..3 {
            fleet.processes[0].fail().await;
        }
        assert_eq!(fleet.statuses(), [Status::Open, Status::Closed, Status::Closed], "{fault:?}");
        for process in &fleet.processes {
            process.way.set(Fault::None);
        }
        fleet.all_become(Status::Open, Duration::from_secs(5)).await;
        for process in &fleet.processes {
            assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_was_counted_is_kept_from_the_fleet() {
    let fleet = Fleet::new(3, &simple());
    for n in 0..300_u64 {
        let process = &fleet.processes[usize::try_from(n % 3).unwrap()];
        if n % 7 == 0 {
            process.fail().await;
        } else {
            process.succeed().await.unwrap();
        }
        sleep(ms(n % 11)).await;
    }
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.counted().await, (300 - 43, 43));
}

#[tokio::test(start_paused = true)]
async fn who_looks_all_the_time_keeps_nothing_from_the_fleet() {
    let fleet = Fleet::new(1, &simple());
    let process = &fleet.processes[0];
    process.succeed().await.unwrap();
    // Nothing happens for a while, so nobody comes for what was counted.
    sleep(Duration::from_secs(3)).await;
    for n in 0..100 {
        let _ = process.circuit.record();
        sleep(ms(50)).await;
        if n % 5 == 0 {
            process.succeed().await.unwrap();
        }
    }
    let (successes, _) = fleet.counted().await;
    assert!(successes > 15, "{successes} of 21, the last of them five seconds after the first");
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_before_the_store_has_told_its_time_is_not_lost() {
    let fleet = Fleet::new(1, &simple());
    let process = &fleet.processes[0];
    process.way.delay(ms(50));
    process.circuit.ask().unwrap().success();
    process.circuit.ask().unwrap().failure();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.counted().await, (1, 1), "though the clocks are days apart");
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
async fn while_the_store_is_away_all_is_admitted_or_refused_as_was_said() {
    for on_loss in [OnStoreLoss::Admit, OnStoreLoss::Refuse] {
        let fleet = Fleet::new(0, &simple());
        let process = Process::with(1, &fleet.store, &simple(), on_loss);
        process.succeed().await.unwrap();
        process.way.set(Fault::Refuses);
        sleep(Duration::from_secs(5)).await;
        for _ in 0..10 {
            // Somebody has to find out that it is away.
            process.fail().await;
            sleep(ms(300)).await;
        }
        for answer in [process.succeed().await, process.circuit.ask().map(drop).map_err(CallError::Refused)] {
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
async fn an_operators_word_is_everybodys_and_holds_while_the_store_is_away() {
    let fleet = Fleet::new(3, &simple());
    for process in &fleet.processes {
        process.succeed().await.unwrap();
    }
    let by = Attribution::new("ops", "maintenance").unwrap();
    let [first, second, third] = &fleet.processes[..] else { panic!("three") };
    assert_eq!(first.circuit.obey(Command::ForceOpen, &by), Err(ObeyError::Shared));
    assert!(first.circuit.obey_store(Command::ForceOpen, &by).await.unwrap().is_some());
    fleet.all_become(Status::Open, ms(100)).await;
    assert_eq!(second.circuit.ask().map(drop), Err(Refusal::ForcedOpen));
    third.way.set(Fault::Refuses);
    for _ in 0..10 {
        assert_eq!(third.succeed().await, Err(CallError::Refused(Refusal::ForcedOpen)));
        sleep(ms(500)).await;
    }
    assert_eq!(third.circuit.obey_store(Command::Reset, &by).await, Err(ObeyError::StoreAway));
    second.circuit.obey_store(Command::Reset, &by).await.unwrap();
    third.way.set(Fault::None);
    fleet.all_become(Status::Closed, Duration::from_secs(5)).await;
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
    assert!(told.load(Ordering::SeqCst) > 5 && circuit.ask().is_ok());
}
