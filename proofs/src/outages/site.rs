//! The store's server and the way to it, and what becomes of them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use breakerbox::store::Store;
use breakerbox_postgres::PostgresStore;
use breakerbox_redis::RedisStore;
use breakerbox_testkit::proxy::{Proxy, Trouble};
use breakerbox_testkit::servers::{
    PostgresOptions, PostgresServer, RedisOptions, RedisPair, RedisServer, Restart,
};
use tokio::task::block_in_place;

use super::case::Case;
use crate::fleet::Kind;

/// How long the proof's own look into the store may take. The machine may be busy, and that is no fault of the store.
const LIMIT: Duration = Duration::from_secs(20);

/// A server behind a proxy, both gone when this is dropped.
pub(super) struct Site {
    server: Server,
    proxy: Proxy,
}

enum Server {
    Redis(Box<RedisServer>),
    Pair(Box<RedisPair>),
    Postgres(Box<PostgresServer>),
}

impl Site {
    pub(super) async fn start(kind: Kind, case: Case) -> Result<Self> {
        let server = block_in_place(|| {
            anyhow::Ok(match (kind, case) {
                (Kind::Redis, Case::FailedOver) => Server::Pair(Box::new(RedisPair::start()?)),
                (Kind::Redis, _) => Server::Redis(Box::new(RedisOptions::new().append_only().start()?)),
                (Kind::Postgres, _) => {
                    // Every worker has a few connections.
                    let options = PostgresOptions::new().set("max_connections", "400");
                    Server::Postgres(Box::new(options.start()?))
                }
            })
        })?;
        let proxy = Proxy::before_port(server.port()).await?;
        Ok(Self { server, proxy })
    }

    /// The way that workers go.
    pub(super) fn url(&self) -> String {
        let url = match &self.server {
            Server::Redis(server) => server.url(),
            Server::Pair(pair) => pair.master().url(),
            Server::Postgres(server) => server.url(),
        };
        url.replace(&format!(":{}/", self.server.port()), &format!(":{}/", self.proxy.port()))
    }

    /// The same way, for the proof itself, on connections that know of no trouble.
    pub(super) async fn look(&self) -> Result<Arc<dyn Store>> {
        Ok(match &self.server {
            Server::Postgres(_) => {
                Arc::new(PostgresStore::builder(&self.url()).time_limit(LIMIT).connect().await?)
            }
            _ => Arc::new(RedisStore::builder(&self.url()).time_limit(LIMIT).connect().await?),
        })
    }

    /// What comes before: from here on a replica hears nothing.
    pub(super) fn part(&self) -> Result<()> {
        if let Server::Pair(pair) = &self.server {
            block_in_place(|| pair.part())?;
        }
        Ok(())
    }

    /// The trouble begins, unless it is over in a moment: then it [ends](Self::end) only.
    pub(super) fn begin(&mut self, case: Case) -> Result<()> {
        let trouble = match case {
            Case::BlackHole => Trouble::BlackHole,
            Case::HalfOpen => Trouble::HalfOpen,
            Case::Reset => Trouble::Reset,
            _ => Trouble::None,
        };
        self.proxy.set(trouble);
        block_in_place(|| match (&mut self.server, case) {
            (Server::Redis(server), Case::Killed | Case::Emptied) => Ok(server.kill()?),
            (Server::Redis(server), Case::Paused) => Ok(server.pause()?),
            (Server::Pair(pair), Case::FailedOver) => Ok(pair.kill_master()?),
            (Server::Postgres(server), Case::Killed) => Ok(server.kill()?),
            (Server::Postgres(server), Case::Paused) => Ok(server.pause()?),
            _ if case.lasts() && trouble == Trouble::None => bail!("{} does not do that", case.name()),
            _ => Ok(()),
        })
    }

    /// The store is back when this returns.
    pub(super) fn end(&mut self, case: Case) -> Result<()> {
        block_in_place(|| {
            match (&mut self.server, case) {
                (Server::Redis(server), Case::Killed) => server.restart(Restart::WithData)?,
                (Server::Redis(server), Case::Emptied) => server.restart(Restart::Empty)?,
                (Server::Redis(server), Case::Paused) => server.resume()?,
                (Server::Redis(server), Case::Flushed) => server.query(&["FLUSHALL"])?,
                (Server::Redis(server), Case::ScriptsForgotten) => {
                    server.query::<()>(&["SCRIPT", "FLUSH", "SYNC"])?;
                }
                (Server::Pair(pair), Case::FailedOver) => pair.fail_over()?,
                (Server::Postgres(server), Case::Killed | Case::Restarted) => server.restart()?,
                (Server::Postgres(server), Case::Paused) => server.resume()?,
                _ => {}
            }
            anyhow::Ok(())
        })?;
        self.proxy.lead_to((Ipv4Addr::LOCALHOST, self.server.port()).into());
        self.proxy.heal();
        Ok(())
    }
}

impl Server {
    fn port(&self) -> u16 {
        match self {
            Self::Redis(server) => server.port(),
            Self::Pair(pair) => pair.master().port(),
            Self::Postgres(server) => server.port(),
        }
    }
}
