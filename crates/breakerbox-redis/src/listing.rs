//! `list`: pages through the circuits, bucket by bucket, using each bucket's index.
//!
//! A page is filled in waves: the first queries a few buckets, and each further wave four times as many, until
//! the page is full. A page of a full store queries a few buckets; a page of an empty store queries all 1,024
//! in five pipelines. That is the maximum cost of a page, regardless of the number of circuits. An index of the
//! buckets that are not empty would be in a different hash slot, so the scripts that change a bucket could not
//! keep it consistent.
//!
//! A circuit that has a record during the whole listing is found exactly once, in whatever state. One that is
//! added, removed or changed meanwhile may or may not be found. A query that finds an expired circuit removes
//! it from the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use breakerbox::store::{Cursor, ListQuery, Page, StoreError};

use crate::error::CallError;
use crate::layout::{BUCKETS, Bucket};
use crate::reading::read;
use crate::servers::Servers;
use crate::swapping::forget_call;
use crate::wire::Call;

/// The maximum number of circuits on a page.
const MAX_PAGE: usize = 1_000;

/// The number of buckets that the first round of queries for a page covers.
const FIRST_WAVE: u16 = 4;

/// The factor by which the number of buckets grows with each further round of queries.
const GROWTH: u16 = 4;

/// The maximum number of query rounds for a page. Only a page with many expired circuits takes more than five.
const MAX_WAVES: usize = 16;

/// An index entry for one circuit.
struct Entry {
    bucket: Bucket,
    key: Arc<str>,
}

pub(crate) async fn list(servers: &Servers, query: &ListQuery) -> Result<Page, StoreError> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    let mut position = Position::parse(query.after.as_ref())?;
    let mut page = Page::default();
    let mut wave = FIRST_WAVE;
    for _ in 0..MAX_WAVES {
        let found = page.circuits.len() + page.unreadable.len();
        if position.is_end() || found >= limit {
            break;
        }
        let entries = next_entries(servers, query, &mut position, wave, limit - found).await?;
        add_records(servers, query, entries, &mut page).await?;
        wave = wave.saturating_mul(GROWTH);
    }
    page.next = position.cursor();
    Ok(page)
}

/// The position after which the next page continues.
struct Position {
    bucket: u16,
    after: Option<Arc<str>>,
}

impl Position {
    fn parse(cursor: Option<&Cursor>) -> Result<Self, CallError> {
        let Some(Cursor(text)) = cursor else { return Ok(Self { bucket: 0, after: None }) };
        let (bucket, after) = match text.split_once(':') {
            Some((bucket, after)) => (bucket, Some(after.into())),
            None => (text.as_str(), None),
        };
        let bucket = bucket.parse().ok().filter(|bucket| *bucket < BUCKETS).ok_or(CallError::Cursor)?;
        Ok(Self { bucket, after })
    }

    fn is_end(&self) -> bool {
        self.bucket >= BUCKETS
    }

    fn cursor(&self) -> Option<Cursor> {
        let Self { bucket, after } = self;
        let text = || after.as_ref().map_or_else(|| bucket.to_string(), |after| format!("{bucket}:{after}"));
        (!self.is_end()).then(|| Cursor(text()))
    }
}

/// Queries the indices of the next buckets for at most `max` entries, and moves the position past the last
/// entry found.
async fn next_entries(
    servers: &Servers,
    query: &ListQuery,
    position: &mut Position,
    wave: u16,
    max: usize,
) -> Result<Vec<Entry>, StoreError> {
    let buckets: Vec<_> =
        (position.bucket..BUCKETS.min(position.bucket.saturating_add(wave))).map(Bucket).collect();
    let first = |bucket: Bucket| if bucket.0 == position.bucket { position.after.as_deref() } else { None };
    let calls: Vec<_> =
        buckets.iter().map(|bucket| range(servers, query, *bucket, first(*bucket), max)).collect();
    let answers = servers.exchange(&calls, servers.deadline()).await?;
    let mut entries = Vec::new();
    for (bucket, answer) in buckets.into_iter().zip(answers) {
        let members: Vec<String> = redis::from_redis_value(answer).map_err(|_| CallError::InvalidResponse)?;
        let exhausted = members.len() < max;
        for member in members {
            if entries.len() == max {
                return Ok(entries);
            }
            let key: Arc<str> = match query.status {
                Some(status) => member.strip_prefix(status.name()).and_then(|rest| rest.strip_prefix(':')),
                None => Some(member.as_str()),
            }
            .ok_or(CallError::InvalidResponse)?
            .into();
            *position = Position { bucket: bucket.0, after: Some(Arc::clone(&key)) };
            entries.push(Entry { bucket, key });
        }
        if !exhausted {
            return Ok(entries);
        }
        *position = Position { bucket: bucket.0 + 1, after: None };
    }
    Ok(entries)
}

/// Returns the call that finds a bucket's next entries, sorted by key.
fn range(servers: &Servers, query: &ListQuery, bucket: Bucket, after: Option<&str>, max: usize) -> Call {
    let (index, prefix) = match query.status {
        Some(status) => (servers.layout.states(bucket), format!("{}:", status.name())),
        None => (servers.layout.circuits(bucket), String::new()),
    };
    let from = match after {
        Some(after) => format!("({prefix}{after}"),
        None => format!("[{prefix}{}", query.prefix),
    };
    // UTF-8 never contains this byte, so all keys with the prefix sort before it.
    let mut to = format!("({prefix}{}", query.prefix).into_bytes();
    to.push(0xff);
    let mut command = redis::cmd("ZRANGE");
    command.arg(index).arg(from).arg(to).arg("BYLEX").arg("LIMIT").arg(0).arg(max);
    Call::plain(bucket, command)
}

/// Adds the entries' records to the page, except for circuits that have expired or are in a different state.
async fn add_records(
    servers: &Servers,
    query: &ListQuery,
    entries: Vec<Entry>,
    page: &mut Page,
) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = entries.iter().map(|entry| Arc::clone(&entry.key)).collect();
    let records = read(servers, &keys, servers.deadline()).await?.value;
    let mut gone: BTreeMap<Bucket, Vec<String>> = BTreeMap::new();
    for (entry, record) in entries.into_iter().zip(records) {
        match record {
            Ok(Some(record)) if query.status.is_none_or(|status| record.status() == status) => {
                page.circuits.push((entry.key, record));
            }
            Ok(Some(_)) => {}
            Err(unreadable) => page.unreadable.push(unreadable),
            Ok(None) => gone.entry(entry.bucket).or_default().push(entry.key.to_string()),
        }
    }
    if !gone.is_empty() {
        let calls: Vec<_> = gone.iter().map(|(bucket, keys)| forget_call(servers, *bucket, keys)).collect();
        // If this fails, the next listing finds the expired circuits again.
        let _ = servers.exchange(&calls, servers.deadline()).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_where_to_go_on() {
        let again = |text: &str| {
            Position::parse(Some(&Cursor(text.to_owned())))
                .map(|position| position.cursor().map(|cursor| cursor.0))
        };
        for cursor in ["0", "1023", "7:", "7:a: key"] {
            assert_eq!(again(cursor).unwrap().as_deref(), Some(cursor));
        }
        for nonsense in ["", "x", "1024", "-1:a", ":a", "70000:a"] {
            assert!(again(nonsense).is_err(), "{nonsense}");
        }
        assert_eq!(Position { bucket: BUCKETS, after: None }.cursor(), None);
    }
}
