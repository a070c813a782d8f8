//! `ramp`: slots of a circuit's ramp.

use breakerbox::Timestamp;
use breakerbox::store::{Answer, RampReply, RampRequest, RampState, RampView, StoreError};

use crate::error::Trouble;
use crate::layout::Bucket;
use crate::script::Verb;
use crate::store::RedisStore;
use crate::swapping::hex;
use crate::wire::Call;
use crate::words::{Answered, count, kept, micros, time, word};

pub(crate) async fn ramp(store: &RedisStore, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
    let keys = vec![store.layout.record(&request.key), store.layout.ramp(&request.key)];
    let call = Call::script(Verb::Ramp, Bucket::of(&request.key), keys, arguments(request));
    let answer = store.exchange(&[call], store.deadline()).await?.pop().ok_or(Trouble::Nonsense)?;
    let mut answered = Answered::new(answer)?;
    let now = answered.time()?;
    let value = match answered.word()?.as_str() {
        "late" => RampReply::Late,
        "done" => RampReply::Done(view(&mut answered)?),
        _ => return Err(Trouble::Nonsense.into()),
    };
    Ok(Answer { now, value })
}

fn arguments(request: &RampRequest) -> Vec<Vec<u8>> {
    let mut arguments = vec![
        word(request.epoch.0),
        word(request.first_limit),
        time(request.begun_at),
        micros(request.place_for),
        kept(request.keep_for),
        request.replace.map_or_else(Vec::new, |step| count(step.expected)),
        word(request.replace.and_then(|step| step.limit).unwrap_or(0)),
        word(request.give.len()),
    ];
    for given in &request.give {
        arguments.push(hex(given.place.0));
        arguments.push(word(u8::from(given.succeeded)));
    }
    arguments.extend(request.take.iter().map(|place| hex(place.0)));
    arguments
}

fn view(answered: &mut Answered) -> Result<RampView, Trouble> {
    let step = answered.number()?;
    let limit = Some(small(answered)?).filter(|limit| *limit > 0);
    let successes = small(answered)?;
    let refused_at = Timestamp::from_micros(answered.number()?);
    let state = RampState { step, limit, successes, refused_at };
    let (in_flight, taken) = (small(answered)?, small(answered)?);
    Ok(RampView { state, in_flight, taken, replaced: answered.word()? == "1" })
}

/// Returns a number of 32 bits; larger ones become the maximum.
fn small(answered: &mut Answered) -> Result<u32, Trouble> {
    answered.number().map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
