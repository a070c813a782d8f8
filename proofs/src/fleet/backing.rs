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

/// The timeout for store requests. It is long, because a busy machine must not make the store appear lost.
const LIMIT: Duration = Duration::from_secs(20);

/// The kind of server that the store runs on.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Kind {
    /// Redis or Valkey.
    Redis,
    /// Postgres.
    Postgres,
}

impl Kind {
    /// Every kind of server that fleets are tested with.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Postgres];

    /// Returns the kind's name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }
}

/// The store's server. It stops when the value is dropped.
pub enum Server {
    /// A private Redis server.
    Redis(RedisServer),
    /// A private Postgres server.
    Postgres(PostgresServer),
}

/// The store's server, with the test's own connection to the store.
pub struct Backing {
    /// The running server.
    pub server: Server,
    store: Arc<dyn Store>,
}

impl Backing {
    /// Starts a server, and connects to it.
    ///
    /// # Errors
    /// Returns an error if the server is not installed, or does not start.
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

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.server {
            Server::Redis(server) => server.url(),
            Server::Postgres(server) => server.url(),
        }
    }

    /// Returns the server's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.server {
            Server::Redis(server) => server.port(),
            Server::Postgres(server) => server.port(),
        }
    }

    /// Returns the URL with which to reach the server through a proxy on this port.
    #[must_use]
    pub fn url_through(&self, port: u16) -> String {
        self.url().replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    /// Makes the server reject writes but answer reads, or accept writes again. To reject writes, Redis is made
    /// to run out of memory, and Postgres to make transactions read-only.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
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
    /// Returns an error if the store does not respond, or has no such record.
    pub async fn record(&self, key: &str) -> Result<Record> {
        let answer = self.store.read(&[key.into()]).await?.all()?;
        answer.value.into_iter().next().flatten().with_context(|| format!("the store has no record of {key}"))
    }
}
