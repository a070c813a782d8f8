//! Shared parts of all private servers: a child process that is always stopped, a free port, and waiting for a
//! condition with a timeout.
//!
//! All functions here block for some tens of milliseconds, and use the real clock, so tests in virtual time can
//! use them too. They never end a process that they did not start.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The maximum time that a server may take to become ready.
pub const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// The maximum number of characters from the end of a log in an error.
const LOG_SHOWN: usize = 2_000;

/// The reason why a private server did not start or respond.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not installed.
    #[error(
        "{program} is not installed; run `cargo xtask test`, which installs it, or `apt-get install {package}`"
    )]
    Missing {
        /// The name of the program.
        program: String,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    /// The program exited, or was not ready in time.
    #[error("{program} is not ready: {reason}\n{log}")]
    NotReady {
        /// The name of the program.
        program: String,
        /// The result of the last check.
        reason: String,
        /// The end of the program's output.
        log: String,
    },
    /// A file, port or process could not be created.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A child process. It is killed when the value is dropped, even by a test that panics.
#[derive(Debug)]
pub struct Process {
    child: Child,
    program: String,
    log: PathBuf,
}

impl Process {
    /// Runs a program and appends its output to a file.
    ///
    /// # Errors
    /// Returns an error if the program is missing or can't be run.
    pub fn start(command: &mut Command, package: &'static str, log: &Path) -> Result<Self, ServerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        match command.spawn() {
            Ok(child) => Ok(Self { child, program, log: log.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ServerError::Missing { program, package })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended, or `None` if it is still running.
    ///
    /// # Errors
    /// Returns an error if the exit status can't be read.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends a signal. Does nothing if the process has ended.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Once the process has been waited for, its ID may belong to another process.
        if self.ended()?.is_some() {
            return Ok(());
        }
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        id.map_or(Ok(()), |id| kill_process(id, signal).map_err(io::Error::from))
    }

    /// Kills the process with `SIGKILL`, and waits until it has ended.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Retries a check until it succeeds, for at most [`READY_TIMEOUT`]. Fails as soon as the process has
    /// ended.
    ///
    /// # Errors
    /// Returns an error with the result of the last check, and the end of the log.
    pub fn wait_until_ready<T>(
        &mut self,
        mut look: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<T, ServerError> {
        let mut ended = None;
        let ready = wait_until(|| {
            ended = self.child.try_wait().map_err(|error| error.to_string())?;
            match ended {
                Some(_) => Ok(None),
                None => look(self).map(Some),
            }
        });
        let reason = match ready {
            Ok(Some(ready)) => return Ok(ready),
            Ok(None) => ended.map_or_else(String::new, |status| format!("it ended: {status}")),
            Err(reason) => reason,
        };
        Err(self.not_ready(reason))
    }

    /// Returns an error with this reason and the end of the log.
    #[must_use]
    pub fn not_ready(&self, reason: String) -> ServerError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let shown = log.char_indices().rev().nth(LOG_SHOWN).map_or(0, |(at, _)| at);
        ServerError::NotReady { program: self.program.clone(), reason, log: log[shown..].to_owned() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A destructor can't report an error. A stopped process can be killed too.
        let _ = self.kill();
    }
}

/// Returns a port that has no listener. Another process may take the port at any time, so if a server fails to
/// bind it, start the server again with another port.
///
/// # Errors
/// Returns an error if no port is free.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Retries a check until it succeeds, for at most [`READY_TIMEOUT`].
///
/// # Errors
/// Returns the error of the last check.
pub fn wait_until<T>(mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let limit = Instant::now() + READY_TIMEOUT;
    loop {
        match look() {
            Ok(there) => return Ok(there),
            Err(reason) if Instant::now() >= limit => return Err(reason),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}
