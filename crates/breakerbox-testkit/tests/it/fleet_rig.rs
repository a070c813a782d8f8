//! A test rig for a fleet: several processes over one store, in tokio's paused time, which advances only when
//! all tasks wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::store::{Delta, MemoryStore, Store};
use breakerbox::{
    Breakerbox, BreakerboxBuilder, CallError, Circuit, CircuitChange, CircuitStatus, Clock, Epoch, Policy,
    PolicyBuilder, StoreHealth, Timestamp, Totals,
};
use breakerbox_testkit::faults::FaultyStore;
use tokio::time::{Instant, sleep};

/// A clock that uses tokio's time.
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
    pub(crate) changes: Arc<Mutex<Vec<CircuitChange>>>,
    pub(crate) health: Arc<Mutex<Vec<StoreHealth>>>,
}

pub(crate) fn simple() -> PolicyBuilder {
    let policy =
        Policy::builder().failure_rate(None).consecutive_failures(3).jitter(0).probes(1).ramp_cap(None);
    policy.cool_off(Duration::from_secs(30)).cool_off_factor(2.0)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Fleet {
    pub(crate) fn new(processes: u64, policy: &PolicyBuilder) -> Self {
        Self::with(processes, policy, |builder| builder)
    }

    pub(crate) fn with(
        processes: u64,
        policy: &PolicyBuilder,
        settings: fn(BreakerboxBuilder) -> BreakerboxBuilder,
    ) -> Self {
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(1_000_000) };
        let store = Arc::new(MemoryStore::with_clock(clock));
        let processes = (0..processes).map(|n| Process::with(n, &store, policy, settings)).collect();
        Self { store, processes }
    }

    pub(crate) fn statuses(&self) -> Vec<CircuitStatus> {
        self.processes.iter().map(|process| process.circuit.status()).collect()
    }

    /// Waits until the circuit has this state in all processes. Fails after the time `within`.
    pub(crate) async fn all_become(&self, status: CircuitStatus, within: Duration) {
        let limit = Instant::now() + within;
        while self.statuses().iter().any(|is| *is != status) {
            assert!(Instant::now() < limit, "{:?}", self.statuses());
            sleep(ms(1)).await;
        }
    }

    /// Returns the circuit's totals over all processes, from the store.
    pub(crate) async fn totals(&self) -> Totals {
        let nothing = Delta {
            key: "e1".into(),
            epoch: Epoch::default(),
            window: Duration::from_secs(60),
            buckets: Vec::new(),
            last_success: None,
            run: None,
            keep_for: Duration::from_secs(60),
        };
        self.store.merge(&[nothing]).await.unwrap().all().unwrap().value[0].totals
    }

    /// Returns the numbers of successes and failures in the store.
    pub(crate) async fn counted(&self) -> (u64, u64) {
        let totals = self.totals().await;
        (totals.successes, totals.failures)
    }

    /// Opens the circuit, with failures in the first two processes.
    pub(crate) async fn trip(&self) {
        // Later than any previous success, by any process's estimate of the store's time.
        sleep(ms(50)).await;
        for n in [0, 1, 0] {
            self.processes[n].fail().await;
            sleep(ms(150)).await;
        }
        self.all_become(CircuitStatus::Open, ms(3_000)).await;
    }
}

impl Process {
    pub(crate) fn new(n: u64, store: &Arc<MemoryStore>, policy: &PolicyBuilder) -> Self {
        Self::with(n, store, policy, |builder| builder)
    }

    pub(crate) fn with(
        n: u64,
        store: &Arc<MemoryStore>,
        policy: &PolicyBuilder,
        settings: impl FnOnce(BreakerboxBuilder) -> BreakerboxBuilder,
    ) -> Self {
        // The clocks are hours apart.
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(10 + n * 3_600) };
        let way = FaultyStore::new(Arc::clone(store) as Arc<dyn Store>);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let health = Arc::new(Mutex::new(Vec::new()));
        let (seen, seen_health) = (Arc::clone(&changes), Arc::clone(&health));
        let breakers = settings(Breakerbox::builder())
            .policy(policy.build().unwrap())
            .clock(clock)
            .store(Arc::clone(&way))
            .observer(move |change| seen.lock().unwrap().push(change.clone()))
            .store_observer(move |health| seen_health.lock().unwrap().push(health.clone()))
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

    pub(crate) fn observed(&self) -> Vec<CircuitStatus> {
        self.changes.lock().unwrap().iter().map(|change| change.change.to).collect()
    }
}
