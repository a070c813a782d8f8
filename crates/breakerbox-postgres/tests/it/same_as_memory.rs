//! Any sequence of merges and swaps has the same results in this store as in the memory store, to the last
//! digit.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, MemoryStore, RunDelta, Store, Swap};
use breakerbox::{Clock, Epoch, ManualClock, Timestamp};
use proptest::prelude::{Just, Strategy, prop, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use crate::samples::{self, unique};
use crate::server::{StoreWithServer, on_shared};

/// One operation on one or more keys.
#[derive(Clone, Debug)]
enum Step {
    Merge(Vec<(usize, u64, Delta)>),
    /// A swap that expects the current version, or a different one.
    Swap {
        key: usize,
        expected: Option<Option<u128>>,
        epoch: u64,
        version: u128,
        in_time: bool,
    },
    Read,
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        // A small range, so that equal ages are frequent.
        8 => (0_u64..7).prop_map(|n| Duration::from_secs(n * 8)),
        2 => (0_u64..400_000_000).prop_map(Duration::from_micros),
        1 => Just(Duration::MAX),
    ]
}

fn bucket() -> impl Strategy<Value = BucketDelta> {
    let counts = (0_u64..5, 0_u64..5, 0_u64..5, prop_oneof![Just(0), Just(7), Just(1_000_000_007)]);
    (duration(), counts).prop_map(|(age, (successes, failures, slow, nanos))| BucketDelta {
        age,
        successes,
        failures,
        slow,
        latency_sum: Duration::from_nanos(nanos),
    })
}

/// Generates runs of failures. Some ages are around a week, when a run is forgotten.
fn run() -> impl Strategy<Value = RunDelta> {
    let week = 7 * 24 * 3_600_000_000;
    let age = || {
        prop_oneof![
            4 => duration(),
            1 => (week - 1_000_000_u64..week + 1_000_000).prop_map(Duration::from_micros),
        ]
    };
    (0_u64..5, age(), age()).prop_map(|(count, one, other)| RunDelta {
        count,
        began: one.max(other),
        last: one.min(other),
    })
}

fn delta() -> impl Strategy<Value = Delta> {
    let window = prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_secs(10)),
        Just(Duration::from_secs(60)),
        Just(Duration::from_micros(300_000_007)),
        Just(Duration::from_secs(1 << 40)),
    ];
    let ages = (prop::option::of(duration()), prop::option::of(run()));
    (window, prop::collection::vec(bucket(), 0..4), ages).prop_map(
        |(window, buckets, (last_success, run))| Delta {
            key: "".into(),
            epoch: Epoch::default(),
            window,
            buckets,
            last_success,
            run,
            // Long enough that nothing expires here; for expiry, see `expiry`.
            keep_for: Duration::from_secs(3_600),
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let wrong = prop::option::of(0_u128..3);
    let swap = (
        0_usize..2,
        prop_oneof![4 => Just(None), 1 => wrong.prop_map(Some)],
        0_u64..3,
        0_u128..3,
        prop::bool::weighted(0.8),
    );
    prop_oneof![
        6 => prop::collection::vec((0_usize..2, prop_oneof![4 => Just(0_u64), 1 => 0_u64..3], delta()), 0..5)
            .prop_map(Step::Merge),
        2 => swap.prop_map(|(key, expected, epoch, version, in_time)| Step::Swap { key, expected, epoch, version, in_time }),
        1 => Just(Step::Read),
    ]
}

/// The memory store, with its clock set to the Postgres server's time.
struct Memory {
    store: MemoryStore,
    clock: ManualClock,
}

impl Memory {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }

    fn at(&self, now: Timestamp) -> &MemoryStore {
        self.clock.advance(now.since(self.clock.now()));
        &self.store
    }
}

async fn take(step: &Step, keys: &[Arc<str>], held: &StoreWithServer, memory: &Memory) {
    match step {
        Step::Merge(deltas) => {
            let named = |(key, epoch, delta): &(usize, u64, Delta)| Delta {
                key: Arc::clone(&keys[*key]),
                epoch: Epoch(*epoch),
                ..delta.clone()
            };
            // Each statement reads its own time, so each delta is merged separately, and the last ones
            // together.
            let deltas: Vec<_> = deltas.iter().map(named).collect();
            for delta in &deltas {
                let answer = held.merge(std::slice::from_ref(delta)).await.unwrap();
                assert_eq!(answer, memory.at(answer.now).merge(std::slice::from_ref(delta)).await.unwrap());
            }
            let mut once = deltas;
            once.sort_by(|a, b| a.key.cmp(&b.key));
            once.dedup_by(|a, b| a.key == b.key);
            once.reverse();
            let answer = held.merge(&once).await.unwrap();
            assert_eq!(answer, memory.at(answer.now).merge(&once).await.unwrap());
        }
        Step::Swap { key, expected, epoch, version, in_time } => {
            let there = samples::read(&memory.store, &keys[*key]).await.map(|record| record.version.0);
            let swap =
                samples::swap(&keys[*key], expected.unwrap_or(there), samples::record(*epoch, *version));
            let swap = if *in_time { swap } else { Swap { not_after: Timestamp::from_micros(1), ..swap } };
            let answer = held.swap_if(&swap).await.unwrap();
            assert_eq!(answer, memory.at(answer.now).swap_if(&swap).await.unwrap());
        }
        Step::Read => {
            let answer = held.read(keys).await.unwrap();
            assert_eq!(answer, memory.at(answer.now).read(keys).await.unwrap());
        }
    }
}

#[test]
fn every_answer_is_that_of_the_memory_store() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let held = runtime.block_on(on_shared());
    let config = Config { cases: 200, source_file: Some(file!()), ..Config::default() };
    let ran = TestRunner::new(config).run(&prop::collection::vec(step(), 1..16), |steps| {
        let keys: Vec<_> = (0..2).map(|n| unique(&format!("same {n}"))).collect();
        let memory = Memory::new();
        for step in &steps {
            runtime.block_on(take(step, &keys, &held, &memory));
        }
        Ok(())
    });
    // The store must be used and dropped inside its runtime.
    runtime.block_on(async { drop(held) });
    ran.unwrap();
}

/// Covers an order that random tests rarely produce, a success that is reported after a run of failures that
/// began later.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_run_begins_with_its_first_failure_whatever_was_told_before() {
    let held = on_shared().await;
    let second = |n| Duration::from_secs(n);
    let report = |success: Option<u64>, run: Option<u64>| {
        let age = second(success.or(run).unwrap_or(0));
        let bucket =
            BucketDelta { age, successes: success.map_or(0, |_| 1), failures: 1, ..BucketDelta::default() };
        Step::Merge(vec![(
            0,
            0,
            Delta {
                key: "".into(),
                epoch: Epoch::default(),
                window: second(600),
                buckets: vec![bucket],
                last_success: success.map(second),
                run: run.map(|age| RunDelta { count: 1, began: second(age), last: second(age) }),
                keep_for: second(3_600),
            },
        )])
    };
    for (order, told) in [
        // A run that is older than the success in the same delta does not count.
        [report(Some(10), Some(20)), report(None, Some(5)), report(Some(15), None), report(Some(3), None)],
        // Neither does one that is older than a known success.
        [report(Some(10), None), report(None, Some(20)), report(None, Some(5)), report(Some(15), None)],
        // A run that has ended does not extend the next one.
        [report(None, Some(40)), report(Some(30), None), report(None, Some(10)), report(Some(20), None)],
    ]
    .iter()
    .enumerate()
    {
        let keys = [unique(&format!("order {order}"))];
        let memory = Memory::new();
        for step in told {
            take(step, &keys, &held, &memory).await;
        }
    }
}
