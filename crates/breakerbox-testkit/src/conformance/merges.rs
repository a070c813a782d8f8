//! Counts: none is lost, counted twice or added to another epoch.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, Merged, RunDelta, Swap};
use breakerbox::{CircuitStatus, Epoch, FailureRun, Totals};

use super::{AnyStore, at_once, put, record, swap, unique_key, won};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

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
        run: (bucket.failures > 0).then(|| run_of(bucket.failures, bucket.age, bucket.age)),
        keep_for: MINUTE,
    }
}

/// Returns a run of failures, with the ages of the first and the last.
fn run_of(count: u64, began: Duration, last: Duration) -> RunDelta {
    RunDelta { count, began, last }
}

/// Returns a delta without buckets. Only its run of failures counts, which may be older than the window.
fn only_run(key: &Arc<str>, count: u64, began: Duration, last: Duration) -> Delta {
    Delta { buckets: Vec::new(), run: Some(run_of(count, began, last)), ..delta(key, successes(0)) }
}

/// Returns a delta without any outcome, which only reads the totals.
fn nothing(key: &Arc<str>) -> Delta {
    Delta { buckets: Vec::new(), ..delta(key, successes(0)) }
}

/// Returns the store's run of failures.
async fn run(store: &AnyStore, key: &Arc<str>) -> u64 {
    merge(store, nothing(key)).await.totals.failure_run
}

fn successes(count: u64) -> BucketDelta {
    BucketDelta { successes: count, ..BucketDelta::default() }
}

fn failures(count: u64) -> BucketDelta {
    BucketDelta { failures: count, ..BucketDelta::default() }
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
    };
    let first = merge(&store, delta(&key, bucket)).await;
    assert!(!first.late);
    let mut again = delta(&key, bucket);
    again.last_success = None;
    again.run = None;
    let expected = {
        let mut built = Totals::default();
        built.successes = 6;
        built.failures = 4;
        built.slow = 2;
        built.latency_sum = Duration::from_micros(3_000_002);
        built.failure_run = first.totals.failure_run;
        built
    };
    assert_eq!(merge(&store, again).await.totals, expected);
}

/// Counts from an old epoch are late, and are not added to the counts of the current epoch.
pub async fn counts_of_another_epoch_are_late(store: AnyStore) {
    let key = unique_key("epochs");
    put(&store, &key, None, record(CircuitStatus::Closed, 7, 1)).await;
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
    let mixed = BucketDelta { age: seconds(15), successes: 1, failures: 1, ..BucketDelta::default() };
    assert_eq!(merge(&store, delta(&key, mixed)).await.totals.failure_run, 0);
    assert_eq!(merge(&store, delta(&key, aged(failures(2), 10))).await.totals.failure_run, 2);
    // A success that is reported late, but happened before the run, does not end it.
    assert_eq!(merge(&store, delta(&key, aged(successes(1), 30))).await.totals.failure_run, 2);
    assert_eq!(merge(&store, delta(&key, aged(successes(1), 5))).await.totals.failure_run, 0);
}

/// A run of failures outlives the window: failures count however far apart they are.
pub async fn a_run_of_failures_outlives_the_window(store: AnyStore) {
    let key = unique_key("far-apart");
    for (n, hours) in (1..).zip([8, 6, 4, 2]) {
        let age = HOUR * hours;
        let merged = merge(&store, only_run(&key, 1, age, age)).await;
        assert_eq!((merged.totals.failures, merged.totals.failure_run), (0, n), "{hours} h ago");
    }
    let answer = store.merge(&[delta(&key, failures(1))]).await.expect("the store answers");
    let answer = answer.all().expect("the record can be read");
    let Merged { totals, latest, .. } = &answer.value[0];
    assert_eq!((totals.failures, totals.failure_run), (1, 5));
    let began = latest.failing_since.map(|at| answer.now.since(at).as_secs() / 3_600);
    assert_eq!(began, Some(8), "with the time of the first");
}

/// A success ends a run of failures of any age.
pub async fn a_success_ends_a_run_that_is_older_than_the_window(store: AnyStore) {
    let key = unique_key("recovered");
    merge(&store, only_run(&key, 4, HOUR * 8, HOUR * 2)).await;
    let merged = merge(&store, delta(&key, successes(1))).await;
    assert_eq!((merged.totals.failure_run, merged.latest.failing_since), (0, None));
    assert_eq!(merge(&store, delta(&key, failures(1))).await.totals.failure_run, 1);
    // A success that is older than the window, and reported now, ends what began before it.
    let key = unique_key("recovered-earlier");
    merge(&store, only_run(&key, 3, HOUR, HOUR)).await;
    let old = Delta { last_success: Some(MINUTE * 30), ..nothing(&key) };
    assert_eq!(merge(&store, old).await.totals.failure_run, 0);
}

/// A delta that arrives late, with a run that began before the latest success, adds nothing to the run.
pub async fn a_late_run_that_began_before_the_latest_success_adds_nothing(store: AnyStore) {
    let key = unique_key("late-runs");
    merge(&store, Delta { last_success: Some(HOUR), ..nothing(&key) }).await;
    assert_eq!(merge(&store, only_run(&key, 4, HOUR * 2, MINUTE)).await.totals.failure_run, 0);
    assert_eq!(merge(&store, only_run(&key, 2, MINUTE * 30, MINUTE)).await.totals.failure_run, 2);
    // One process's report may have both: its latest success, and the failures after it.
    let both = Delta { last_success: Some(MINUTE * 20), ..only_run(&key, 3, MINUTE * 10, MINUTE) };
    assert_eq!(merge(&store, both).await.totals.failure_run, 3);
}

/// A run of failures belongs to an epoch. A swap within the epoch keeps it; a new epoch starts without one.
pub async fn a_new_epoch_drops_the_run_of_failures(store: AnyStore) {
    let key = unique_key("dropped-runs");
    merge(&store, only_run(&key, 4, HOUR * 8, HOUR * 2)).await;
    put(&store, &key, None, record(CircuitStatus::Open, 5, 1)).await;
    let of = |epoch, delta: Delta| Delta { epoch: Epoch(epoch), ..delta };
    assert_eq!(merge(&store, of(5, nothing(&key))).await.totals.failure_run, 0);
    assert_eq!(merge(&store, of(5, only_run(&key, 2, HOUR, HOUR))).await.totals.failure_run, 2);
    put(&store, &key, Some(1), record(CircuitStatus::HalfOpen, 5, 2)).await;
    assert_eq!(merge(&store, of(5, nothing(&key))).await.totals.failure_run, 2, "the same epoch keeps it");
    // A run of an old epoch is late.
    assert!(merge(&store, only_run(&key, 4, HOUR * 8, HOUR * 2)).await.late);
    assert_eq!(merge(&store, of(5, nothing(&key))).await.totals.failure_run, 2);
}

/// A run of failures is kept although its counts and its record have expired otherwise.
pub async fn a_run_of_failures_is_kept_when_idle(store: AnyStore) {
    let brief = Duration::from_millis(500);
    let (pristine, recorded) = (unique_key("kept-runs"), unique_key("kept-records"));
    let closed = swap(&recorded, None, record(CircuitStatus::Closed, 5, 1));
    won(&store.swap_if(&Swap { keep_for: Some(brief), ..closed }).await.expect("the store answers").value);
    let of =
        |epoch, key| Delta { epoch: Epoch(epoch), keep_for: brief, ..only_run(key, 3, HOUR * 8, HOUR * 2) };
    for (epoch, key) in [(0, &pristine), (5, &recorded)] {
        assert!(!merge(&store, of(epoch, key)).await.late);
    }
    // A swap within the epoch does not shorten it.
    let again = swap(&recorded, Some(1), record(CircuitStatus::Closed, 5, 2));
    won(&store.swap_if(&Swap { keep_for: Some(brief), ..again }).await.expect("the store answers").value);
    tokio::time::sleep(brief * 3).await;
    assert_eq!(run(&store, &pristine).await, 3);
    let merged = merge(&store, Delta { epoch: Epoch(5), ..nothing(&recorded) }).await;
    assert_eq!((merged.late, merged.totals.failure_run), (false, 3), "with the record of its epoch");
}

/// A run of failures is forgotten a week after its last failure.
pub async fn a_run_of_failures_is_forgotten_after_a_week(store: AnyStore) {
    let (kept, forgotten) = (unique_key("week"), unique_key("more-than-a-week"));
    let week = FailureRun::KEPT_FOR;
    merge(&store, only_run(&kept, 2, week * 3, week - MINUTE)).await;
    assert_eq!(run(&store, &kept).await, 2, "its last failure is less than a week ago");
    assert_eq!(merge(&store, delta(&kept, failures(1))).await.totals.failure_run, 3);
    let merged = merge(&store, only_run(&forgotten, 4, week * 3, week + seconds(1))).await;
    assert_eq!((merged.totals.failure_run, merged.latest.failing_since), (0, None));
    // A run that is forgotten between two merges does not extend the next one.
    let short = unique_key("forgotten-meanwhile");
    let left = Duration::from_millis(300);
    merge(&store, only_run(&short, 4, week * 3, week - left)).await;
    tokio::time::sleep(left * 2).await;
    assert_eq!(run(&store, &short).await, 0);
    assert_eq!(merge(&store, delta(&short, failures(1))).await.totals.failure_run, 1);
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
    let open = {
        let mut record = record(CircuitStatus::Open, 7, 1);
        record.last_success = ago(90);
        record.failing_since = ago(80);
        record
    };
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
    put(&store, &key, None, record(CircuitStatus::Open, 5, 1)).await;
    let of = |epoch| Delta { epoch: Epoch(epoch), ..delta(&key, failures(1)) };
    let merged = merge(&store, of(5)).await;
    assert_eq!((merged.totals.failures, merged.totals.failure_run), (1, 1), "the old counts are gone");
    let same_epoch = swap(&key, Some(1), record(CircuitStatus::HalfOpen, 5, 2));
    won(&store.swap_if(&same_epoch).await.expect("the store answers").value);
    assert_eq!(merge(&store, of(5)).await.totals.failures, 2, "the same epoch keeps them");
    put(&store, &key, Some(2), record(CircuitStatus::Closed, 6, 3)).await;
    let merged = merge(&store, of(6)).await;
    assert_eq!((merged.totals.failures, merged.totals.failure_run), (1, 1));
}
