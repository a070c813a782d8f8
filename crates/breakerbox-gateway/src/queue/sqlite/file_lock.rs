//! One process for each file: what the writer knows by heart would be wrong if another process wrote too.
//!
//! The lock is on a file beside the database, so that it is there before the database is. It goes with the process,
//! however that ends. It says who holds it, for the error message, and nothing is ever decided by that.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::OpenError;

/// The lock, as long as it lives.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock of a database.
    pub(super) fn of(database: &Path) -> Result<Self, OpenError> {
        let path = beside(database);
        let failed = |error| OpenError::File { path: path.clone(), error };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let holder = if holder.is_empty() { "(unknown)" } else { holder };
                return Err(OpenError::InUse { path: database.to_owned(), holder: holder.to_owned() });
            }
            Err(error) => return Err(failed(error.into())),
        }
        // Only for people: a lock that does not say who holds it is a lock all the same.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
