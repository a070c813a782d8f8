//! Key files that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::SecretsError;

/// The maximum size of a key file, in bytes.
const LARGEST_FILE: u64 = 64 * 1024;

/// Reads an opened key file. The mode is checked on the open file, so that the file can't be replaced between check
/// and read.
///
/// # Errors
/// Returns an error if the path is not a regular file, other users can read the file, or reading fails.
pub fn read(file: File, path: &Path) -> Result<String, SecretsError> {
    let failed = |error| SecretsError::File { path: path.to_owned(), error };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(SecretsError::NotAFile { path: path.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretsError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(LARGEST_FILE).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Creates a new key file durably. It is written to a temporary file in the same directory and then linked, so an
/// interrupted startup leaves no partial key.
///
/// # Errors
/// Returns an error if the file exists or writing fails.
pub fn make(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A link fails if the file exists by now, whereas a rename would replace it.
    let placed = written.and_then(|()| fs::hard_link(&beside, path));
    fs::remove_file(&beside)?;
    placed?;
    File::open(folder)?.sync_all()
}
