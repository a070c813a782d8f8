//! How a store publishes records that were swapped in.
//!
//! A listener that is too slow misses some, and receives [`StoreEvent::Missed`]: then it reads again. A publisher never
//! waits.

use std::sync::Arc;

use breakerbox_core::Record;
use tokio::sync::broadcast::{self, error::RecvError};

/// How many changes may be queued for a listener.
const CHANNEL_CAPACITY: usize = 1_024;

/// A message to a listener.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum StoreEvent {
    /// This record was swapped in.
    Changed {
        /// The key of the circuit, as stored.
        key: Arc<str>,
        /// The new record.
        record: Arc<Record>,
    },
    /// A process [calls for reports](super::Store::call_for_reports) of these keys: processes with counts for one of
    /// them report now.
    ReportsWanted {
        /// The keys, at least one, as stored.
        keys: Arc<[Arc<str>]>,
    },
    /// Some changes were missed. Read the relevant records again.
    Missed,
}

/// The receiving end of a subscription to a store.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<StoreEvent>);

impl Changes {
    /// Returns the next message; none once the store is gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<StoreEvent> {
        match self.0.recv().await {
            Ok(heard) => Some(heard),
            Err(RecvError::Lagged(_)) => Some(StoreEvent::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The publishing end, which a store holds.
#[derive(Debug)]
pub struct Announcer(broadcast::Sender<StoreEvent>);

impl Announcer {
    /// Creates a publisher without listeners.
    #[must_use]
    pub fn new() -> Self {
        Self(broadcast::Sender::new(CHANNEL_CAPACITY))
    }

    /// Sends the message to all listeners.
    pub fn announce(&self, heard: StoreEvent) {
        // It fails only if there are no listeners, and then no message is missed.
        let _ = self.0.send(heard);
    }

    /// Adds a listener, which receives all messages from now on.
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
