//! The source of master keys: an environment variable, or a file that only its owner can read. Both contain one or
//! more keys, newest first, separated by whitespace; in a file, `#` begins a comment.
//!
//! At the first startup, a file with one new key is created. A file that is missing later is not created again,
//! because otherwise the loss of all secrets sealed with its key would go unnoticed until the next delivery.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{Keyring, MasterKey, SecretsError, private_file};

/// The environment variable that may contain the keys.
pub const KEY_VARIABLE: &str = "BREAKERBOX_MASTER_KEY";

/// The source of the master keys.
#[derive(Clone)]
pub enum KeySource {
    /// The keys themselves, from the environment variable [`KEY_VARIABLE`].
    Variable(String),
    /// A file that only its owner can read.
    File(PathBuf),
}

impl KeySource {
    /// Returns the key file in a data directory: `keys/master.key`.
    #[must_use]
    pub fn in_folder(data: &Path) -> Self {
        Self::File(data.join("keys").join("master.key"))
    }

    /// Reads the keys. A missing file is created, unless the database already contains sealed values.
    ///
    /// # Errors
    /// Returns an error if there is no usable key, or other users can read the file.
    pub fn keyring(&self, anything_sealed: bool) -> Result<Keyring, SecretsError> {
        let (place, text) = match self {
            Self::Variable(value) => (KEY_VARIABLE.to_owned(), value.clone()),
            Self::File(path) => (path.display().to_string(), read_or_make(path, anything_sealed)?),
        };
        let words = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = words.flat_map(str::split_whitespace).enumerate();
        let key = |(index, word)| {
            let malformed = || SecretsError::Malformed { place: place.clone(), number: index + 1 };
            MasterKey::from_base64(word).ok_or_else(malformed)
        };
        let keys = words.map(key).collect::<Result<Vec<_>, _>>()?;
        Keyring::newest_first(&keys).ok_or(SecretsError::NoKey { place })
    }
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(_) => f.write_str("Variable(hidden)"),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

fn read_or_make(path: &Path, anything_sealed: bool) -> Result<String, SecretsError> {
    match File::open(path) {
        Ok(file) => private_file::read(file, path),
        Err(error) if error.kind() == ErrorKind::NotFound && anything_sealed => {
            Err(SecretsError::FileMissing { path: path.to_owned() })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(path).map_err(|error| SecretsError::File { path: path.to_owned(), error })
        }
        Err(error) => Err(SecretsError::File { path: path.to_owned(), error }),
    }
}

fn make(path: &Path) -> io::Result<String> {
    let text = format!(
        "# The master key of this gateway: it opens every secret in the database. Keep a copy apart from the database's.\n{}\n",
        MasterKey::random().reveal()
    );
    private_file::make(path, &text).map(|()| text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn written(folder: &Path, mode: u32, text: &str) -> KeySource {
        let path = folder.join("master.key");
        let _ = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        KeySource::File(path)
    }

    #[test]
    fn the_first_start_makes_a_file_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let source = KeySource::in_folder(folder.path());
        let made = source.keyring(false).unwrap();
        assert_eq!(source.keyring(true).unwrap().newest(), made.newest(), "the next start finds it");
        let mode = |path: &str| fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("keys"), mode("keys/master.key")), (0o700, 0o600));
        let left = fs::read_dir(folder.path().join("keys")).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    #[test]
    fn a_key_file_that_is_gone_is_not_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let refused = KeySource::in_folder(folder.path()).keyring(true);
        assert!(matches!(refused, Err(SecretsError::FileMissing { .. })), "{refused:?}");
        assert!(!folder.path().join("keys").exists());
    }

    #[test]
    fn files_that_others_can_use_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::random().reveal();
        for (mode, is_refused) in
            [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, true), (0o666, true)]
        {
            let found = written(folder.path(), mode, &key).keyring(true);
            assert_eq!(matches!(found, Err(SecretsError::Exposed { .. })), is_refused, "{mode:o} {found:?}");
            assert_eq!(found.is_ok(), !is_refused);
        }
        let link = folder.path().join("link");
        symlink(folder.path(), &link).unwrap();
        assert!(matches!(KeySource::File(link).keyring(true), Err(SecretsError::NotAFile { .. })));
    }

    #[test]
    fn several_keys_and_remarks_are_read_the_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (MasterKey::random(), MasterKey::random());
        let text = format!("# since May\n{} # new\n\n  {}\n", new.reveal(), old.reveal());
        let keyring = written(folder.path(), 0o600, &text).keyring(true).unwrap();
        assert_eq!(keyring.newest(), new.id());
        let variable = KeySource::Variable(format!("{} {}", new.reveal(), old.reveal()));
        for keyring in [keyring, variable.keyring(true).unwrap()] {
            assert_eq!(format!("{keyring:?}"), format!("[{:?}, {:?}]", new.id(), old.id()));
        }
        assert!(!format!("{variable:?}").contains(&new.reveal()));
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::random().reveal();
        for (text, message) in [
            ("", "contains no master key"),
            ("# nothing", "contains no master key"),
            ("c2hvcnQ=", "key 1 is not a master key"),
            (&format!("{key} {}", &key[1..]), "key 2 is not a master key"),
        ] {
            for source in
                [written(folder.path(), 0o600, text), KeySource::Variable(text.replace("# nothing", ""))]
            {
                let error = source.keyring(true).unwrap_err().to_string();
                assert!(error.contains(message) && !error.contains("c2hvcnQ"), "{text}: {error}");
                assert!(!error.contains(&key), "{error}");
            }
        }
    }
}
