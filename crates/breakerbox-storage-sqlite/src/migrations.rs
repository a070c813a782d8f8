//! Migrates the schema to the newest version. There are no downgrades; restore a backup instead.
//!
//! Each migration is an SQL file, applied in one transaction. SQLite's `user_version` is the number of the last one.

use std::path::Path;

use rusqlite::Connection;

use super::error::OpenError;

/// All migrations, in order. A released migration never changes.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_reminders.sql"),
    include_str!("migrations/0003_notifications.sql"),
    include_str!("migrations/0004_permits.sql"),
    include_str!("migrations/0005_changes.sql"),
    include_str!("migrations/0006_tombstones.sql"),
    include_str!("migrations/0007_fan_outs.sql"),
    include_str!("migrations/0008_owners.sql"),
    include_str!("migrations/0009_requests.sql"),
    include_str!("migrations/0010_notifications.sql"),
    include_str!("migrations/0011_pulled.sql"),
    include_str!("migrations/0012_outages.sql"),
    include_str!("migrations/0013_circuit_runs.sql"),
    include_str!("migrations/0014_last_attempts.sql"),
];

/// The newest schema version that this program knows.
#[allow(clippy::cast_possible_truncation, reason = "there are not that many")]
pub const NEWEST: u32 = MIGRATIONS.len() as u32;

/// The SQLite application id: "Brkb". It distinguishes gateway databases from other programs' files.
const APPLICATION: i32 = 0x4272_6b62;

/// The schema version of a database file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schema {
    /// The number of the last migration applied; 0 if the file is new.
    pub current: u32,
    /// The newest schema version that this program knows.
    pub newest: u32,
}

impl Schema {
    /// Returns the number of migrations that are not applied yet.
    #[must_use]
    pub const fn pending(self) -> u32 {
        self.newest.saturating_sub(self.current)
    }

    /// Reads the schema version from a file.
    pub(super) fn of(connection: &Connection, path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Database { path: path.to_owned(), error };
        let number =
            |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
        let version = number("user_version").map_err(failed)?;
        let application = number("application_id").map_err(failed)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        let is_new = version == 0 && application == 0 && tables == 0;
        let (Ok(current), true) = (u32::try_from(version), is_new || application == APPLICATION) else {
            return Err(OpenError::Foreign { path: path.to_owned() });
        };
        if current > NEWEST {
            return Err(OpenError::TooNew { path: path.to_owned(), found: current, known: NEWEST });
        }
        Ok(Self { current, newest: NEWEST })
    }
}

/// Applies the pending migrations, and returns the previous schema.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<Schema, OpenError> {
    migrate_to(connection, path, NEWEST)
}

/// Applies the pending migrations up to number `last`.
pub(super) fn migrate_to(connection: &mut Connection, path: &Path, last: u32) -> Result<Schema, OpenError> {
    let before = Schema::of(connection, path)?;
    for (number, sql) in (1_u32..=last).zip(MIGRATIONS).skip(before.current as usize) {
        apply(connection, number, sql).map_err(|error| OpenError::Migration {
            path: path.to_owned(),
            number,
            error,
        })?;
    }
    Ok(before)
}

fn apply(connection: &mut Connection, number: u32, sql: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(sql)?;
    transaction
        .execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number};"))?;
    transaction.commit()
}

/// Creates an empty in-memory database with the newest schema, for tests of query plans.
#[cfg(test)]
pub(super) fn in_memory() -> Connection {
    let mut connection = Connection::open_in_memory().expect("memory is there");
    migrate(&mut connection, Path::new("memory")).expect("the schema is right");
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(connection: &Connection) -> Vec<(String, Option<String>)> {
        let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn every_schema_ever_released_becomes_the_newest() {
        let path = Path::new("test.db");
        let mut fresh = Connection::open_in_memory().unwrap();
        assert_eq!(migrate(&mut fresh, path).unwrap(), Schema { current: 0, newest: NEWEST });
        for first in 1..=NEWEST {
            let mut old = Connection::open_in_memory().unwrap();
            migrate_to(&mut old, path, first).unwrap();
            old.execute("INSERT INTO meta (name, value) VALUES ('kept', 7)", []).unwrap();
            assert_eq!(Schema::of(&old, path).unwrap().pending(), NEWEST - first);
            assert_eq!(migrate(&mut old, path).unwrap().current, first);
            assert_eq!(Schema::of(&old, path).unwrap().pending(), 0);
            assert_eq!(shape(&old), shape(&fresh), "from {first}");
            let kept: i64 =
                old.query_row("SELECT value FROM meta WHERE name = 'kept'", [], |row| row.get(0)).unwrap();
            assert_eq!(kept, 7, "from {first}");
        }
    }

    #[test]
    fn what_happened_before_there_was_a_column_for_it_has_its_tenant() {
        let path = Path::new("test.db");
        let mut old = Connection::open_in_memory().unwrap();
        migrate_to(&mut old, path, 1).unwrap();
        let keys =
            ["acme", "acme https://a.example/x", "a-2 a.example", "acme/reminders", "b/reminders https://x/"];
        for (row, name, created_at, deleted_at) in
            [(1, "acme", 1, Some(9)), (2, "acme", 10, None), (3, "a-2", 1, None), (4, "b", 1, Some(30))]
        {
            let insert = "INSERT INTO tenants (row, id, settings, sealed, revision, created_at, changed_at, deleted_at)
                 VALUES (?1, ?2, '{}', x'', 1, ?3, 1, ?4)";
            old.execute(insert, (row, name, created_at, deleted_at)).unwrap();
        }
        for (epoch, at) in [(1, 5), (2, 20)] {
            for key in keys {
                let insert = "INSERT INTO circuit_changes (key, epoch, at, change) VALUES (?1, ?2, ?3, '{}')";
                old.execute(insert, (key, epoch, at)).unwrap();
            }
        }
        migrate(&mut old, path).unwrap();
        for (key, owners) in
            keys.into_iter().zip([[None, Some(2)], [None, Some(2)], [Some(3); 2], [None, Some(2)], [None; 2]])
        {
            let question = "SELECT owner FROM circuit_changes WHERE key = ?1 ORDER BY epoch";
            let mut statement = old.prepare(question).unwrap();
            let found = statement.query_map([key], |row| row.get(0)).unwrap();
            let found: Vec<Option<i64>> = found.collect::<Result<_, _>>().unwrap();
            assert_eq!(found, owners, "{key}: of those who have the name now, and only since they have it");
        }
        let changed = old.execute("UPDATE circuit_changes SET at = 2", []).unwrap_err();
        assert!(changed.to_string().contains("append-only"), "{changed}");
    }

    #[test]
    fn a_newer_schema_and_another_programs_file_are_refused() {
        let path = Path::new("test.db");
        let mut newer = Connection::open_in_memory().unwrap();
        migrate(&mut newer, path).unwrap();
        newer.execute_batch(&format!("PRAGMA user_version = {}", NEWEST + 1)).unwrap();
        assert!(matches!(migrate(&mut newer, path), Err(OpenError::TooNew { .. })));
        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
        assert!(matches!(migrate(&mut foreign, path), Err(OpenError::Foreign { .. })));
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert!(apply(&mut connection, 1, "CREATE TABLE a (b); CREATE TABLE a (b)").is_err());
        assert_eq!(shape(&connection), []);
        assert_eq!(Schema::of(&connection, Path::new("x")).unwrap().current, 0);
    }
}
