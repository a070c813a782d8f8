//! Keeps the write-ahead log short. A thread of its own copies the log into the database and syncs the file, beside the
//! writer. The writer copies the few pages that were written meanwhile, between two transactions: only then can the log
//! restart at its beginning.
//!
//! SQLite syncs the database only at the end of a whole copy, which under load is the writer's. Without the thread's
//! own sync the writer, and all callers with it, would wait for all pages.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

/// The number of pages in the log from which on it is copied. It is low, because the writer's own syncs take longer
/// while these are synced.
const PAGES: i64 = 2_000;
/// The number of pages that are few enough for the writer.
const LITTLE: i64 = 200;
/// The maximum number of copies by the thread before it leaves the rest to the writer, however much that is.
const ROUNDS: u32 = 4;

pub(super) struct Checkpoints {
    /// Requests a copy from the thread.
    ask: mpsc::SyncSender<()>,
    /// Set when the thread has copied; the writer copies the rest.
    copied: Arc<AtomicBool>,
    asked: bool,
}

impl Checkpoints {
    /// Starts the thread. `file` is the database; it must stay open for as long as any connection.
    pub(super) fn start(path: &Path, file: Arc<File>) -> rusqlite::Result<(Self, Option<JoinHandle<()>>)> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;",
        )?;
        let (ask, asked) = mpsc::sync_channel::<()>(1);
        let copied = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&copied);
        let thread = thread::Builder::new().name("queue-checkpoint".to_owned()).spawn(move || {
            while asked.recv().is_ok() {
                copy_most(&connection, &file);
                done.store(true, Ordering::Release);
            }
            drop(connection);
            drop(file);
        });
        Ok((Self { ask, copied, asked: false }, thread.ok()))
    }

    /// Maintains the log, between two transactions of the writer.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        if self.asked {
            if self.copied.swap(false, Ordering::Acquire) {
                self.asked = false;
                // If the rest can't be copied now, the next checkpoint copies it.
                copy_and_warn(connection);
            }
        } else if pages(connection) >= PAGES {
            self.asked = self.ask.try_send(()).is_ok();
        }
    }

    /// Makes the last copy, so that the next start has nothing to recover.
    pub(super) fn at_the_end(&mut self, connection: &Connection) {
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// Copies and syncs until few pages are left. An error is no loss: the writer's own copy syncs too.
fn copy_most(connection: &Connection, file: &File) {
    for _ in 0..ROUNDS {
        copy_and_warn(connection);
        if let Err(error) = file.sync_data() {
            tracing::warn!(%error, "can't sync the database file");
        }
        if pages(connection) <= LITTLE {
            return;
        }
    }
}

fn copy_and_warn(connection: &Connection) {
    if let Err(error) = copy(connection) {
        tracing::warn!(%error, "can't checkpoint the write-ahead log");
    }
}

fn copy(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], |_| Ok(()))
}

/// Returns how many pages of the log are not copied yet.
fn pages(connection: &Connection) -> i64 {
    let pages = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").and_then(|mut statement| {
        statement.query_row([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
    });
    pages.unwrap_or(0)
}
