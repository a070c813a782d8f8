//! Connects to an address, or to the master that sentinels name, and checks that the server is of the kind that
//! the URL specifies.
//!
//! Makes one attempt, with a timeout. The callers decide whether and when to retry.

use std::time::Duration;

use futures_util::future::select_ok;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Value};
use tokio::time::timeout;

use crate::error::ConnectError;
use crate::target::{Login, Servers};

/// The minimum timeout for one connection attempt, because a TLS handshake with a distant server takes longer
/// than a command to a nearby one.
const MIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of commands in flight on one connection. Further commands wait until their timeout.
const MAX_IN_FLIGHT: usize = 4_096;

/// The server that a connection is for.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A single server, which must be a master (not a replica).
    Server { host: String, port: u16, login: Login },
    /// The master that these sentinels name.
    Sentinel { sentinels: Servers, master: String, login: Login },
    /// A node of a cluster.
    Node { host: String, port: u16, login: Login },
}

impl Peer {
    /// Returns the server's name for error messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Server { host, port, .. } | Self::Node { host, port, .. } => format!("{host}:{port}"),
            Self::Sentinel { master, .. } => master.clone(),
        }
    }

    /// Makes one connection attempt. The server's push messages, and the notification that the connection
    /// ended, go to `pushes`.
    pub(crate) async fn connect(
        &self,
        limit: Duration,
        pushes: impl AsyncPushSender,
    ) -> Result<MultiplexedConnection, ConnectError> {
        let limit = limit.max(MIN_TIMEOUT);
        let attempt = async {
            match self {
                Self::Server { host, port, login } => {
                    let (connection, hello) = open(login, host, *port, Some(pushes)).await?;
                    hello.expect_master()?;
                    Ok(connection)
                }
                Self::Node { host, port, login } => {
                    let (connection, hello) = open(login, host, *port, Some(pushes)).await?;
                    hello.expect_node()?;
                    Ok(connection)
                }
                Self::Sentinel { sentinels, master, login } => {
                    let (host, port) = ask_sentinels(sentinels, master).await?;
                    let (connection, hello) = open(login, &host, port, Some(pushes)).await?;
                    hello.expect_master()?;
                    Ok(connection)
                }
            }
        };
        let timed_out = |_| Err(ConnectError::TimedOut { address: self.name(), limit });
        timeout(limit, attempt).await.unwrap_or_else(timed_out)
    }
}

/// Queries all sentinels concurrently, and returns the master's address from the first response that contains
/// one. The response may be outdated, so the caller must verify that the server is the master.
async fn ask_sentinels(sentinels: &Servers, master: &str) -> Result<(String, u16), ConnectError> {
    let ask = |(host, port): &(String, u16)| {
        let (host, port) = (host.clone(), *port);
        Box::pin(async move {
            let (mut connection, hello) = open(&sentinels.login, &host, port, None::<IgnorePushes>).await?;
            hello.expect_sentinel()?;
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
            let found: Option<(String, u16)> = question
                .query_async(&mut connection)
                .await
                .map_err(|error| ConnectError::of(&error, &hello.address))?;
            found.ok_or_else(|| ConnectError::Master { master: master.to_owned() })
        })
    };
    select_ok(sentinels.addresses.iter().map(ask)).await.map(|(found, _)| found)
}

/// The type of callbacks for connections whose push messages are not used.
type IgnorePushes = fn(redis::PushInfo) -> Result<(), ()>;

async fn open(
    login: &Login,
    host: &str,
    port: u16,
    pushes: Option<impl AsyncPushSender>,
) -> Result<(MultiplexedConnection, Hello), ConnectError> {
    let address = format!("{host}:{port}");
    // The client's own timeouts are disabled: there is one for the whole attempt, and one for each exchange.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let mut config = config.set_concurrency_limit(MAX_IN_FLIGHT);
    if let Some(pushes) = pushes {
        config = config.set_push_sender(pushes);
    }
    let failed = |error| ConnectError::of(&error, &address);
    let client = login.client(host, port)?;
    let mut connection =
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
    let hello: Value = redis::cmd("HELLO").query_async(&mut connection).await.map_err(failed)?;
    Ok((connection, Hello::new(&hello, address)?))
}

/// The fields of a server's response to `HELLO` that the store checks.
struct Hello {
    address: String,
    mode: String,
    role: String,
}

impl Hello {
    fn new(hello: &Value, address: String) -> Result<Self, ConnectError> {
        let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
        let field = |name: &str| {
            let fields = hello.as_map_iter().into_iter().flatten();
            fields
                .filter(|(key, _)| text(key) == name)
                .map(|(_, value)| text(value))
                .next()
                .unwrap_or_default()
        };
        let version = field("version");
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major < 7) {
            return Err(ConnectError::TooOld { address, version });
        }
        Ok(Self { address, mode: field("mode"), role: field("role") })
    }

    fn expect_master(&self) -> Result<(), ConnectError> {
        match (self.mode.as_str(), self.role.as_str()) {
            ("cluster", _) => self.kind("a node of a cluster", "redis+cluster:// or rediss+cluster://"),
            ("sentinel", _) => self.kind("a sentinel", "redis+sentinel:// or rediss+sentinel://"),
            (_, "replica" | "slave") => Err(ConnectError::Replica { address: self.address.clone() }),
            _ => Ok(()),
        }
    }

    fn expect_node(&self) -> Result<(), ConnectError> {
        match self.mode.as_str() {
            "cluster" => Ok(()),
            "sentinel" => self.kind("a sentinel", "redis+sentinel:// or rediss+sentinel://"),
            _ => self.kind("no part of a cluster", "redis:// or rediss://"),
        }
    }

    fn expect_sentinel(&self) -> Result<(), ConnectError> {
        match self.mode.as_str() {
            "sentinel" => Ok(()),
            _ => self.kind("no sentinel", "redis://, rediss://, redis+cluster:// or rediss+cluster://"),
        }
    }

    fn kind(&self, found: &'static str, scheme: &'static str) -> Result<(), ConnectError> {
        Err(ConnectError::Kind { address: self.address.clone(), found, scheme })
    }
}
