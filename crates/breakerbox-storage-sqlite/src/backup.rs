//! Copies a database while it is in use, and restores a copy.
//!
//! A backup reads one snapshot through its own connection: the data that was committed when it began. It never waits
//! for the gateway, nor the gateway for it. Until it ends, the write-ahead log can't be reset, so it grows with all
//! writes in the meantime. The copy is a single file, without a log.
//!
//! Both operations write a temporary file in the target's directory, check it, sync it and then rename it: a file
//! with the final name is always complete. A restore holds the data directory's locks, so it fails while a gateway is
//! running.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::database::{file_of, folder_of};
use super::error::OpenError;
use super::file_lock::FileLock;
use super::migrations::Schema;

/// The interval at which a copy's progress is reported.
const LOOK: Duration = Duration::from_millis(100);

/// The progress of a backup or a restore, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyProgress {
    /// The copy is being checked.
    Checking,
    /// The file is being copied.
    Copying {
        /// The number of bytes copied so far.
        done: u64,
        /// The approximate total number of bytes.
        total: u64,
    },
}

/// A finished copy of a database, with the facts found by checking it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatabaseCopy {
    /// The path of the copy.
    pub path: PathBuf,
    /// The size of the copy, in bytes.
    pub bytes: u64,
    /// The number of the last migration applied to the copy.
    pub schema: u32,
    /// The number of tenants in the copy.
    pub tenants: u64,
    /// The number of endpoints in the copy.
    pub endpoints: u64,
    /// The number of unfinished deliveries in the copy.
    pub unfinished: u64,
}

/// Why a backup or a restore failed. Existing files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source file does not exist.
    #[error("{}: the file does not exist", .0.display())]
    Missing(PathBuf),
    /// The target file already exists.
    #[error("{} already exists; choose another file, or use --overwrite", .0.display())]
    Exists(PathBuf),
    /// The source and the target are the same file.
    #[error("{} is the database itself; choose another file", .0.display())]
    Same(PathBuf),
    /// Another process is writing the same copy.
    #[error("{} is being written by another process; wait for it, or choose another file", .0.display())]
    Busy(PathBuf),
    /// The database file is damaged.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The path of the damaged file.
        path: PathBuf,
        /// The problem reported by SQLite.
        problem: String,
    },
    /// The file can't be opened: a gateway is running, or the file is not a gateway's database.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file can't be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The underlying I/O error.
        error: std::io::Error,
    },
    /// SQLite can't read or write the file.
    #[error("{}: {error}", path.display())]
    Database {
        /// The path of the file.
        path: PathBuf,
        /// The error returned by SQLite.
        error: rusqlite::Error,
    },
}

/// Copies the database in a data directory into a file. A gateway may be using the database.
///
/// # Errors
/// Returns an error if there is no database, the target exists and may not be overwritten, or the copy fails.
pub fn backup(
    data: &Path,
    target: &Path,
    overwrite: bool,
    progress: &(dyn Fn(CopyProgress) + Sync),
) -> Result<DatabaseCopy, CopyError> {
    let source = file_of(data);
    let found = metadata(&source)?.ok_or_else(|| CopyError::Missing(source.clone()))?;
    if let Some(there) = metadata(target)? {
        if (there.dev(), there.ino()) == (found.dev(), found.ino()) {
            return Err(CopyError::Same(target.to_owned()));
        }
        if !overwrite || there.is_dir() {
            return Err(CopyError::Exists(target.to_owned()));
        }
    }
    let partial = Partial::beside(target, ".partial")?;
    copy(&source, &partial.path, progress)?;
    progress(CopyProgress::Checking);
    let copy = check(&partial.path)?;
    partial.become_file(target)?;
    Ok(DatabaseCopy { path: target.to_owned(), ..copy })
}

/// Restores a backup into the data directory of a stopped gateway.
///
/// # Errors
/// Returns an error if a gateway is running, the backup is damaged or not a gateway's, a database exists and may not
/// be overwritten, or the copy fails.
pub fn restore(
    backup: &Path,
    data: &Path,
    overwrite: bool,
    progress: &(dyn Fn(CopyProgress) + Sync),
) -> Result<DatabaseCopy, CopyError> {
    let found = metadata(backup)?.ok_or_else(|| CopyError::Missing(backup.to_owned()))?;
    progress(CopyProgress::Checking);
    check(backup)?;
    fs::create_dir_all(data).map_err(|error| CopyError::File { path: data.to_owned(), error })?;
    let target = file_of(data);
    // Locked before any file is read, so that the files of a running gateway are not touched.
    let _lock = FileLock::of(&target, folder_of(&target))?;
    if let Some(there) = metadata(&target)? {
        if (there.dev(), there.ino()) == (found.dev(), found.ino()) {
            return Err(CopyError::Same(target));
        }
        if !overwrite {
            return Err(CopyError::Exists(target));
        }
    }
    let partial = Partial::beside(&target, ".restoring")?;
    copy(backup, &partial.path, progress)?;
    progress(CopyProgress::Checking);
    let copy = check(&partial.path)?;
    settle_old(&target)?;
    partial.become_file(&target)?;
    Ok(DatabaseCopy { path: target, ..copy })
}

/// An unfinished copy, whose file is removed on drop unless [`become_file`](Self::become_file) was called.
struct Partial {
    path: PathBuf,
    file: Option<File>,
}

impl Partial {
    /// Creates an empty file in the target's directory that only its owner can read. A file left by an earlier
    /// attempt is reused.
    fn beside(target: &Path, suffix: &str) -> Result<Self, CopyError> {
        let path = with_suffix(target, suffix);
        let failed = |error| CopyError::File { path: path.clone(), error };
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CopyError::Busy(path)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        Ok(Self { path, file: Some(file) })
    }

    /// Makes the copy durable, and replaces the target with it.
    fn become_file(mut self, target: &Path) -> Result<(), CopyError> {
        let failed = |error| CopyError::File { path: target.to_owned(), error };
        if let Some(file) = &self.file {
            file.sync_all().map_err(failed)?;
        }
        fs::rename(&self.path, target).map_err(failed)?;
        self.file = None;
        File::open(folder_of(target)).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Prepares a database to be replaced. Its write-ahead log must not be applied to the new database, so the log is
/// merged into the old one or, if that fails, removed.
fn settle_old(path: &Path) -> Result<(), CopyError> {
    if path.exists() {
        let settled = Connection::open(path)
            .and_then(|old| old.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        if let Err(error) = settled {
            tracing::warn!(file = %path.display(), %error, "can't read the database that is being replaced");
        }
    }
    for suffix in ["-wal", "-shm", "-journal"] {
        let path = with_suffix(path, suffix);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CopyError::File { path, error });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Copies one snapshot. Meanwhile, a thread reports the size of the copy.
fn copy(source: &Path, target: &Path, progress: &(dyn Fn(CopyProgress) + Sync)) -> Result<(), CopyError> {
    let name = target.to_str().ok_or_else(|| {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "its path is not UTF-8");
        CopyError::File { path: target.to_owned(), error }
    })?;
    let connection = open(source)?;
    let failed = |error| CopyError::Database { path: source.to_owned(), error };
    let total = used_bytes(&connection).map_err(failed)?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                let done = fs::metadata(target).map_or(0, |found| found.len()).min(total);
                progress(CopyProgress::Copying { done, total });
                thread::park_timeout(LOOK);
            }
        });
        let copied = connection.execute("VACUUM INTO ?1", [name]);
        ended.store(true, Ordering::Release);
        watcher.thread().unpark();
        copied
    })
    .map(drop)
    .map_err(failed)
}

/// Returns the total size of the database pages in use, in bytes.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    Ok(u64::try_from(pages.saturating_mul(number("page_size")?)).unwrap_or(0))
}

/// Reads a whole database, checks that it is intact and belongs to a gateway, and counts its content.
fn check(path: &Path) -> Result<DatabaseCopy, CopyError> {
    let connection = open(path)?;
    let schema = Schema::of(&connection, path)?;
    if schema.current == 0 {
        return Err(OpenError::Foreign { path: path.to_owned() }.into());
    }
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            CopyError::Damaged { path: path.to_owned(), problem: error.to_string() }
        }
        _ => CopyError::Database { path: path.to_owned(), error },
    };
    let problem: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if problem != "ok" {
        return Err(CopyError::Damaged { path: path.to_owned(), problem });
    }
    let count = |sql: &str| {
        let count = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        count.map(|count| u64::try_from(count).unwrap_or(0)).map_err(failed)
    };
    Ok(DatabaseCopy {
        path: path.to_owned(),
        bytes: fs::metadata(path).map_err(|error| CopyError::File { path: path.to_owned(), error })?.len(),
        schema: schema.current,
        tenants: count("SELECT count(*) FROM tenants WHERE deleted_at IS NULL")?,
        endpoints: count("SELECT count(*) FROM endpoints")?,
        unfinished: count("SELECT coalesce(sum(count), 0) FROM backlogs")?,
    })
}

fn open(path: &Path) -> Result<Connection, CopyError> {
    let failed = |error| CopyError::Database { path: path.to_owned(), error };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.execute_batch("PRAGMA busy_timeout = 10000; PRAGMA cache_size = -65536;").map_err(failed)?;
    Ok(connection)
}

fn metadata(path: &Path) -> Result<Option<fs::Metadata>, CopyError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CopyError::File { path: path.to_owned(), error }),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
