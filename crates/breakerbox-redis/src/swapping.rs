//! `swap_if` and `swap_all`: replace records, and remove expired circuits from the same bucket.

use std::collections::BTreeMap;

use breakerbox::store::{Answer, Readable, StoreError, Swap, Swapped};
use breakerbox::{CircuitStatus, FailureRun, Timestamp};

use crate::encoding::{Response, expiry, micros, time, word};
use crate::error::CallError;
use crate::layout::Bucket;
use crate::reading::read;
use crate::script::ScriptName;
use crate::servers::Servers;
use crate::wire::Call;

/// All states in which the index lists circuits.
const STATES: [CircuitStatus; 4] =
    [CircuitStatus::Closed, CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Disabled];

pub(crate) async fn swap_if(servers: &Servers, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
    let Answer { now, mut value } = swap_all(servers, std::slice::from_ref(swap)).await?;
    Ok(Answer { now, value: value.pop().ok_or(CallError::InvalidResponse)?? })
}

/// Makes one script call for each swap, all in one pipeline. The server may execute other clients' requests
/// between two swaps.
pub(crate) async fn swap_all(
    servers: &Servers,
    swaps: &[Swap],
) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
    if swaps.is_empty() {
        return Ok(Answer { now: read(servers, &[], servers.deadline()).await?.now, value: Vec::new() });
    }
    let deadline = servers.deadline();
    let calls = swaps.iter().map(|swap| call(servers, swap)).collect::<Result<Vec<_>, _>>()?;
    let answers = servers.exchange(&calls, deadline).await?;
    let mut value = Vec::with_capacity(swaps.len());
    let mut now: Option<Timestamp> = None;
    let mut due: BTreeMap<Bucket, Vec<String>> = BTreeMap::new();
    for (swap, answer) in swaps.iter().zip(answers) {
        let mut response = Response::new(answer)?;
        let time = response.time()?;
        // If several nodes respond, use the clock that is furthest behind.
        now = Some(now.map_or(time, |earlier| earlier.min(time)));
        let outcome = response.word()?;
        let current = response.maybe_record(&servers.layout, &swap.key)?;
        value.push(match outcome.as_str() {
            "won" => Ok(Swapped::Won),
            "lost" => current.map(Swapped::Lost),
            "too_late" => current.map(Swapped::TooLate),
            _ => return Err(CallError::InvalidResponse.into()),
        });
        let forgotten = response.rest()?;
        if !forgotten.is_empty() {
            // Swaps in one bucket find the same expired circuits.
            due.insert(Bucket::of(&swap.key), forgotten);
        }
    }
    if !due.is_empty() {
        let calls: Vec<_> =
            due.iter().map(|(bucket, circuits)| forget_call(servers, *bucket, circuits)).collect();
        // Errors don't matter: the next swap or listing finds the expired circuits again.
        let _ = servers.exchange(&calls, deadline).await;
    }
    Ok(Answer { now: now.ok_or(CallError::InvalidResponse)?, value })
}

fn call(servers: &Servers, swap: &Swap) -> Result<Call, StoreError> {
    let (layout, bucket) = (&servers.layout, Bucket::of(&swap.key));
    let keys = vec![
        layout.record(&swap.key),
        layout.window(&swap.key),
        layout.circuits(bucket),
        layout.states(bucket),
        layout.expiries(bucket),
    ];
    let record = serde_json::to_vec(&swap.record).map_err(|error| StoreError::Unavailable(error.into()))?;
    let (publish, channel) = if servers.wire.is_one() {
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
        swap.keep_for.map_or_else(Vec::new, expiry),
        micros(FailureRun::KEPT_FOR),
        word(publish),
        word(channel),
    ];
    arguments.extend(STATES.map(word));
    Ok(Call::script(ScriptName::SwapIf, bucket, keys, arguments))
}

/// Returns a call that removes expired circuits from the bucket's index.
pub(crate) fn forget_call(servers: &Servers, bucket: Bucket, circuits: &[String]) -> Call {
    let layout = &servers.layout;
    let mut keys = vec![layout.circuits(bucket), layout.states(bucket), layout.expiries(bucket)];
    keys.extend(circuits.iter().map(|key| layout.record(key)));
    let arguments = circuits.iter().map(word).chain(STATES.map(word)).collect();
    Call::script(ScriptName::Forget, bucket, keys, arguments)
}

/// Formats a version or nonce as hexadecimal digits, because Lua numbers would lose some.
pub(crate) fn hex(token: u128) -> Vec<u8> {
    format!("{token:032x}").into_bytes()
}
