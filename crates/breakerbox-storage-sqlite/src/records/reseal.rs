//! Reseals (encrypts again) values of older master keys with the newest one, a few rows at a time, while the gateway
//! is running. Afterwards the older keys can be removed.

use breakerbox_model::objects::EndpointId;
use breakerbox_storage::secrets::{Owner, Sealed};
use rusqlite::params;

use breakerbox_storage::stored::LoadError;
use breakerbox_storage::stored::settings::{ENDPOINT, TENANT};

use super::SqliteRecords;
use crate::columns::id;
use crate::error::JobError;

/// The number of rows read and written at once.
const PIECE: i64 = 100;

/// The result of a completed reseal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resealed {
    /// The number of rows with a sealed value that were checked.
    pub looked_at: u64,
    /// The number of rows that were sealed with an older key, and that are now sealed with the newest.
    pub resealed: u64,
}

/// A row with a sealed value.
struct Row {
    number: i64,
    name: String,
    sealed: Vec<u8>,
}

impl SqliteRecords {
    /// Seals all stored secrets with the newest master key. If this operation is interrupted, it can be run
    /// again. Rows that clients change in the meantime are sealed with the newest key anyway.
    ///
    /// # Errors
    /// Returns an error if a value can't be opened, or the database fails. Rows that were already resealed stay
    /// resealed.
    pub async fn reseal(&self) -> Result<Resealed, LoadError> {
        let tenants = self
            .reseal_table(
                TENANT,
                "SELECT row, id, sealed FROM tenants WHERE row > ?1 AND deleted_at IS NULL ORDER BY row LIMIT ?2",
                "UPDATE tenants SET sealed = ?3 WHERE row = ?1 AND sealed = ?2",
            )
            .await?;
        let endpoints = self
            .reseal_table(
                ENDPOINT,
                "SELECT id, NULL, sealed FROM endpoints WHERE id > ?1 ORDER BY id LIMIT ?2",
                "UPDATE endpoints SET sealed = ?3 WHERE id = ?1 AND sealed = ?2",
            )
            .await?;
        Ok(Resealed {
            looked_at: tenants.looked_at + endpoints.looked_at,
            resealed: tenants.resealed + endpoints.resealed,
        })
    }

    async fn reseal_table(
        &self,
        what: &'static str,
        select: &'static str,
        update: &'static str,
    ) -> Result<Resealed, LoadError> {
        let mut total = Resealed::default();
        let mut after = -1;
        loop {
            let rows = self.sealed_after(after, select).await?;
            let Some(last) = rows.last() else { return Ok(total) };
            after = last.number;
            total.looked_at += rows.len() as u64;
            let mut changed = Vec::new();
            for row in rows {
                let old = Sealed(row.sealed);
                if let Some(new) = self.keyring.reseal(&old, Owner { what, name: &row.name })? {
                    changed.push((row.number, old.0, new.0));
                }
            }
            if changed.is_empty() {
                continue;
            }
            // If a row was changed in the meantime, it is already sealed with the newest key.
            total.resealed += self
                .database
                .write(move |transaction| {
                    let mut statement = transaction.connection().prepare_cached(update)?;
                    let mut written = 0;
                    for (number, old, new) in changed {
                        written += statement.execute(params![number, old, new])? as u64;
                    }
                    Ok::<_, JobError<LoadError>>(written)
                })
                .await?;
        }
    }

    async fn sealed_after(&self, after: i64, select: &'static str) -> Result<Vec<Row>, LoadError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(select)?;
                let rows = statement.query_map([after, PIECE], |row| {
                    let number = row.get(0)?;
                    let name = row.get::<_, Option<String>>(1)?;
                    let name = name.unwrap_or_else(|| EndpointId(id(number)).to_string());
                    Ok(Row { number, name, sealed: row.get(2)? })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}
