//! Creates or migrates the tables. There are no down migrations; to go back, restore a backup. If a table is
//! missing, all migrations are applied again: each of them keeps what exists.
//!
//! Processes that start at the same time are serialized by an advisory lock. If the tables are up to date, a
//! check is sufficient, so the user of a running fleet does not need the permission to create tables. Tables
//! from a newer version are kept: newer versions stay compatible with this one.

use tokio_postgres::{Client, Error};

/// The migrations of the tables in one schema.
#[derive(Clone, Debug)]
pub struct Migrations<'m> {
    /// The name of the schema. It is created if it is missing.
    pub schema: &'m str,
    /// The tables that must exist. If one is missing, all migrations are applied.
    pub tables: &'m [&'m str],
    /// The SQL of each migration, in order.
    pub texts: &'m [String],
}

impl Migrations<'_> {
    /// Creates or migrates the tables.
    ///
    /// # Errors
    /// Returns an error if a statement fails. In that case, nothing was changed.
    pub async fn apply(&self, client: &Client) -> Result<(), Error> {
        if self.applied(client).await? >= self.texts.len() {
            return Ok(());
        }
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('breakerbox migrations ' || $1, 0))";
        client.query(lock, &[&self.schema]).await?;
        // Another process may have migrated the tables while this one waited for the lock.
        let done = self.applied(client).await?;
        if done == 0 {
            create_schema(client, self.schema).await?;
        }
        let insert =
            format!("INSERT INTO \"{}\".migrations (number) VALUES ($1) ON CONFLICT DO NOTHING", self.schema);
        for (number, text) in (1_i32..).zip(self.texts).skip(done) {
            client.batch_execute(text).await?;
            client.execute(&insert, &[&number]).await?;
        }
        client.batch_execute("COMMIT").await
    }

    /// Returns the number of applied migrations; zero if a table is missing.
    async fn applied(&self, client: &Client) -> Result<usize, Error> {
        // Not `to_regclass`: a result that was cached before the lock was acquired could say that a table is
        // missing.
        let there = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = ANY ($2)";
        let found: i64 = client.query_one(there, &[&self.schema, &self.tables]).await?.try_get(0)?;
        if usize::try_from(found) != Ok(self.tables.len()) {
            return Ok(0);
        }
        let newest: i32 = client
            .query_one(&format!("SELECT coalesce(max(number), 0) FROM \"{}\".migrations", self.schema), &[])
            .await?
            .try_get(0)?;
        Ok(usize::try_from(newest).unwrap_or(0))
    }
}

/// Creates the schema and the table of applied migrations, unless a user with more permissions has already
/// created them.
async fn create_schema(client: &Client, schema: &str) -> Result<(), Error> {
    let there = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    if !client.query_one(there, &[&schema]).await?.try_get(0)? {
        client.batch_execute(&format!("CREATE SCHEMA \"{schema}\"")).await?;
    }
    let columns = "number int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now()";
    client.batch_execute(&format!("CREATE TABLE IF NOT EXISTS \"{schema}\".migrations ({columns})")).await
}
