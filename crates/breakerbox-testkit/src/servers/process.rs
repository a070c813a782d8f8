//! What every private server needs: a program that is stopped whatever happens, a port that nobody has, a folder that goes
//! with it, and waiting for a condition with a limit.
//!
//! Everything here blocks, for some tens of milliseconds, and by the real clock: a test in virtual time can use it too. It
//! never ends a program that it did not start.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to be ready.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// How much of a log an error shows.
const LOG_SHOWN: usize = 2_000;

/// Why a private server is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is missing.
    #[error(
        "{program} is not installed; run `cargo xtask test`, which installs it, or `apt-get install {package}`"
    )]
    Missing {
        /// What was to be run.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// It ended, or was not ready in time.
    #[error("{program} is not ready: {reason}\n{log}")]
    NotReady {
        /// What was run.
        program: String,
        /// What was seen last.
        reason: String,
        /// The end of what it wrote.
        log: String,
    },
    /// A file, a port or a process could not be had.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A running program, killed when this is dropped, also by a test that panics.
#[derive(Debug)]
pub struct Process {
    child: Child,
    program: String,
    log: PathBuf,
}

impl Process {
    /// Runs a program whose output goes into a file, after what is there.
    ///
    /// # Errors
    /// If the program is missing or can't be run.
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

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends a signal. One that has ended hears nothing.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // A number may belong to somebody else once its process was waited for.
        if self.ended()?.is_some() {
            return Ok(());
        }
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        id.map_or(Ok(()), |id| kill_process(id, signal).map_err(io::Error::from))
    }

    /// Ends it as a power cut would, and waits until it has.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Looks until it is ready, for at most [`PATIENCE`]; gives up as soon as it has ended.
    ///
    /// # Errors
    /// What was seen last, and the end of its log.
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

    /// The error that shows what it wrote.
    #[must_use]
    pub fn not_ready(&self, reason: String) -> ServerError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let shown = log.char_indices().rev().nth(LOG_SHOWN).map_or(0, |(at, _)| at);
        ServerError::NotReady { program: self.program.clone(), reason, log: log[shown..].to_owned() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody left to tell. A stopped process can be killed too.
        let _ = self.kill();
    }
}

/// A port of this machine that nobody listens on. Somebody else may take it at any time: a server that can't have it is
/// started again with another one.
///
/// # Errors
/// If there is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Looks again and again until something is there, for at most [`PATIENCE`].
///
/// # Errors
/// What the last look said.
pub fn wait_until<T>(mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let limit = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(there) => return Ok(there),
            Err(reason) if Instant::now() >= limit => return Err(reason),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}
