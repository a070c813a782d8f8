//! `read`: reads many records in few calls.

use std::sync::Arc;

use breakerbox::store::{Answer, Readable, StoreError};
use breakerbox::{Record, Timestamp};
use tokio::time::Instant;

use crate::encoding::Response;
use crate::error::CallError;
use crate::plan;
use crate::script::ScriptName;
use crate::servers::Servers;
use crate::wire::Call;

/// The maximum number of records that one call reads, which keeps the server busy for about a tenth of a
/// millisecond.
const MAX_RECORDS: usize = 128;

pub(crate) async fn read(
    servers: &Servers,
    keys: &[Arc<str>],
    deadline: Instant,
) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
    let plan = plan::calls(keys.iter().map(|key| &**key), servers.wire.is_one(), MAX_RECORDS);
    let calls: Vec<_> = plan
        .iter()
        .map(|(bucket, positions)| {
            let records = positions.iter().map(|position| servers.layout.record(&keys[*position])).collect();
            Call::script(ScriptName::Read, *bucket, records, Vec::new())
        })
        .collect();
    let answers = servers.exchange(&calls, deadline).await?;
    let mut value = vec![Ok(None); keys.len()];
    let mut now: Option<Timestamp> = None;
    for ((_, positions), answer) in plan.iter().zip(answers) {
        let mut response = Response::new(answer)?;
        let time = response.time()?;
        now = Some(now.map_or(time, |earlier| earlier.min(time)));
        for position in positions {
            value[*position] = response.maybe_record(&servers.layout, &keys[*position])?;
        }
    }
    Ok(Answer { now: now.ok_or(CallError::InvalidResponse)?, value })
}
