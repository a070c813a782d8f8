//! Report files, which a command writes at its end. A file is written only once the report is complete. A path that
//! can't be written to is reported before the work starts, not after.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::Failure;

/// The destination of a report: a file, or standard output.
#[derive(Debug)]
pub(super) enum ReportFile {
    StandardOutput,
    File(PathBuf),
}

impl ReportFile {
    /// Creates a report destination from a path, or "-" for standard output, and checks that it can be written to.
    pub(super) fn at(path: &Path) -> Result<Self, Failure> {
        // Opening a redirected standard output by its name would overwrite it from the beginning.
        if path == Path::new("-") || path == Path::new("/dev/stdout") {
            return Ok(Self::StandardOutput);
        }
        try_writing(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File(path.into()))
    }

    /// Returns whether the report goes to this file.
    pub(super) fn is_same_as(&self, path: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.into());
        matches!(self, Self::File(own) if real(own) == real(path))
    }

    pub(super) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        match self {
            Self::StandardOutput => {
                write(&mut io::stdout().lock()).map_err(|error| super::output_failed(&error))
            }
            Self::File(path) => File::create(path)
                .and_then(|mut file| write(&mut file))
                .map_err(|error| cannot_write(path, &error)),
        }
    }
}

/// Checks that a path can be written to, without changing anything.
fn try_writing(path: &Path) -> io::Result<()> {
    match File::options().write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            File::options().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
        opened => opened.map(drop),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Environment(format!("can't write {}: {error}", path.display()))
}
