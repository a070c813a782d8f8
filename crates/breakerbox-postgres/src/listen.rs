//! The listening end of `LISTEN` and `NOTIFY`: a connection of its own, which comes back by itself, and then says that
//! something may have been missed.
//!
//! A connection that says nothing may be dead, so it is asked every few seconds. Nothing is queued here: what a listener does
//! not take in time, it is told that it missed.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{Announcer, Heard};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use crate::backoff::Backoff;
use crate::database::{Database, Wire};
use crate::error::ConnectError;
use crate::notice;
use crate::verbs::Verbs;

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection must have lasted for the waits to begin small again.
const STEADY: Duration = Duration::from_secs(30);

/// A connection that listens.
pub(crate) struct Ear {
    client: Client,
    wire: Wire,
}

impl Ear {
    /// Begins to listen.
    pub(crate) async fn open(database: &Database, channel: &str) -> Result<Self, ConnectError> {
        let (client, mut wire) = database.connect().await?;
        let listen = format!("LISTEN \"{channel}\"");
        let listening = tokio::select! {
            listening = client.batch_execute(&listen) => listening.map_err(|error| database.explain(&error)),
            // What is heard until then came before anybody could wait for it.
            () = drain(&mut wire) => Err(ConnectError::Failed { reason: "the server hung up".to_owned() }),
        };
        listening.map(|()| Self { client, wire })
    }

    /// Announces what it hears, until the connection is lost.
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

/// Listens until it is dropped. Whoever is told does not notice that the connection was lost, only that it may have missed
/// something.
pub(crate) async fn listen_for_ever(
    mut ear: Ear,
    database: Database,
    channel: String,
    ask_every: Duration,
    verbs: Arc<Verbs>,
    announcer: Arc<Announcer>,
) {
    let mut backoff = Backoff::new();
    loop {
        let since = Instant::now();
        ear.hear(&verbs, &announcer, ask_every).await;
        if since.elapsed() >= STEADY {
            backoff = Backoff::new();
        }
        ear = loop {
            sleep(backoff.wait()).await;
            if let Ok(Ok(ear)) = timeout(PATIENCE, Ear::open(&database, &channel)).await {
                break ear;
            }
        };
        // Now that it listens again: whoever reads from here on misses nothing.
        announcer.announce(Heard::Missed);
    }
}

/// What a text means. A record that did not fit is read; it may be a newer one by then.
async fn understood(text: &str, verbs: &Verbs) -> Heard {
    let Some(notice) = notice::read(text) else { return Heard::Missed };
    let Some(key) = notice.key.map(Arc::from) else { return Heard::Missed };
    let record = match notice.record {
        Some(record) => Some(record),
        None => match verbs.read(std::slice::from_ref(&key)).await {
            Ok(answer) => answer.value.into_iter().flatten().next(),
            Err(_) => None,
        },
    };
    record.map_or(Heard::Missed, |record| Heard::Changed { key, record: Arc::new(record) })
}

/// The next text; none once the connection has ended.
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
