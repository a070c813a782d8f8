//! How a store tells of records that were swapped in.
//!
//! Whoever listens too slowly misses some, and hears that it did: then it reads again. Nobody who announces ever waits.

use std::sync::Arc;

use breakerbox_core::Record;
use tokio::sync::broadcast::{self, error::RecvError};

/// How many changes may be on their way to a listener.
const ON_THE_WAY: usize = 1_024;

/// What a listener hears.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Heard {
    /// This record was swapped in.
    Changed {
        /// Whose.
        key: Arc<str>,
        /// The record.
        record: Arc<Record>,
    },
    /// A process [calls for reports](super::Store::call_for_reports) of these keys: whoever has counted something for one of
    /// them reports it now.
    ReportsWanted {
        /// The keys, at least one.
        keys: Arc<[Arc<str>]>,
    },
    /// Some changes were missed. Read what matters again.
    Missed,
}

/// A listener's end.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Heard>);

impl Changes {
    /// The next change; none once the store is gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(heard) => Some(heard),
            Err(RecvError::Lagged(_)) => Some(Heard::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The store's end.
#[derive(Debug)]
pub struct Announcer(broadcast::Sender<Heard>);

impl Announcer {
    /// Nobody listens yet.
    #[must_use]
    pub fn new() -> Self {
        Self(broadcast::Sender::new(ON_THE_WAY))
    }

    /// Tells whoever listens.
    pub fn announce(&self, heard: Heard) {
        // It fails if nobody listens, and then nobody misses anything.
        let _ = self.0.send(heard);
    }

    /// One more listener, who hears all from now on.
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
