//! `swap_if`: one record for another, and what is due to be forgotten in the same bucket.

use breakerbox::Status;
use breakerbox::store::{Answer, StoreError, Swap, Swapped};
use tokio::time::Instant;

use crate::error::Trouble;
use crate::layout::Bucket;
use crate::script::Verb;
use crate::store::RedisStore;
use crate::wire::Call;
use crate::words::{Answered, kept, time, word};

/// Every state that a circuit is listed under.
const STATES: [Status; 4] = [Status::Closed, Status::Open, Status::HalfOpen, Status::Disabled];

pub(crate) async fn swap_if(store: &RedisStore, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
    let (deadline, layout, bucket) = (store.deadline(), &store.layout, Bucket::of(&swap.key));
    let keys = vec![
        layout.record(&swap.key),
        layout.window(&swap.key),
        layout.circuits(bucket),
        layout.states(bucket),
        layout.expiries(bucket),
    ];
    let record = serde_json::to_vec(&swap.record).map_err(|error| StoreError::Unavailable(error.into()))?;
    let (publish, channel) = if store.wire.is_one() {
        ("PUBLISH", layout.changes())
    } else {
        ("SPUBLISH", layout.changes_in(bucket))
    };
    let mut arguments = vec![
        word(&swap.key),
        swap.expected.map_or_else(Vec::new, |version| hex(version.0)),
        hex(swap.record.version.0),
        word(swap.record.epoch.0),
        word(swap.record.status()),
        record,
        time(swap.not_after),
        swap.keep_for.map_or_else(Vec::new, kept),
        word(publish),
        word(channel),
    ];
    arguments.extend(STATES.map(word));
    let call = Call::script(Verb::SwapIf, bucket, keys, arguments);
    let answer = store.exchange(&[call], deadline).await?.pop().ok_or(Trouble::Nonsense)?;
    let mut answered = Answered::new(answer)?;
    let now = answered.time()?;
    let outcome = answered.word()?;
    let current = answered.maybe_record(layout, &swap.key)??;
    let value = match outcome.as_str() {
        "won" => Swapped::Won,
        "lost" => Swapped::Lost(current),
        "too_late" => Swapped::TooLate(current),
        _ => return Err(Trouble::Nonsense.into()),
    };
    // Whether this succeeds is of no interest: the next swap or list finds the same again.
    let _ = forget(store, bucket, &answered.rest()?, deadline).await;
    Ok(Answer { now, value })
}

/// Takes circuits whose record has expired out of the bucket's index.
pub(crate) async fn forget(
    store: &RedisStore,
    bucket: Bucket,
    circuits: &[String],
    deadline: Instant,
) -> Result<(), StoreError> {
    if circuits.is_empty() {
        return Ok(());
    }
    store.exchange(&[forget_call(store, bucket, circuits)], deadline).await.map(drop)
}

pub(crate) fn forget_call(store: &RedisStore, bucket: Bucket, circuits: &[String]) -> Call {
    let layout = &store.layout;
    let mut keys = vec![layout.circuits(bucket), layout.states(bucket), layout.expiries(bucket)];
    keys.extend(circuits.iter().map(|key| layout.record(key)));
    let arguments = circuits.iter().map(word).chain(STATES.map(word)).collect();
    Call::script(Verb::Forget, bucket, keys, arguments)
}

/// A version as records have it: text that no number can lose.
pub(crate) fn hex(token: u128) -> Vec<u8> {
    format!("{token:032x}").into_bytes()
}
