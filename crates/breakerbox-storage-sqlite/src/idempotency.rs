//! The table of idempotency keys: the requests of the last 24 hours, and their responses.
//!
//! All kinds of requests share the table, so a tenant can't use the same key for two kinds. For submitted events, the
//! table stores the number of deliveries per event; for other requests, the response.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Id, IdempotencyKey, Revision};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::RequestResponse;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::transaction::WriteTransaction;

/// How long an idempotency key is kept.
pub(super) const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// The tenant number under which the operator's own idempotency keys are stored. No tenant has this number.
pub(super) const OPERATOR: i64 = 0;

/// Returns the lowest row id that an unexpired idempotency key can have.
pub(super) fn remembered_since(now: Timestamp) -> i64 {
    Id::first_at(now.before(REMEMBERED)).number()
}

/// The stored facts about an earlier request with the same key.
pub(super) struct Earlier {
    /// The row's id. For submitted events, it is the first event's id.
    pub(super) id: i64,
    /// Whether the earlier request had the same content.
    pub(super) is_same: bool,
    /// The number of each event's deliveries, as four bytes per event.
    pub(super) fan_outs: Vec<u8>,
    created: Option<String>,
    status: Option<u16>,
    revision: Option<i64>,
    response: Option<Vec<u8>>,
}

/// Finds an earlier request with this key, if the key is still valid.
pub(super) fn earlier(
    transaction: &WriteTransaction<'_>,
    scope: i64,
    key: &IdempotencyKey,
) -> rusqlite::Result<Option<Earlier>> {
    let found = transaction
        .connection
        .prepare_cached(
            "SELECT id, fingerprint, fan_outs, created, status, revision, response FROM idempotency_keys
             WHERE tenant = ?1 AND key = ?2",
        )?
        .query_row(params![scope, key.key], |row| {
            Ok(Earlier {
                id: row.get(0)?,
                is_same: row.get::<_, Vec<u8>>(1)? == key.fingerprint,
                fan_outs: row.get(2)?,
                created: row.get(3)?,
                status: row.get(4)?,
                revision: row.get(5)?,
                response: row.get(6)?,
            })
        })
        .optional()?;
    Ok(found.filter(|found| transaction.writer_state.ids.is_younger(found.id, REMEMBERED, transaction.wall)))
}

impl Earlier {
    /// Returns the stored response to the earlier request.
    pub(super) fn response(self) -> Result<RequestResponse, RecordsError> {
        if !self.is_same {
            return Err(RecordsError::KeyReused);
        }
        let created = self.created.unwrap_or_default();
        let (Some(status), Some(body)) = (self.status, self.response) else {
            return Err(RecordsError::AlreadyCreated { id: created });
        };
        let revision = self.revision.map(Revision);
        Ok(RequestResponse { created, status, revision, body: Bytes::from(body), has_secret: false })
    }
}

/// Stores the idempotency key of a batch of events. The events' ids are consecutive, so the first id and the numbers
/// of deliveries determine all of them.
pub(super) fn remember_events(
    connection: &Connection,
    scope: i64,
    first: i64,
    key: &IdempotencyKey,
    fan_outs: &[u8],
) -> rusqlite::Result<()> {
    forget(connection, scope, key)?;
    connection
        .prepare_cached(
            "INSERT INTO idempotency_keys (id, tenant, key, fingerprint, fan_outs) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![first, scope, key.key, key.fingerprint, fan_outs])?;
    Ok(())
}

/// Stores a request's idempotency key and its response. If the response contains a secret, only the created object's
/// id is stored.
pub(super) fn remember(
    transaction: &mut WriteTransaction<'_>,
    scope: i64,
    key: &IdempotencyKey,
    response: &RequestResponse,
) -> rusqlite::Result<()> {
    let id = transaction.next_id().number();
    let connection = transaction.connection;
    forget(connection, scope, key)?;
    let body = (!response.has_secret).then_some(&response.body[..]);
    connection
        .prepare_cached(
            "INSERT INTO idempotency_keys (id, tenant, key, fingerprint, fan_outs, created, status, revision, response)
             VALUES (?1, ?2, ?3, ?4, x'', ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            id,
            scope,
            key.key,
            key.fingerprint,
            response.created,
            response.status,
            response.revision.map(|revision| revision.0),
            body
        ])?;
    Ok(())
}

/// Deletes the expired row with this key, if there is one. A row that has not expired would have been found as the
/// earlier request.
fn forget(connection: &Connection, scope: i64, key: &IdempotencyKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM idempotency_keys WHERE tenant = ?1 AND key = ?2")?
        .execute(params![scope, key.key])
        .map(drop)
}
