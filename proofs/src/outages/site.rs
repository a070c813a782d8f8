//! The store's server and the proxy in front of it, and the outages of both.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use breakerbox::store::Store;
use breakerbox_postgres::PostgresStore;
use breakerbox_redis::RedisStore;
use breakerbox_testkit::proxy::{NetworkFault, Proxy};
use breakerbox_testkit::servers::{
    PostgresOptions, PostgresServer, RedisCluster, RedisOptions, RedisPair, RedisSentinel, RedisServer,
    Restart, wait_until,
};
use tokio::task::block_in_place;

use super::case::Case;
use crate::fleet::Kind;

/// The timeout for the test's own reads from the store. It is long, because a busy machine must not make the
/// store appear lost.
const LIMIT: Duration = Duration::from_secs(20);

/// The name under which sentinels know the master.
const MASTER: &str = "proof";

/// The Postgres user whose write permissions are revoked. This user does not own the tables, because an owner
/// always keeps its permissions.
const WORKER: &str = "worker";

/// The Postgres schema that contains the store's tables.
const SCHEMA: &str = "breakerbox";

/// A store's server, behind a proxy unless it is a cluster or has a sentinel. The server stops when the value
/// is dropped.
pub(super) struct Site {
    server: Server,
    proxy: Option<Proxy>,
}

enum Server {
    Redis(Box<RedisServer>),
    Pair(Box<RedisPair>),
    Sentinel(Box<Watched>),
    /// A cluster, with the index of the node that is a replica of the first master.
    Cluster(Box<RedisCluster>, usize),
    Postgres(Box<PostgresServer>),
}

/// A master, its replica, and the sentinel that monitors them.
struct Watched {
    master: RedisServer,
    replica: RedisServer,
    sentinel: RedisSentinel,
}

impl Site {
    pub(super) async fn start(kind: Kind, case: Case) -> Result<Self> {
        let server = block_in_place(|| {
            anyhow::Ok(match (kind, case) {
                (Kind::Redis, Case::FailedOver) => Server::Pair(Box::new(RedisPair::start()?)),
                (Kind::Redis, Case::SentinelFailover) => Server::Sentinel(Box::new(Watched::start()?)),
                (Kind::Redis, Case::ClusterPaused | Case::ClusterFailover) => {
                    let mut cluster = RedisCluster::start()?;
                    let replica = cluster.add_replica_of(0)?;
                    Server::Cluster(Box::new(cluster), replica)
                }
                (Kind::Redis, _) => Server::Redis(Box::new(RedisOptions::new().append_only().start()?)),
                (Kind::Postgres, _) => {
                    // Every worker opens a few connections.
                    let options = PostgresOptions::new().set("max_connections", "400");
                    Server::Postgres(Box::new(options.start()?))
                }
            })
        })?;
        let proxy = match server.port() {
            Some(port) => Some(Proxy::before_port(port).await?),
            None => None,
        };
        let site = Self { server, proxy };
        if let (Server::Postgres(server), Case::RightsRevoked) = (&site.server, case) {
            // The owner creates the tables, and the workers get the permissions that the manual lists.
            site.look().await?;
            block_in_place(|| {
                server.add_user(WORKER)?;
                server.query(&format!("GRANT USAGE ON SCHEMA {SCHEMA} TO {WORKER}"))?;
                server.query(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {WORKER}"))?;
                server.grant_writes(SCHEMA, WORKER)
            })?;
        }
        Ok(site)
    }

    /// Returns the store's URL for the workers.
    pub(super) fn url(&self, case: Case) -> String {
        let url = self.own_url();
        if case == Case::RightsRevoked { url.replacen("postgres@", &format!("{WORKER}@"), 1) } else { url }
    }

    /// Returns the store's URL for the user with all permissions.
    fn own_url(&self) -> String {
        let url = match &self.server {
            Server::Redis(server) => server.url(),
            Server::Pair(pair) => pair.master().url(),
            Server::Sentinel(watched) => {
                return format!("redis+sentinel://127.0.0.1:{}/0?master={MASTER}", watched.sentinel.port());
            }
            Server::Cluster(cluster, _) => return cluster.url(),
            Server::Postgres(server) => server.url(),
        };
        match self.server.port().zip(self.proxy.as_ref()) {
            Some((port, proxy)) => url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port())),
            None => url,
        }
    }

    /// Opens the test's own connection to the store.
    pub(super) async fn look(&self) -> Result<Arc<dyn Store>> {
        Ok(match &self.server {
            Server::Postgres(_) => {
                Arc::new(PostgresStore::builder(&self.own_url()).time_limit(LIMIT).connect().await?)
            }
            _ => Arc::new(RedisStore::builder(&self.own_url()).time_limit(LIMIT).connect().await?),
        })
    }

    /// Prepares a failover by disconnecting the replica, so that it receives no more writes.
    pub(super) fn part(&self) -> Result<()> {
        if let Server::Pair(pair) = &self.server {
            block_in_place(|| pair.part())?;
        }
        Ok(())
    }

    /// Starts the outage. A momentary outage happens entirely in [`end`](Self::end).
    pub(super) fn begin(&mut self, case: Case) -> Result<()> {
        let fault = match case {
            Case::BlackHole => NetworkFault::BlackHole,
            Case::HalfOpen => NetworkFault::HalfOpen,
            Case::Reset => NetworkFault::Reset,
            _ => NetworkFault::None,
        };
        if let Some(proxy) = &self.proxy {
            proxy.set(fault);
        }
        block_in_place(|| match (&mut self.server, case) {
            (Server::Redis(server), Case::MemoryFull) => Ok(server.refuse_writes()?),
            (Server::Cluster(cluster, _), Case::ClusterPaused) => (0..cluster.nodes().len())
                .try_for_each(|n| Ok(cluster.node_mut(n).map_or(Ok(()), RedisServer::pause)?)),
            (Server::Postgres(server), Case::ReadOnly) => Ok(server.refuse_writes()?),
            (Server::Postgres(server), Case::RightsRevoked) => Ok(server.revoke_writes(SCHEMA, WORKER)?),
            (Server::Redis(server), Case::Killed | Case::Emptied) => Ok(server.kill()?),
            (Server::Redis(server), Case::Paused) => Ok(server.pause()?),
            (Server::Pair(pair), Case::FailedOver) => Ok(pair.kill_master()?),
            (Server::Postgres(server), Case::Killed) => Ok(server.kill()?),
            (Server::Postgres(server), Case::Paused) => Ok(server.pause()?),
            _ if case.lasts() && fault == NetworkFault::None => bail!("{} does not do that", case.name()),
            _ => Ok(()),
        })
    }

    /// Ends the outage. The store is up again when this returns.
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
                (Server::Redis(server), Case::MemoryFull) => server.allow_writes()?,
                (Server::Pair(pair), Case::FailedOver) => pair.fail_over()?,
                (Server::Sentinel(watched), Case::SentinelFailover) => watched.fail_over()?,
                (Server::Cluster(cluster, _), Case::ClusterPaused) => {
                    for n in 0..cluster.nodes().len() {
                        cluster.node_mut(n).map_or(Ok(()), RedisServer::resume)?;
                    }
                    cluster_agrees(cluster)?;
                }
                (Server::Cluster(cluster, replica), Case::ClusterFailover) => {
                    cluster.node_mut(0).context("a cluster has nodes")?.kill()?;
                    cluster.take_over(*replica)?;
                }
                (Server::Postgres(server), Case::ReadOnly) => server.allow_writes()?,
                (Server::Postgres(server), Case::RightsRevoked) => server.grant_writes(SCHEMA, WORKER)?,
                (Server::Postgres(server), Case::Killed | Case::Restarted) => server.restart()?,
                (Server::Postgres(server), Case::Paused) => server.resume()?,
                _ => {}
            }
            anyhow::Ok(())
        })?;
        if let Some((port, proxy)) = self.server.port().zip(self.proxy.as_ref()) {
            proxy.lead_to((Ipv4Addr::LOCALHOST, port).into());
            proxy.heal();
        }
        Ok(())
    }
}

impl Server {
    /// Returns the port to put a proxy in front of, or `None` for a cluster or a server with a sentinel.
    fn port(&self) -> Option<u16> {
        match self {
            Self::Redis(server) => Some(server.port()),
            Self::Pair(pair) => Some(pair.master().port()),
            Self::Postgres(server) => Some(server.port()),
            Self::Sentinel(_) | Self::Cluster(..) => None,
        }
    }
}

impl Watched {
    fn start() -> Result<Self> {
        let (master, replica) = (RedisServer::start()?, RedisServer::start()?);
        replica.replica_of(&master)?;
        let sentinel = RedisSentinel::watch(MASTER, &master)?;
        until(|| match sentinel.replicas(MASTER) {
            Ok(1..) => Ok(()),
            other => Err(format!("the sentinel knows {other:?} replicas")),
        })?;
        Ok(Self { master, replica, sentinel })
    }

    /// Kills the master, and waits until its replica has been promoted and the sentinel names the replica as
    /// master.
    fn fail_over(&mut self) -> Result<()> {
        self.master.kill()?;
        until(|| match self.replica.info("replication", "role") {
            Ok(Some(role)) if role == "master" => Ok(()),
            other => Err(format!("the replica is {other:?}")),
        })?;
        until(|| match self.sentinel.master_port(MASTER) {
            Ok(port) if port == self.replica.port() => Ok(()),
            other => Err(format!("the sentinel names {other:?}")),
        })
    }
}

/// Waits until every node reports a healthy cluster.
fn cluster_agrees(cluster: &RedisCluster) -> Result<()> {
    cluster.nodes().iter().try_for_each(|node| {
        until(|| match node.query::<String>(&["CLUSTER", "INFO"]) {
            Ok(info) if info.contains("cluster_state:ok") => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
}

fn until(look: impl FnMut() -> Result<(), String>) -> Result<()> {
    wait_until(look).map_err(anyhow::Error::msg)
}
