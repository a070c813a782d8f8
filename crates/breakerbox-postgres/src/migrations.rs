//! Creates or migrates the tables. There are no down migrations; to go back, restore a backup. If a table is
//! missing, all migrations are applied again: each of them keeps what exists.
//!
//! Processes that start at the same time are serialized by an advisory lock. If the tables are up to date, a
//! check is sufficient, so the user of a running fleet does not need the permission to create tables. Tables
//! from a newer version are kept: newer versions stay compatible with this one.

use tokio_postgres::{Client, Error};

use crate::statements::{MIGRATIONS, TABLES, migration};

/// Creates or migrates the tables in a schema.
pub(crate) async fn migrate(client: &Client, schema: &str) -> Result<(), Error> {
    if applied(client, schema).await? >= MIGRATIONS.len() {
        return Ok(());
    }
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('breakerbox migrations ' || $1, 0))";
    client.query(lock, &[&schema]).await?;
    // Another process may have migrated the tables while this one waited for the lock.
    let done = applied(client, schema).await?;
    if done == 0 {
        create_schema(client, schema).await?;
    }
    for (number, text) in (1_i32..).zip(MIGRATIONS).skip(done) {
        client.batch_execute(&migration(schema, text)).await?;
        client
            .execute(
                &format!("INSERT INTO \"{schema}\".migrations (number) VALUES ($1) ON CONFLICT DO NOTHING"),
                &[&number],
            )
            .await?;
    }
    client.batch_execute("COMMIT").await
}

/// Returns the number of applied migrations; zero if a table is missing.
async fn applied(client: &Client, schema: &str) -> Result<usize, Error> {
    // Not `to_regclass`: a result that was cached before the lock was acquired could say that a table is
    // missing.
    let there = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = ANY ($2)";
    let found: i64 = client.query_one(there, &[&schema, &TABLES.as_slice()]).await?.try_get(0)?;
    if usize::try_from(found) != Ok(TABLES.len()) {
        return Ok(0);
    }
    let newest: i32 = client
        .query_one(&format!("SELECT coalesce(max(number), 0) FROM \"{schema}\".migrations"), &[])
        .await?
        .try_get(0)?;
    Ok(usize::try_from(newest).unwrap_or(0))
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
