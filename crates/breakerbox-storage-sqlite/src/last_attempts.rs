//! The latest attempt in each lane, as it is stored. The directory has all of them in memory; the table exists so that
//! they survive a restart, and is written seldom.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_model::delivery::{Fault, LastAttempt};
use breakerbox_model::objects::LaneId;
use breakerbox_storage::Directory;
use rusqlite::{Connection, Row, params};

use super::columns::{id, micros, time};

/// The age of a stored attempt at which it is replaced by a later one with the same result.
const REWRITE_AFTER: Duration = Duration::from_secs(600);

/// The maximum number of lanes in memory. Above it, the memory is cleared, and rows may be written once more than needed.
const MOST_REMEMBERED: usize = 200_000;

/// What the writer knows to be stored, so that it does not write the same again.
#[derive(Default)]
pub(super) struct StoredAttempts(HashMap<i64, LastAttempt>);

impl StoredAttempts {
    fn needs_write(&self, lane: i64, attempt: &LastAttempt) -> bool {
        self.0.get(&lane).is_none_or(|stored| {
            !stored.is_like(attempt) || attempt.started_at.since(stored.started_at) >= REWRITE_AFTER
        })
    }

    /// Stores an attempt as the latest one in its lane, if the stored one differs. Returns whether it was written.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        lane: i64,
        attempt: LastAttempt,
    ) -> rusqlite::Result<bool> {
        if !self.needs_write(lane, &attempt) {
            return Ok(false);
        }
        connection
            .prepare_cached(
                "INSERT INTO last_attempts (lane, started_at, status, fault, detail) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (lane) DO UPDATE SET started_at = excluded.started_at, status = excluded.status,
                     fault = excluded.fault, detail = excluded.detail",
            )?
            .execute(params![
                lane,
                micros(attempt.started_at),
                attempt.status,
                attempt.fault.map(Fault::name),
                attempt.detail,
            ])?;
        if self.0.len() >= MOST_REMEMBERED {
            self.0.clear();
        }
        self.0.insert(lane, attempt);
        Ok(true)
    }

    /// Deletes the stored attempt of a lane that is deleted.
    pub(super) fn delete(&mut self, connection: &Connection, lane: i64) -> rusqlite::Result<()> {
        connection.prepare_cached("DELETE FROM last_attempts WHERE lane = ?1")?.execute([lane])?;
        self.forget(lane);
        Ok(())
    }

    /// Forgets what is stored for a lane, because its row was deleted, or was not written after all.
    pub(super) fn forget(&mut self, lane: i64) {
        self.0.remove(&lane);
    }
}

/// Loads the stored attempts into the directory. Those of dynamic URLs are loaded by their circuit's key, unless their
/// tenant was deleted.
pub(super) fn load(connection: &Connection, directory: &Directory) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "SELECT a.started_at, a.status, a.fault, a.detail, a.lane, l.key
         FROM last_attempts a
             LEFT JOIN (lanes l JOIN tenants t ON t.row = l.tenant AND t.deleted_at IS NULL) ON l.id = a.lane
         ORDER BY a.started_at",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let lane = LaneId(id(row.get(4)?));
        let endpoint = directory.endpoint(lane).map(|endpoint| Arc::clone(&endpoint.circuit));
        let key: Option<Arc<str>> = row.get(5)?;
        if let Some(key) = endpoint.or(key) {
            directory.note_attempt(lane, &key, read(row, 0)?);
        }
    }
    Ok(())
}

/// Reads the four columns of an attempt, beginning with `first`: the start, the status, the fault and its detail.
pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<LastAttempt> {
    let fault = row.get_ref(first + 2)?.as_str_or_null()?.map(fault_of);
    Ok(LastAttempt {
        started_at: time(row.get(first)?),
        status: row.get(first + 1)?,
        fault,
        detail: row.get(first + 3)?,
    })
}

/// Returns the fault with this name. A fault that only a newer version knows is shown as the most general one.
pub(super) fn fault_of(name: &str) -> Fault {
    Fault::ALL.into_iter().find(|fault| fault.name() == name).unwrap_or(Fault::Protocol)
}

#[cfg(test)]
mod tests {
    use breakerbox_core::Timestamp;

    use super::*;

    fn attempt(second: u64, status: u16) -> LastAttempt {
        LastAttempt {
            started_at: Timestamp::from_micros(second * 1_000_000),
            status: Some(status),
            fault: None,
            detail: None,
        }
    }

    #[test]
    fn a_row_is_written_if_the_result_changes_or_the_row_is_old() {
        let connection = crate::migrations::in_memory();
        let mut stored = StoredAttempts::default();
        let table = [
            (attempt(1_000, 200), true),
            (attempt(1_001, 200), false),
            (attempt(1_599, 200), false),
            (attempt(1_600, 200), true),
            (attempt(1_601, 503), true),
            (attempt(1_602, 503), false),
            (attempt(1_603, 200), true),
        ];
        for (attempt, expected) in table {
            assert_eq!(stored.write(&connection, 7, attempt.clone()).unwrap(), expected, "{attempt:?}");
        }
        let kept = || connection.query_row("SELECT started_at FROM last_attempts", [], |row| row.get(0));
        assert_eq!(kept(), Ok(1_603_000_000_i64), "one row for each lane");
        // After a rollback, the row has to be written again.
        stored.forget(7);
        assert!(stored.write(&connection, 7, attempt(1_604, 200)).unwrap());
        stored.delete(&connection, 7).unwrap();
        assert_eq!(kept(), Err(rusqlite::Error::QueryReturnedNoRows));
    }
}
