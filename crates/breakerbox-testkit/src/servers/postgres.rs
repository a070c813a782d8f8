//! A private Postgres server with real faults: it can be killed, paused, restarted, or made to refuse writes.
//!
//! The server listens only on the loopback address, and has its own directory. It runs the newest installed
//! version, or the one in the directory that `BREAKERBOX_POSTGRES_BIN` names. Postgres refuses to run as root;
//! tests that run as root start it as the user `postgres`, or else `nobody`. Creating a data directory takes
//! long, so all servers in a test process copy the same one.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::postgres_files::{Template, USER, run};
use super::process::{Process, ServerError, free_port, wait_until};
use super::process_tree::{children, signal_all};

/// The maximum number of attempts to start the server if another process takes its port.
const STARTS: usize = 10;

/// The timeout for one query.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);

/// The settings for a private Postgres server.
#[derive(Clone, Default, Debug)]
pub struct PostgresOptions {
    durable: bool,
    password: Option<String>,
    tls: Option<(String, String)>,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// Returns settings for a server with no password and with `fsync` off. Its data survives a crash of the
    /// server process, but not of the machine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the server wait for the disk at each commit, as production servers do.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Makes the server require this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Makes the server offer TLS with this certificate and private key, both in PEM.
    #[must_use]
    pub fn tls(mut self, certificate: &str, key: &str) -> Self {
        self.tls = Some((certificate.to_owned(), key.to_owned()));
        self.set("ssl", "on")
    }

    /// Sets a parameter in `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server, and waits until it accepts connections.
    ///
    /// # Errors
    /// Returns an error if Postgres is missing or does not start.
    pub fn start(self) -> Result<PostgresServer, ServerError> {
        let template = Template::shared()?;
        let folder = template.copy()?;
        self.configure(&template, &folder)?;
        let mut last = None;
        for _ in 0..STARTS {
            let port = free_port()?;
            match launch(&self, &template, &folder, port) {
                Ok(process) => {
                    let server = PostgresServer { options: self, template, folder, port, process };
                    server.set_password()?;
                    return Ok(server);
                }
                Err(error @ ServerError::NotReady { .. }) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| std::io::Error::other("no start was tried").into()))
    }

    /// Writes the configuration files that the server reads at startup.
    fn configure(&self, template: &Template, folder: &TempDir) -> Result<(), ServerError> {
        let write = |name: &str, text: &str| -> Result<(), ServerError> {
            let file = folder.path().join("data").join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            Ok(template.programs.give(&file)?)
        };
        let by = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        write("pg_hba.conf", &format!("local all all trust\nhost all all 127.0.0.1/32 {by}\n"))?;
        if let Some((certificate, key)) = &self.tls {
            write("server.crt", certificate)?;
            write("server.key", key)?;
        }
        Ok(())
    }
}

/// A private Postgres server. It stops when the value is dropped.
///
/// ```
/// use breakerbox_testkit::servers::PostgresServer;
///
/// let server = PostgresServer::start()?;
/// assert!(server.url().starts_with("postgres://postgres@127.0.0.1:"));
/// assert_eq!(server.query("SELECT 6 * 7")?, "42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PostgresServer {
    options: PostgresOptions,
    template: Arc<Template>,
    folder: TempDir,
    port: u16,
    process: Process,
}

impl PostgresServer {
    /// Starts a server with the settings from [`PostgresOptions::new`].
    ///
    /// # Errors
    /// Returns an error if Postgres is missing or does not start.
    pub fn start() -> Result<Self, ServerError> {
        PostgresOptions::new().start()
    }

    /// Returns the URL of the default database, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(USER)
    }

    fn url_of(&self, user: &str) -> String {
        let password =
            self.options.password.as_ref().map_or_else(String::new, |password| format!(":{password}"));
        format!("postgres://{user}{password}@{}:{}/{USER}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// Returns the port that the server listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the IDs of the server's processes: the server itself, and one for each connection and each
    /// background task.
    ///
    /// # Errors
    /// Returns an error if the processes can't be listed.
    pub fn processes(&self) -> std::io::Result<Vec<u32>> {
        let own = self.process.id();
        let children = children(own)?.into_iter().map(|child| child.as_raw_nonzero().get().unsigned_abs());
        Ok([own].into_iter().chain(children).collect())
    }

    /// Runs SQL in the default database, as the superuser. Returns the output of `psql`: a line for each row,
    /// with `|` between columns.
    ///
    /// # Errors
    /// Returns the server's error message.
    pub fn query(&self, sql: &str) -> Result<String, ServerError> {
        run(self.psql().args(["--command", sql]))
    }

    fn psql(&self) -> Command {
        let mut psql = self.template.programs.command("psql");
        psql.arg("--host").arg(self.folder.path()).args(["--port", &self.port.to_string()]);
        psql.args(["--username", USER, "--dbname", USER, "--no-psqlrc", "--no-password"]);
        psql.args(["--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]);
        psql.env("PGOPTIONS", format!("--statement-timeout={}", COMMAND_LIMIT.as_millis()));
        psql
    }

    fn set_password(&self) -> Result<(), ServerError> {
        match &self.options.password {
            Some(password) => self.query(&format!("ALTER USER {USER} PASSWORD '{password}'")).map(drop),
            None => Ok(()),
        }
    }

    /// Creates a user that may connect and create schemas. Returns a URL for that user.
    ///
    /// # Errors
    /// Returns the server's error message.
    pub fn add_user(&self, user: &str) -> Result<String, ServerError> {
        let password = self
            .options
            .password
            .as_ref()
            .map_or_else(String::new, |password| format!(" PASSWORD '{password}'"));
        self.query(&format!("CREATE ROLE {user} LOGIN{password}"))?;
        self.query(&format!("GRANT CREATE ON DATABASE {USER} TO {user}"))?;
        Ok(self.url_of(user))
    }

    /// Makes every transaction read-only (`default_transaction_read_only`). Open sessions are affected starting
    /// with their next transaction.
    ///
    /// # Errors
    /// Returns the server's error message.
    pub fn refuse_writes(&self) -> Result<(), ServerError> {
        self.set_read_only("on")
    }

    /// Makes the server accept writes again.
    ///
    /// # Errors
    /// Returns the server's error message.
    pub fn allow_writes(&self) -> Result<(), ServerError> {
        self.set_read_only("off")
    }

    fn set_read_only(&self, value: &str) -> Result<(), ServerError> {
        self.query(&format!("ALTER SYSTEM SET default_transaction_read_only = {value}"))?;
        self.query("SELECT pg_reload_conf()")?;
        // Sessions reload their settings one after the other. A new session inherits them from the parent
        // process, which reloads first.
        let set = wait_until(|| match self.query("SHOW default_transaction_read_only") {
            Ok(is) if is == value => Ok(()),
            other => Err(format!("default_transaction_read_only: {other:?}")),
        });
        set.map_err(|reason| self.process.not_ready(reason))
    }

    /// Revokes a user's permissions to write to any table in a schema.
    ///
    /// # Errors
    /// Returns the server's error message.
    pub fn revoke_writes(&self, schema: &str, user: &str) -> Result<(), ServerError> {
        let sql = format!("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} FROM {user}");
        self.query(&sql).map(drop)
    }

    /// Grants the permissions again that [`revoke_writes`](Self::revoke_writes) revoked.
    ///
    /// # Errors
    /// Returns the server's error message.
    pub fn grant_writes(&self, schema: &str, user: &str) -> Result<(), ServerError> {
        let sql = format!("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}");
        self.query(&sql).map(drop)
    }

    /// Kills the server without a shutdown, in the middle of any work, like a power failure.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        signal_all(&mut self.process, Signal::KILL)?;
        Ok(self.process.kill()?)
    }

    /// Pauses the server. Connections stay open, but get no responses.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        Ok(signal_all(&mut self.process, Signal::STOP)?)
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        Ok(signal_all(&mut self.process, Signal::CONT)?)
    }

    /// Restarts the server on the same port. If the server is running, shuts it down gracefully first, which
    /// closes all connections.
    ///
    /// # Errors
    /// Returns an error if the server does not start.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop(Signal::INT)?;
        // Another process may use the port for a moment, or a process of the killed server may still hold its
        // shared memory.
        let again = wait_until(|| match launch(&self.options, &self.template, &self.folder, self.port) {
            Err(error @ ServerError::NotReady { .. }) => Err(error.to_string()),
            done => Ok(done),
        });
        self.process = again.map_err(|reason| self.process.not_ready(reason))??;
        Ok(())
    }

    /// Signals the server to stop, and waits until it has stopped.
    fn stop(&mut self, signal: Signal) -> Result<(), ServerError> {
        self.resume()?;
        self.process.signal(signal)?;
        let ended = wait_until(|| match self.process.ended() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("it goes on: {other:?}")),
        });
        ended.map_err(|reason| self.process.not_ready(reason))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // A graceful shutdown leaves no shared memory behind. A server that does not react is killed.
        let _ = self.stop(Signal::QUIT);
        forget_memory(&self.folder);
    }
}

/// Frees the shared memory of a server that was killed, if its lock file still exists. A server that was shut
/// down gracefully has freed the memory and removed the file.
fn forget_memory(folder: &TempDir) {
    let status = fs::read_to_string(folder.path().join("data/postmaster.pid")).unwrap_or_default();
    // The line with the key and ID of the shared memory segment.
    if let Some(segment) = status.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
        let _ = run(Command::new("ipcrm").args(["--shmem-id", segment]));
    }
}

/// Starts the server program, and waits until it reports that it is ready.
fn launch(
    options: &PostgresOptions,
    template: &Template,
    folder: &TempDir,
    port: u16,
) -> Result<Process, ServerError> {
    let data = folder.path().join("data");
    let mut command = template.programs.command("postgres");
    command.current_dir(folder.path()).arg("-D").arg(&data).arg("-k").arg(folder.path());
    command.args(["-h", &Ipv4Addr::LOCALHOST.to_string(), "-p", &port.to_string()]);
    if !options.durable {
        command.args(["-c", "fsync=off"]);
    }
    for (name, value) in &options.settings {
        command.args(["-c", &format!("{name}={value}")]);
    }
    let mut process = Process::start(&mut command, "postgresql", &folder.path().join("log"))?;
    process.wait_until_ready(|process| {
        let status = fs::read_to_string(data.join("postmaster.pid")).map_err(|error| error.to_string())?;
        let mut lines = status.lines();
        match (lines.next(), lines.nth(6).map(str::trim_end)) {
            (Some(id), Some("ready")) if id == process.id().to_string() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    Ok(process)
}
