//! Files that appear whole or not at all.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::Failure;

/// A file that takes its name only when it is complete. Created early, so that a folder that can't be written to is
/// found before the work and not after it.
pub(super) struct Replacement {
    path: PathBuf,
    target: Target,
}

enum Target {
    /// Written beside the real one, then renamed.
    Beside(NamedTempFile),
    /// A device or a pipe: there is nothing to rename.
    Direct(File),
}

impl Replacement {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        Self::try_create(path).map_err(|error| failed(path, &error))
    }

    /// Writes the whole file and gives it its name.
    pub(super) fn write_whole(
        mut self,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let file = match &mut self.target {
            Target::Beside(file) => file.as_file_mut(),
            Target::Direct(file) => file,
        };
        let written = write(file).and_then(|()| match self.target {
            Target::Beside(file) => file.persist(&self.path).map(drop).map_err(|error| error.error),
            Target::Direct(_) => Ok(()),
        });
        written.map_err(|error| failed(&self.path, &error))
    }

    fn try_create(path: &Path) -> io::Result<Self> {
        let special = path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
        let target = if special {
            Target::Direct(File::options().write(true).open(path)?)
        } else {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let mut builder = tempfile::Builder::new();
            builder.prefix(".breakerbox-");
            readable_by_others(&mut builder);
            Target::Beside(builder.tempfile_in(folder.unwrap_or(Path::new(".")))?)
        };
        Ok(Self { path: path.into(), target })
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Environment(format!("can't write {}: {error}", path.display()))
}

/// A report is not secret: it gets the rights that any new file gets.
#[cfg(unix)]
fn readable_by_others(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable_by_others(_: &mut tempfile::Builder<'_, '_>) {}
