//! The settings for a Redis store, and connecting with them.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::Announcer;
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::connection::Peer;
use crate::error::ConnectError;
use crate::layout::Layout;
use crate::link::Link;
use crate::listening::Listening;
use crate::servers::Servers;
use crate::store::RedisStore;
use crate::target::Target;
use crate::wire::Wire;

/// The default request timeout. It leaves ample time, because a nearby server responds in less than a
/// millisecond.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_millis(400);

// If they were equal, which of the two timeouts expires first, and which error is reported, would be random.
const _: () = assert!(DEFAULT_TIME_LIMIT.as_millis() < breakerbox::DEFAULT_STORE_TIMEOUT.as_millis());

/// The default prefix for all keys and channels.
pub const DEFAULT_NAMESPACE: &str = "breakerbox";

/// The maximum length of a namespace, in bytes.
const MAX_NAMESPACE_LENGTH: usize = 64;

/// The timeout for the whole connection setup, for all servers.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Builds a [`RedisStore`] with settings other than the defaults.
///
/// ```
/// use breakerbox_redis::RedisStore;
/// use std::time::Duration;
///
/// # let server = breakerbox_testkit::servers::RedisServer::start()?;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let url = "rediss://fleet:secret@redis.example:6380/2";
/// # let url = &server.url();
/// let store = RedisStore::builder(url)
///     .namespace("shop")
///     .time_limit(Duration::from_millis(200))
///     .connect()
///     .await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisStoreBuilder {
    url: Url,
    namespace: String,
    time_limit: Duration,
    root_certificate: Option<Vec<u8>>,
}

/// A URL that may contain a password, so its `Debug` output must not show it.
#[derive(Clone)]
struct Url(String);

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

impl RedisStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: Url(url.to_owned()),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            time_limit: DEFAULT_TIME_LIMIT,
            root_certificate: None,
        }
    }

    /// Sets the prefix for all keys and channels. Default: [`DEFAULT_NAMESPACE`]. Fleets that share a server
    /// must use different namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// Sets the request timeout. Default: [`DEFAULT_TIME_LIMIT`]. Listing a page of circuits may take longer,
    /// because it takes several requests.
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Sets the root certificate with which servers are verified, as PEM. This certificate replaces those that
    /// the system trusts.
    pub fn root_certificate(mut self, pem: &[u8]) -> Self {
        self.root_certificate = Some(pem.to_owned());
        self
    }

    /// Connects, and returns when every server has been reached once and the store listens for all changes.
    ///
    /// # Errors
    /// Returns a [`ConnectError`], which states what to do, if the store can't connect.
    pub async fn connect(self) -> Result<RedisStore, ConnectError> {
        let (store, name) = self.start()?;
        let late = |_| Err(ConnectError::TimedOut { address: name, limit: CONNECT_LIMIT });
        timeout(CONNECT_LIMIT, store.is_ready()).await.unwrap_or_else(late)?;
        Ok(store)
    }

    /// Creates a store that connects in the background, for a service that must start even if Redis is down.
    /// Requests fail until the store is connected. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns a [`ConnectError`] if the URL or a setting is invalid.
    pub fn open(self) -> Result<RedisStore, ConnectError> {
        self.start().map(|(store, _)| store)
    }

    fn start(self) -> Result<(RedisStore, String), ConnectError> {
        let again = self.clone();
        let Self { url, namespace, time_limit: limit, root_certificate } = self;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if namespace.is_empty() || namespace.len() > MAX_NAMESPACE_LENGTH || !namespace.chars().all(is_plain)
        {
            return Err(ConnectError::Namespace { namespace });
        }
        if limit.is_zero() {
            return Err(ConnectError::TimeLimit);
        }
        let target = Target::parse(&url.0, root_certificate)?;
        let (name, layout, announcer) = (target.name(), Layout::new(&namespace), Arc::new(Announcer::new()));
        let one = |peer: Peer| {
            let link = Arc::new(Link::new(peer.clone(), limit));
            let listening = Listening::at_one(peer, &link, &layout, &announcer, limit);
            (Wire::One(link), listening)
        };
        let (wire, listening) = match target {
            Target::Server(mut servers) => {
                let nobody = || ConnectError::Url { reason: "it has no host".to_owned() };
                let (host, port) = servers.addresses.pop().ok_or_else(nobody)?;
                one(Peer::Server { host, port, login: servers.login })
            }
            Target::Sentinel { sentinels, master, login } => one(Peer::Sentinel { sentinels, master, login }),
            Target::Cluster(servers) => {
                let cluster = Arc::new(Cluster::new(servers, limit));
                let listening = Listening::at_all(&cluster, &layout, &announcer, limit);
                (Wire::Cluster(cluster), listening)
            }
        };
        let servers = Servers { wire, layout, limit };
        // These settings have been validated already, so opening the store again succeeds.
        let reopen = move || again.clone().open().ok();
        Ok((RedisStore::new(servers, announcer, listening, reopen), name))
    }
}

impl RedisStore {
    /// Creates a store with the default settings that connects in the background. If Redis is down when a
    /// service starts, the service starts degraded, and joins the fleet when Redis is up. Must be called within
    /// a tokio runtime that lives as long as the store.
    ///
    /// # Errors
    /// Returns a [`ConnectError`] if the URL is invalid. All other problems are reported as the store's health.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).open()
    }

    /// Connects with the default settings. To start even if the server is down, use [`open`](Self::open).
    ///
    /// # Errors
    /// Returns a [`ConnectError`], which states what to do, if the URL is invalid or no usable server is found.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder for settings other than the defaults.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }
}
