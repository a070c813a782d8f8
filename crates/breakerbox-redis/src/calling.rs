//! `call_for_reports`: sends a message to every listening process, on the channels for changes.
//!
//! The message is `reports:` followed by the keys as a JSON array. A message about a change starts with the
//! length of a key, so the two can't be confused. Nothing is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use breakerbox::store::{StoreError, StoreEvent};

use crate::layout::Bucket;
use crate::servers::Servers;
use crate::wire::Call;

/// The prefix of a message that requests reports.
const PREFIX: &str = "reports:";

/// The maximum number of keys in one message, so that messages fit into a server's output buffers.
const MAX_KEYS: usize = 1_000;

pub(crate) async fn call_for_reports(servers: &Servers, keys: &[Arc<str>]) -> Result<(), StoreError> {
    // A single server has one channel; a cluster has one for each bucket, on the node that owns the bucket.
    let mut by_bucket: BTreeMap<Bucket, Vec<&Arc<str>>> = BTreeMap::new();
    for key in keys {
        let bucket = if servers.wire.is_one() { Bucket(0) } else { Bucket::of(key) };
        by_bucket.entry(bucket).or_default().push(key);
    }
    let mut calls = Vec::new();
    for (bucket, keys) in by_bucket {
        for keys in keys.chunks(MAX_KEYS) {
            let command = if servers.wire.is_one() {
                redis::cmd("PUBLISH").arg(servers.layout.changes()).arg(write(keys)?).take()
            } else {
                redis::cmd("SPUBLISH").arg(servers.layout.changes_in(bucket)).arg(write(keys)?).take()
            };
            calls.push(Call::plain(bucket, command));
        }
    }
    if !calls.is_empty() {
        servers.exchange(&calls, servers.deadline()).await?;
    }
    Ok(())
}

fn write(keys: &[&Arc<str>]) -> Result<String, StoreError> {
    let keys: Vec<&str> = keys.iter().map(|key| &***key).collect();
    let keys = serde_json::to_string(&keys).map_err(|error| StoreError::Unavailable(error.into()))?;
    Ok(format!("{PREFIX}{keys}"))
}

/// Parses a request for reports. Returns `None` for any other message.
pub(crate) fn read(text: &str) -> Option<StoreEvent> {
    let keys: Vec<String> = serde_json::from_str(text.strip_prefix(PREFIX)?).ok()?;
    (!keys.is_empty())
        .then(|| StoreEvent::ReportsWanted { keys: keys.into_iter().map(|key| Arc::from(&*key)).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_heard_and_nothing_else() {
        let keys: [Arc<str>; 2] = ["a key: \u{e9} \"quoted\"".into(), "b".into()];
        let text = write(&keys.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(read(&text), Some(StoreEvent::ReportsWanted { keys: keys.into() }));
        for other in ["", "reports:", "reports:[]", "reports:{}", "9:a key{}"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
