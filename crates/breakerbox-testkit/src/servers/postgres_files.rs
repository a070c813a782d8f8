//! The files that private Postgres servers need: the programs, the user that runs them, and a data directory to
//! copy.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{env, fs, io};

use tempfile::TempDir;

use super::process::ServerError;

/// The environment variable that names the directory with the Postgres programs to use.
const PROGRAMS: &str = "BREAKERBOX_POSTGRES_BIN";

/// The directory in which Debian installs the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The name of the superuser and of the default database on every server.
pub(super) const USER: &str = "postgres";

/// The Postgres programs, and the user that runs them.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: Option<PathBuf>,
    /// The user and group ID to run the programs as, if the tests run as root. `None` if the programs run as
    /// the tests' own user.
    user: Option<(u32, u32)>,
}

impl Programs {
    fn find() -> Result<Self, ServerError> {
        let folder = env::var_os(PROGRAMS).map(PathBuf::from).or_else(newest);
        let user = if rustix::process::geteuid().is_root() { Some(unprivileged()?) } else { None };
        Ok(Self { folder, user })
    }

    /// Returns the command for one of the programs. If the tests run as root, the command runs as another user.
    pub(super) fn command(&self, program: &str) -> Command {
        let path = self.folder.as_ref().map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        self.owned(Command::new(path))
    }

    fn owned(&self, mut command: Command) -> Command {
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // Remove the caller's own `PG...` variables, which would point the programs to other servers.
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command
    }

    /// Makes the user that runs the programs the owner of a file or directory.
    pub(super) fn give(&self, path: &Path) -> io::Result<()> {
        self.user.map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
    }

    fn folder(&self) -> io::Result<TempDir> {
        let folder = TempDir::with_prefix("breakerbox-postgres-")?;
        self.give(folder.path())?;
        Ok(folder)
    }
}

/// A data directory without a running server, from which copies are made. The template is removed with the last
/// server that uses a copy.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) programs: Programs,
    folder: TempDir,
}

impl Template {
    /// Returns this process's template, which is created on first use.
    pub(super) fn shared() -> Result<Arc<Self>, ServerError> {
        static SHARED: Mutex<Weak<Template>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = shared.upgrade() {
            return Ok(template);
        }
        let programs = Programs::find()?;
        let folder = programs.folder()?;
        let mut initdb = programs.command("initdb");
        initdb.args(["--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        run(initdb.args(["--username", USER, "--pgdata"]).arg(folder.path().join("data")))?;
        let template = Arc::new(Self { programs, folder });
        *shared = Arc::downgrade(&template);
        Ok(template)
    }

    /// Returns a new directory that contains a copy of the data directory.
    pub(super) fn copy(&self) -> Result<TempDir, ServerError> {
        let folder = self.programs.folder()?;
        let mut copy = self.programs.owned(Command::new("cp"));
        run(copy.arg("-Rp").arg(self.folder.path().join("data")).arg(folder.path()))?;
        Ok(folder)
    }
}

/// Runs a program until it exits, and returns its output.
pub(super) fn run(command: &mut Command) -> Result<String, ServerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ServerError::Missing { program: program.clone(), package: "postgresql" },
        _ => error.into(),
    })?;
    if !output.status.success() {
        let sent = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{program}: {}: {}", output.status, sent.trim())).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Returns the directory with the newest version's programs, or `None` if no version is installed in
/// [`VERSIONS`]. The programs are then searched in `PATH`.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.flatten();
    let programs = versions.filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        let folder = version.path().join("bin");
        folder.join("initdb").is_file().then_some((number, folder))
    });
    programs.max().map(|(_, folder)| folder)
}

/// Returns the user and group ID of a user that is not root.
fn unprivileged() -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let of = |wanted: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    of(USER).or_else(|| of("nobody")).ok_or_else(|| io::Error::other("there is no user but root"))
}
