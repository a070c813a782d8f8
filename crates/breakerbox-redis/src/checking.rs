//! `check_write`: whether every master that has circuits accepts writes.
//!
//! One small key for each master, which expires by itself. It is written by a script, as circuits are. The answer is that of the
//! last master to refuse, or the time of one of them: a store of which a part can't be written is no store to decide with.

use breakerbox::store::{Answer, StoreError};

use crate::error::Trouble;
use crate::script::Verb;
use crate::store::RedisStore;
use crate::wire::Call;
use crate::words::Answered;

/// How long the key stays after the last check.
const KEEP_FOR_MS: &str = "60000";

pub(crate) async fn check_write(store: &RedisStore) -> Result<Answer<()>, StoreError> {
    let deadline = store.deadline();
    let buckets = store.one_bucket_for_each_master(deadline).await?;
    let call = |bucket| {
        let keys = vec![store.layout.write_check(bucket)];
        Call::script(Verb::CheckWrite, bucket, keys, vec![KEEP_FOR_MS.into()])
    };
    let calls: Vec<_> = buckets.into_iter().map(call).collect();
    let answer = store.exchange(&calls, deadline).await?.pop().ok_or(Trouble::Nonsense)?;
    Ok(Answer { now: Answered::new(answer)?.time()?, value: () })
}
