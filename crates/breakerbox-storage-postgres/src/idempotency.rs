//! The idempotency keys of batches of events. All kinds of requests share the table, so a tenant can't use the same key for
//! two kinds.
//!
//! A key is inserted before anything else of its batch. If another process inserts the same key at the same time, the
//! second one waits for the first to commit, and then finds its row.

use std::collections::HashMap;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{EventId, Id};
use breakerbox_storage::stored::codes::id;
use breakerbox_storage::{QueueError, SubmitError, Submitted, SubmittedEvent};

use super::database::Transaction;
use super::error::get;

/// How long an idempotency key is kept.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// The number of bytes per event in a stored key.
const ENTRY: usize = 12;

/// Returns the lowest row id that an unexpired idempotency key can have.
pub(crate) fn remembered_since(now: Timestamp) -> i64 {
    Id::first_at(now.before(REMEMBERED)).number()
}

/// The keys of the batches in one transaction, column by column.
#[derive(Default)]
pub(crate) struct KeyRows<'k> {
    ids: Vec<i64>,
    tenants: Vec<i64>,
    keys: Vec<&'k str>,
    fingerprints: Vec<&'k [u8]>,
    events: Vec<Vec<u8>>,
}

/// A stored key.
pub(crate) struct StoredKey {
    pub(crate) id: i64,
    fingerprint: Vec<u8>,
    events: Vec<u8>,
}

impl<'k> KeyRows<'k> {
    /// Adds a key, and returns its position. `id` is the row's id.
    pub(crate) fn push(
        &mut self,
        id: i64,
        tenant: i64,
        key: &'k str,
        fingerprint: &'k [u8],
        events: &[(i64, u32)],
    ) -> usize {
        self.ids.push(id);
        self.tenants.push(tenant);
        self.keys.push(key);
        self.fingerprints.push(fingerprint);
        let mut bytes = Vec::with_capacity(events.len() * ENTRY);
        for (event, deliveries) in events {
            bytes.extend_from_slice(&event.to_le_bytes());
            bytes.extend_from_slice(&deliveries.to_le_bytes());
        }
        self.events.push(bytes);
        self.ids.len() - 1
    }

    /// Stores the keys that are not in use, and returns what is stored under all of them, by position.
    pub(crate) async fn remember(
        &self,
        transaction: &Transaction,
    ) -> Result<HashMap<usize, StoredKey>, QueueError> {
        if self.ids.is_empty() {
            return Ok(HashMap::new());
        }
        let since = remembered_since(transaction.now());
        let (written, read) = tokio::join!(
            biased;
            async {
                let sql = include_str!("sql/remember_key_if_new.sql");
                let columns: [&dyn super::Value; 6] =
                    [&self.ids, &self.tenants, &self.keys, &self.fingerprints, &self.events, &since];
                transaction.query(sql, &columns).await
            },
            async { transaction.query(include_str!("sql/read_keys.sql"), &[&self.tenants, &self.keys]).await },
        );
        written?;
        let stored = |row: &tokio_postgres::Row| {
            let nth = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0).saturating_sub(1);
            Ok((nth, StoredKey { id: get(row, 1)?, fingerprint: get(row, 2)?, events: get(row, 3)? }))
        };
        read?.iter().map(stored).collect()
    }

    /// Deletes the keys of batches that were rejected.
    pub(crate) async fn forget(
        &self,
        transaction: &Transaction,
        rejected: &[usize],
    ) -> Result<(), QueueError> {
        if rejected.is_empty() {
            return Ok(());
        }
        let tenants: Vec<i64> = rejected.iter().map(|nth| self.tenants[*nth]).collect();
        let keys: Vec<&str> = rejected.iter().map(|nth| self.keys[*nth]).collect();
        let ids: Vec<i64> = rejected.iter().map(|nth| self.ids[*nth]).collect();
        let sql = include_str!("sql/forget_key_if_own.sql");
        transaction.query(sql, &[&tenants, &keys, &ids]).await.map(drop)
    }
}

impl StoredKey {
    /// Returns the result of the earlier request with the same key.
    pub(crate) fn earlier(&self, fingerprint: &[u8]) -> Result<Submitted, SubmitError> {
        if self.fingerprint != fingerprint {
            return Err(SubmitError::KeyReused);
        }
        let events = self.events.as_chunks::<ENTRY>().0.iter().map(|entry| {
            let (event, deliveries) = entry.split_at(8);
            let event = i64::from_le_bytes(event.try_into().unwrap_or_default());
            let deliveries = u32::from_le_bytes(deliveries.try_into().unwrap_or_default());
            SubmittedEvent { id: EventId(id(event)), deliveries }
        });
        let events = events.collect();
        Ok(Submitted { events, repeated: true, taken: Vec::new(), woken: Vec::new(), deferred: 0 })
    }
}
