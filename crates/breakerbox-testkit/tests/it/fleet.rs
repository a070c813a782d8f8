//! Several processes of a fleet over one store, in tokio's own time, which stands still unless everybody waits for it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::store::{Delta, MemoryStore, Store};
use breakerbox::{
    Attribution, Breakerbox, Builder, CallError, Circuit, CircuitChange, Clock, Command, Consistency, Epoch,
    ObeyError, OnStoreLoss, Policy, PolicyBuilder, Refusal, Status, StoreHealth, Timestamp, Totals,
};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

/// Tokio's time.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock {
    pub(crate) start: Instant,
    pub(crate) ahead: Duration,
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.ahead + self.start.elapsed()
    }
}

pub(crate) struct Fleet {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) processes: Vec<Process>,
}

pub(crate) struct Process {
    pub(crate) breakers: Breakerbox,
    pub(crate) circuit: Circuit,
    pub(crate) way: Arc<FaultyStore>,
    changes: Arc<Mutex<Vec<CircuitChange>>>,
    health: Arc<Mutex<Vec<StoreHealth>>>,
}

pub(crate) fn simple() -> PolicyBuilder {
    Policy::builder().failure_rate(None).consecutive_failures(3).jitter(0).probes(1).ramp_cap(None)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Fleet {
    fn new(processes: u64, policy: &PolicyBuilder) -> Self {
        Self::with(processes, policy, |builder| builder)
    }

    pub(crate) fn with(processes: u64, policy: &PolicyBuilder, settings: fn(Builder) -> Builder) -> Self {
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(1_000_000) };
        let store = Arc::new(MemoryStore::with_clock(clock));
        let processes = (0..processes).map(|n| Process::with(n, &store, policy, settings)).collect();
        Self { store, processes }
    }

    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.processes.iter().map(|process| process.circuit.status()).collect()
    }

    /// Waits until all are in this state, for at most so long.
    pub(crate) async fn all_become(&self, status: Status, within: Duration) {
        let limit = Instant::now() + within;
        while self.statuses().iter().any(|is| *is != status) {
            assert!(Instant::now() < limit, "{:?}", self.statuses());
            sleep(ms(1)).await;
        }
    }

    /// What all of them counted, by the store.
    async fn totals(&self) -> Totals {
        let nothing = Delta {
            key: "e1".into(),
            epoch: Epoch::default(),
            window: Duration::from_secs(60),
            buckets: Vec::new(),
            last_success: None,
            run_began: None,
            keep_for: Duration::from_secs(60),
        };
        self.store.merge(&[nothing]).await.unwrap().all().unwrap().value[0].totals
    }

    /// Successes and failures that the store knows of.
    async fn counted(&self) -> (u64, u64) {
        let totals = self.totals().await;
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
        Self::with(n, store, policy, |builder| builder)
    }

    pub(crate) fn with(
        n: u64,
        store: &Arc<MemoryStore>,
        policy: &PolicyBuilder,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        // Clocks that are hours apart.
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(10 + n * 3_600) };
        let way = FaultyStore::new(Arc::clone(store) as Arc<dyn Store>);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let health = Arc::new(Mutex::new(Vec::new()));
        let (heard, news) = (Arc::clone(&changes), Arc::clone(&health));
        let breakers = settings(Breakerbox::builder())
            .policy(policy.build().unwrap())
            .clock(clock)
            .store(Arc::clone(&way))
            .observer(move |change| heard.lock().unwrap().push(change.clone()))
            .store_observer(move |health| news.lock().unwrap().push(health.clone()))
            .build();
        let circuit = breakers.circuit("e1").unwrap();
        Self { breakers, circuit, way, changes, health }
    }

    pub(crate) async fn fail(&self) {
        let _ = self.circuit.call(async { Err::<(), _>("down") }).await;
    }

    pub(crate) async fn succeed(&self) -> Result<(), CallError<&'static str>> {
        self.circuit.call(async { Ok(()) }).await
    }

    pub(crate) fn heard(&self) -> Vec<Status> {
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
async fn what_reaches_the_store_after_the_trip_is_late_and_counted_as_such() {
    let fleet = Fleet::new(3, &simple());
    let slow = &fleet.processes[2];
    slow.succeed().await.unwrap();
    sleep(ms(1_500)).await;
    slow.way.delay(ms(480));
    slow.fail().await;
    slow.fail().await;
    sleep(ms(110)).await;
    // They are on their way now, and come after the trip.
    fleet.trip().await;
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
async fn no_ask_waits_longer_than_the_store_may_take_and_what_it_was_granted_later_is_not_lost() {
    // A reading and a swap that together take longer than one request may, and a swap whose answer is lost.
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
        let answer = asker.circuit.ask_store().await.map(drop);
        assert_eq!(start.elapsed(), ms(500), "{delay:?}");
        assert!(matches!(answer, Err(Refusal::Probing { .. })), "{delay:?}: {answer:?}");
        let limit = Instant::now() + Duration::from_secs(5);
        let probe = loop {
            if let Ok(permit) = asker.circuit.ask() {
                break permit;
            }
            assert!(Instant::now() < limit, "{delay:?}: the lease was taken, and nobody has it");
            sleep(ms(10)).await;
        };
        assert!(probe.is_probe(), "{delay:?}");
        probe.success();
        fleet.all_become(Status::Closed, Duration::from_secs(3)).await;
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
        tokio::join!(asker.circuit.ask_store(), faults).0.is_ok()
    });
    assert!(impatient.await.is_err(), "given up when the swap was made and its answer under way");
    asker.way.set(Fault::None);
    sleep(Duration::from_secs(1)).await;
    assert!(asker.circuit.ask_store().await.is_ok_and(|permit| permit.is_probe()));
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
async fn what_is_counted_after_a_closing_is_told_though_nobody_calls_any_more() {
    let fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    sleep(Duration::from_secs(31)).await;
    fleet.processes[0].succeed().await.unwrap();
    fleet.all_become(Status::Closed, ms(100)).await;
    // By the other, who only heard of it: one call, and then silence.
    fleet.processes[1].succeed().await.unwrap();
    sleep(ms(1_100)).await;
    assert_eq!(fleet.totals().await.successes, 1);
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
        let process = Process::with(1, &fleet.store, &simple(), |builder| builder.on_store_loss(on_loss));
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
        // Both in one batch.
        let _ = fleet.processes[n].succeed().await;
        sleep(ms(150)).await;
    }
    sleep(ms(1_500)).await;
    assert!(others.iter().all(|circuit| circuit.status() == Status::Open), "{others:?}");
    // This one is each process's own meanwhile, and that is reported.
    for _ in 0..3 {
        fleet.processes[0].fail().await;
    }
    assert_eq!(fleet.statuses(), [Status::Open, Status::Closed]);
    let by = Attribution::new("ann", "maintenance").unwrap();
    for process in &fleet.processes {
        let keys: Vec<_> =
            process.breakers.unreadable().into_iter().map(|unreadable| unreadable.key).collect();
        assert_eq!(keys, ["e1"]);
        assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
        let told = process.circuit.obey_store(Command::ForceOpen, &by).await;
        assert_eq!(told, Err(ObeyError::Unreadable));
        process.way.spoil(None);
    }
    fleet.all_become(Status::Open, Duration::from_secs(5)).await;
    for process in &fleet.processes {
        assert_eq!(process.breakers.unreadable(), []);
        assert!(process.health.lock().unwrap().is_empty(), "it was there all the time");
    }
}

/// Who was told what to do while the store was away was never on its own, and so the fleet's promise holds at once.
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
        // Until after the cool-off: whoever asks next wants to probe.
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
                if let Ok(permit) = process.circuit.ask_store().await {
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

#[tokio::test(start_paused = true)]
async fn callers_who_do_not_wait_do_not_keep_a_store_away() {
    let fleet = Fleet::with(1, &simple(), |builder| builder.consistency(Consistency::Strict));
    let process = &fleet.processes[0];
    // Between two of the looks that are taken at it anyway.
    sleep(ms(217)).await;
    process.way.set(Fault::Refuses);
    while process.breakers.store_health() == Some(StoreHealth::Connected) {
        process.fail().await;
    }
    process.way.set(Fault::BlackHole);
    // The one request that is let through is a caller's, who goes away.
    let is_let_through = async |n: u32| {
        let circuit = process.breakers.circuit(&format!("e{n}")).unwrap();
        tokio::time::timeout(ms(3), circuit.ask_store()).await.is_err()
    };
    let mut asked = 1;
    while !is_let_through(asked).await {
        asked += 1;
        assert!(asked < 1_000, "somebody else was first");
        sleep(ms(1)).await;
    }
    process.way.set(Fault::None);
    sleep(ms(600)).await;
    assert_eq!(process.breakers.store_health(), Some(StoreHealth::Connected));
}

#[tokio::test(start_paused = true)]
async fn probes_that_overlap_because_the_store_lost_a_lease_are_counted() {
    let fleet = Fleet::new(2, &simple());
    fleet.trip().await;
    sleep(Duration::from_secs(31)).await;
    let before = fleet.store.snapshot();
    let [first, second] = &fleet.processes[..] else { panic!("two") };
    let probe = first.circuit.ask_store().await.unwrap();
    assert!(probe.is_probe());
    fleet.store.restore(before);
    // The other has not heard of the lease, as happens where messages are lost with the writes.
    let third = Process::new(5, &fleet.store, &simple());
    let beside = third.circuit.ask_store().await.unwrap();
    assert!(beside.is_probe());
    beside.success();
    sleep(ms(100)).await;
    probe.success();
    sleep(ms(100)).await;
    let counts =
        |process: &Process| (process.breakers.counts().overlaps, process.breakers.counts().late_results);
    assert_eq!((counts(first), counts(second), counts(&third)), ((1, 1), (0, 0), (0, 0)));
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
    for (command, admits) in [(Command::ForceClosed, true), (Command::Disable, false)] {
        fleet.processes[0].circuit.obey_store(command, &by).await.unwrap();
        sleep(ms(2_100)).await;
        assert_eq!(circuit.ask_store().await.is_ok(), admits, "{command:?}");
    }
}
