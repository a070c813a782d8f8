//! The migrations of the schema, in order. There are no downgrades; restore a backup instead.
//!
//! While a fleet is upgraded, processes of two versions use the same tables. So a migration only adds what the version
//! before does not need to know, and what the version before needs is removed by a later version.

/// All migrations, in order. A released migration never changes.
const TEXTS: [&str; 1] = [include_str!("sql/migrations/0001_first.sql")];

/// The tables that exist if any migration was applied.
pub(crate) const TABLES: [&str; 1] = ["migrations"];

/// Returns the SQL of all migrations for one schema.
pub(crate) fn texts(schema: &str) -> Vec<String> {
    TEXTS.iter().map(|text| format!("SET LOCAL search_path = \"{schema}\";\n{text}")).collect()
}
