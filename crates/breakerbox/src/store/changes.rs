//! How a store publishes records that were swapped in.
//!
//! A listener that is too slow misses some messages, and receives [`StoreEvent::Missed`], after which it must read
//! again. A publisher never waits.

use std::sync::Arc;

use breakerbox_core::Record;
use tokio::sync::broadcast::{self, error::RecvError};

/// The maximum number of messages queued for a listener.
const CHANNEL_CAPACITY: usize = 1_024;

/// A message to a store's listeners.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum StoreEvent {
    /// A record was swapped in.
    Changed {
        /// The circuit's key, as stored.
        key: Arc<str>,
        /// The new record.
        record: Arc<Record>,
    },
    /// A process [requests reports](super::Store::call_for_reports) on these keys. Processes with counts for any of
    /// these keys must report now.
    ReportsWanted {
        /// The keys, as stored. There is at least one.
        keys: Arc<[Arc<str>]>,
    },
    /// Some messages were missed. Read the relevant records again from the store.
    Missed,
}

/// The receiving end of a subscription to a store.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<StoreEvent>);

impl Changes {
    /// Returns the next message; `None` once the store has been dropped. If the future is dropped, no message is
    /// lost.
    pub async fn next(&mut self) -> Option<StoreEvent> {
        match self.0.recv().await {
            Ok(heard) => Some(heard),
            Err(RecvError::Lagged(_)) => Some(StoreEvent::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The sending end of subscriptions, which a store holds.
#[derive(Debug)]
pub struct Announcer(broadcast::Sender<StoreEvent>);

impl Announcer {
    /// Creates a publisher without listeners.
    #[must_use]
    pub fn new() -> Self {
        Self(broadcast::Sender::new(CHANNEL_CAPACITY))
    }

    /// Sends a message to all listeners.
    pub fn announce(&self, heard: StoreEvent) {
        // This fails only if there are no listeners, so that no message is missed.
        let _ = self.0.send(heard);
    }

    /// Adds a listener, which receives all later messages.
    #[must_use]
    pub fn listen(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

impl Default for Announcer {
    fn default() -> Self {
        Self::new()
    }
}
