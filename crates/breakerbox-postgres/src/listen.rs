//! Receives changes with `LISTEN` and `NOTIFY`, on a separate connection. After a reconnect, it publishes that
//! changes may have been missed.
//!
//! An idle connection may be dead, so it is tested every few seconds. Nothing is queued here: a listener that
//! is too slow is notified that it missed changes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use breakerbox::store::{Announcer, StoreEvent};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use crate::backoff::Backoff;
use crate::database::{Database, Wire};
use crate::error::ConnectError;
use crate::message;
use crate::operations::Operations;
use crate::statements::channel;
use crate::tables::set_up;

/// The timeout for opening a listening connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The minimum lifetime of a connection after which its loss resets the backoff.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(30);

/// Opens connections that listen for changes.
pub(crate) struct Listener {
    database: Database,
    schema: String,
    heartbeat_every: Duration,
    /// Whether the store's tables are known to exist.
    is_set_up: AtomicBool,
}

impl Listener {
    pub(crate) fn new(database: Database, schema: &str, heartbeat_every: Duration) -> Self {
        let schema = schema.to_owned();
        Self { database, schema, heartbeat_every, is_set_up: AtomicBool::new(false) }
    }

    /// Opens a connection and starts to listen. The first call also creates missing tables.
    pub(crate) async fn open(&self) -> Result<ListenerConnection, ConnectError> {
        if !self.is_set_up.load(Ordering::Relaxed) {
            set_up(&self.database, &self.schema).await?;
            self.is_set_up.store(true, Ordering::Relaxed);
        }
        let (client, mut wire) = self.database.connect().await?;
        let listen = format!("LISTEN \"{}\"", channel(&self.schema));
        let listening = tokio::select! {
            listening = client.batch_execute(&listen) => listening.map_err(|error| self.database.explain(&error)),
            // Messages that arrive before this point are older than any listener.
            () = drain(&mut wire) => Err(ConnectError::Failed { reason: "the server hung up".to_owned() }),
        };
        listening.map(|()| ListenerConnection { client, wire })
    }
}

/// A connection that listens for changes.
pub(crate) struct ListenerConnection {
    client: Client,
    wire: Wire,
}

impl ListenerConnection {
    /// Publishes the messages that the connection receives, until the connection is lost.
    async fn publish_messages(
        &mut self,
        operations: &Operations,
        announcer: &Announcer,
        heartbeat_every: Duration,
    ) {
        let Self { client, wire } = self;
        let receiving = async {
            while let Some(text) = next(wire).await {
                announcer.announce(parse_message(&text, operations).await);
            }
        };
        let heartbeat = async {
            loop {
                sleep(heartbeat_every).await;
                if !matches!(timeout(heartbeat_every, client.simple_query("")).await, Ok(Ok(_))) {
                    break;
                }
            }
        };
        tokio::select! {
            () = receiving => {},
            () = heartbeat => {},
        }
    }
}

/// Listens for changes until the task is aborted, starting with the connection `first`. After a lost connection
/// was replaced, listeners receive [`StoreEvent::Missed`].
pub(crate) async fn listen_for_ever(
    listener: Listener,
    mut first: Option<ListenerConnection>,
    operations: Arc<Operations>,
    announcer: Arc<Announcer>,
) {
    let mut backoff = Backoff::new();
    loop {
        let mut connection = match first.take() {
            Some(connection) => connection,
            None => match timeout(CONNECT_TIMEOUT, listener.open()).await {
                Ok(Ok(connection)) => {
                    // Published once listening has started: a process that reads from now on misses nothing.
                    announcer.announce(StoreEvent::Missed);
                    connection
                }
                _ => {
                    sleep(backoff.wait()).await;
                    continue;
                }
            },
        };
        let since = Instant::now();
        connection.publish_messages(&operations, &announcer, listener.heartbeat_every).await;
        if since.elapsed() >= RESET_BACKOFF_AFTER {
            backoff = Backoff::new();
        }
        sleep(backoff.wait()).await;
    }
}

/// Parses a message. If the record did not fit into the message, reads the current record from the store, which
/// may be newer than the change.
async fn parse_message(text: &str, operations: &Operations) -> StoreEvent {
    let Some(message) = message::read(text) else { return StoreEvent::Missed };
    if !message.reports.is_empty() {
        return StoreEvent::ReportsWanted {
            keys: message.reports.into_iter().map(|key| Arc::from(&*key)).collect(),
        };
    }
    let Some(key) = message.key.map(Arc::from) else { return StoreEvent::Missed };
    let record = match message.record {
        Some(record) => Some(record),
        None => match operations.read(std::slice::from_ref(&key)).await {
            Ok(answer) => answer.value.into_iter().next().and_then(Result::ok).flatten(),
            Err(_) => None,
        },
    };
    record.map_or(StoreEvent::Missed, |record| StoreEvent::Changed { key, record: Arc::new(record) })
}

/// Returns the next message; `None` once the connection has ended.
async fn next(wire: &mut Wire) -> Option<String> {
    loop {
        match poll_fn(|context| wire.poll_message(context)).await? {
            Ok(AsyncMessage::Notification(notification)) => return Some(notification.payload().to_owned()),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

async fn drain(wire: &mut Wire) {
    while next(wire).await.is_some() {}
}
