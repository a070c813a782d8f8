//! The setup for a test: a store's server, a receiver, and workers, each with its own proxied connection to the
//! store.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::proxy::{Delay, Proxy};

use super::backing::{Backing, Kind};
use super::mode::Mode;
use super::process::Process;
use super::receiver::Receiver;
use super::worker::Settings;

/// The timeout for store requests, in milliseconds. It is long, because these tests are not about a slow store,
/// and the machine may be busy.
const STORE_TIMEOUT_MS: u64 = 20_000;

/// A store's server and a receiver, to which workers can be added.
pub struct Site {
    program: PathBuf,
    /// The store's server.
    pub backing: Backing,
    /// The destination of the workers' calls.
    pub receiver: Receiver,
}

/// The settings for a worker in a [`Site`].
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The worker's number, which it sends to the receiver.
    pub number: u32,
    /// The policy, as JSON.
    pub policy: &'a str,
    /// The consistency mode.
    pub mode: Mode,
    /// The timeout for store requests.
    pub store_timeout: Duration,
}

/// A worker process, and the proxy between it and the store.
pub struct Worker {
    process: Process,
    /// The proxy to the store, which can add latency or cut the connection.
    pub proxy: Proxy,
}

impl Site {
    /// Starts a server and a receiver. `program` is the binary that also runs the workers.
    ///
    /// # Errors
    /// Returns an error if the server or the receiver does not start.
    pub async fn start(program: &Path, kind: Kind) -> Result<Self> {
        Ok(Self {
            program: program.to_owned(),
            backing: Backing::start(kind).await?,
            receiver: Receiver::start().await?,
        })
    }

    /// Starts a worker that reports failures to the store within milliseconds.
    ///
    /// # Errors
    /// Returns an error if the worker does not start.
    pub async fn worker(&self, number: u32, policy: &str, latency: Latency) -> Result<Worker> {
        let proxy = Proxy::before_port(self.backing.port()).await?;
        let (to_server, to_client) = latency.delays(number);
        proxy.delay(to_server, to_client);
        let settings = Settings {
            policy: policy.to_owned(),
            store_timeout_ms: STORE_TIMEOUT_MS,
            flush_every_ms: 5,
            ..Settings::new(&self.backing.url_through(proxy.port()), &self.receiver.url(), number)
        };
        Ok(Worker { process: Process::start(&self.program, &settings).await?, proxy })
    }

    /// Starts a worker that reports to the store at the library's default interval.
    ///
    /// # Errors
    /// Returns an error if the worker does not start.
    pub async fn member(&self, member: Member<'_>) -> Result<Worker> {
        self.member_calling(member, &self.receiver.url()).await
    }

    /// Starts a worker that calls the receiver at another address, such as that of a proxy.
    ///
    /// # Errors
    /// Returns an error if the worker does not start.
    pub async fn member_calling(&self, member: Member<'_>, receiver: &str) -> Result<Worker> {
        let proxy = Proxy::before_port(self.backing.port()).await?;
        let settings = member.settings(&self.backing.url_through(proxy.port()), receiver)?;
        Ok(Worker { process: Process::start(&self.program, &settings).await?, proxy })
    }

    /// Starts a worker without a proxy, for a process that makes one call and exits.
    ///
    /// # Errors
    /// Returns an error if the worker does not start.
    pub async fn job(&self, member: Member<'_>) -> Result<Process> {
        let settings = member.settings(&self.backing.url(), &self.receiver.url())?;
        Process::start(&self.program, &settings).await
    }
}

impl Member<'_> {
    fn settings(&self, store: &str, receiver: &str) -> Result<Settings> {
        Ok(Settings {
            policy: self.policy.to_owned(),
            mode: self.mode,
            store_timeout_ms: u64::try_from(self.store_timeout.as_millis())?,
            ..Settings::new(store, receiver, self.number)
        })
    }
}

impl Worker {
    /// Kills the worker, like `kill -9`.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }
}

impl Deref for Worker {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// The latency that the proxy adds to the store's own latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// No added latency.
    None,
    /// A random latency of 1 to 20 ms for each request and its response.
    Varying,
}

impl Latency {
    /// Returns the latency's name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "-",
            Self::Varying => "1-20 ms",
        }
    }

    fn delays(self, seed: u32) -> (Delay, Delay) {
        match self {
            Self::None => (Delay::default(), Delay::default()),
            Self::Varying => {
                let (least, most) = (Duration::from_micros(500), Duration::from_millis(10));
                let seed = u64::from(seed) * 2;
                (Delay::between(least, most, seed), Delay::between(least, most, seed + 1))
            }
        }
    }
}
