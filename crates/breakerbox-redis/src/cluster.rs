//! A Redis Cluster: the node that owns each bucket, and a link to each node.
//!
//! A task requests the slot map from a node: at once when a request was redirected or a node is down, and every
//! ten seconds. The last response is valid until a newer one arrives. The sender of a request selects the node.
//!
//! The client library's own cluster connection is not used, because it sends a whole pipeline again if one
//! command was redirected or a response was lost, which would count outcomes twice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::connection::Peer;
use crate::error::ConnectError;
use crate::layout::Bucket;
use crate::link::{Link, MAX_PAUSE, Task};
use crate::target::{Login, Servers};

/// The interval between routine requests for the slot map.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// The minimum pause between two requests for the slot map.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The host and port of a node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Address {
    host: Arc<str>,
    port: u16,
}

impl Address {
    /// Parses `host:port`, as in a redirection. If the host is missing, uses that of the node that sent the
    /// redirection, `said_by`.
    pub(crate) fn parse(text: &str, said_by: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { Arc::clone(&said_by.host) } else { host.into() };
        Some(Self { host, port: port.parse().ok()? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The node that owns each bucket, indexed by bucket number; `None` if no node owns the bucket.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Owners(Vec<Option<Address>>);

impl Owners {
    /// Returns the node that owns a bucket.
    pub(crate) fn of(&self, bucket: Bucket) -> Result<&Address, ConnectError> {
        let owner = self.0.get(usize::from(bucket.0)).and_then(Option::as_ref);
        owner.ok_or_else(|| ConnectError::Slot { slot: bucket.slot() })
    }

    /// Returns every node with its buckets.
    pub(crate) fn by_node(&self) -> HashMap<Address, Vec<Bucket>> {
        let mut nodes: HashMap<_, Vec<_>> = HashMap::new();
        for bucket in Bucket::all() {
            if let Ok(address) = self.of(bucket) {
                nodes.entry(address.clone()).or_default().push(bucket);
            }
        }
        nodes
    }

    /// Returns the first bucket of every node.
    pub(crate) fn one_bucket_each(&self) -> Vec<Bucket> {
        let mut seen = HashSet::new();
        Bucket::all().filter(|bucket| self.of(*bucket).is_ok_and(|address| seen.insert(address))).collect()
    }

    /// Parses the response to `CLUSTER SLOTS` from the node `said_by`; `None` if it is invalid.
    fn read(slots: &Value, said_by: &Address) -> Option<Self> {
        let number = |value: &Value| redis::from_redis_value_ref::<u16>(value).ok();
        let mut ranges = Vec::new();
        for range in slots.as_sequence()? {
            let [first, last, master, ..] = range.as_sequence()? else { return None };
            let [host, port, ..] = master.as_sequence()? else { return None };
            let host = redis::from_redis_value_ref::<Option<String>>(host).ok()?.unwrap_or_default();
            let host = if host.is_empty() { Arc::clone(&said_by.host) } else { host.into() };
            ranges.push((number(first)?..=number(last)?, Address { host, port: number(port)? }));
        }
        let owner = |bucket: Bucket| {
            let slot = bucket.slot();
            ranges.iter().find(|(range, _)| range.contains(&slot)).map(|(_, address)| address.clone())
        };
        Some(Self(Bucket::all().map(owner).collect()))
    }
}

/// The bucket owners in the latest response, or the error of the latest request. `None` before the first
/// response.
type Known = Result<Option<Arc<Owners>>, ConnectError>;

/// A Redis Cluster, with the owner of each bucket and a link to each node.
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    owners: watch::Receiver<Known>,
    _refresher: Task,
}

struct Shared {
    seeds: Vec<(String, u16)>,
    login: Login,
    limit: Duration,
    links: Mutex<HashMap<Address, Arc<Link>>>,
    problems: Notify,
}

impl Cluster {
    pub(crate) fn new(seeds: Servers, limit: Duration) -> Self {
        let Servers { addresses, login } = seeds;
        let (links, problems) = (Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { seeds: addresses, login, limit, links, problems });
        let (sender, owners) = watch::channel(Ok(None));
        let refresher = Task::spawn(refresh(Arc::clone(&shared), sender));
        Self { shared, owners, _refresher: refresher }
    }

    /// Waits until the owners of all buckets are known, and returns them.
    pub(crate) async fn owners(&self) -> Result<Arc<Owners>, ConnectError> {
        let mut owners = self.owners.clone();
        match owners.wait_for(|known| !matches!(known, Ok(None))).await.as_deref() {
            Ok(Ok(Some(owners))) => Ok(Arc::clone(owners)),
            Ok(Err(error)) => Err(error.clone()),
            Ok(Ok(None)) | Err(_) => Err(ConnectError::Ended),
        }
    }

    /// Subscribes to changes in which node owns which bucket.
    pub(crate) fn watch(&self) -> watch::Receiver<Known> {
        self.owners.clone()
    }

    pub(crate) fn link(&self, address: &Address) -> Arc<Link> {
        self.shared.link(address)
    }

    /// Returns the settings for a connection to a node.
    pub(crate) fn peer(&self, address: &Address) -> Peer {
        self.shared.peer(address)
    }

    /// Requests a new slot map at once, because a request was redirected or a node is down.
    pub(crate) fn has_changed(&self) {
        self.shared.problems.notify_one();
    }
}

impl Shared {
    fn peer(&self, Address { host, port }: &Address) -> Peer {
        Peer::Node { host: host.to_string(), port: *port, login: self.login.clone() }
    }

    fn links(&self) -> std::sync::MutexGuard<'_, HashMap<Address, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, address: &Address) -> Arc<Link> {
        let mut links = self.links();
        let new = || Arc::new(Link::new(self.peer(address), self.limit));
        Arc::clone(links.entry(address.clone()).or_insert_with(new))
    }

    /// Requests the slot map from the known nodes, then from the nodes in the URL, until a node responds.
    async fn request(&self) -> Result<Owners, ConnectError> {
        let known: Vec<_> =
            self.links().iter().map(|(address, link)| (address.clone(), Arc::clone(link))).collect();
        // Start with a random node: a particular one might be outdated.
        let first = rand::rng().random_range(0..known.len().max(1));
        for (address, link) in known.iter().cycle().skip(first).take(known.len()) {
            if let Ok(Ok(connection)) = timeout(self.limit, link.connection()).await
                && let Ok(owners) = self.refresh_from(connection, address).await
            {
                return Ok(owners);
            }
        }
        let mut last = ConnectError::Ended;
        for (host, port) in &self.seeds {
            let address = Address { host: host.as_str().into(), port: *port };
            let ignore_pushes = |_| Ok::<(), ()>(());
            let answer = match self.peer(&address).connect(self.limit, ignore_pushes).await {
                Ok(connection) => self.refresh_from(connection, &address).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(owners) => return Ok(owners),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn refresh_from(
        &self,
        mut connection: MultiplexedConnection,
        address: &Address,
    ) -> Result<Owners, ConnectError> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let name = address.to_string();
        match timeout(self.limit, question.query_async(&mut connection)).await {
            Ok(Ok(slots)) => Owners::read(&slots, address).ok_or_else(|| ConnectError::Unreachable {
                address: name,
                reason: "its answer to CLUSTER SLOTS can't be read".to_owned(),
            }),
            Ok(Err(error)) => Err(ConnectError::of(&error, &name)),
            Err(_) => Err(ConnectError::TimedOut { address: name, limit: self.limit }),
        }
    }
}

/// Keeps the owners of the buckets up to date until the task is aborted.
async fn refresh(shared: Arc<Shared>, owners: watch::Sender<Known>) {
    loop {
        let answer = shared.request().await;
        let again = if answer.is_ok() { REFRESH_EVERY } else { MAX_PAUSE };
        match answer {
            Ok(new) => {
                let nodes: HashSet<_> = new.0.iter().flatten().cloned().collect();
                shared.links().retain(|address, _| nodes.contains(address));
                owners.send_if_modified(|known| {
                    let differs = !matches!(known, Ok(Some(old)) if **old == new);
                    if differs {
                        *known = Ok(Some(Arc::new(new)));
                    }
                    differs
                });
            }
            // Outdated owners are better than none.
            Err(error) => {
                owners.send_if_modified(|known| match known {
                    Ok(Some(_)) => false,
                    _ => {
                        *known = Err(error);
                        true
                    }
                });
            }
        }
        sleep(MIN_PAUSE).await;
        tokio::select! {
            () = shared.problems.notified() => {}
            () = sleep(again) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(answer: &[u8]) -> Option<Owners> {
        let said_by = Address { host: "10.0.0.9".into(), port: 1 };
        Owners::read(&redis::parse_redis_value(answer).unwrap(), &said_by)
    }

    #[test]
    fn slots_are_read_and_a_node_without_a_host_is_the_one_that_was_asked() {
        let answer = b"*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n\
            *4\r\n:8192\r\n:16000\r\n*3\r\n$-1\r\n:7001\r\n$1\r\nb\r\n*3\r\n$1\r\nr\r\n:7002\r\n$1\r\nc\r\n";
        let owners = owners(answer).unwrap();
        let counts: HashMap<_, _> = owners
            .by_node()
            .into_iter()
            .map(|(address, buckets)| (address.to_string(), buckets.len()))
            .collect();
        assert_eq!(counts.keys().collect::<HashSet<_>>().len(), 2);
        let unowned = 1_024 - counts["10.0.0.1:7000"] - counts["10.0.0.9:7001"];
        assert_eq!(unowned, Bucket::all().filter(|bucket| bucket.slot() > 16_000).count());
        assert_eq!(owners.of(Bucket(524)).unwrap().to_string(), "10.0.0.9:7001");
    }

    #[test]
    fn nonsense_is_no_map() {
        for answer in [&b"+OK\r\n"[..], b"*1\r\n:1\r\n", b"*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n"] {
            assert_eq!(owners(answer), None);
        }
    }

    #[test]
    fn a_redirection_names_its_target() {
        let here = Address { host: "here".into(), port: 1 };
        let parse = |text| Address::parse(text, &here).map(|address| address.to_string());
        assert_eq!(parse("10.0.0.1:7000").as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(parse("::1:7000").as_deref(), Some("::1:7000"));
        assert_eq!(parse(":7000").as_deref(), Some("here:7000"));
        assert_eq!(parse("nowhere"), None);
    }
}
