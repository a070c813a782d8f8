//! Counts: none is lost, counted twice or added to another epoch.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, Merged};
use breakerbox::{Epoch, Record, Status, Totals};

use super::{AnyStore, at_once, put, record, swap, unique_key, won};

const MINUTE: Duration = Duration::from_secs(60);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a delta with one bucket, for a circuit without a record.
fn delta(key: &Arc<str>, bucket: BucketDelta) -> Delta {
    Delta {
        key: Arc::clone(key),
        epoch: Epoch::default(),
        window: MINUTE,
        buckets: vec![bucket],
        last_success: (bucket.successes > 0).then_some(bucket.age),
        run_began: (bucket.run > 0).then_some(bucket.age),
        keep_for: MINUTE,
    }
}

fn successes(count: u64) -> BucketDelta {
    BucketDelta { successes: count, ..BucketDelta::default() }
}

fn failures(count: u64) -> BucketDelta {
    BucketDelta { failures: count, run: count, ..BucketDelta::default() }
}

fn aged(bucket: BucketDelta, age: u64) -> BucketDelta {
    BucketDelta { age: seconds(age), ..bucket }
}

async fn merge(store: &AnyStore, delta: Delta) -> Merged {
    let answer = store.merge(&[delta]).await.expect("the store answers");
    let answer = answer.all().expect("the record can be read");
    let [merged] = <[_; 1]>::try_from(answer.value).expect("one answer for one delta");
    merged
}

/// The counts that one process adds are in the totals that the next process reads.
pub async fn counts_of_many_processes_add_up(store: AnyStore) {
    let key = unique_key("adds");
    let bucket = BucketDelta {
        age: Duration::ZERO,
        successes: 3,
        failures: 2,
        slow: 1,
        latency_sum: Duration::from_micros(1_500_001),
        run: 2,
    };
    let first = merge(&store, delta(&key, bucket)).await;
    assert!(!first.late);
    let mut again = delta(&key, bucket);
    again.last_success = None;
    again.run_began = None;
    let expected = Totals {
        successes: 6,
        failures: 4,
        slow: 2,
        latency_sum: Duration::from_micros(3_000_002),
        failure_run: first.totals.failure_run,
    };
    assert_eq!(merge(&store, again).await.totals, expected);
}

/// Counts from an old epoch are late, and are not added to the counts of the current epoch.
pub async fn counts_of_another_epoch_are_late(store: AnyStore) {
    let key = unique_key("epochs");
    put(&store, &key, None, record(Status::Closed, 7, 1)).await;
    for (epoch, late) in [(0, true), (6, true), (7, false), (8, true)] {
        let merged = merge(&store, Delta { epoch: Epoch(epoch), ..delta(&key, failures(2)) }).await;
        assert_eq!(merged.late, late, "epoch {epoch}");
        assert_eq!(merged.totals.failures, if epoch < 7 { 0 } else { 2 }, "epoch {epoch}");
        assert_eq!(merged.record.expect("it is there").epoch, Epoch(7));
    }
}

/// Most circuits have no record. Such a circuit has the default epoch, and counts from any other epoch are
/// late.
pub async fn counts_for_a_circuit_without_a_record_need_no_epoch(store: AnyStore) {
    let key = unique_key("pristine");
    let merged = merge(&store, Delta { epoch: Epoch(5), ..delta(&key, failures(1)) }).await;
    assert!(merged.late && merged.record.is_none());
    let merged = merge(&store, delta(&key, failures(1))).await;
    assert_eq!((merged.late, merged.totals.failures, merged.record), (false, 1, None));
}

/// A batch may contain deltas for many keys. The results are in the order of the deltas.
pub async fn a_batch_is_answered_in_its_order(store: AnyStore) {
    let keys: Vec<_> = (0..1_000).map(|_| unique_key("batch")).collect();
    let deltas: Vec<_> = keys.iter().zip(1..).map(|(key, n)| delta(key, successes(n))).collect();
    let answer = store.merge(&deltas).await.expect("the store answers");
    let answer = answer.all().expect("the records can be read");
    let totals: Vec<_> = answer.value.iter().map(|merged| merged.totals.successes).collect();
    assert_eq!(totals, (1..=1_000).collect::<Vec<_>>());
    assert!(store.merge(&[]).await.expect("the store answers").value.is_empty());
}

/// The window slides, so the totals never contain counts that are older than the window.
pub async fn what_is_older_than_the_window_does_not_count(store: AnyStore) {
    let key = unique_key("slides");
    for (age, counts) in [(61, false), (1_000_000, false), (50, true), (1, true)] {
        let before = merge(&store, delta(&key, successes(0))).await.totals.successes;
        let after = merge(&store, delta(&key, aged(successes(1), age))).await.totals.successes;
        assert_eq!(after - before, u64::from(counts), "{age} s old");
    }
}

/// Changing the policy's window loses no counts.
pub async fn a_window_of_another_length_sees_the_same_counts(store: AnyStore) {
    let key = unique_key("lengths");
    merge(&store, delta(&key, aged(failures(3), 30))).await;
    let longer = Delta { window: MINUTE * 5, ..delta(&key, failures(0)) };
    assert_eq!(merge(&store, longer).await.totals.failures, 3);
    let shorter = Delta { window: seconds(10), ..delta(&key, failures(0)) };
    assert_eq!(merge(&store, shorter).await.totals.failures, 0);
}

/// Failures in all processes extend one run of consecutive failures, until any process reports a success.
pub async fn a_success_ends_the_run_of_failures(store: AnyStore) {
    let key = unique_key("runs");
    assert_eq!(merge(&store, delta(&key, aged(failures(2), 3))).await.totals.failure_run, 2);
    assert_eq!(merge(&store, delta(&key, aged(failures(2), 2))).await.totals.failure_run, 4);
    let merged = merge(&store, delta(&key, aged(successes(1), 1))).await;
    assert_eq!((merged.totals.failure_run, merged.totals.failures), (0, 4));
    assert_eq!(merge(&store, delta(&key, failures(1))).await.totals.failure_run, 1);
}

/// Deltas may arrive late and in any order. A run of consecutive failures counts only failures that are known
/// to be after the latest success.
pub async fn failures_before_the_latest_success_extend_no_run(store: AnyStore) {
    let key = unique_key("orders");
    merge(&store, delta(&key, aged(successes(1), 20))).await;
    let merged = merge(&store, delta(&key, aged(failures(3), 40))).await;
    assert_eq!((merged.totals.failure_run, merged.totals.failures), (0, 3));
    // One delta has both in the same bucket as the latest success, so their order is unknown.
    let mixed = BucketDelta { age: seconds(15), successes: 1, failures: 1, run: 1, ..BucketDelta::default() };
    assert_eq!(merge(&store, delta(&key, mixed)).await.totals.failure_run, 0);
    assert_eq!(merge(&store, delta(&key, aged(failures(2), 10))).await.totals.failure_run, 2);
    // A success that is reported late, but happened before the run, does not end it.
    assert_eq!(merge(&store, delta(&key, aged(successes(1), 30))).await.totals.failure_run, 2);
    assert_eq!(merge(&store, delta(&key, aged(successes(1), 5))).await.totals.failure_run, 0);
}

/// The store remembers when the latest success and the first failure after it occurred, even if outcomes are
/// reported out of order. A trip decision derives from these times how long an endpoint has been failing.
pub async fn the_latest_success_and_the_first_failure_after_it_are_remembered(store: AnyStore) {
    let key = unique_key("successes");
    // Returns the ages of the latest success and of the first failure after it, rounded to five seconds,
    // because the machine may be slow.
    let merge_bucket = async |bucket| {
        let answer = store.merge(&[delta(&key, bucket)]).await.expect("the store answers");
        let answer = answer.all().expect("the record can be read");
        let age = |at: breakerbox::Timestamp| answer.now.since(at).as_secs() / 5 * 5;
        let latest = answer.value[0].latest;
        (latest.last_success.map(age), latest.failing_since.map(age))
    };
    assert_eq!(merge_bucket(aged(failures(1), 40)).await, (None, Some(40)), "there was no success yet");
    assert_eq!(merge_bucket(aged(failures(1), 30)).await, (None, Some(40)), "still the first failure");
    assert_eq!(merge_bucket(aged(successes(1), 20)).await, (Some(20), None), "a success ends it");
    assert_eq!(merge_bucket(aged(failures(1), 10)).await, (Some(20), Some(10)));
    assert_eq!(merge_bucket(aged(successes(1), 25)).await, (Some(20), Some(10)), "an older one told later");
    assert_eq!(
        merge_bucket(aged(failures(1), 15)).await,
        (Some(20), Some(15)),
        "an earlier failure told later"
    );
}

/// A merge's response takes the latest success and the first failure after it from the circuit's record,
/// until newer outcomes replace them.
pub async fn what_the_record_knows_of_outcomes_is_answered_too(store: AnyStore) {
    let key = unique_key("recorded");
    let now = store.read(&[]).await.expect("the store answers").now;
    let ago = |secs: u64| Some(now.before(seconds(secs)));
    let open = Record { last_success: ago(90), failing_since: ago(80), ..record(Status::Open, 7, 1) };
    put(&store, &key, None, open).await;
    let merge_bucket =
        async |bucket| merge(&store, Delta { epoch: Epoch(7), ..delta(&key, bucket) }).await.latest;
    let latest = merge_bucket(aged(failures(1), 10)).await;
    assert_eq!((latest.last_success, latest.failing_since), (ago(90), ago(80)));
    let latest = merge_bucket(aged(successes(1), 5)).await;
    assert!(latest.last_success > ago(10) && latest.failing_since.is_none(), "{latest:?}");
}

/// No counts are lost when fifty concurrent processes make two thousand merges.
pub async fn merges_at_once_lose_nothing(store: AnyStore) {
    let key = unique_key("crowd");
    at_once(50, |_| {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        async move {
            for _ in 0..20 {
                merge(&store, delta(&key, successes(3))).await;
                merge(&store, delta(&key, failures(1))).await;
            }
        }
    })
    .await;
    let totals = merge(&store, delta(&key, successes(0))).await.totals;
    assert_eq!((totals.successes, totals.failures), (3_000, 1_000));
}

/// Counts belong to one epoch. A swap within the epoch keeps the counts; a new epoch starts with none.
pub async fn a_new_epoch_begins_with_an_empty_window(store: AnyStore) {
    let key = unique_key("empties");
    merge(&store, delta(&key, failures(3))).await;
    put(&store, &key, None, record(Status::Open, 5, 1)).await;
    let of = |epoch| Delta { epoch: Epoch(epoch), ..delta(&key, failures(1)) };
    let merged = merge(&store, of(5)).await;
    assert_eq!((merged.totals.failures, merged.totals.failure_run), (1, 1), "the old counts are gone");
    let same_epoch = swap(&key, Some(1), record(Status::HalfOpen, 5, 2));
    won(&store.swap_if(&same_epoch).await.expect("the store answers").value);
    assert_eq!(merge(&store, of(5)).await.totals.failures, 2, "the same epoch keeps them");
    put(&store, &key, Some(2), record(Status::Closed, 6, 3)).await;
    let merged = merge(&store, of(6)).await;
    assert_eq!((merged.totals.failures, merged.totals.failure_run), (1, 1));
}
