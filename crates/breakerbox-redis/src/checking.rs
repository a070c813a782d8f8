//! `check_write`: checks whether every master that holds circuits accepts writes.
//!
//! Each master has one small key for this check, which expires. A script writes it in the same way as circuits
//! are written. The check fails if any master refuses, because a store that is partly read-only can't be used
//! for decisions. Otherwise it returns the time of one of the masters.

use breakerbox::store::{Answer, StoreError};

use crate::encoding::Response;
use crate::error::CallError;
use crate::script::ScriptName;
use crate::servers::Servers;
use crate::wire::Call;

/// The time to live of the key that the write check writes, in milliseconds.
const KEEP_FOR_MS: &str = "60000";

pub(crate) async fn check_write(servers: &Servers) -> Result<Answer<()>, StoreError> {
    let deadline = servers.deadline();
    let buckets = servers.one_bucket_for_each_master(deadline).await?;
    let call = |bucket| {
        let keys = vec![servers.layout.write_check(bucket)];
        Call::script(ScriptName::CheckWrite, bucket, keys, vec![KEEP_FOR_MS.into()])
    };
    let calls: Vec<_> = buckets.into_iter().map(call).collect();
    let answer = servers.exchange(&calls, deadline).await?.pop().ok_or(CallError::InvalidResponse)?;
    Ok(Answer { now: Response::new(answer)?.time()?, value: () })
}
