//! Receives what other processes say with `NOTIFY`, on a connection of its own, which has to be direct: a pooler in transaction mode
//! does not support `LISTEN`. After a gap, listeners hear that they may have missed something.
//!
//! A message is only a hint. A process also looks in the database every few seconds, so a lost message delays it at most.

use std::future::poll_fn;
use std::time::Duration;

use breakerbox_postgres::ConnectError;
use breakerbox_postgres::connections::{Backoff, Database as Connections, Task, Wire};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Notification};

/// The timeout for opening a listening connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which the connection is tested, because an idle connection may be dead.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// The minimum lifetime of a connection after which its loss resets the backoff.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(30);
/// The maximum number of messages that wait for a slow listener. After that, it hears that it missed some.
const WAITING: usize = 1_024;

/// Something that another process said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Tenants, endpoints or API keys changed; the number of the latest change.
    Directory(i64),
    /// Deliveries wait in these lanes; each with its tenant's number.
    Woken(Vec<(i64, i64)>),
    /// Reminders have to be checked.
    Reminders,
    /// Messages may have been missed, because there was no connection for a while, or because there were too many.
    Missed,
}

/// Returns the name of the channel on which changes of the directory are announced. The schema's triggers use it.
fn directory_channel(schema: &str) -> String {
    format!("{schema}_directory")
}

/// Returns the name of the channel on which lanes are announced.
pub(crate) fn wake_channel(schema: &str) -> String {
    format!("{schema}_wake")
}

/// Returns the name of the channel on which reminders that have to be checked are announced.
pub(crate) fn reminders_channel(schema: &str) -> String {
    format!("{schema}_reminders")
}

/// A task that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    heard: broadcast::Sender<Heard>,
    _task: Task,
}

impl Listener {
    /// Starts to listen for what processes other than `worker` say.
    pub(crate) fn start(connections: Connections, schema: &str, worker: i64) -> Self {
        let (heard, _) = broadcast::channel(WAITING);
        let listening = Listening { connections, schema: schema.to_owned(), worker, heard: heard.clone() };
        Self { heard, _task: Task::spawn(listening.for_ever()) }
    }

    /// Returns a receiver of everything that is heard from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Heard> {
        self.heard.subscribe()
    }
}

struct Listening {
    connections: Connections,
    schema: String,
    worker: i64,
    heard: broadcast::Sender<Heard>,
}

impl Listening {
    async fn for_ever(self) {
        let mut backoff = Backoff::new();
        loop {
            if let Ok(Ok((client, wire))) = timeout(CONNECT_TIMEOUT, self.open()).await {
                // Announced once listening has started: a process that reads from now on misses nothing.
                self.say(Heard::Missed);
                let since = Instant::now();
                self.pass_on(&client, wire).await;
                if since.elapsed() >= RESET_BACKOFF_AFTER {
                    backoff = Backoff::new();
                }
            }
            sleep(backoff.wait()).await;
        }
    }

    async fn open(&self) -> Result<(Client, Wire), ConnectError> {
        let (client, mut wire) = self.connections.connect().await?;
        let listen = format!(
            "LISTEN \"{}\"; LISTEN \"{}\"; LISTEN \"{}\"",
            directory_channel(&self.schema),
            wake_channel(&self.schema),
            reminders_channel(&self.schema)
        );
        let listening = tokio::select! {
            listening = client.batch_execute(&listen) => listening.map_err(|error| self.connections.explain(&error)),
            // Messages that arrive before this point are covered by the announcement that some may have been missed.
            () = drain(&mut wire) => Err(ConnectError::Failed { reason: "the server hung up".to_owned() }),
        };
        listening.map(|()| (client, wire))
    }

    /// Passes messages on until the connection is lost.
    async fn pass_on(&self, client: &Client, mut wire: Wire) {
        let receiving = async {
            while let Some(notification) = next(&mut wire).await {
                if let Some(heard) = self.read(&notification) {
                    self.say(heard);
                }
            }
        };
        let heartbeat = async {
            loop {
                sleep(HEARTBEAT_EVERY).await;
                if !matches!(timeout(HEARTBEAT_EVERY, client.simple_query("")).await, Ok(Ok(_))) {
                    break;
                }
            }
        };
        tokio::select! {
            () = receiving => {},
            () = heartbeat => {},
        }
    }

    /// Reads a message. Returns `None` if this process sent it.
    fn read(&self, notification: &Notification) -> Option<Heard> {
        let text = notification.payload();
        if notification.channel() == directory_channel(&self.schema) {
            return Some(text.parse().map_or(Heard::Missed, Heard::Directory));
        }
        if notification.channel() == reminders_channel(&self.schema) {
            return (text != self.worker.to_string()).then_some(Heard::Reminders);
        }
        let Some((worker, lanes)) = read_lanes(text) else { return Some(Heard::Missed) };
        (worker != self.worker).then_some(Heard::Woken(lanes))
    }

    fn say(&self, heard: Heard) {
        // There may be no subscriber.
        let _ = self.heard.send(heard);
    }
}

/// Writes the message that deliveries wait in lanes.
pub(crate) fn write_lanes(worker: i64, lanes: &[(i64, i64)]) -> String {
    let lanes: Vec<String> = lanes.iter().map(|(lane, tenant)| format!("{lane:x}.{tenant:x}")).collect();
    format!("{worker:x} {}", lanes.join(" "))
}

/// Reads the message that deliveries wait in lanes: who sent it, and each lane with its tenant.
fn read_lanes(text: &str) -> Option<(i64, Vec<(i64, i64)>)> {
    let number = |text: &str| i64::from_str_radix(text, 16).ok();
    let mut words = text.split_ascii_whitespace();
    let worker = number(words.next()?)?;
    let lane = |word: &str| {
        let (lane, tenant) = word.split_once('.')?;
        Some((number(lane)?, number(tenant)?))
    };
    Some((worker, words.map(lane).collect::<Option<_>>()?))
}

/// Returns the next message; `None` once the connection has ended.
async fn next(wire: &mut Wire) -> Option<Notification> {
    loop {
        match poll_fn(|context| wire.poll_message(context)).await? {
            Ok(AsyncMessage::Notification(notification)) => return Some(notification),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

async fn drain(wire: &mut Wire) {
    while next(wire).await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let lanes = vec![(i64::MAX, 7), (1, 0)];
        assert_eq!(read_lanes(&write_lanes(12, &lanes)), Some((12, lanes)));
        assert_eq!(read_lanes(&write_lanes(12, &[])), Some((12, vec![])));
        for wrong in ["", "x", "1 2", "1 2.x"] {
            assert_eq!(read_lanes(wrong), None, "{wrong}");
        }
    }
}
