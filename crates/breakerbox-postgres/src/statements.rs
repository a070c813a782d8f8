//! The SQL statements, one file for each step of an operation, and the migrations, one file each.
//!
//! The files use the schema `breakerbox.`, so that they can be run unchanged. Before a statement is sent, that
//! schema is replaced by the configured one, and the file's comments by the file's name, which operators see in
//! `pg_stat_activity`.

/// The SQL of all statements, for one schema.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) merge: String,
    pub(crate) read: String,
    pub(crate) claim_circuit: String,
    pub(crate) claim_counts: String,
    pub(crate) swap_if: String,
    pub(crate) list: String,
    pub(crate) list_by_status: String,
    pub(crate) claim_ramp: String,
    pub(crate) ramp: String,
    pub(crate) lead: String,
    pub(crate) check_write: String,
    pub(crate) call_for_reports: String,
    pub(crate) clear_circuits: String,
    pub(crate) clear_counts: String,
    pub(crate) clear_leases: String,
    pub(crate) clear_ramps: String,
}

/// Loads a statement from its file.
macro_rules! statement {
    ($schema:expr, $name:literal) => {
        ready($schema, $name, include_str!(concat!("sql/", $name, ".sql")))
    };
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            merge: statement!(schema, "merge"),
            read: statement!(schema, "read"),
            claim_circuit: statement!(schema, "claim_circuit"),
            claim_counts: statement!(schema, "claim_counts"),
            swap_if: statement!(schema, "swap_if"),
            list: statement!(schema, "list"),
            list_by_status: statement!(schema, "list_by_status"),
            claim_ramp: statement!(schema, "claim_ramp"),
            ramp: statement!(schema, "ramp"),
            lead: statement!(schema, "lead"),
            check_write: statement!(schema, "check_write"),
            call_for_reports: statement!(schema, "call_for_reports"),
            clear_circuits: statement!(schema, "clear_circuits"),
            clear_counts: statement!(schema, "clear_counts"),
            clear_leases: statement!(schema, "clear_leases"),
            clear_ramps: statement!(schema, "clear_ramps"),
        }
    }
}

/// The migrations of the tables, in order. A new migration must keep the previous version's statements working,
/// because both versions run while a fleet is upgraded. Each migration keeps existing tables and columns, so
/// that all migrations can be applied again when a table is missing.
pub(crate) const MIGRATIONS: [&str; 3] = [
    include_str!("sql/migrations/0001_circuits_counts_leases.sql"),
    include_str!("sql/migrations/0002_ramps.sql"),
    include_str!("sql/migrations/0003_runs.sql"),
];

/// The names of the tables that must exist.
pub(crate) const TABLES: [&str; 5] = ["migrations", "circuits", "counts", "leases", "ramps"];

/// Returns the SQL of all migrations for one schema.
pub(crate) fn migrations(schema: &str) -> Vec<String> {
    MIGRATIONS.map(|text| in_schema(schema, text)).to_vec()
}

/// Returns the name of the notification channel on which changes are published.
pub(crate) fn channel(schema: &str) -> String {
    format!("{schema}_changes")
}

fn ready(schema: &str, name: &str, text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    format!("/* breakerbox {name} */ {}", in_schema(schema, lines.join("\n").trim_end_matches(';')))
}

fn in_schema(schema: &str, text: &str) -> String {
    text.replace("breakerbox.", &format!("\"{schema}\"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_for_one_schema_and_says_its_name() {
        let text = ready("mine", "read", "-- The records.\nSELECT *\n  -- why\nFROM breakerbox.circuits;");
        assert_eq!(text, "/* breakerbox read */ SELECT *\nFROM \"mine\".circuits");
    }

    #[test]
    fn no_statement_names_another_schema() {
        for text in
            [Statements::new("mine").merge, Statements::new("mine").swap_if, migrations("mine").remove(0)]
        {
            assert!(!text.contains("breakerbox.") && text.contains("\"mine\".counts"));
        }
    }
}
