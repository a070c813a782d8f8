//! The listening end of `LISTEN` and `NOTIFY`: a separate connection, which reconnects by itself, and then publishes
//! that changes may have been missed.
//!
//! A silent connection may be dead, so it is tested every few seconds. Nothing is queued here: a listener that is too
//! slow is notified that it missed changes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use breakerbox::store::{Announcer, Heard};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use crate::backoff::Backoff;
use crate::builder::Builder;
use crate::database::{Database, Wire};
use crate::error::ConnectError;
use crate::notice;
use crate::statements::channel;
use crate::verbs::Verbs;

/// The timeout for opening a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection must have lasted for the backoff to start over.
const STEADY: Duration = Duration::from_secs(30);

/// Opens connections that listen.
pub(crate) struct Ears {
    database: Database,
    schema: String,
    ask_every: Duration,
    /// Whether the tables are known to exist.
    is_set_up: AtomicBool,
}

impl Ears {
    pub(crate) fn new(database: Database, builder: &Builder) -> Self {
        let (schema, ask_every) = (builder.schema.clone(), builder.ask_every);
        Self { database, schema, ask_every, is_set_up: AtomicBool::new(false) }
    }

    /// Opens a connection and starts to listen. The first time, it creates missing tables.
    pub(crate) async fn open(&self) -> Result<Ear, ConnectError> {
        if !self.is_set_up.load(Ordering::Relaxed) {
            self.database.set_up(&self.schema).await?;
            self.is_set_up.store(true, Ordering::Relaxed);
        }
        let (client, mut wire) = self.database.connect().await?;
        let listen = format!("LISTEN \"{}\"", channel(&self.schema));
        let listening = tokio::select! {
            listening = client.batch_execute(&listen) => listening.map_err(|error| self.database.explain(&error)),
            // Messages that arrive before that are older than any listener.
            () = drain(&mut wire) => Err(ConnectError::Failed { reason: "the server hung up".to_owned() }),
        };
        listening.map(|()| Ear { client, wire })
    }
}

/// A connection that listens.
pub(crate) struct Ear {
    client: Client,
    wire: Wire,
}

impl Ear {
    /// Publishes the messages it receives, until the connection is lost.
    async fn hear(&mut self, verbs: &Verbs, announcer: &Announcer, ask_every: Duration) {
        let Self { client, wire } = self;
        let hearing = async {
            while let Some(text) = next(wire).await {
                announcer.announce(understood(&text, verbs).await);
            }
        };
        let asking = async {
            loop {
                sleep(ask_every).await;
                if !matches!(timeout(ask_every, client.simple_query("")).await, Ok(Ok(_))) {
                    break;
                }
            }
        };
        tokio::select! {
            () = hearing => {},
            () = asking => {},
        }
    }
}

/// Listens until it is dropped, with this connection first. Listeners do not see that a connection was lost, only that
/// they may have missed changes.
pub(crate) async fn listen_for_ever(
    ears: Ears,
    mut first: Option<Ear>,
    verbs: Arc<Verbs>,
    announcer: Arc<Announcer>,
) {
    let mut backoff = Backoff::new();
    loop {
        let mut ear = match first.take() {
            Some(ear) => ear,
            None => match timeout(PATIENCE, ears.open()).await {
                Ok(Ok(ear)) => {
                    // Published after listening began: a process that reads from now on misses nothing.
                    announcer.announce(Heard::Missed);
                    ear
                }
                _ => {
                    sleep(backoff.wait()).await;
                    continue;
                }
            },
        };
        let since = Instant::now();
        ear.hear(&verbs, &announcer, ears.ask_every).await;
        if since.elapsed() >= STEADY {
            backoff = Backoff::new();
        }
        sleep(backoff.wait()).await;
    }
}

/// Parses a message. A record that did not fit into it is read from the store; by then it may be a newer one.
async fn understood(text: &str, verbs: &Verbs) -> Heard {
    let Some(notice) = notice::read(text) else { return Heard::Missed };
    if !notice.reports.is_empty() {
        return Heard::ReportsWanted {
            keys: notice.reports.into_iter().map(|key| Arc::from(&*key)).collect(),
        };
    }
    let Some(key) = notice.key.map(Arc::from) else { return Heard::Missed };
    let record = match notice.record {
        Some(record) => Some(record),
        None => match verbs.read(std::slice::from_ref(&key)).await {
            Ok(answer) => answer.value.into_iter().next().and_then(Result::ok).flatten(),
            Err(_) => None,
        },
    };
    record.map_or(Heard::Missed, |record| Heard::Changed { key, record: Arc::new(record) })
}

/// Returns the next message; none once the connection has ended.
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
