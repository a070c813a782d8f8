//! Stores that keep their server running, and other helpers that most tests need.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Answer, BucketDelta, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, RunDelta,
    Store, StoreError, Swap, Swapped, Term,
};
use breakerbox::{Cause, Epoch, Nonce, Record, State, Timestamp, Version};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::StoreWithServer;
use breakerbox_testkit::servers::{RedisCluster, RedisServer};

/// The maximum time that a test waits for an expected event.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Formats an error with all of its sources.
pub(crate) fn message(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", message(source)),
        None => error.to_string(),
    }
}

/// A request timeout that is long enough on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Connects with a request timeout that is long enough on a busy machine.
pub(crate) async fn connect(url: &str) -> RedisStore {
    RedisStore::builder(url).time_limit(LIMIT).connect().await.unwrap()
}

/// Returns a store on a new server that no other test uses.
pub(crate) async fn on_one() -> StoreWithServer<RedisStore, RedisServer> {
    let server = RedisServer::start().unwrap();
    let store = connect(&server.url()).await;
    StoreWithServer { store, server }
}

/// Returns a store on a cluster that all running tests share, because starting one takes seconds.
pub(crate) async fn on_cluster() -> StoreWithServer<RedisStore, Arc<RedisCluster>> {
    static SHARED: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());
    let server = {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let new = Arc::new(RedisCluster::start().unwrap());
            *shared = Arc::downgrade(&new);
            new
        })
    };
    let store = connect(&server.url()).await;
    StoreWithServer { store, server }
}

/// Several stores on one server. Each call goes to the next store, like calls from several processes.
pub(crate) struct Fleet {
    stores: Vec<RedisStore>,
    calls: AtomicUsize,
    _server: RedisServer,
}

pub(crate) async fn as_fleet() -> Fleet {
    let server = RedisServer::start().unwrap();
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(connect(&server.url()).await);
    }
    Fleet { stores, calls: AtomicUsize::new(0), _server: server }
}

impl Fleet {
    fn next(&self) -> &RedisStore {
        &self.stores[self.calls.fetch_add(1, Ordering::Relaxed) % self.stores.len()]
    }
}

#[async_trait]
impl Store for Fleet {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.next().merge(deltas).await
    }
    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.next().read(keys).await
    }
    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        self.next().swap_if(swap).await
    }
    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        self.next().swap_all(swaps).await
    }
    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.next().call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.next().changes()
    }
    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.next().list(query).await
    }
    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.next().ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.next().lead(name, candidate, ttl).await
    }
    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.next().check_write().await
    }
}

/// Returns a delta with one recent failure and three successes, for a circuit without a record.
pub(crate) fn delta(key: &str) -> Delta {
    let latency_sum = Duration::from_millis(123);
    let bucket = BucketDelta { successes: 3, failures: 1, latency_sum, ..BucketDelta::default() };
    Delta {
        key: key.into(),
        epoch: Epoch::default(),
        window: Duration::from_secs(60),
        buckets: vec![bucket],
        last_success: Some(Duration::from_millis(1)),
        run: Some(RunDelta { count: 1, began: Duration::ZERO, last: Duration::ZERO }),
        keep_for: Duration::from_secs(600),
    }
}

/// Returns a record of an open circuit, with a typical size.
pub(crate) fn record(version: u128) -> Record {
    let at = |seconds: u64| Some(Timestamp::from_micros(1_700_000_000_123_456 + seconds * 1_000_000));
    let mut record = Record::fresh(
        Epoch(1_700_000_000_123_456),
        Version(version),
        Timestamp::from_micros(1_700_000_000_123_456),
    );
    record.state = State::Open;
    record.opened_at = at(0);
    record.retry_at = at(30);
    record.trips = 2;
    record.last_success = at(1);
    record.cause = Some(Cause::ProbeFailed);
    record.tenant = Some("acme".into());
    record
}

/// Returns a swap whose deadline has not passed and whose record does not expire.
pub(crate) fn swap(key: &str, expected: Option<u128>, record: Record) -> Swap {
    let not_after = Timestamp::from_micros(u64::MAX);
    Swap { key: key.into(), expected: expected.map(Version), record, not_after, keep_for: None }
}

/// Stores the first record of a circuit.
pub(crate) async fn put(store: &RedisStore, key: &str, record: Record) {
    let answer = store.swap_if(&swap(key, None, record)).await.unwrap();
    assert_eq!(answer.value, Swapped::Won);
}
