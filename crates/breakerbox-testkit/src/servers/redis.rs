//! A private Redis server, and the faults that a real one has.
//!
//! It listens on the loopback address only. It keeps nothing on disk unless a test asks for it. `BREAKERBOX_REDIS_SERVER`
//! names another program to run, such as `valkey-server`.

use std::env;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use ::redis::{Client, Cmd, FromRedisValue, RedisResult};
use rustix::process::Signal;
use tempfile::TempDir;

use super::process::{Process, ServerError, free_port, wait_until};

/// Which program to run, if it is not `redis-server`.
const PROGRAM: &str = "BREAKERBOX_REDIS_SERVER";

/// How often a server is started again because somebody else took its port.
const STARTS: usize = 10;

/// How long one command of a test may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// What a server is like.
#[derive(Clone, Default, Debug)]
pub struct RedisOptions {
    password: Option<String>,
    arguments: Vec<String>,
    free_ports: Vec<&'static str>,
}

impl RedisOptions {
    /// A server without a password that keeps nothing on disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes everything to disk before it answers, so that a restart finds it.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.set("appendonly", "yes").set("appendfsync", "always")
    }

    /// Asks for a password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", password)
    }

    /// Any setting of `redis.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.arguments.push(format!("--{name}"));
        self.arguments.extend(value.split(' ').map(str::to_owned));
        self
    }

    /// A setting whose value is a port that nobody has. [`RedisServer::port_of`] says which.
    #[must_use]
    pub fn set_free_port(mut self, name: &'static str) -> Self {
        self.free_ports.push(name);
        self
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// If `redis-server` is missing or does not start.
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

/// What a restarted server finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// What it wrote to disk.
    WithData,
    /// Nothing.
    Empty,
}

/// A private Redis server, killed when this is dropped.
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
    /// Starts one as [`RedisOptions::new`] describes it.
    ///
    /// # Errors
    /// If `redis-server` is missing or does not start.
    pub fn start() -> Result<Self, ServerError> {
        RedisOptions::new().start()
    }

    /// Where it is, with its password.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.options, self.port())
    }

    /// Its port on the loopback address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port_of("port").unwrap_or_default()
    }

    /// The port that a setting got.
    #[must_use]
    pub fn port_of(&self, setting: &str) -> Option<u16> {
        port_of(&self.ports, setting)
    }

    /// Asks it something, on a connection of its own.
    ///
    /// # Errors
    /// If it does not answer within some seconds, or refuses.
    pub fn query<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        query(&self.url(), command)
    }

    /// One line of what `INFO` says.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn info(&self, section: &str, field: &str) -> RedisResult<Option<String>> {
        let info: String = self.query(&["INFO", section])?;
        Ok(info_field(&info, field))
    }

    /// Ends it as a power cut would.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        Ok(self.process.kill()?)
    }

    /// Stops it where it is: connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        Ok(self.process.signal(Signal::STOP)?)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        Ok(self.process.signal(Signal::CONT)?)
    }

    /// Kills it if it runs, and starts it again on the same port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self, restart: Restart) -> Result<(), ServerError> {
        self.kill()?;
        if restart == Restart::Empty {
            self.folder = TempDir::with_prefix("breakerbox-redis-")?;
        }
        // Somebody may have the port for a moment.
        let again = wait_until(|| match launch(&self.options, &self.folder, &self.ports) {
            Err(error @ ServerError::NotReady { .. }) => Err(error.to_string()),
            done => Ok(done),
        });
        self.process = again.map_err(|reason| self.process.not_ready(reason))??;
        Ok(())
    }

    /// Makes it refuse writes and go on answering reads, as a server does whose memory is full and which may evict nothing.
    /// Does not last over a restart.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn refuse_writes(&self) -> RedisResult<()> {
        self.query::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
        // It has always more than one byte in use.
        self.query(&["CONFIG", "SET", "maxmemory", "1"])
    }

    /// Makes it accept writes again.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn allow_writes(&self) -> RedisResult<()> {
        self.query(&["CONFIG", "SET", "maxmemory", "0"])
    }

    /// Makes it a replica, and waits until it has all of its master's data.
    ///
    /// # Errors
    /// If that does not come about.
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

    /// Makes a replica a master.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn promote(&self) -> RedisResult<()> {
        self.query(&["REPLICAOF", "NO", "ONE"])
    }
}

/// Asks a server something, on a new connection.
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

/// What to run.
pub(super) fn program() -> OsString {
    env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into())
}

/// Starts the program, and waits until it is this one that answers: somebody else's may have the port.
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
