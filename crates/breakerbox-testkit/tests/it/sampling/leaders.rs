//! Sampled fleets: one leader at a time, and leaders that die, pause or miss changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::sampling::SamplingEvent;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store, StoreError,
    Swap, Swapped, Term,
};
use breakerbox::{CircuitStatus, Nonce, Record, State};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep};

use super::rig::{Bench, Choices, NetworkFault, ms, secs};

#[tokio::test(start_paused = true)]
async fn there_is_one_leader_and_when_it_dies_another_within_its_term_and_a_second() {
    let bench = Bench::new(5);
    let mut dead = Vec::new();
    // A term is three periods of 5 s.
    for _ in 0..3 {
        bench.until("a leader", || bench.leaders().len() == 1).await;
        let leader = bench.leaders()[0];
        for _ in 0..3 {
            bench.tick().await;
            assert_eq!(bench.leaders(), [leader], "as long as it lives");
        }
        bench.agents[leader].way.set(Fault::BlackHole);
        dead.push(leader);
        let died_at = Instant::now();
        let successor = || bench.leaders().into_iter().find(|n| !dead.contains(n));
        bench.until("a successor", || successor().is_some()).await;
        assert!(died_at.elapsed() <= secs(16), "{:?}", died_at.elapsed());
        bench.until("the dead one knows", || !bench.agents[leader].leads()).await;
    }
    let elected = |n: usize| {
        let events = bench.agents[n].events.lock().unwrap();
        events.iter().filter(|event| **event == SamplingEvent::Elected).count()
    };
    assert_eq!((0..5).map(elected).sum::<usize>(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_goes_home_gives_its_term_back() {
    let mut bench = Bench::new(1);
    bench.leader().await;
    let before = Instant::now();
    bench.agents.clear();
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    sleep(ms(100)).await;
    let next = bench.agent(1, Arc::clone(&way), way);
    bench.until("a successor", || next.leads()).await;
    assert!(before.elapsed() < secs(1));
}

/// A store wrapper that delays leaders' swaps, as if the process was paused between its decision and its write,
/// and that delays the responses to these swaps.
struct PausedBeforeSwap {
    inner: Arc<dyn Store>,
    paused: AtomicBool,
    waiting: AtomicU32,
    answers_after: Duration,
}

#[async_trait]
impl Store for PausedBeforeSwap {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.inner.merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.inner.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.inner.swap_if(swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.paused.load(Ordering::SeqCst) {
            sleep(ms(10)).await;
        }
        let answer = self.inner.swap_all(swaps).await;
        sleep(self.answers_after).await;
        answer
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.inner.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.inner.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.inner.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        // A paused process does not renew its term.
        while self.paused.load(Ordering::SeqCst) && self.waiting.load(Ordering::SeqCst) > 0 {
            sleep(ms(10)).await;
        }
        self.inner.lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.inner.check_write().await
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_paused_leader_writes_when_it_is_back_is_refused() {
    let mut bench = Bench::with(0, Choices { store_timeout: secs(3_600), ..Choices::default() });
    let paused = Arc::new(PausedBeforeSwap {
        inner: Arc::clone(&bench.store) as Arc<dyn Store>,
        paused: AtomicBool::new(true),
        waiting: AtomicU32::new(0),
        answers_after: Duration::ZERO,
    });
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    let agent = bench.agent(0, Arc::clone(&paused), Arc::clone(&way));
    bench.until("the first leads", || agent.leads()).await;
    bench.agents.push(agent);
    let successor = bench.agent(1, Arc::clone(&way), way);
    bench.agents.push(successor);
    bench.table.fail("e1", 10);
    bench.until("it has decided", || paused.waiting.load(Ordering::SeqCst) > 0).await;
    bench.table.clear();
    bench.table.succeed("e1", 100);
    bench.until("a successor", || bench.agents[1].leads()).await;
    bench.tick().await;
    paused.paused.store(false, Ordering::SeqCst);
    bench.until("it knows", || !bench.agents[0].leads()).await;
    sleep(secs(60)).await;
    assert_eq!(bench.agents[0].sampling.report().refused_writes, 1);
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed);
    assert_eq!(bench.leaders(), [1]);
}

/// The leader may receive the event about its own tick, or about another worker's lease, before the response to
/// the tick.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_tick_is_answered_after_a_lease_tells_observers_once() {
    let mut bench = Bench::new(0);
    let slow = Arc::new(PausedBeforeSwap {
        inner: Arc::clone(&bench.store) as Arc<dyn Store>,
        paused: AtomicBool::new(false),
        waiting: AtomicU32::new(0),
        answers_after: ms(200),
    });
    let way = FaultyStore::new(Arc::clone(&bench.store) as Arc<dyn Store>);
    let leader = bench.agent(0, slow, Arc::clone(&way));
    bench.agents.push(leader);
    bench.leader().await;
    let other = bench.agent(1, Arc::clone(&way), way);
    bench.agents.push(other);
    assert_eq!(bench.agents[1].check("e1").await, "free");
    bench.trip("e1").await;
    let opened_at = Instant::now();
    while bench.status("e1").await != CircuitStatus::HalfOpen {
        assert!(opened_at.elapsed() < secs(60));
        sleep(ms(5)).await;
    }
    assert_eq!(bench.agents[1].check("e1").await, "probe");
    bench.tick().await;
    assert_eq!(bench.agents[0].observed("e1"), [CircuitStatus::Open, CircuitStatus::HalfOpen]);
    assert_eq!(bench.agents[0].check("e1").await, "probing", "and it knows of the lease");
}

#[tokio::test(start_paused = true)]
async fn who_was_away_longer_than_its_term_forgets_what_it_polled() {
    let choices = Choices { poll_timeout: secs(3_600), ..Choices::default() };
    let bench = Bench::with(1, choices);
    bench.leader().await;
    bench.tick().await;
    bench.table.fail("e1", 10);
    bench.table.fault(NetworkFault::Slow(secs(120)));
    let polls = bench.table.polls.lock().unwrap().len();
    bench.until("a poll", || bench.table.polls.lock().unwrap().len() > polls).await;
    bench.table.fault(NetworkFault::None);
    // The leader is disconnected for longer than its term. Meanwhile the table has changed.
    bench.agents[0].way.set(Fault::Refuses);
    sleep(secs(60)).await;
    bench.table.clear();
    bench.table.succeed("e1", 100);
    bench.agents[0].way.set(Fault::None);
    bench.tick().await;
    bench.tick().await;
    assert_eq!(bench.status("e1").await, CircuitStatus::Closed, "what it knew is older than its term");
    assert_eq!(bench.agents[0].sampling.report().refused_writes, 0, "it did not even try");
}

#[tokio::test(start_paused = true)]
async fn what_a_leader_missed_it_finds_out() {
    let bench = Bench::new(1);
    bench.leader().await;
    bench.tick().await;
    // More changes than a store publishes before some are missed; none of them was the leader's.
    for n in 0..1_500 {
        let key: Arc<str> = format!("e{n}").into();
        let record = {
            let mut record = Record::new(None, breakerbox_core::RandomBits(n), bench.now().await);
            record.state = State::HalfOpen;
            record
        };
        let not_after = bench.now().await + secs(1);
        let swap = Swap { key, expected: None, record, not_after, keep_for: None };
        assert_eq!(bench.store.swap_if(&swap).await.unwrap().value, Swapped::Won);
    }
    bench.table.succeed("e0", 1);
    bench.table.fail("e1499", 1);
    bench.tick().await;
    assert_eq!(bench.agents[0].sampling.report().last_tick.unwrap().circuits, 1_500);
    assert_eq!(
        (bench.status("e0").await, bench.status("e1499").await),
        (CircuitStatus::Closed, CircuitStatus::Open)
    );
}
