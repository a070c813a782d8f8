//! A gateway process: start, pause, kill, stop, and restart.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{Api, GatewayError};
use crate::servers::Process;
use crate::usage::Usage;

/// The pause between two checks of whether the process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The prefix of API keys, by which the admin key is found in the output.
const KEY_PREFIX: &str = "bbx_";

/// The settings with which a gateway process is started.
#[derive(Clone, Debug)]
pub struct Settings {
    program: PathBuf,
    command: &'static str,
    flags: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    folder: Option<PathBuf>,
}

impl Settings {
    /// Returns the settings for this program's `serve` command, with loopback addresses allowed as
    /// destinations.
    #[must_use]
    pub fn new(program: &Path) -> Self {
        let flags = ["--allow", "127.0.0.0/8"].map(OsString::from).to_vec();
        Self { program: program.to_owned(), command: "serve", flags, variables: Vec::new(), folder: None }
    }

    /// Runs another command instead of `serve`. The command must accept the same flags as `serve`.
    #[must_use]
    pub fn command(self, command: &'static str) -> Self {
        Self { command, ..self }
    }

    /// Adds a command-line flag with a value.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        self.flags.extend([flag.into(), value.as_ref().into()]);
        self
    }

    /// Adds an environment variable, which is set each time the gateway is started.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().into()));
        self
    }

    /// Uses this directory as the data directory, and keeps it. Default: a new directory that is removed with
    /// the gateway.
    #[must_use]
    pub fn folder(self, folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()), ..self }
    }

    /// Starts the gateway for the first time, and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if the gateway does not start, or does not print an admin key.
    pub fn start(self) -> Result<Gateway, GatewayError> {
        let mut gateway = self.prepare()?;
        gateway.start_again()?;
        Ok(gateway)
    }

    /// Returns a gateway that has not been started yet.
    ///
    /// # Errors
    /// Returns an error if no directory or port is available.
    pub fn prepare(self) -> Result<Gateway, GatewayError> {
        let own = tempfile::Builder::new().prefix("gateway").tempdir()?;
        Ok(Gateway {
            data: self.folder.clone().unwrap_or_else(|| own.path().join("data")),
            log: own.path().join("log"),
            address: quiet_address()?,
            process: None,
            api: None,
            settings: self,
            _own: own,
        })
    }
}

/// A gateway process. It is killed when the value is dropped, even by a panic.
pub struct Gateway {
    settings: Settings,
    data: PathBuf,
    log: PathBuf,
    address: SocketAddr,
    process: Option<Process>,
    api: Option<Api>,
    _own: TempDir,
}

impl Gateway {
    /// Starts a gateway in a new directory.
    ///
    /// # Errors
    /// See [`Settings::start`].
    pub fn start(program: &Path) -> Result<Self, GatewayError> {
        Settings::new(program).start()
    }

    /// Restarts the gateway in the same directory, at the same address, and waits until it responds.
    ///
    /// # Errors
    /// Returns an error if the gateway does not start.
    pub fn start_again(&mut self) -> Result<(), GatewayError> {
        self.launch(&[])?;
        self.wait_until_ready()
    }

    /// Starts the gateway with additional environment variables, without waiting until it is ready.
    ///
    /// # Errors
    /// Returns an error if the program can't be run.
    pub fn launch(&mut self, environment: &[(&str, OsString)]) -> Result<(), GatewayError> {
        self.process = None;
        let mut command = Command::new(&self.settings.program);
        command.arg(self.settings.command).arg("--data").arg(&self.data);
        command.arg("--listen").arg(self.address.to_string()).args(&self.settings.flags);
        // The output goes to a file, not to a terminal: without this variable, the gateway does not print its
        // first key.
        command.env("BREAKERBOX_PRINT_ADMIN_KEY", "true");
        command.envs(self.settings.variables.iter().map(|(name, value)| (name, value)));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        // So that the gateway does not read a settings file in the directory in which the tests run.
        command.current_dir(self.log.parent().unwrap_or(Path::new("/")));
        self.process = Some(Process::start(&mut command, "breakerbox", &self.log)?);
        Ok(())
    }

    /// Waits until the gateway responds and, after the first start, until it has printed its admin key.
    ///
    /// # Errors
    /// Returns an error if the gateway exits or does not respond.
    pub fn wait_until_ready(&mut self) -> Result<(), GatewayError> {
        let process = self.process.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let (address, log, is_first) = (self.address, &self.log, self.api.is_none());
        let key = process.wait_until_ready(|_| {
            is_ready(address)?;
            // The gateway may respond before it prints the key.
            if is_first { printed_key(log).map(Some) } else { Ok(None) }
        })?;
        if let Some(key) = key {
            self.api = Some(Api::new(self.address, &key));
        }
        Ok(())
    }

    /// Returns the address that the gateway listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the gateway's data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns a client for the API, with the admin key.
    ///
    /// # Panics
    /// Panics if the gateway was never ready.
    #[must_use]
    #[expect(clippy::expect_used, reason = "start waits for the key")]
    pub fn api(&self) -> &Api {
        self.api.as_ref().expect("a gateway that was ready has said its key")
    }

    /// Returns the gateway's output so far.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(&self.log)
    }

    /// Returns the CPU time and memory that the process uses.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn usage(&self) -> io::Result<Usage> {
        Usage::of(self.process.as_ref().ok_or(io::ErrorKind::NotFound)?.id())
    }

    /// Returns the exit status if the process has ended, or `None` if it is still running.
    ///
    /// # Errors
    /// Returns an error if the exit status can't be read.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.as_mut().map_or(Ok(None), Process::ended)
    }

    /// Kills the process, like `kill -9`.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.kill())
    }

    /// Returns the process ID.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn id(&self) -> io::Result<u32> {
        self.process.as_ref().map(Process::id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Pauses the process with `SIGSTOP`, until [`resume`](Self::resume).
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn pause(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(Signal::STOP))
    }

    /// Resumes a paused process.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn resume(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(Signal::CONT))
    }

    /// Sends `SIGTERM`, which requests a graceful shutdown.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn ask_to_stop(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(Signal::TERM))
    }

    /// Waits until the process has exited, and returns its exit status.
    ///
    /// # Errors
    /// Returns an error if the process does not exit in time.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<ExitStatus, GatewayError> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended()? {
                self.process = None;
                return Ok(status);
            }
            if Instant::now() >= end {
                return Err(GatewayError::DidNotEnd { limit, log: self.log() });
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn read_log(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns the last key in a log. The first key may have been rolled back by a crash, after which the gateway
/// prints a new key.
fn printed_key(log: &Path) -> Result<String, String> {
    let log = read_log(log);
    let mut words = log.split(|c: char| c.is_whitespace() || "\"'`,;".contains(c));
    let key = words.rfind(|word| word.starts_with(KEY_PREFIX));
    key.map(str::to_owned).ok_or_else(|| "no admin key was printed".to_owned())
}

/// Checks whether the gateway at this address has started, healthy or not. Uses a plain socket, because this
/// check runs every few milliseconds while the time to the first response is measured.
fn is_ready(address: SocketAddr) -> Result<(), String> {
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(64 << 10).read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask() {
        Ok(answer) if answer.starts_with("HTTP/1.1 ") && !answer.contains("\"starting") => Ok(()),
        Ok(answer) => Err(format!("/readyz: {answer}")),
        Err(error) => Err(format!("/readyz: {error}")),
    }
}

/// Returns a free address whose port is outside the range for outgoing connections. Otherwise a load generator
/// that continues while the gateway is down would eventually get the gateway's port as its local port.
fn quiet_address() -> io::Result<SocketAddr> {
    const PORTS: std::ops::Range<u16> = 12_000..30_000;
    for _ in 0..1_000 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, rand::random_range(PORTS)));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
