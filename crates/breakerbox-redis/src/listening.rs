//! Receives the records that any process has swapped in, and passes them to the listeners in this process.
//!
//! A single server has one channel for all changes. A cluster has a channel for each bucket, in the bucket's
//! hash slot (sharded pub/sub). The node that owns the slot sends a change directly to its subscribers, so a
//! message can be lost only with one of this process's connections, and the process detects that loss. These
//! connections are separate from those for requests, and each is tested every second. After every gap,
//! [`StoreEvent::Missed`] is published, once the subscription is complete again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::Record;
use breakerbox::store::{Announcer, StoreEvent};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushInfo, PushKind, RedisError, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::calling;
use crate::cluster::{Address, Cluster};
use crate::connection::Peer;
use crate::error::ConnectError;
use crate::layout::{Bucket, Layout};
use crate::link::{Link, Pauses, State, Task, is_alive};

/// The interval between tests of a listening connection.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// The task that listens for changes.
pub(crate) struct Listening {
    progress: watch::Receiver<Progress>,
    _task: Task,
}

/// The progress of subscribing at all nodes.
#[derive(Default)]
struct Progress {
    /// The number of nodes to subscribe at; `None` until the nodes are known.
    expected: Option<usize>,
    /// The result of the latest attempt to connect to each node, by the node's name.
    nodes: HashMap<String, Result<(), ConnectError>>,
}

/// The state that the listening tasks for all nodes share.
#[derive(Clone)]
struct Listener {
    announcer: Arc<Announcer>,
    layout: Layout,
    limit: Duration,
    progress: Arc<watch::Sender<Progress>>,
}

impl Listening {
    /// Starts listening at a single server.
    pub(crate) fn at_one(
        peer: Peer,
        link: &Link,
        layout: &Layout,
        announcer: &Arc<Announcer>,
        limit: Duration,
    ) -> Self {
        let (listener, progress) = Listener::new(layout, announcer, limit);
        listener.expect(1);
        let channels = Channels::One(layout.changes());
        let task = Task::spawn(listen(listener, peer, link.watch(), channels, || {}));
        Self { progress, _task: task }
    }

    /// Starts listening at every node of a cluster.
    pub(crate) fn at_all(
        cluster: &Arc<Cluster>,
        layout: &Layout,
        announcer: &Arc<Announcer>,
        limit: Duration,
    ) -> Self {
        let (listener, progress) = Listener::new(layout, announcer, limit);
        let task = Task::spawn(listen_at_all(listener, Arc::clone(cluster)));
        Self { progress, _task: task }
    }

    /// Waits until all subscriptions are complete, or one has failed.
    pub(crate) async fn is_ready(&self) -> Result<(), ConnectError> {
        let mut progress = self.progress.clone();
        let settled = progress.wait_for(|progress| {
            let failed = progress.nodes.values().any(Result::is_err);
            failed || progress.expected == Some(progress.nodes.len())
        });
        match settled.await {
            Ok(progress) => progress.nodes.values().cloned().collect(),
            Err(_) => Err(ConnectError::Ended),
        }
    }
}

impl Listener {
    fn new(
        layout: &Layout,
        announcer: &Arc<Announcer>,
        limit: Duration,
    ) -> (Self, watch::Receiver<Progress>) {
        let (sender, progress) = watch::channel(Progress::default());
        let (announcer, layout) = (Arc::clone(announcer), layout.clone());
        (Self { announcer, layout, limit, progress: Arc::new(sender) }, progress)
    }

    fn expect(&self, nodes: usize) {
        self.progress.send_modify(|progress| progress.expected = Some(nodes));
    }

    fn note(&self, node: &str, result: Result<(), ConnectError>) {
        self.progress.send_modify(|progress| _ = progress.nodes.insert(node.to_owned(), result));
    }

    /// Returns a callback for push messages. It publishes changes to listeners, and notifies `ended` when the
    /// subscription ends.
    fn push_handler(&self, ended: &Arc<Notify>) -> impl Fn(PushInfo) -> Result<(), ()> + use<> {
        let (announcer, ended) = (Arc::clone(&self.announcer), Arc::clone(ended));
        move |push| {
            match push.kind {
                PushKind::Message | PushKind::SMessage => {
                    let message = push.data.last().and_then(read_message);
                    // A newer version may have sent a message that this one can't parse. Listeners then read
                    // the record from the store.
                    announcer.announce(message.unwrap_or(StoreEvent::Missed));
                }
                // A node sends an unsubscription unasked when a slot moves away.
                PushKind::Disconnection | PushKind::SUnsubscribe | PushKind::Unsubscribe => {
                    ended.notify_one();
                }
                _ => {}
            }
            Ok(())
        }
    }
}

/// The channels to subscribe to on one node.
enum Channels {
    One(String),
    /// A channel for each bucket that a node owns.
    Sharded(Vec<String>),
}

/// Listens at all nodes, and restarts the listeners of nodes whose buckets change.
async fn listen_at_all(listener: Listener, cluster: Arc<Cluster>) {
    let mut owners = cluster.watch();
    let mut listeners: HashMap<Address, (Vec<Bucket>, Task)> = HashMap::new();
    loop {
        let plan = match &*owners.borrow_and_update() {
            Ok(Some(owners)) => owners.by_node(),
            _ => HashMap::new(),
        };
        listeners.retain(|address, (buckets, _)| plan.get(address) == Some(buckets));
        listener.progress.send_modify(|progress| {
            progress.expected = (!plan.is_empty()).then_some(plan.len());
            progress.nodes.retain(|node, _| plan.keys().any(|address| address.to_string() == *node));
        });
        for (address, buckets) in plan {
            let listener = &listener;
            let start = |address: &Address| {
                let channels = buckets.iter().map(|bucket| listener.layout.changes_in(*bucket)).collect();
                let (peer, link) = (cluster.peer(address), cluster.link(address).watch());
                let changed = {
                    let cluster = Arc::downgrade(&cluster);
                    move || _ = cluster.upgrade().map(|cluster| cluster.has_changed())
                };
                let channels = Channels::Sharded(channels);
                (buckets, Task::spawn(listen(listener.clone(), peer, link, channels, changed)))
            };
            listeners.entry(address).or_insert_with_key(start);
        }
        if owners.changed().await.is_err() {
            return;
        }
    }
}

/// Listens at one node until the task is aborted, and reconnects whenever the connection ends.
async fn listen(
    listener: Listener,
    peer: Peer,
    mut link: watch::Receiver<State>,
    channels: Channels,
    on_failure: impl Fn() + Send,
) {
    let node = peer.name();
    let mut pauses = Pauses::default();
    loop {
        let ended = Arc::new(Notify::new());
        match begin(&listener, &peer, &mut link, &channels, &ended).await {
            Ok(connection) => {
                let since = Instant::now();
                listener.announcer.announce(StoreEvent::Missed);
                listener.note(&node, Ok(()));
                until_gap(connection, &listener, &mut link, &ended).await;
                pauses.lasted(since.elapsed());
            }
            Err(error) => {
                listener.note(&node, Err(error));
                pauses.failed();
            }
        }
        on_failure();
        pauses.wait().await;
    }
}

/// Makes one attempt to connect to a node and subscribe.
async fn begin(
    listener: &Listener,
    peer: &Peer,
    link: &mut watch::Receiver<State>,
    channels: &Channels,
    ended: &Arc<Notify>,
) -> Result<MultiplexedConnection, ConnectError> {
    // If the request connection is down, don't try to listen: the reason is already known.
    match link.wait_for(|state| !matches!(state, State::Connecting)).await.as_deref() {
        Ok(State::Down(error)) => return Err(error.clone()),
        Ok(_) => {}
        Err(_) => return Err(ConnectError::Ended),
    }
    link.mark_unchanged();
    let mut connection = peer.connect(listener.limit, listener.push_handler(ended)).await?;
    let name = peer.name();
    let subscribed = timeout(listener.limit, subscribe(&mut connection, channels)).await;
    match subscribed {
        Ok(Ok(())) => Ok(connection),
        Ok(Err(error)) => Err(ConnectError::of(&error, &name)),
        Err(_) => Err(ConnectError::TimedOut { address: name, limit: listener.limit }),
    }
}

async fn subscribe(connection: &mut MultiplexedConnection, channels: &Channels) -> Result<(), RedisError> {
    let channels = match channels {
        Channels::One(channel) => return connection.subscribe(channel).await,
        Channels::Sharded(channels) => channels,
    };
    let mut pipeline = Pipeline::with_capacity(channels.len());
    channels.iter().for_each(|channel| _ = pipeline.cmd("SSUBSCRIBE").arg(channel));
    for value in connection.send_packed_commands(&pipeline, 0, channels.len()).await? {
        value.extract_error()?;
    }
    Ok(())
}

/// Waits until the connection or the subscription has ended, after which messages may be missed.
async fn until_gap(
    mut connection: MultiplexedConnection,
    listener: &Listener,
    link: &mut watch::Receiver<State>,
    ended: &Notify,
) {
    loop {
        tokio::select! {
            () = ended.notified() => return,
            // The link reconnected, so the server may be a different one now.
            Ok(()) = link.changed() => if matches!(&*link.borrow_and_update(), State::Up(_)) {
                return;
            },
            () = sleep(HEARTBEAT_EVERY) => if !is_alive(&mut connection, listener.limit).await {
                return;
            },
        }
    }
}

/// Parses a message, which is either a request for reports or a change. The swap script writes a change as the
/// length of the key, a colon, the key, and the record.
fn read_message(message: &Value) -> Option<StoreEvent> {
    let Value::BulkString(bytes) = message else { return None };
    let text = std::str::from_utf8(bytes).ok()?;
    if let Some(call) = calling::read(text) {
        return Some(call);
    }
    let (length, rest) = text.split_once(':')?;
    let (key, record) = rest.split_at_checked(length.parse().ok()?)?;
    let record: Record = serde_json::from_str(record).ok()?;
    Some(StoreEvent::Changed { key: key.into(), record: Arc::new(record) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_nonsense_is_not() {
        let record = r#"{"state":"closed","epoch":7,"version":"1","trips":0,"probe_successes":0,"mode":"automatic","changed_at":5}"#;
        let message = |text: String| read_message(&Value::BulkString(text.into_bytes()));
        let heard = message(format!("9:a key: \u{e9}{record}"));
        assert!(matches!(heard, Some(StoreEvent::Changed { key, .. }) if &*key == "a key: \u{e9}"));
        for nonsense in ["", "9", "9:", "x:y", "1:\u{e9}{}", "99:short", "3:key{}"] {
            assert_eq!(message(nonsense.to_owned()), None, "{nonsense}");
        }
        assert_eq!(read_message(&Value::Nil), None);
    }
}
