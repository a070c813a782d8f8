//! One process for each data folder: the writer's state in memory would be wrong if another process wrote too.
//!
//! Two locks, both released with the process, however it ends. The one on the folder itself can't be deleted together
//! with a file. The one on the file beside the database keeps out versions that know no other, and works where folders
//! can't be locked (network file systems). The file names the process that holds it, for the error message; nothing is
//! ever decided by that.
//!
//! Neither is a lock on the database file: closing any descriptor of that file would release the locks that SQLite has
//! on it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::OpenError;

/// The locks, released when it is dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _folder: Option<File>,
    _file: File,
}

impl FileLock {
    /// Takes the locks of a database in this folder.
    pub(super) fn of(database: &Path, folder: &Path) -> Result<Self, OpenError> {
        let path = beside(database);
        let in_use = || OpenError::InUse { path: database.to_owned(), holder: holder(&path) };
        let opened = |path: &Path, error| OpenError::File { path: path.to_owned(), error };
        let folder_file = File::open(folder).map_err(|error| opened(folder, error))?;
        let folder_file = match folder_file.try_lock() {
            Ok(()) => Some(folder_file),
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(folder = %folder.display(), %error, "can't lock the data folder; only the lock file excludes other processes");
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
        // Only for people: the lock is valid even without the id of its holder.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _folder: folder_file, _file: file })
    }
}

/// Returns the process that holds the lock, as the lock file states it.
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
