//! What the processes of a fleet report to the store, and the consequences of reporting no more than necessary.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, MemoryStore, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox::{Breakerbox, Circuit, CircuitStatus, Nonce, Policy, PolicyBuilder, Record};
use breakerbox_testkit::faults::FaultyStore;
use tokio::time::{Instant, sleep};

use crate::fleet_rig::{TokioClock, ms};

/// Counts one process's requests to the store, and drops its first few requests for reports.
struct Counted {
    inner: Arc<dyn Store>,
    reports: AtomicU64,
    reads: AtomicU64,
    calls_to_lose: AtomicU32,
}

impl Counted {
    fn reports(&self) -> u64 {
        self.reports.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Store for Counted {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.reports.fetch_add(deltas.len() as u64, Ordering::Relaxed);
        self.inner.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.reads.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.inner.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.inner.swap_if(swap).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        let lose = |left: u32| left.checked_sub(1);
        if self.calls_to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lose).is_ok() {
            return Ok(());
        }
        self.inner.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.inner.ramp(request).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.inner.check_write().await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.inner.list(query).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.inner.lead(name, candidate, ttl).await
    }
}

struct Process {
    breakers: Breakerbox,
    way: Arc<Counted>,
}

fn shared_store() -> Arc<MemoryStore> {
    let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(1_000_000) };
    Arc::new(MemoryStore::with_clock(clock))
}

impl Process {
    fn new(store: Arc<dyn Store>, policy: &PolicyBuilder) -> Self {
        let way = Arc::new(Counted {
            inner: store,
            reports: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            calls_to_lose: AtomicU32::new(0),
        });
        let clock = TokioClock { start: Instant::now(), ahead: Duration::from_secs(10) };
        let breakers = Breakerbox::builder()
            .policy(policy.build().unwrap())
            .clock(clock)
            .store(Arc::clone(&way))
            .build();
        Self { breakers, way }
    }

    fn fleet(processes: usize, policy: &PolicyBuilder) -> Vec<Self> {
        let store = shared_store();
        (0..processes).map(|_| Self::new(Arc::clone(&store) as Arc<dyn Store>, policy)).collect()
    }

    fn circuit(&self, key: &str) -> Circuit {
        self.breakers.circuit(key).unwrap()
    }

    /// Makes one call. Returns `false` if the call was refused.
    async fn call(&self, key: &str, succeeds: bool) -> bool {
        let circuit = self.circuit(key);
        let Ok(permit) = circuit.acquire().await else { return false };
        if succeeds {
            permit.success();
        } else {
            permit.failure();
        }
        true
    }
}

fn run_of(length: u64) -> PolicyBuilder {
    let policy = Policy::builder().failure_rate(None).consecutive_failures(length).jitter(0).ramp_cap(None);
    policy.cool_off(Duration::from_secs(30))
}

fn half_of(calls: u64) -> PolicyBuilder {
    Policy::builder().failure_rate(50).min_calls(calls).consecutive_failures(None).jitter(0).ramp_cap(None)
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_well_are_never_reported() {
    let [process] = &Process::fleet(1, &Policy::builder())[..] else { panic!() };
    let keys: Vec<_> = (0..100).map(|n| format!("e{n}")).collect();
    for second in 0..90_usize {
        for (n, key) in keys.iter().enumerate() {
            // At first all calls succeed. Then one call in thirty fails, and the next one succeeds.
            assert!(process.call(key, second < 10 || (n + second) % 30 != 0).await);
        }
        sleep(ms(900)).await;
    }
    assert_eq!(process.way.reports(), 0);
    // Circuits that are not reported are read again, to recover from lost messages: at most a thousand at a
    // time.
    let most = 100 + 100 * (81 / 2 + 1);
    let reads = process.way.reads.load(Ordering::Relaxed);
    assert!(reads > 100 && reads <= most, "{reads} of {most}");
}

#[tokio::test(start_paused = true)]
async fn failures_spread_thinly_over_many_processes_open_the_circuit() {
    let fleet = Process::fleet(10, &run_of(5));
    for process in &fleet {
        process.call("e1", true).await;
    }
    sleep(ms(3_000)).await;
    let began = Instant::now();
    for process in &fleet[..5] {
        assert!(process.call("e1", false).await);
        sleep(ms(1)).await;
    }
    while fleet.iter().any(|process| process.circuit("e1").status() != CircuitStatus::Open) {
        // A second for a success to arrive, a batch, and the time in which the others could object.
        assert!(began.elapsed() < ms(1_000 + 100 + 600 + 50), "{:?}", began.elapsed());
        sleep(ms(1)).await;
    }
    let [open, ..] = &fleet[..] else { panic!() };
    let retry_in = open.circuit("e1").record().retry_at.unwrap();
    let opened_at = open.circuit("e1").record().opened_at.unwrap();
    let waited = Duration::from_secs(30) - retry_in.since(opened_at);
    assert!(waited >= ms(500) && waited <= ms(700), "part of the cool-off is over: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_sees_nothing_but_failures_opens_the_circuit_sooner_than_thinly_spread_ones() {
    let fleet = Process::fleet(2, &run_of(5));
    for process in &fleet {
        process.call("e1", true).await;
    }
    sleep(ms(3_000)).await;
    let began = Instant::now();
    for _ in 0..5 {
        assert!(fleet[0].call("e1", false).await);
    }
    while fleet.iter().any(|process| process.circuit("e1").status() != CircuitStatus::Open) {
        assert!(began.elapsed() < ms(600 + 50), "{:?}", began.elapsed());
        sleep(ms(1)).await;
    }
}

/// Makes calls for ten seconds, in which all calls by one process fail and all calls by other processes
/// succeed. Drops the first `calls_to_lose` requests for reports. Returns whether the fleet's circuit ever
/// opened.
async fn opens_with_one_broken(calls_to_lose: u32) -> bool {
    let fleet = Process::fleet(4, &half_of(10));
    fleet[0].way.calls_to_lose.store(calls_to_lose, Ordering::Relaxed);
    for step in 0..200 {
        for (n, process) in fleet.iter().enumerate() {
            process.call("e1", n != 0 || step == 0).await;
        }
        sleep(ms(50)).await;
        if fleet.iter().any(|process| process.circuit("e1").status() != CircuitStatus::Closed) {
            return true;
        }
    }
    assert!(fleet[0].way.reports() > 0);
    false
}

#[tokio::test(start_paused = true)]
async fn one_broken_process_does_not_open_the_circuit_of_healthy_ones() {
    assert!(!opens_with_one_broken(0).await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_for_reports_is_repaired() {
    assert!(!opens_with_one_broken(2).await);
    assert!(opens_with_one_broken(u32::MAX).await, "without any call the others' successes stay unknown");
}

#[tokio::test(start_paused = true)]
async fn who_misses_a_change_of_a_closed_circuit_reads_it() {
    let store = shared_store();
    let shared = |store: &Arc<MemoryStore>| Arc::clone(store) as Arc<dyn Store>;
    let one = Process::new(shared(&store), &run_of(5));
    let deaf = Process::new(FaultyStore::deaf(shared(&store)), &run_of(5));
    for process in [&one, &deaf] {
        process.call("e1", true).await;
    }
    sleep(ms(100)).await;
    for _ in 0..5 {
        one.call("e1", false).await;
    }
    let limit = Instant::now() + ms(600 + 2_000 + 50);
    while deaf.circuit("e1").status() != CircuitStatus::Open {
        assert!(Instant::now() < limit);
        sleep(ms(1)).await;
    }
    assert_eq!(deaf.way.reports(), 0, "it had nothing to report, and reads all the same");
}
