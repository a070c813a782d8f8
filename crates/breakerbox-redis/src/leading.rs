//! `lead`: acquires, renews or releases a leader's term.

use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::{Answer, StoreError, Term};

use crate::encoding::{Response, micros};
use crate::error::CallError;
use crate::layout::Bucket;
use crate::script::ScriptName;
use crate::servers::Servers;
use crate::swapping::hex;
use crate::wire::Call;

/// The maximum length of a leader's term, a hundred years. A longer term would exceed the numbers that Lua can
/// represent.
const MAX_TERM: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

pub(crate) async fn lead(
    servers: &Servers,
    name: &str,
    candidate: Nonce,
    ttl: Duration,
) -> Result<Answer<Term>, StoreError> {
    let arguments = vec![hex(candidate.0), micros(ttl.min(MAX_TERM))];
    let call = Call::script(ScriptName::Lead, Bucket::of(name), vec![servers.layout.term(name)], arguments);
    let answer =
        servers.exchange(&[call], servers.deadline()).await?.pop().ok_or(CallError::InvalidResponse)?;
    let mut response = Response::new(answer)?;
    let now = response.time()?;
    let leads = response.word()? == "1";
    Ok(Answer { now, value: Term { leads, ends_at: response.time()? } })
}
