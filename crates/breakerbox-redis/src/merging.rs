//! `merge`: sends many deltas in few calls.

use breakerbox::store::{Answer, Delta, Merged, Readable, StoreError};
use breakerbox::{FailureRun, LatestOutcomes, Totals};
use std::time::Duration;

use crate::encoding::{Response, count, expiry, micros, word};
use crate::error::CallError;
use crate::layout::Layout;
use crate::plan;
use crate::script::ScriptName;
use crate::servers::Servers;
use crate::wire::Call;

/// The maximum number of deltas in one script call, which keeps the server busy for about a millisecond.
const MAX_DELTAS: usize = 32;

/// The number of buckets in a window.
const BUCKETS: u32 = 10;

pub(crate) async fn merge(
    servers: &Servers,
    deltas: &[Delta],
) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
    let deadline = servers.deadline();
    let plan = plan::calls(deltas.iter().map(|delta| &*delta.key), servers.wire.is_one(), MAX_DELTAS);
    let calls: Vec<_> = plan
        .iter()
        .map(|(bucket, positions)| {
            let (mut keys, mut arguments) = (Vec::new(), vec![micros(FailureRun::KEPT_FOR)]);
            for delta in positions.iter().map(|position| &deltas[*position]) {
                keys.extend([servers.layout.record(&delta.key), servers.layout.window(&delta.key)]);
                write(delta, &mut arguments);
            }
            Call::script(ScriptName::Merge, *bucket, keys, arguments)
        })
        .collect();
    let answers = servers.exchange(&calls, deadline).await?;
    let mut merged: Vec<Option<Readable<Merged>>> = vec![None; deltas.len()];
    let mut now = None;
    for ((_, positions), answer) in plan.iter().zip(answers) {
        let mut response = Response::new(answer)?;
        let time = response.time()?;
        // If several nodes respond, use the clock that is furthest behind, so that no decision is made too
        // early.
        now = Some(now.map_or(time, |earlier: breakerbox::Timestamp| earlier.min(time)));
        for position in positions {
            merged[*position] = Some(read(&mut response, &servers.layout, &deltas[*position].key)?);
        }
    }
    let value = merged.into_iter().collect::<Option<Vec<_>>>();
    Ok(Answer {
        now: now.ok_or(CallError::InvalidResponse)?,
        value: value.ok_or(CallError::InvalidResponse)?,
    })
}

/// Appends a delta to the merge script's arguments.
fn write(delta: &Delta, arguments: &mut Vec<Vec<u8>>) {
    let width = (delta.window / BUCKETS).max(Duration::from_micros(1));
    let maybe = |age: Option<Duration>| age.map_or_else(Vec::new, micros);
    arguments.extend([word(delta.epoch.0), micros(width), expiry(delta.keep_for)]);
    let run = delta.run.filter(|run| run.count > 0);
    arguments.extend([maybe(delta.last_success), count(run.map_or(0, |run| run.count))]);
    arguments.extend([maybe(run.map(|run| run.began)), maybe(run.map(|run| run.last))]);
    arguments.push(word(delta.buckets.len()));
    for bucket in &delta.buckets {
        let latency = u64::try_from(bucket.latency_sum.as_micros()).unwrap_or(u64::MAX);
        arguments.push(micros(bucket.age));
        arguments.extend([bucket.successes, bucket.failures, bucket.slow, latency].map(count));
    }
}

fn read(response: &mut Response, layout: &Layout, key: &str) -> Result<Readable<Merged>, CallError> {
    let late = response.word()? == "1";
    let totals = add_up(&response.word()?)?;
    let totals = {
        let mut totals = totals;
        totals.failure_run = response.number()?;
        totals
    };
    let latest =
        LatestOutcomes { last_success: response.maybe_time()?, failing_since: response.maybe_time()? };
    let record = response.maybe_record(layout, key)?;
    Ok(record.map(|record| Merged::new(late, totals, latest, record)))
}

/// Adds up the counts in all buckets. Each bucket has five numbers, of which the last is not used.
fn add_up(counts: &str) -> Result<Totals, CallError> {
    let mut sums = [0_u64; 5];
    let mut encoding = 0;
    for word in counts.split_ascii_whitespace() {
        let sum = &mut sums[encoding % 5];
        *sum = sum.saturating_add(word.parse().map_err(|_| CallError::InvalidResponse)?);
        encoding += 1;
    }
    if encoding % 5 != 0 {
        return Err(CallError::InvalidResponse);
    }
    let [successes, failures, slow, latency, _] = sums;
    let latency_sum = Duration::from_micros(latency);
    Ok({
        let mut totals = Totals::default();
        totals.successes = successes;
        totals.failures = failures;
        totals.slow = slow;
        totals.latency_sum = latency_sum;
        totals
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_added_up() {
        assert_eq!(add_up("").unwrap(), Totals::default());
        let totals = add_up("1 2 3 4 0 10 20 18446744073709551615 40 7").unwrap();
        assert_eq!((totals.successes, totals.failures, totals.slow), (11, 22, u64::MAX));
        assert_eq!((totals.latency_sum, totals.failure_run), (Duration::from_micros(44), 0));
        for nonsense in ["1 2 3 4", "1 2 3 4 x", "1 2 3 4 -5"] {
            assert!(add_up(nonsense).is_err(), "{nonsense}");
        }
    }
}
