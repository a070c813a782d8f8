//! The process of a gateway.

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

/// How often is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How an admin key begins.
const KEY_PREFIX: &str = "bbx_";

/// How a gateway is started.
#[derive(Clone, Debug)]
pub struct Settings {
    program: PathBuf,
    command: &'static str,
    flags: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    folder: Option<PathBuf>,
}

impl Settings {
    /// `serve` of this program, which may call loopback addresses.
    #[must_use]
    pub fn new(program: &Path) -> Self {
        let flags = ["--allow", "127.0.0.0/8"].map(OsString::from).to_vec();
        Self { program: program.to_owned(), command: "serve", flags, variables: Vec::new(), folder: None }
    }

    /// Another of the program's commands that is called like `serve`.
    #[must_use]
    pub fn command(self, command: &'static str) -> Self {
        Self { command, ..self }
    }

    /// With this flag too.
    #[must_use]
    pub fn flag(mut self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        self.flags.extend([flag.into(), value.as_ref().into()]);
        self
    }

    /// With this environment variable, at each start.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().into()));
        self
    }

    /// In this folder, which stays. Without this it has one of its own, which goes with it.
    #[must_use]
    pub fn folder(self, folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()), ..self }
    }

    /// Starts one for the first time.
    ///
    /// # Errors
    /// If it does not start, or prints no admin key.
    pub fn start(self) -> Result<Gateway, GatewayError> {
        let mut gateway = self.prepare()?;
        gateway.start_again()?;
        Ok(gateway)
    }

    /// One that was never started.
    ///
    /// # Errors
    /// If there is no folder or no port for it.
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

/// A gateway. Its process ends when this is dropped, also by a panic.
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
    /// Starts one in a folder of its own.
    ///
    /// # Errors
    /// As [`Settings::start`].
    pub fn start(program: &Path) -> Result<Self, GatewayError> {
        Settings::new(program).start()
    }

    /// Starts it on the same folder, at the same address, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&mut self) -> Result<(), GatewayError> {
        self.launch(&[])?;
        self.wait_until_ready()
    }

    /// Starts it with these variables besides, and does not wait.
    ///
    /// # Errors
    /// If it can't be run.
    pub fn launch(&mut self, environment: &[(&str, OsString)]) -> Result<(), GatewayError> {
        self.process = None;
        let mut command = Command::new(&self.settings.program);
        command.arg(self.settings.command).arg("--data").arg(&self.data);
        command.arg("--listen").arg(self.address.to_string()).args(&self.settings.flags);
        // Its output goes to a file, and not to a terminal: it must be told to print its first key.
        command.env("BREAKERBOX_PRINT_ADMIN_KEY", "true");
        command.envs(self.settings.variables.iter().map(|(name, value)| (name, value)));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        // A file of settings where the tests happen to run is none of its business.
        command.current_dir(self.log.parent().unwrap_or(Path::new("/")));
        self.process = Some(Process::start(&mut command, "breakerbox", &self.log)?);
        Ok(())
    }

    /// Waits until it answers, and has said its key if it never did before.
    ///
    /// # Errors
    /// If it ends, or does not answer.
    pub fn wait_until_ready(&mut self) -> Result<(), GatewayError> {
        let process = self.process.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let address = self.address;
        process.wait_until_ready(|_| is_ready(address))?;
        if self.api.is_none() {
            let log = self.log();
            let words = log.split(|c: char| c.is_whitespace() || "\"'`,;".contains(c));
            // The last one: one that a crash took back was followed by another.
            let key = words.map(str::trim).rfind(|word| word.starts_with(KEY_PREFIX)).map(str::to_owned);
            let key = key.ok_or(GatewayError::NoKey { log })?;
            self.api = Some(Api::new(self.address, &key));
        }
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What its owner can do, with the admin key.
    ///
    /// # Panics
    /// If it was never ready.
    #[must_use]
    #[expect(clippy::expect_used, reason = "start waits for the key")]
    pub fn api(&self) -> &Api {
        self.api.as_ref().expect("a gateway that was ready has said its key")
    }

    /// What it has written.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// CPU time and memory.
    ///
    /// # Errors
    /// If it has ended.
    pub fn usage(&self) -> io::Result<Usage> {
        Usage::of(self.process.as_ref().ok_or(io::ErrorKind::NotFound)?.id())
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.as_mut().map_or(Ok(None), Process::ended)
    }

    /// Ends it at once, as `kill -9` does.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.kill())
    }

    /// The number of its process.
    ///
    /// # Errors
    /// If it has ended.
    pub fn id(&self) -> io::Result<u32> {
        self.process.as_ref().map(Process::id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Stops its process where it is, as `SIGSTOP` does, until [`resume`](Self::resume).
    ///
    /// # Errors
    /// If the system refuses.
    pub fn pause(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(Signal::STOP))
    }

    /// Lets a paused process go on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn resume(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(Signal::CONT))
    }

    /// Asks it to stop, as `SIGTERM` does.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn ask_to_stop(&mut self) -> io::Result<()> {
        self.process.as_mut().map_or(Ok(()), |process| process.signal(Signal::TERM))
    }

    /// Waits until it has ended, and says how.
    ///
    /// # Errors
    /// If it does not end in time.
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

/// Whether a gateway there has started, in whatever health. By hand: this is asked every few milliseconds, and how soon it is answered is
/// a part of what is proved.
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

/// An address that nobody has, and that no outgoing connection gets: a load that goes on while the gateway is away would
/// otherwise sooner or later sit on the gateway's own port.
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
