//! `lead`: a leader's term.

use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::{Answer, StoreError, Term};

use crate::error::Trouble;
use crate::layout::Bucket;
use crate::script::Verb;
use crate::store::RedisStore;
use crate::swapping::hex;
use crate::wire::Call;
use crate::words::{Answered, micros};

/// The maximum length of a term: a hundred years. A longer one would exceed the numbers of scripts.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

pub(crate) async fn lead(
    store: &RedisStore,
    name: &str,
    candidate: Nonce,
    ttl: Duration,
) -> Result<Answer<Term>, StoreError> {
    let arguments = vec![hex(candidate.0), micros(ttl.min(LONGEST))];
    let call = Call::script(Verb::Lead, Bucket::of(name), vec![store.layout.term(name)], arguments);
    let answer = store.exchange(&[call], store.deadline()).await?.pop().ok_or(Trouble::Nonsense)?;
    let mut answered = Answered::new(answer)?;
    let now = answered.time()?;
    let leads = answered.word()? == "1";
    Ok(Answer { now, value: Term { leads, ends_at: answered.time()? } })
}
