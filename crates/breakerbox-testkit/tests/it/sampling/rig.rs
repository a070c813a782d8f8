//! A test rig for a sampled fleet: agents, one table of attempts, one store in memory, in tokio's paused time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::sampling::{Poll, SampleError, Sampler, Sampling, SamplingEvent};
use breakerbox::store::{MemoryStore, Store};
use breakerbox::{
    Breakerbox, BreakerboxBuilder, CircuitChange, CircuitStatus, OnStoreLoss, Policy, PolicyBuilder, Preset,
    Refusal, Sample, Timestamp,
};
use breakerbox_testkit::faults::FaultyStore;
use tokio::time::{Instant, sleep};

use crate::fleet_rig::TokioClock;

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the preset for Convoy without jitter: trips at a failure rate of 70 % of at least 10 calls in 5
/// minutes, with a cool-off of 30 s and one probe.
pub(crate) fn convoy() -> PolicyBuilder {
    Policy::builder().preset(Preset::Convoy).jitter(0)
}

/// One row in the table of attempts.
#[derive(Clone)]
struct Attempt {
    key: String,
    started_at: Instant,
    finished_at: Instant,
    succeeded: bool,
}

/// A fault in polls of the table of attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum NetworkFault {
    #[default]
    None,
    Fails,
    Panics,
    /// The poll takes this long, and returns the table's contents at the start of the poll.
    Slow(Duration),
}

/// A table of attempts that counts in the same way as an SQL sampler.
#[derive(Default)]
pub(crate) struct Table {
    rows: Mutex<Vec<Attempt>>,
    pub(crate) fault: Mutex<NetworkFault>,
    pub(crate) polls: Mutex<Vec<Poll>>,
    at_once: AtomicU32,
    pub(crate) most_at_once: AtomicU32,
    pub(crate) without_latency: Mutex<bool>,
}

impl Table {
    pub(crate) fn add(&self, key: &str, count: u32, started_ago: Duration, succeeded: bool) {
        let row = Attempt {
            key: key.into(),
            started_at: Instant::now() - started_ago,
            finished_at: Instant::now(),
            succeeded,
        };
        self.rows.lock().unwrap().extend((0..count).map(|_| row.clone()));
    }

    pub(crate) fn fail(&self, key: &str, count: u32) {
        self.add(key, count, Duration::ZERO, false);
    }

    pub(crate) fn succeed(&self, key: &str, count: u32) {
        self.add(key, count, Duration::ZERO, true);
    }

    pub(crate) fn clear(&self) {
        self.rows.lock().unwrap().clear();
    }

    pub(crate) fn fault(&self, fault: NetworkFault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn count(&self, poll: &Poll) -> HashMap<String, Sample> {
        let mut totals: HashMap<String, Sample> = HashMap::new();
        let without_latency = *self.without_latency.lock().unwrap();
        for row in self.rows.lock().unwrap().iter() {
            let since = poll.since.iter().find(|since| *since.key == *row.key);
            let counts = match since {
                None => row.finished_at.elapsed() <= poll.window,
                Some(since) if since.started => row.started_at.elapsed() <= since.age,
                Some(since) => row.finished_at.elapsed() <= since.age.min(poll.window),
            };
            if counts {
                let sample = totals.entry(row.key.clone()).or_default();
                sample.successes += u64::from(row.succeeded);
                sample.failures += u64::from(!row.succeeded);
                sample.latency_sum = (!without_latency).then_some(Duration::ZERO);
                let is_half_open = since.is_some_and(|since| since.started);
                if let Some(recent) = poll.recent.filter(|_| !is_half_open) {
                    let is_recent = row.finished_at.elapsed() <= recent;
                    let part = sample.recent.get_or_insert_default();
                    part.successes += u64::from(is_recent && row.succeeded);
                    part.failures += u64::from(is_recent && !row.succeeded);
                    part.latency_sum = sample.latency_sum;
                }
            }
        }
        totals
    }
}

#[async_trait]
impl Sampler for Table {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        self.polls.lock().unwrap().push(poll.clone());
        let fault = *self.fault.lock().unwrap();
        let totals = self.count(poll);
        if let NetworkFault::Slow(time) = fault {
            sleep(time).await;
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        match fault {
            NetworkFault::Fails => Err(SampleError::failed("no such table")),
            NetworkFault::Panics => panic!("a sampler that panics"),
            NetworkFault::None | NetworkFault::Slow(_) => Ok(totals),
        }
    }
}

/// One process that has sampled circuits.
pub(crate) struct Agent {
    pub(crate) sampling: Sampling,
    pub(crate) way: Arc<FaultyStore>,
    pub(crate) changes: Arc<Mutex<Vec<CircuitChange>>>,
    pub(crate) events: Arc<Mutex<Vec<SamplingEvent>>>,
}

impl Agent {
    pub(crate) fn status(&self, key: &str) -> CircuitStatus {
        self.sampling.circuit(key).unwrap().status()
    }

    pub(crate) fn leads(&self) -> bool {
        self.sampling.report().leads
    }

    /// Returns the result of a check as one word.
    pub(crate) async fn check(&self, key: &str) -> &'static str {
        match self.sampling.check(key).await.unwrap() {
            Ok(checked) if checked.is_probe() => "probe",
            Ok(_) => "free",
            Err(refusal) => Refusal::name(&refusal),
        }
    }

    pub(crate) fn observed(&self, key: &str) -> Vec<CircuitStatus> {
        let changes = self.changes.lock().unwrap();
        changes.iter().filter(|change| *change.key == *key).map(|change| change.change.to).collect()
    }
}

/// The settings for all agents in a test.
#[derive(Clone)]
pub(crate) struct Choices {
    pub(crate) policy: PolicyBuilder,
    pub(crate) sample_every: Duration,
    pub(crate) poll_timeout: Duration,
    pub(crate) store_timeout: Duration,
    pub(crate) on_loss: OnStoreLoss,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            policy: convoy(),
            sample_every: secs(5),
            poll_timeout: secs(10),
            store_timeout: ms(500),
            on_loss: OnStoreLoss::Local,
        }
    }
}

pub(crate) struct Bench {
    pub(crate) table: Arc<Table>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) choices: Choices,
}

impl Bench {
    pub(crate) fn new(agents: u64) -> Self {
        Self::with(agents, Choices::default())
    }

    pub(crate) fn with(agents: u64, choices: Choices) -> Self {
        let clock = TokioClock { start: Instant::now(), ahead: secs(1_000_000) };
        let store = Arc::new(MemoryStore::with_clock(clock));
        let mut bench = Self { table: Arc::default(), store, agents: Vec::new(), choices };
        for n in 0..agents {
            let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
            let agent = bench.agent(n, Arc::clone(&way), way);
            bench.agents.push(agent);
        }
        bench
    }

    /// Starts another process. Its clock differs from those of the other processes by hours.
    pub(crate) fn agent(&self, n: u64, store: impl Store, way: Arc<FaultyStore>) -> Agent {
        self.agent_with(n, store, way, |builder| builder)
    }

    pub(crate) fn agent_with(
        &self,
        n: u64,
        store: impl Store,
        way: Arc<FaultyStore>,
        choose: impl FnOnce(BreakerboxBuilder) -> BreakerboxBuilder,
    ) -> Agent {
        let clock = TokioClock { start: Instant::now(), ahead: secs(10 + n * 3_600) };
        let (changes, events) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (changed, seen) = (Arc::clone(&changes), Arc::clone(&events));
        let builder = Breakerbox::builder()
            .clock(clock)
            .store(store)
            .store_timeout(self.choices.store_timeout)
            .on_store_loss(self.choices.on_loss)
            .observer(move |change| changed.lock().unwrap().push(change.clone()));
        let sampling = choose(builder)
            .sampling(self.choices.policy.clone())
            .sampler(Arc::clone(&self.table))
            .sample_every(self.choices.sample_every)
            .poll_timeout(self.choices.poll_timeout)
            .observer(move |event| seen.lock().unwrap().push(event.clone()))
            .build()
            .unwrap();
        Agent { sampling, way, changes, events }
    }

    /// Waits until any agent has completed one more tick.
    pub(crate) async fn tick(&self) {
        let ticks = || self.agents.iter().map(|agent| agent.sampling.report().ticks).sum::<u64>();
        let before = ticks();
        self.until("a tick", || ticks() > before).await;
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let limit = Instant::now() + secs(600);
        while !holds() {
            assert!(Instant::now() < limit, "{what}");
            sleep(ms(5)).await;
        }
    }

    /// Waits until there is a leader, and returns its index.
    pub(crate) async fn leader(&self) -> usize {
        self.until("a leader", || self.agents.iter().any(Agent::leads)).await;
        self.leaders()[0]
    }

    pub(crate) fn leaders(&self) -> Vec<usize> {
        (0..self.agents.len()).filter(|n| self.agents[*n].leads()).collect()
    }

    /// Returns the store's time.
    pub(crate) async fn now(&self) -> Timestamp {
        self.store.read(&[]).await.unwrap().now
    }

    /// Returns the circuit's state in the store.
    pub(crate) async fn status(&self, key: &str) -> CircuitStatus {
        let answer = self.store.read(&[key.into()]).await.unwrap();
        answer.all().unwrap().value[0].as_ref().map_or(CircuitStatus::Closed, breakerbox::Record::status)
    }

    /// Opens a circuit with failed attempts and a tick.
    pub(crate) async fn trip(&self, key: &str) {
        self.table.fail(key, 10);
        self.tick().await;
        assert_eq!(self.status(key).await, CircuitStatus::Open);
    }
}
