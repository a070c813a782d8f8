//! Ensures that only one process uses a data directory, because the writer's state in memory would be wrong if
//! another process also wrote.
//!
//! There are two locks, and both are released when the process ends, in whatever way. The lock on the directory can't
//! be deleted together with a file. The lock on a file next to the database keeps out older versions that know no
//! other lock, and works where directories can't be locked (network file systems). That file contains the id of the
//! process that holds it, for error messages only.
//!
//! Neither lock is on the database file: closing any descriptor of that file would release SQLite's locks on it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::OpenError;

/// The locks on a data directory, which are released on drop.
#[derive(Debug)]
pub(super) struct FileLock {
    _folder: Option<File>,
    _file: File,
}

impl FileLock {
    /// Locks the data directory `folder`, so that no other process opens the database in it.
    pub(super) fn of(database: &Path, folder: &Path) -> Result<Self, OpenError> {
        let path = beside(database);
        let in_use = || OpenError::InUse { path: database.to_owned(), holder: holder(&path) };
        let opened = |path: &Path, error| OpenError::File { path: path.to_owned(), error };
        let folder_file = File::open(folder).map_err(|error| opened(folder, error))?;
        let folder_file = match folder_file.try_lock() {
            Ok(()) => Some(folder_file),
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(directory = %folder.display(), %error, "can't lock the data directory; only the lock file excludes other processes");
                None
            }
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| opened(&path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => return Err(opened(&path, error)),
        }
        // For error messages only: the lock is valid even without its holder's id.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _folder: folder_file, _file: file })
    }
}

/// Returns the id of the process that holds the lock, according to the lock file.
fn holder(path: &Path) -> String {
    let holder = std::fs::read_to_string(path).unwrap_or_default();
    let holder = holder.trim();
    if holder.is_empty() { "(unknown)".to_owned() } else { holder.to_owned() }
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
