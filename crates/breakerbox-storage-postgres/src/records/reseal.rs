//! Reseals (encrypts again) values of older master keys with the newest one, a few rows at a time, while the gateways
//! are running. Afterwards the older keys can be removed.

use breakerbox_model::objects::EndpointId;
use breakerbox_storage::secrets::{Owner, Sealed};
use breakerbox_storage::stored::LoadError;
use breakerbox_storage::stored::codes::id;
use breakerbox_storage::stored::settings::{ENDPOINT, TENANT};

use super::PostgresRecords;
use crate::error::get;

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

impl PostgresRecords {
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
                include_str!("../sql/records/sealed_tenants.sql"),
                include_str!("../sql/records/reseal_tenants_if_unchanged.sql"),
            )
            .await?;
        let endpoints = self
            .reseal_table(
                ENDPOINT,
                include_str!("../sql/records/sealed_endpoints.sql"),
                include_str!("../sql/records/reseal_endpoints_if_unchanged.sql"),
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
        let mut after = i64::MIN;
        loop {
            let rows = self.database.read(select, &[&after, &PIECE]).await?;
            let Some(last) = rows.last() else { return Ok(total) };
            after = get(last, 0)?;
            total.looked_at += rows.len() as u64;
            let (mut numbers, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
            for row in &rows {
                let number: i64 = get(row, 0)?;
                let name: Option<String> = get(row, 1)?;
                let name = name.unwrap_or_else(|| EndpointId(id(number)).to_string());
                let sealed = Sealed(get(row, 2)?);
                if let Some(again) = self.keyring.reseal(&sealed, Owner { what, name: &name })? {
                    numbers.push(number);
                    old.push(sealed.0);
                    new.push(again.0);
                }
            }
            if numbers.is_empty() {
                continue;
            }
            // If a row was changed in the meantime, it is already sealed with the newest key.
            let work = self.begin_change().await?;
            total.resealed += work.transaction.execute(update, &[&numbers, &old, &new]).await?;
            work.commit(&self.directory).await?;
        }
    }
}
