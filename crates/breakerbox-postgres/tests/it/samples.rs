//! Sample records, swaps and deltas for the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, RunDelta, Store, Swap, Swapped};
use breakerbox::{Attribution, Epoch, Mode, Record, State, Timestamp, Version};

/// A deadline that is never reached.
pub(crate) const NEVER: Timestamp = Timestamp::from_micros(u64::MAX >> 11);

/// Returns a key that no other test uses.
pub(crate) fn unique(name: &str) -> Arc<str> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{name} {}", COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Returns the record of an open circuit.
pub(crate) fn record(epoch: u64, version: u128) -> Record {
    let mut record = Record::fresh(Epoch(epoch), Version(version), Timestamp::from_micros(epoch));
    record.state = State::Open;
    record.trips = 1;
    record
}

/// Returns the record of a disabled circuit with a very long attribution, so that it does not fit into a
/// message.
pub(crate) fn long_record(epoch: u64, version: u128) -> Record {
    let by = Attribution::new(&"\u{1}".repeat(1_024), &"\u{1f50c}".repeat(256)).unwrap();
    let mut record = record(epoch, version);
    record.mode = Mode::Disabled(by);
    record
}

/// Returns a swap whose deadline has not passed and whose record does not expire.
pub(crate) fn swap(key: &Arc<str>, expected: Option<u128>, record: Record) -> Swap {
    Swap { key: Arc::clone(key), expected: expected.map(Version), record, not_after: NEVER, keep_for: None }
}

pub(crate) async fn put(store: &impl Store, key: &Arc<str>, expected: Option<u128>, record: Record) {
    assert_eq!(store.swap_if(&swap(key, expected, record)).await.unwrap().value, Swapped::Won);
}

pub(crate) async fn read(store: &impl Store, key: &Arc<str>) -> Option<Record> {
    store.read(std::slice::from_ref(key)).await.unwrap().all().unwrap().value.pop().unwrap()
}

/// Returns a delta with this many recent failures, for a circuit without a record.
pub(crate) fn failures(key: &Arc<str>, count: u64) -> Delta {
    let bucket = BucketDelta { failures: count, ..BucketDelta::default() };
    Delta {
        key: Arc::clone(key),
        epoch: Epoch::default(),
        window: Duration::from_secs(60),
        buckets: vec![bucket],
        last_success: None,
        run: Some(RunDelta { count, began: Duration::ZERO, last: Duration::ZERO }),
        keep_for: Duration::from_secs(60),
    }
}

/// Returns the number of failures in the circuit's window.
pub(crate) async fn counted(store: &impl Store, key: &Arc<str>) -> u64 {
    store.merge(&[failures(key, 0)]).await.unwrap().all().unwrap().value[0].totals.failures
}

/// Formats an error with all of its causes.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let cause = error.source().map_or_else(String::new, |cause| format!(": {}", whole(cause)));
    format!("{error}{cause}")
}
