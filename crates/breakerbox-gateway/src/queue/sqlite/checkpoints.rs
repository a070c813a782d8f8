//! Keeps the write-ahead log short. Copying it into the database takes long and syncs, so a thread of its own does most of
//! that beside the writer. What was written meanwhile is little; the writer copies that itself, between two transactions, and
//! only then can the log begin again at its start.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

/// From so many pages on the log is copied.
const PAGES: i64 = 4_000;

pub(super) struct Checkpoints {
    /// Asks the thread for a copy.
    ask: mpsc::SyncSender<()>,
    /// The thread has copied; the rest is the writer's.
    copied: Arc<AtomicBool>,
    asked: bool,
}

impl Checkpoints {
    /// Starts the thread.
    pub(super) fn start(path: &Path) -> rusqlite::Result<(Self, Option<JoinHandle<()>>)> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;",
        )?;
        let (ask, asked) = mpsc::sync_channel::<()>(1);
        let copied = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&copied);
        let thread = thread::Builder::new().name("queue-checkpoint".to_owned()).spawn(move || {
            while asked.recv().is_ok() {
                if let Err(error) = copy(&connection) {
                    tracing::warn!(%error, "the write-ahead log can't be copied");
                }
                done.store(true, Ordering::Release);
            }
        });
        Ok((Self { ask, copied, asked: false }, thread.ok()))
    }

    /// Looks after the log, between two transactions of the writer.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        if self.asked {
            if self.copied.swap(false, Ordering::Acquire) {
                self.asked = false;
                // Little is left. Whatever keeps it from being copied, the next round finds it.
                if let Err(error) = copy(connection) {
                    tracing::warn!(%error, "the write-ahead log can't be copied");
                }
            }
        } else if pages(connection) >= PAGES {
            self.asked = self.ask.try_send(()).is_ok();
        }
    }

    /// The last copy, so that the next start has nothing to recover.
    pub(super) fn at_the_end(&mut self, connection: &Connection) {
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

fn copy(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], |_| Ok(()))
}

/// How many pages of the log are not copied yet.
fn pages(connection: &Connection) -> i64 {
    let pages = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").and_then(|mut statement| {
        statement.query_row([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
    });
    pages.unwrap_or(0)
}
