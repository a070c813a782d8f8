//! Stores: the places where circuits are shared. A store counts, compares and swaps, and never decides.
//!
//! | operation | purpose | requirements |
//! | --- | --- | --- |
//! | [`merge`](Store::merge) | adds counts to the shared windows | counts from another epoch are late, and not added |
//! | [`read`](Store::read) | returns records | |
//! | [`swap_if`](Store::swap_if) | replaces a record whose version is still the expected one | one winner; no write after the deadline; a new epoch begins with an empty window |
//! | [`swap_all`](Store::swap_all) | swaps many records | each swap is independent |
//! | [`changes`](Store::changes) | publishes records that were swapped in | a listener that missed some receives [`StoreEvent::Missed`] |
//! | [`call_for_reports`](Store::call_for_reports) | sends a message with keys to every listener | the message is not stored, and may be lost |
//! | [`list`](Store::list) | pages through circuits | a page costs the same however many circuits there are |
//! | [`ramp`](Store::ramp) | takes and releases slots in a circuit's ramp | never more slots than the limit; slots expire; a request from another epoch is late |
//! | [`lead`](Store::lead) | grants a leader's term | one leader at a time |
//! | [`check_write`](Store::check_write) | writes a value that belongs to no circuit | fails whenever the other operations could not write |
//!
//! There are no races, because counts can be added in any order and belong to an epoch, and a record is swapped by
//! its version. If two processes see a circuit trip at the same time, one wins and the other reads the winner's
//! record. If a process dies between counting and swapping, its counts remain, and the next outcome is evaluated with
//! them.
//!
//! **Time.** The store's clock decides. Every response contains the store's time. Callers express times in the past
//! as ages, so that clocks need not agree.
//!
//! **Faults.** A merge whose response was lost is not retried: counts may be lost, but are never counted twice. A
//! swap whose response was lost is resolved by reading the version, which is random and so cannot be another
//! process's.
//!
//! **Compatibility.** The types that a store exchanges ([`Delta`], [`Swap`], [`ListQuery`] and so on) are exhaustive on
//! purpose: a store that ignored a new field would lose data, so a new field is a breaking change. Records are
//! non-exhaustive, because a store keeps them as a whole, in their serialized form.
//!
//! The memory store is [`MemoryStore`]. Verify other stores with the conformance suite in `breakerbox-testkit`.

mod changes;
mod memory;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use breakerbox_core::fleet::{
    BucketDelta, Delta, Merged, RampReply, RampRequest, RampState, RampStep, RampView, ReleasedSlot, RunDelta,
};
use breakerbox_core::{CircuitStatus, Nonce, Record, Timestamp, Version};

pub use self::changes::{Announcer, Changes, StoreEvent};
pub use self::memory::{MemorySnapshot, MemoryStore};

/// A store through which processes share circuits. The [module](self) lists the requirements for each operation.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Adds counts to the shared windows. Returns the results in the order of the deltas. If a record cannot be read,
    /// only the result for its key is an error, and the key's counts may have been added.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid. The counts may have been added; do not add them
    /// again.
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError>;

    /// Returns the records for these keys, in the same order; `None` for a circuit without a record. If a record
    /// cannot be read, only the result for its key is an error.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid.
    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError>;

    /// Replaces a record if its version is still the expected one and the deadline has not passed. If the new record
    /// has another epoch, the window is dropped in the same atomic step.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid. Read the version to determine whether the swap took
    /// place.
    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError>;

    /// Performs many independent swaps, where a failed swap does not affect the others. Returns the results in the same
    /// order. Each key may occur only once. If a swap fails because of a record that cannot be read, only the result
    /// for its key is an error. The default implementation swaps one record after another.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid. Some swaps may have taken place; read the versions.
    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        let mut value = Vec::with_capacity(swaps.len());
        for swap in swaps {
            value.push(match self.swap_if(swap).await {
                Ok(answer) => Ok(answer.value),
                Err(StoreError::Unreadable(unreadable)) => Err(unreadable),
                Err(error) => return Err(error),
            });
        }
        Ok(Answer { now: self.read(&[]).await?.now, value })
    }

    /// Subscribes to the records that any process swaps in from now on, and to requests for reports.
    fn changes(&self) -> Changes;

    /// Asks every process that listens to [`changes`](Self::changes) to report its counts for these keys, with
    /// [`StoreEvent::ReportsWanted`]. The message is not stored and may be lost, so callers repeat it while they need
    /// reports.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid. Some listeners may have received the message.
    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError>;

    /// Returns a page of circuits that have a record. The store chooses the order, which is the same for all pages. A
    /// page may be short or empty without being the last one.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid.
    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError>;

    /// Releases slots in a circuit's ramp, replaces the ramp's limit and takes slots, in one atomic step. The limit is
    /// replaced only if the ramp is still at the expected step, and slots are taken only up to the limit. Slots expire
    /// by the store's time. If the store has no ramp for the circuit, it creates one from the request. If the record's
    /// epoch differs from the request's, the request has no effect.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid. Slots may have been taken; release them, or let
    /// them expire.
    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError>;

    /// Takes or extends a leader's term. A `ttl` of zero ends the candidate's own term.
    ///
    /// # Errors
    /// If the store cannot be reached or its response is invalid. A candidate that gets an error does not lead.
    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError>;

    /// Checks that the store accepts writes, by writing a small value that belongs to no circuit. A store that responds
    /// to reads but rejects writes (memory full, read-only, privileges revoked) cannot be used for decisions. To detect
    /// this, each process calls this function twice per second, with or without traffic.
    ///
    /// The check writes by the same path as the other operations and needs the same privileges. It changes no record,
    /// count or term, and is not published. If circuits are distributed over several servers, it writes to each of
    /// them. A store that forwards to another store forwards this call too.
    ///
    /// # Errors
    /// If the store cannot be reached, or would refuse other operations' writes. The error states the reason.
    async fn check_write(&self) -> Result<Answer<()>, StoreError>;

    /// Returns the same store with new connections, which belong to the tokio runtime in which this is called. A
    /// process uses the reopened store for its last reports, when it drops its last handle or shuts down its runtime,
    /// because the connections in `self` no longer work then. `None`, the default, means that `self` works in every
    /// runtime, or cannot be reopened.
    fn reopen(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

/// Shares one store among several registries in this process.
#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        (**self).merge(deltas).await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        (**self).read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        (**self).swap_if(swap).await
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        (**self).swap_all(swaps).await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        (**self).call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        (**self).changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        (**self).list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        (**self).ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        (**self).lead(name, candidate, ttl).await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        (**self).check_write().await
    }

    fn reopen(&self) -> Option<Arc<dyn Store>> {
        (**self).reopen()
    }
}

/// A store's response, with the store's time.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer<T> {
    /// The store's time when it responded.
    pub now: Timestamp,
    /// The result of the operation.
    pub value: T,
}

impl<T> Answer<Vec<Readable<T>>> {
    /// Returns the response with all values, if every value can be read.
    ///
    /// # Errors
    /// If a value cannot be read. The error is the first of these.
    pub fn all(self) -> Result<Answer<Vec<T>>, Unreadable> {
        let value = self.value.into_iter().collect::<Result<_, _>>()?;
        Ok(Answer { now: self.now, value })
    }
}

/// A request to replace one record.
#[derive(Clone, PartialEq, Debug)]
pub struct Swap {
    /// The circuit's key, as stored.
    pub key: Arc<str>,
    /// The version of the record to replace; `None` if there must be no record yet.
    pub expected: Option<Version>,
    /// The new record, with a new version.
    pub record: Record,
    /// The deadline, by the store's time. The store must not write later, so that a process that was paused after its
    /// decision cannot overwrite newer records.
    pub not_after: Timestamp,
    /// How long to keep the record after the latest merge or swap; `None` means forever.
    pub keep_for: Option<Duration>,
}

/// The result of a swap.
#[derive(Clone, PartialEq, Debug)]
pub enum Swapped {
    /// The record was replaced.
    Won,
    /// The version was not the expected one. Contains the current record, if there is one.
    Lost(Option<Record>),
    /// The deadline had passed. Contains the current record, if there is one.
    TooLate(Option<Record>),
}

/// The filter and position for a page of circuits.
#[derive(Clone, PartialEq, Debug)]
pub struct ListQuery {
    /// The prefix that keys must have; empty matches all keys. To list a tenant's keys, use its name and a space.
    pub prefix: String,
    /// The state that circuits must have; `None` matches any state.
    pub status: Option<CircuitStatus>,
    /// The position at which the previous page ended; `None` for the first page.
    pub after: Option<Cursor>,
    /// The maximum number of circuits in the page; at least 1.
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { prefix: String::new(), status: None, after: None, limit: 100 }
    }
}

/// The position at which a page ended. Only the store interprets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor(pub String);

/// A page of circuits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// The circuits' keys and records.
    pub circuits: Vec<(Arc<str>, Record)>,
    /// The position for the next page; `None` on the last page.
    pub next: Option<Cursor>,
    /// The circuits in this page whose records cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// The result of a request to lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// Whether the candidate is the leader.
    pub leads: bool,
    /// The end of the current leader's term, by the store's time. The leader may be another process.
    pub ends_at: Timestamp,
}

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not respond in time.
    #[error("the store did not answer within {limit:?}")]
    TimedOut {
        /// The timeout that was exceeded.
        limit: Duration,
    },
    /// The store cannot be reached, or rejected the request.
    #[error("the store can't be used")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// A key's stored data cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The error for stored data that cannot be read, because another version of this library or another program wrote
/// it. Upgrade this process, or delete the record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: the store's record can't be read: {reason}")]
pub struct Unreadable {
    /// The record's key, as stored.
    pub key: String,
    /// The reason why the data cannot be read.
    pub reason: String,
}

/// The result for one of several keys. An error affects only its own key.
pub type Readable<T> = Result<T, Unreadable>;
