//! The parameters and the result of the statement that merges a batch of deltas.
//!
//! A statement can change a row only once. If a key occurs twice, the second delta goes into another round.

use std::collections::HashMap;
use std::time::Duration;

use breakerbox::store::{Delta, Merged, Readable, StoreError};
use breakerbox::{FailureRun, LatestOutcomes, Totals};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::bigint::{count, counted, epoch, micros, nanos, timed};
use crate::record;

/// The maximum number of deltas in one merge statement.
pub(crate) const MAX_DELTAS: usize = 1_000;

/// The number of buckets in a window.
const BUCKETS: i64 = 10;

/// Groups deltas, by their indices, into rounds in which each key occurs at most once, with at most
/// [`MAX_DELTAS`] deltas each.
pub(crate) fn rounds(deltas: &[Delta]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(deltas.len());
    for (index, delta) in deltas.iter().enumerate() {
        let times = seen.entry(&delta.key).or_default();
        if rounds.len() == *times {
            rounds.push(Vec::new());
        }
        rounds[*times].push(index);
        *times += 1;
    }
    rounds.iter().flat_map(|round| round.chunks(MAX_DELTAS)).map(<[usize]>::to_vec).collect()
}

/// The parameters of the merge statement, one array for each column.
pub(crate) struct Batch<'a> {
    keys: Vec<&'a [u8]>,
    epochs: Vec<i64>,
    widths: Vec<i64>,
    keep_for: Vec<i64>,
    buckets_from: Vec<i32>,
    buckets_to: Vec<i32>,
    success_ages: Vec<Option<i64>>,
    run_counts: Vec<i64>,
    run_first_ages: Vec<i64>,
    run_last_ages: Vec<i64>,
    ages: Vec<i64>,
    successes: Vec<i64>,
    failures: Vec<i64>,
    slow: Vec<i64>,
    latency_sums: Vec<i64>,
    run_kept_for: i64,
}

impl<'a> Batch<'a> {
    pub(crate) fn of(deltas: impl Iterator<Item = &'a Delta>) -> Self {
        let mut batch = Self {
            keys: Vec::new(),
            epochs: Vec::new(),
            widths: Vec::new(),
            keep_for: Vec::new(),
            buckets_from: Vec::new(),
            buckets_to: Vec::new(),
            success_ages: Vec::new(),
            run_counts: Vec::new(),
            run_first_ages: Vec::new(),
            run_last_ages: Vec::new(),
            ages: Vec::new(),
            successes: Vec::new(),
            failures: Vec::new(),
            slow: Vec::new(),
            latency_sums: Vec::new(),
            run_kept_for: micros(FailureRun::KEPT_FOR),
        };
        for delta in deltas {
            batch.add(delta);
        }
        batch
    }

    fn add(&mut self, delta: &'a Delta) {
        self.keys.push(delta.key.as_bytes());
        self.epochs.push(epoch(delta.epoch));
        self.widths.push((micros(delta.window) / BUCKETS).max(1));
        self.keep_for.push(micros(delta.keep_for));
        self.success_ages.push(delta.last_success.map(micros));
        self.run_counts.push(delta.run.map_or(0, |run| count(run.count)));
        self.run_first_ages.push(delta.run.map_or(0, |run| micros(run.began)));
        self.run_last_ages.push(delta.run.map_or(0, |run| micros(run.last)));
        // In Postgres, array indices start at 1.
        self.buckets_from.push(index(self.ages.len()).saturating_add(1));
        for bucket in &delta.buckets {
            self.ages.push(micros(bucket.age));
            self.successes.push(count(bucket.successes));
            self.failures.push(count(bucket.failures));
            self.slow.push(count(bucket.slow));
            self.latency_sums.push(nanos(bucket.latency_sum));
        }
        self.buckets_to.push(index(self.ages.len()));
    }

    /// Returns the parameters in the order of their numbers in the statement.
    pub(crate) fn parameters(&self) -> [&(dyn ToSql + Sync); 16] {
        [
            &self.keys,
            &self.epochs,
            &self.widths,
            &self.keep_for,
            &self.buckets_from,
            &self.buckets_to,
            &self.success_ages,
            &self.run_counts,
            &self.run_first_ages,
            &self.run_last_ages,
            &self.ages,
            &self.successes,
            &self.failures,
            &self.slow,
            &self.latency_sums,
            &self.run_kept_for,
        ]
    }
}

/// Converts the result row of one delta.
pub(crate) fn merged(key: &str, row: &Row) -> Result<Readable<Merged>, StoreError> {
    let record = match record::read(key, record::column(row, "record")?) {
        Ok(record) => record,
        Err(unreadable) => return Ok(Err(unreadable)),
    };
    let number = |name| record::column::<i64>(row, name).map(counted);
    let time = |name| Ok::<_, StoreError>(record::column::<Option<i64>>(row, name)?.map(timed));
    let totals = {
        let mut totals = Totals::default();
        totals.successes = number("successes")?;
        totals.failures = number("failures")?;
        totals.slow = number("slow")?;
        totals.latency_sum = Duration::from_nanos(number("latency_sum")?);
        totals.failure_run = number("run")?;
        totals
    };
    let latest = LatestOutcomes { last_success: time("last_success")?, failing_since: time("run_began")? };
    Ok(Ok(Merged::new(record::column(row, "late")?, totals, latest, record)))
}

fn index(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use breakerbox::Epoch;

    fn delta(key: &str) -> Delta {
        Delta {
            key: key.into(),
            epoch: Epoch::default(),
            window: Duration::from_secs(60),
            buckets: Vec::new(),
            last_success: None,
            run: None,
            keep_for: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_key_is_in_a_round_once() {
        let deltas = ["a", "b", "a", "c", "a", "b"].map(delta);
        assert_eq!(rounds(&deltas), [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert!(rounds(&[]).is_empty());
    }

    #[test]
    fn a_round_is_not_too_long() {
        let deltas: Vec<_> = (0..2_500).map(|n| delta(&n.to_string())).collect();
        let sizes: Vec<_> = rounds(&deltas).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1_000, 1_000, 500]);
    }
}
