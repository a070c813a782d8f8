//! The store's server: a private Redis or a private Postgres.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox::Record;
use breakerbox::store::Store;
use breakerbox_postgres::PostgresStore;
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::{PostgresOptions, PostgresServer, RedisServer};
use clap::ValueEnum;

/// The timeout of the server. A busy machine is no fault of the store.
const LIMIT: Duration = Duration::from_secs(20);

/// The kind of store.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Kind {
    /// Redis or Valkey.
    Redis,
    /// Postgres.
    Postgres,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Postgres];

    /// The name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }
}

/// The server, stopped when this is dropped.
pub enum Server {
    /// A Redis server.
    Redis(RedisServer),
    /// A Postgres server.
    Postgres(PostgresServer),
}

/// The server, and the proof's own connection to it.
pub struct Backing {
    /// The server.
    pub server: Server,
    store: Arc<dyn Store>,
}

impl Backing {
    /// Starts a server.
    ///
    /// # Errors
    /// Fails if the server is not installed, or does not start.
    pub async fn start(kind: Kind) -> Result<Self> {
        let start = move || {
            anyhow::Ok(match kind {
                Kind::Redis => Server::Redis(RedisServer::start()?),
                // Every worker opens a few connections.
                Kind::Postgres => {
                    Server::Postgres(PostgresOptions::new().set("max_connections", "400").start()?)
                }
            })
        };
        let server = tokio::task::spawn_blocking(start).await??;
        let store: Arc<dyn Store> = match &server {
            Server::Redis(server) => {
                Arc::new(RedisStore::builder(&server.url()).time_limit(LIMIT).connect().await?)
            }
            Server::Postgres(server) => {
                Arc::new(PostgresStore::builder(&server.url()).time_limit(LIMIT).connect().await?)
            }
        };
        Ok(Self { server, store })
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.server {
            Server::Redis(server) => server.url(),
            Server::Postgres(server) => server.url(),
        }
    }

    /// Returns the port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.server {
            Server::Redis(server) => server.port(),
            Server::Postgres(server) => server.port(),
        }
    }

    /// Returns the URL of the server through a proxy on this port.
    #[must_use]
    pub fn url_through(&self, port: u16) -> String {
        self.url().replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    /// Makes the server refuse writes and answer reads, or ends that: a Redis whose memory is full, a Postgres whose
    /// transactions are read-only.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub async fn refuse_writes(&self, refuses: bool) -> Result<()> {
        tokio::task::block_in_place(|| match (&self.server, refuses) {
            (Server::Redis(server), true) => Ok(server.refuse_writes()?),
            (Server::Redis(server), false) => Ok(server.allow_writes()?),
            (Server::Postgres(server), true) => Ok(server.refuse_writes()?),
            (Server::Postgres(server), false) => Ok(server.allow_writes()?),
        })
    }

    /// Reads a circuit's record from the store.
    ///
    /// # Errors
    /// Fails if the store does not answer, or has no record.
    pub async fn record(&self, key: &str) -> Result<Record> {
        let answer = self.store.read(&[key.into()]).await?.all()?;
        answer.value.into_iter().next().flatten().with_context(|| format!("the store has no record of {key}"))
    }
}
