//! Where a proof takes place: a store's server, a receiver, and workers, each with a way of its own to the store.

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

/// How long the store may take to answer. No proof here is about a slow store, and the machine may be busy.
const STORE_TIMEOUT_MS: u64 = 20_000;

/// A server and a receiver, for workers to come.
pub struct Site {
    program: PathBuf,
    /// The store's server.
    pub backing: Backing,
    /// The destination.
    pub receiver: Receiver,
}

/// What a worker of a [`Site`] is like.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The number that it tells the receiver.
    pub number: u32,
    /// The policy, as JSON.
    pub policy: &'a str,
    /// How closely it keeps to the others.
    pub mode: Mode,
    /// How long the store may take to answer.
    pub store_timeout: Duration,
}

/// A worker, and its way to the store.
pub struct Worker {
    process: Process,
    /// Its way to the store, which can be slow, or cut.
    pub way: Proxy,
}

impl Site {
    /// Starts a server and a receiver. The program is the one that is a worker too.
    ///
    /// # Errors
    /// If one of them does not start.
    pub async fn start(program: &Path, kind: Kind) -> Result<Self> {
        Ok(Self {
            program: program.to_owned(),
            backing: Backing::start(kind).await?,
            receiver: Receiver::start().await?,
        })
    }

    /// Starts a worker. Failures are told within some milliseconds.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn worker(&self, number: u32, policy: &str, latency: Latency) -> Result<Worker> {
        let way = Proxy::before_port(self.backing.port()).await?;
        let (to_server, to_client) = latency.delays(number);
        way.delay(to_server, to_client);
        let settings = Settings {
            policy: policy.to_owned(),
            store_timeout_ms: STORE_TIMEOUT_MS,
            flush_every_ms: 5,
            ..Settings::new(&self.backing.url_through(way.port()), &self.receiver.url(), number)
        };
        Ok(Worker { process: Process::start(&self.program, &settings).await?, way })
    }

    /// Starts a worker that reports to the store as often as the library does by default.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn member(&self, member: Member<'_>) -> Result<Worker> {
        self.member_calling(member, &self.receiver.url()).await
    }

    /// The same for a worker that calls the receiver at another address, such as that of a proxy.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn member_calling(&self, member: Member<'_>, receiver: &str) -> Result<Worker> {
        let way = Proxy::before_port(self.backing.port()).await?;
        let settings = member.settings(&self.backing.url_through(way.port()), receiver)?;
        Ok(Worker { process: Process::start(&self.program, &settings).await?, way })
    }

    /// Starts a worker without a way of its own: for a process that lives for one call.
    ///
    /// # Errors
    /// If it does not start.
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
    /// Ends it as `kill -9` does.
    ///
    /// # Errors
    /// If the system refuses.
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

/// How much longer the store takes than it does by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// No longer.
    None,
    /// 1 to 20 ms for a request and its answer, anew for each.
    Varying,
}

impl Latency {
    /// The name that tables use.
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
