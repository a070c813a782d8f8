//! Keeps the write-ahead log short. A separate thread copies the log into the database and syncs the file, while the
//! writer continues. Between two transactions, the writer copies the few pages that were written in the meantime:
//! only then can the log be reset.
//!
//! SQLite syncs the database only at the end of a complete checkpoint, which under load is the writer's. Without the
//! thread's own sync, the writer and all callers would wait until all pages are synced.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

/// The number of log pages at which a checkpoint begins. The number is low because the writer's own syncs are
/// slower while the checkpoint's pages are synced.
const PAGES: i64 = 2_000;
/// The number of remaining log pages at which the checkpoint thread stops. The writer copies these pages.
const LITTLE: i64 = 200;
/// The maximum number of times that the checkpoint thread copies pages in one checkpoint. The writer copies
/// those that are still left.
const ROUNDS: u32 = 4;

pub(super) struct Checkpoints {
    /// The channel on which the writer asks the checkpoint thread to start.
    ask: mpsc::SyncSender<()>,
    /// Set by the checkpoint thread when it is done, so that the writer copies the remaining pages.
    copied: Arc<AtomicBool>,
    asked: bool,
}

impl Checkpoints {
    /// Starts the checkpoint thread. `file` is the database file, which the thread syncs. It must stay open
    /// as long as any connection to the database.
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

    /// Starts or completes a checkpoint, if needed. The writer calls it between two transactions.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        if self.asked {
            if self.copied.swap(false, Ordering::Acquire) {
                self.asked = false;
                // If the rest can't be copied now, the next checkpoint will copy it.
                copy_and_warn(connection);
            }
        } else if pages(connection) >= PAGES {
            self.asked = self.ask.try_send(()).is_ok();
        }
    }

    /// Runs a last checkpoint, so that the next startup has nothing to recover.
    pub(super) fn at_the_end(&mut self, connection: &Connection) {
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// Copies log pages to the database file and syncs it, until few pages are left. Errors are only logged,
/// because the writer's own checkpoint also syncs.
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

/// Returns the number of pages in the log that are not copied yet.
fn pages(connection: &Connection) -> i64 {
    let pages = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").and_then(|mut statement| {
        statement.query_row([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
    });
    pages.unwrap_or(0)
}
