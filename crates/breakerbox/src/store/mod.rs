//! Stores: the places where circuits are shared. A store counts, compares and swaps, and never decides.
//!
//! | operation | does | must hold |
//! | --- | --- | --- |
//! | [`merge`](Store::merge) | adds counts to the shared windows | counts of another epoch are late, and not added |
//! | [`read`](Store::read) | returns records | |
//! | [`swap_if`](Store::swap_if) | replaces a record whose version is still the expected one | one winner; nothing is written after its deadline; a new epoch begins with an empty window |
//! | [`swap_all`](Store::swap_all) | does the same for many keys | each swap is independent |
//! | [`changes`](Store::changes) | publishes records that were swapped in | a listener that missed some is notified of it |
//! | [`call_for_reports`](Store::call_for_reports) | sends every listener a message with keys | nothing is stored; a message may be lost |
//! | [`list`](Store::list) | pages through circuits | a page costs the same however many circuits there are |
//! | [`ramp`](Store::ramp) | takes slots of a circuit's ramp and gives them back | never more slots than the limit; slots expire; another epoch is late |
//! | [`lead`](Store::lead) | grants a leader's term | one leader at a time |
//! | [`check_write`](Store::check_write) | writes a value outside of all circuits | fails whenever the other operations could not write |
//!
//! Why this is free of races: counts can be added in any order and are tied to an epoch, and a record is swapped by its
//! version. If two processes see a circuit trip at once, one wins and the other reads the winner's record. A process
//! that dies between counting and swapping leaves its counts, and the next outcome is decided with them.
//!
//! **Time.** The store's clock decides. Every answer carries the store's time. Callers express times in the past as
//! ages, so that clocks need not agree.
//!
//! **Faults.** A merge whose answer was lost is not repeated: counts may be lost and are never doubled. A swap whose
//! answer was lost is resolved by reading the version, which is random and so can't be that of another process.
//!
//! The memory store is [`MemoryStore`]. Verify other stores with the conformance suite of `breakerbox-testkit`.

mod changes;
mod memory;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use breakerbox_core::fleet::{
    BucketDelta, Delta, Merged, RampReply, RampRequest, RampState, RampStep, RampView, ReleasedSlot,
};
use breakerbox_core::{Nonce, Record, Status, Timestamp, Version};

pub use self::changes::{Announcer, Changes, StoreEvent};
pub use self::memory::{MemorySnapshot, MemoryStore};

/// A place where circuits are shared. The [module](self) lists the guarantees of each operation.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Adds counts to the shared windows. Returns the results in the order of the deltas. A record that can't be read
    /// is an error of its key alone, and its counts may have been added.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid. The counts may have been added; do not add them again.
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError>;

    /// Returns the records of these keys, in their order; none for a circuit without a record. A record that can't be
    /// read is an error of its key alone.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid.
    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError>;

    /// Replaces a record if its version is still the expected one and the deadline has not passed. If the new record
    /// has another epoch, the window is dropped in the same step.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid. Read the version to find out whether the swap took
    /// place.
    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError>;

    /// Performs many independent swaps: one that is lost does not keep the others from winning. Returns the results in
    /// their order. Each key may occur only once. A swap that is lost to a record which can't be read is an error of
    /// its key alone. The default implementation swaps one after the other.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid. Some swaps may have taken place: read the versions.
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

    /// Subscribes to the records that any process swaps in from now on, and to calls for reports.
    fn changes(&self) -> Changes;

    /// Requests every process that listens to [`changes`](Self::changes) to report its counts for these keys, with
    /// [`StoreEvent::ReportsWanted`]. Stores nothing. A message may be lost: callers repeat it as long as they need reports.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid. Some listeners may have received the message.
    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError>;

    /// Returns a page of circuits that have a record. The store chooses the order, which is the same on every page. A
    /// page may be short or empty without being the last.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid.
    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError>;

    /// Gives slots of a circuit's ramp back, replaces its limit and takes slots, in one atomic step. The limit is
    /// replaced if the ramp is still at the expected step; a slot is taken if fewer slots are taken than the limit
    /// allows, all by the store's time. If the store has no ramp of the circuit, it creates one from the request. If
    /// the record has another epoch than the request, nothing is done.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid. Slots may have been taken: give them back, or let them
    /// expire.
    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError>;

    /// Takes or extends a leader's term. A `ttl` of zero gives the candidate's own term back.
    ///
    /// # Errors
    /// If the store can't be reached or its response is invalid. A candidate that gets an error does not lead.
    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError>;

    /// Checks that the store accepts writes, by writing a small value that is not part of any circuit. A store that
    /// answers reads and refuses writes (memory full, read-only, privileges revoked) can't be used for deciding. A
    /// process detects this with a call twice a second, with or without traffic.
    ///
    /// The write takes the same path as those of the other operations and needs the same privileges. It changes no
    /// record, no count and no term, and is not published. If circuits are spread over several servers, it writes to
    /// each of them. A store that forwards to another one forwards this too.
    ///
    /// # Errors
    /// If the store can't be reached, or would refuse the writes of other operations. The error states the reason.
    async fn check_write(&self) -> Result<Answer<()>, StoreError>;

    /// Returns the same store with new connections, which belong to the tokio runtime in which this is called. A
    /// process that drops its last handle, or shuts down its runtime, makes its last reports with it, because the
    /// connections of `self` no longer work then. None (the default): `self` works in every runtime, or can't be opened
    /// again.
    fn reopen(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

/// Shares one store between several registries of this process.
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

/// The response of a store, with the store's time.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer<T> {
    /// The store's time when it responded.
    pub now: Timestamp,
    /// The result of the operation.
    pub value: T,
}

impl<T> Answer<Vec<Readable<T>>> {
    /// Returns the answer with all values if each can be read; else the first error.
    ///
    /// # Errors
    /// If a value can't be read.
    pub fn all(self) -> Result<Answer<Vec<T>>, Unreadable> {
        let value = self.value.into_iter().collect::<Result<_, _>>()?;
        Ok(Answer { now: self.now, value })
    }
}

/// A request to replace one record.
#[derive(Clone, PartialEq, Debug)]
pub struct Swap {
    /// The key of the circuit, as stored.
    pub key: Arc<str>,
    /// The version of the record to replace; none if there must be no record yet.
    pub expected: Option<Version>,
    /// The new record, with a new version.
    pub record: Record,
    /// The deadline, by the store's time. Nothing is written after it: a process that was paused since its decision is
    /// late.
    pub not_after: Timestamp,
    /// How long to keep the record without a merge or a swap; none: forever.
    pub keep_for: Option<Duration>,
}

/// The result of a swap.
#[derive(Clone, PartialEq, Debug)]
pub enum Swapped {
    /// The record was replaced.
    Won,
    /// The version was not the expected one. Holds the present record, if there is one.
    Lost(Option<Record>),
    /// The deadline had passed. Holds the present record, if there is one.
    TooLate(Option<Record>),
}

/// The filter and the position of a page of circuits.
#[derive(Clone, PartialEq, Debug)]
pub struct ListQuery {
    /// Only keys that begin with this. The keys of a tenant begin with its name and a space. Empty: all keys.
    pub prefix: String,
    /// Only circuits in this state; none: any state.
    pub status: Option<Status>,
    /// The position at which the previous page ended; none for the first page.
    pub after: Option<Cursor>,
    /// The maximum number of circuits; at least 1.
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { prefix: String::new(), status: None, after: None, limit: 100 }
    }
}

/// The position at which a page ended. Its content is private to the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor(pub String);

/// A page of circuits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// The keys and records.
    pub circuits: Vec<(Arc<str>, Record)>,
    /// The position of the next page; none on the last page.
    pub next: Option<Cursor>,
    /// The circuits of this page whose record can't be read.
    pub unreadable: Vec<Unreadable>,
}

/// The result of a leader election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// Whether the candidate leads.
    pub leads: bool,
    /// The end of the current leader's term, by the store's time, whichever process leads.
    pub ends_at: Timestamp,
}

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not respond in time.
    #[error("the store did not answer within {limit:?}")]
    TimedOut {
        /// The timeout.
        limit: Duration,
    },
    /// The store can't be reached, or refused the request.
    #[error("the store can't be used")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The stored data of a key can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The stored data of a key can't be read: another version of this library or another program wrote it. Upgrade this
/// process, or delete the record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: the store's record can't be read: {reason}")]
pub struct Unreadable {
    /// The key of the record, as stored.
    pub key: String,
    /// The reason why it can't be read.
    pub reason: String,
}

/// The result for one of many keys. An error affects only its own key.
pub type Readable<T> = Result<T, Unreadable>;
