//! Creates or migrates the tables for circuits.

use crate::database::Database;
use crate::error::ConnectError;
use crate::migrations::Migrations;
use crate::statements::{self, TABLES};

/// Creates or migrates the tables for circuits.
pub(crate) async fn set_up(database: &Database, schema: &str) -> Result<(), ConnectError> {
    let texts = statements::migrations(schema);
    database.set_up(&Migrations { schema, tables: &TABLES, texts: &texts }).await
}
