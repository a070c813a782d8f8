//! Key files that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::SecretsError;

/// The maximum size of a key file, in bytes.
const LARGEST_FILE: u64 = 64 * 1024;

/// Reads an opened file. Its mode is that of the opened file, so that no other file can be put in its place in between.
///
/// # Errors
/// If it is not a file, other users can read it, or reading fails.
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

/// Creates a file that does not exist yet, and makes it durable. It is written beside its final path and then linked
/// there, so an interrupted start leaves no partial key.
///
/// # Errors
/// If the file exists, or writing fails.
pub fn make(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A link fails if the file exists by now; a rename would replace it.
    let placed = written.and_then(|()| fs::hard_link(&beside, path));
    fs::remove_file(&beside)?;
    placed?;
    File::open(folder)?.sync_all()
}
