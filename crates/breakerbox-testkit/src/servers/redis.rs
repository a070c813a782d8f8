//! A private Redis server with real faults: it can be killed, paused, restarted, or made to refuse writes.
//!
//! The server listens only on the loopback address. It stores nothing on disk unless a test requests it. The
//! environment variable `BREAKERBOX_REDIS_SERVER` names another program to run, such as `valkey-server`.

use std::env;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use ::redis::{Client, Cmd, FromRedisValue, RedisResult};
use rustix::process::Signal;
use tempfile::TempDir;

use super::process::{Process, ServerError, free_port, wait_until};

/// The environment variable that names the program to run instead of `redis-server`.
const PROGRAM: &str = "BREAKERBOX_REDIS_SERVER";

/// The maximum number of attempts to start the server if another process takes its port.
const STARTS: usize = 10;

/// The timeout for one command.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// The settings for a private Redis server.
#[derive(Clone, Default, Debug)]
pub struct RedisOptions {
    password: Option<String>,
    arguments: Vec<String>,
    free_ports: Vec<&'static str>,
}

impl RedisOptions {
    /// Returns settings for a server without a password that stores nothing on disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the server write all data to disk before it responds, so that the data survives a restart.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.set("appendonly", "yes").set("appendfsync", "always")
    }

    /// Makes the server require this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", password)
    }

    /// Sets a parameter in `redis.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.arguments.push(format!("--{name}"));
        self.arguments.extend(value.split(' ').map(str::to_owned));
        self
    }

    /// Sets a parameter to a free port, which [`RedisServer::port_of`] returns.
    #[must_use]
    pub fn set_free_port(mut self, name: &'static str) -> Self {
        self.free_ports.push(name);
        self
    }

    /// Starts the server, and waits until it responds.
    ///
    /// # Errors
    /// Returns an error if `redis-server` is missing or does not start.
    pub fn start(self) -> Result<RedisServer, ServerError> {
        let folder = TempDir::with_prefix("breakerbox-redis-")?;
        let mut last = None;
        for _ in 0..STARTS {
            let mut ports = vec![("port", free_port()?)];
            for name in &self.free_ports {
                ports.push((name, free_port()?));
            }
            match launch(&self, &folder, &ports) {
                Ok(process) => return Ok(RedisServer { options: self, folder, ports, process }),
                Err(error @ ServerError::NotReady { .. }) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| std::io::Error::other("no start was tried").into()))
    }
}

/// The data that a server finds after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// The data that the server wrote to disk.
    WithData,
    /// No data.
    Empty,
}

/// A private Redis server. It is killed when the value is dropped.
///
/// ```
/// use breakerbox_testkit::servers::RedisServer;
///
/// let server = RedisServer::start()?;
/// assert!(server.url().starts_with("redis://127.0.0.1:"));
/// let answer: String = server.query(&["PING"])?;
/// assert_eq!(answer, "PONG");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    folder: TempDir,
    ports: Vec<(&'static str, u16)>,
    process: Process,
}

impl RedisServer {
    /// Starts a server with the settings from [`RedisOptions::new`].
    ///
    /// # Errors
    /// Returns an error if `redis-server` is missing or does not start.
    pub fn start() -> Result<Self, ServerError> {
        RedisOptions::new().start()
    }

    /// Returns the server's URL, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.options, self.port())
    }

    /// Returns the port that the server listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port_of("port").unwrap_or_default()
    }

    /// Returns the port that [`RedisOptions::set_free_port`] chose for a parameter. `None` if it did not set
    /// the parameter.
    #[must_use]
    pub fn port_of(&self, setting: &str) -> Option<u16> {
        port_of(&self.ports, setting)
    }

    /// Runs a command on a new connection.
    ///
    /// # Errors
    /// Returns an error if the server does not respond within a few seconds, or responds with an error.
    pub fn query<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        query(&self.url(), command)
    }

    /// Returns one field in a section of `INFO`. `None` if there is no such field.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
    pub fn info(&self, section: &str, field: &str) -> RedisResult<Option<String>> {
        let info: String = self.query(&["INFO", section])?;
        Ok(info_field(&info, field))
    }

    /// Kills the server without a shutdown, like a power failure.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        Ok(self.process.kill()?)
    }

    /// Pauses the server. Connections stay open, but get no responses.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        Ok(self.process.signal(Signal::STOP)?)
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        Ok(self.process.signal(Signal::CONT)?)
    }

    /// Kills the server if it is running, and starts it again on the same port.
    ///
    /// # Errors
    /// Returns an error if the server does not start.
    pub fn restart(&mut self, restart: Restart) -> Result<(), ServerError> {
        self.kill()?;
        if restart == Restart::Empty {
            self.folder = TempDir::with_prefix("breakerbox-redis-")?;
        }
        // Another process may use the port for a moment.
        let again = wait_until(|| match launch(&self.options, &self.folder, &self.ports) {
            Err(error @ ServerError::NotReady { .. }) => Err(error.to_string()),
            done => Ok(done),
        });
        self.process = again.map_err(|reason| self.process.not_ready(reason))??;
        Ok(())
    }

    /// Makes the server reject writes but answer reads, like a server that is out of memory and must not evict
    /// keys. A restart makes the server accept writes again.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
    pub fn refuse_writes(&self) -> RedisResult<()> {
        self.query::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
        // The server always uses more than one byte.
        self.query(&["CONFIG", "SET", "maxmemory", "1"])
    }

    /// Makes the server accept writes again.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
    pub fn allow_writes(&self) -> RedisResult<()> {
        self.query(&["CONFIG", "SET", "maxmemory", "0"])
    }

    /// Makes this server a replica of `master`, and waits until it has all of the master's data.
    ///
    /// # Errors
    /// Returns an error if the replica does not catch up in time.
    pub fn replica_of(&self, master: &Self) -> Result<(), ServerError> {
        let port = master.port().to_string();
        let linked = || {
            self.query::<()>(&["REPLICAOF", "127.0.0.1", &port]).map_err(|error| error.to_string())?;
            wait_until(|| match self.info("replication", "master_link_status") {
                Ok(Some(status)) if status == "up" => Ok(()),
                other => Err(format!("master_link_status: {other:?}")),
            })
        };
        linked().map_err(|reason| self.process.not_ready(reason))
    }

    /// Makes a replica the master.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
    pub fn promote(&self) -> RedisResult<()> {
        self.query(&["REPLICAOF", "NO", "ONE"])
    }
}

/// Runs a command on a new connection.
pub(super) fn query<T: FromRedisValue>(url: &str, command: &[&str]) -> RedisResult<T> {
    let mut connection = Client::open(url)?.get_connection_with_timeout(COMMAND_LIMIT)?;
    connection.set_read_timeout(Some(COMMAND_LIMIT))?;
    connection.set_write_timeout(Some(COMMAND_LIMIT))?;
    let mut request = Cmd::new();
    request.arg(command);
    request.query(&mut connection)
}

fn url(options: &RedisOptions, port: u16) -> String {
    let password = options.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
    format!("redis://{password}{}:{port}/", Ipv4Addr::LOCALHOST)
}

fn port_of(ports: &[(&'static str, u16)], setting: &str) -> Option<u16> {
    ports.iter().find(|(name, _)| *name == setting).map(|(_, port)| *port)
}

fn info_field(info: &str, field: &str) -> Option<String> {
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(name, _)| *name == field).map(|(_, value)| value.trim().to_owned()).next()
}

/// Returns the name of the server program to run.
pub(super) fn program() -> OsString {
    env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into())
}

/// Starts the program, and waits until this very process responds, because another test's server may have taken
/// the port.
fn launch(
    options: &RedisOptions,
    folder: &TempDir,
    ports: &[(&'static str, u16)],
) -> Result<Process, ServerError> {
    let mut command = Command::new(program());
    command.current_dir(folder.path()).args(["--bind", "127.0.0.1"]);
    ports.iter().for_each(|(name, port)| _ = command.arg(format!("--{name}")).arg(port.to_string()));
    command.args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--protected-mode", "no"]);
    command.args(&options.arguments);
    let mut process = Process::start(&mut command, "redis-server", &folder.path().join("log"))?;
    let port = port_of(ports, "port").unwrap_or_default();
    let url = url(options, port);
    process.wait_until_ready(|process| {
        let info: String = query(&url, &["INFO", "server"]).map_err(|error| error.to_string())?;
        query::<String>(&url, &["PING"]).map_err(|error| error.to_string())?;
        match info_field(&info, "process_id") {
            Some(id) if id == process.id().to_string() => Ok(()),
            other => Err(format!("process {other:?} has port {port}")),
        }
    })?;
    Ok(process)
}
