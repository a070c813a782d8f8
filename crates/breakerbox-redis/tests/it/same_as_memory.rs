//! Any sequence of merges and swaps has the same results in this store as in the memory store, to the
//! microsecond.
//!
//! The memory store gets Redis's time. Nothing expires here; expiry has its own tests.

use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, MemoryStore, RunDelta, Store, Swap};
use breakerbox::{Clock, Epoch, ManualClock, State, Timestamp, Version};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::server::{connect, record};

#[derive(Clone, Debug)]
enum Step {
    Merge {
        epoch: u64,
        window: Duration,
        buckets: Vec<BucketDelta>,
        last_success: Option<u64>,
        run: Option<RunDelta>,
    },
    Swap {
        expected: Option<u128>,
        version: u128,
        epoch: u64,
        closed: bool,
        in_time: bool,
        kept: bool,
    },
}

/// Generates ages. Many of them are whole seconds, as windows are, so that they are at the edges of buckets.
fn age() -> impl Strategy<Value = u64> {
    prop_oneof![(0..70_u64).prop_map(|seconds| seconds * 1_000_000), 0..70_000_000_u64, Just(u64::MAX),]
}

fn bucket() -> impl Strategy<Value = BucketDelta> {
    let count = || prop_oneof![Just(0), 0..100_u64, Just(u64::from(u32::MAX))];
    (age(), count(), count(), count(), 0..1_u64 << 40).prop_map(
        |(age, successes, failures, slow, latency)| BucketDelta {
            age: Duration::from_micros(age),
            successes,
            failures,
            slow,
            latency_sum: Duration::from_micros(latency),
        },
    )
}

/// Generates runs of failures. Some ages are around a week, when a run is forgotten.
fn run() -> impl Strategy<Value = RunDelta> {
    let week = 7 * 24 * 3_600_000_000_u64;
    let age = || prop_oneof![4 => age(), 1 => week - 1_000_000..week + 1_000_000];
    let count = prop_oneof![0..5_u64, Just(u64::from(u32::MAX))];
    (count, age(), age()).prop_map(|(count, one, other)| RunDelta {
        count,
        began: Duration::from_micros(one.max(other)),
        last: Duration::from_micros(one.min(other)),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let window = prop_oneof![
        Just(Duration::from_secs(60)),
        (1..100_000_000_u64).prop_map(Duration::from_micros),
        Just(Duration::from_secs(1 << 40)),
    ];
    let epoch = || prop_oneof![4 => Just(0_u64), 1 => 0..4_u64, 1 => Just(u64::MAX)];
    let merge = (
        epoch(),
        window,
        proptest::collection::vec(bucket(), 0..4),
        proptest::option::of(age()),
        proptest::option::of(run()),
    );
    let merge = merge.prop_map(|(epoch, window, mut buckets, last_success, run)| {
        buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.age));
        Step::Merge { epoch, window, buckets, last_success, run }
    });
    let version = || prop_oneof![Just(u128::MAX), 1..4_u128];
    let swap =
        (proptest::option::of(version()), version(), epoch(), any::<bool>(), any::<bool>(), any::<bool>());
    let swap = swap.prop_map(|(expected, version, epoch, closed, late, kept)| Step::Swap {
        expected,
        version,
        epoch,
        closed,
        in_time: !late,
        kept,
    });
    prop_oneof![4 => merge, 1 => swap]
}

async fn compare(redis: &RedisStore, key: &str, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let memory = MemoryStore::with_clock(clock.clone());
    let set = |now: Timestamp| clock.advance(now.since(clock.now()));
    for step in steps {
        match step {
            Step::Merge { epoch, window, buckets, last_success, run } => {
                let delta = Delta {
                    key: key.into(),
                    epoch: Epoch(epoch),
                    window,
                    buckets,
                    last_success: last_success.map(Duration::from_micros),
                    run,
                    keep_for: Duration::from_secs(600),
                };
                let found = redis.merge(std::slice::from_ref(&delta)).await.unwrap();
                set(found.now);
                prop_assert_eq!(found, memory.merge(&[delta]).await.unwrap());
            }
            Step::Swap { expected, version, epoch, closed, in_time, kept } => {
                let state = if closed { State::Closed } else { State::Open };
                let record = {
                    let mut record = record(version);
                    record.epoch = Epoch(epoch);
                    record.state = state;
                    record
                };
                let not_after = Timestamp::from_micros(if in_time { u64::MAX } else { 1 });
                let (expected, keep_for) = (expected.map(Version), kept.then_some(Duration::from_secs(600)));
                let swap = Swap { key: key.into(), expected, record, not_after, keep_for };
                let found = redis.swap_if(&swap).await.unwrap();
                set(found.now);
                prop_assert_eq!(found, memory.swap_if(&swap).await.unwrap());
            }
        }
        let found = redis.read(&[key.into()]).await.unwrap();
        set(found.now);
        prop_assert_eq!(found, memory.read(&[key.into()]).await.unwrap());
    }
    Ok(())
}

#[test]
fn whatever_happens_both_stores_say_the_same() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = RedisServer::start().unwrap();
    let store = runtime.block_on(connect(&server.url()));
    let mut runner = TestRunner::new(Config { cases: 100, ..Config::with_source_file(file!()) });
    let case = std::cell::Cell::new(0_u32);
    let result = runner.run(&proptest::collection::vec(step(), 1..30), |steps| {
        case.set(case.get() + 1);
        runtime.block_on(compare(&store, &format!("circuit {}", case.get()), steps))
    });
    result.unwrap();
}
