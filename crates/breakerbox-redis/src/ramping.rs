//! `ramp`: acquires and releases slots in a circuit's ramp.

use breakerbox::Timestamp;
use breakerbox::store::{Answer, RampReply, RampRequest, RampState, RampView, StoreError};

use crate::encoding::{Response, count, expiry, micros, time, word};
use crate::error::CallError;
use crate::layout::Bucket;
use crate::script::ScriptName;
use crate::servers::Servers;
use crate::swapping::hex;
use crate::wire::Call;

pub(crate) async fn ramp(servers: &Servers, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
    let keys = vec![servers.layout.record(&request.key), servers.layout.ramp(&request.key)];
    let call = Call::script(ScriptName::Ramp, Bucket::of(&request.key), keys, arguments(request));
    let answer =
        servers.exchange(&[call], servers.deadline()).await?.pop().ok_or(CallError::InvalidResponse)?;
    let mut response = Response::new(answer)?;
    let now = response.time()?;
    let value = match response.word()?.as_str() {
        "late" => RampReply::Late,
        "done" => RampReply::Done(view(&mut response)?),
        _ => return Err(CallError::InvalidResponse.into()),
    };
    Ok(Answer { now, value })
}

fn arguments(request: &RampRequest) -> Vec<Vec<u8>> {
    let mut arguments = vec![
        word(request.epoch.0),
        word(request.first_limit),
        time(request.begun_at),
        micros(request.slot_for),
        expiry(request.keep_for),
        request.replace.map_or_else(Vec::new, |step| count(step.expected)),
        word(request.replace.and_then(|step| step.limit).unwrap_or(0)),
        word(request.give.len()),
    ];
    for given in &request.give {
        arguments.push(hex(given.slot.0));
        arguments.push(word(u8::from(given.succeeded)));
    }
    arguments.extend(request.take.iter().map(|slot| hex(slot.0)));
    arguments
}

fn view(response: &mut Response) -> Result<RampView, CallError> {
    let step = response.number()?;
    let limit = Some(small(response)?).filter(|limit| *limit > 0);
    let successes = small(response)?;
    let refused_at = Timestamp::from_micros(response.number()?);
    let state = RampState { step, limit, successes, refused_at };
    let (in_flight, taken) = (small(response)?, small(response)?);
    Ok(RampView { state, in_flight, taken, replaced: response.word()? == "1" })
}

/// Returns the next word as a 32-bit number, saturating at the maximum.
fn small(response: &mut Response) -> Result<u32, CallError> {
    response.number().map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
