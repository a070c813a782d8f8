//! Checks that the open files are still those at their paths. A deleted or replaced file can still be written to, but
//! the writes are lost at the next restart, so nothing may be accepted.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The database's files, with their identities at the time when they were opened.
#[derive(Debug)]
pub(super) struct OpenFiles(Vec<(PathBuf, Identity)>);

/// A file's device and inode.
type Identity = (u64, u64);

impl OpenFiles {
    /// Returns the files of a database that is open and has been written to.
    pub(super) fn of(database: &Path) -> std::io::Result<Self> {
        let files = ["", "-wal", "-shm"].map(|suffix| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            let path = PathBuf::from(path);
            identity(&path).map(|identity| (path, identity))
        });
        files.into_iter().collect::<Result<_, _>>().map(Self)
    }

    /// Returns the first file that was deleted or replaced, if any.
    pub(super) fn missing(&self) -> Option<&Path> {
        let is_missing = |(path, was): &&(PathBuf, Identity)| !identity(path).is_ok_and(|is| is == *was);
        self.0.iter().find(is_missing).map(|(path, _)| path.as_path())
    }
}

fn identity(path: &Path) -> std::io::Result<Identity> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
