//! Stores: where circuits are shared. A store counts, compares and swaps, and never decides.
//!
//! | verb | does | must hold |
//! | --- | --- | --- |
//! | [`merge`](Store::merge) | adds counts to the shared windows | counts of another epoch are late, and not added |
//! | [`read`](Store::read) | returns records | |
//! | [`swap_if`](Store::swap_if) | replaces a record whose version is still the expected one | one winner; nothing is written after its deadline; a new epoch begins with an empty window |
//! | [`swap_all`](Store::swap_all) | the same for many keys | each stands for itself |
//! | [`changes`](Store::changes) | tells of records that were swapped in | what is missed is said to be missed |
//! | [`call_for_reports`](Store::call_for_reports) | sends every listener a message with keys | nothing is stored; a message may be lost |
//! | [`list`](Store::list) | pages through circuits | a page costs the same however many there are |
//! | [`ramp`](Store::ramp) | takes places of a circuit's ramp and gives them back | never more places than the limit; places expire; another epoch is late |
//! | [`lead`](Store::lead) | gives out a leader's term | one leader at a time |
//! | [`check_write`](Store::check_write) | writes something that is no circuit | fails whenever the other verbs could not write |
//!
//! Why this is free of races: counts can be added in any order and are tied to an epoch, and a record is swapped by its
//! version. Of two workers that see a circuit trip at once, one wins and the other reads the winner's record. A worker that
//! dies between counting and swapping leaves its counts, and the next outcome is judged with them.
//!
//! **Time.** The store's clock decides. Every answer says what time it was there. What a caller says about the past it
//! says as an age, so that clocks need not agree.
//!
//! **Faults.** A merge whose answer was lost is not repeated: counts may be lost and are never doubled. A swap whose answer
//! was lost is resolved by reading the version, which is random and so can't be somebody else's.
//!
//! The memory store is [`MemoryStore`]. Other stores prove themselves with the conformance suite of `breakerbox-testkit`.

mod changes;
mod memory;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use breakerbox_core::fleet::{
    BucketDelta, Delta, GivenPlace, Merged, RampReply, RampRequest, RampState, RampStep, RampView,
};
use breakerbox_core::{Nonce, Record, Status, Timestamp, Version};

pub use self::changes::{Announcer, Changes, Heard};
pub use self::memory::{MemorySnapshot, MemoryStore};

/// Where circuits are shared.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Adds counts to the shared windows. Answers in the order of the deltas; a record that can't be read is the answer for its
    /// key alone, and its counts may have been added.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense. The counts may have been added or not; do not add them again.
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError>;

    /// The records of these keys, in their order; none for a circuit that nothing has happened to. One that can't be read is
    /// the answer for its key alone.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense.
    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError>;

    /// Replaces a record if its version is still the expected one and it is not too late. If the new record has another
    /// epoch, the window is dropped in the same step.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense. Whether the swap took place is then seen by reading the version.
    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError>;

    /// Many swaps at once, each of which stands for itself: one that is lost does not keep the others from winning. Answers
    /// in their order; no two may be of one key. A swap that is lost to a record which can't be read is the answer for its
    /// key alone. Unless a store has a quicker way, one after the other.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense. Some may have taken place: each is seen by reading the version.
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

    /// What is swapped in from now on, by anybody, and which keys reports are called for.
    fn changes(&self) -> Changes;

    /// Asks every process that listens to [`changes`](Self::changes) to report what it has counted for these keys, with
    /// [`Heard::ReportsWanted`]. Stores nothing. A message may be lost: callers repeat it as long as they need reports.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense. Some listeners may have heard it.
    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError>;

    /// A page of circuits that have a record, in an order of the store's own that is the same on every page. A page may be
    /// short, or empty, and not the last.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense.
    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError>;

    /// Gives places of a circuit's ramp back, replaces its limit and takes places, in one atomic step. The limit is replaced if the
    /// ramp is still at the expected step; a place is taken if fewer are taken than the limit says, all by the store's time. A
    /// ramp that the store has nothing of begins as the request says. If the record has another epoch than the request,
    /// nothing is done.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense. Places may have been taken: give them back, or leave them to expire.
    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError>;

    /// Takes or prolongs a leader's term. A `ttl` of zero gives one's own term back.
    ///
    /// # Errors
    /// If the store can't be reached or answers nonsense. Whoever can't tell does not lead.
    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError>;

    /// Checks that the store accepts writes, by writing something small that is not part of any circuit. A store that
    /// answers reads and refuses writes (memory full, read-only, rights revoked) can't be used for deciding, and this is how
    /// a process finds out: it calls this twice a second, whether or not there is traffic.
    ///
    /// The write takes the same way as those of the other verbs and needs the same rights. It changes no record, no count and
    /// no term, and nobody hears of it. Where circuits are spread over several servers, each of them is written to. A store
    /// that forwards to another one forwards this too.
    ///
    /// # Errors
    /// If the store can't be reached, or would refuse the writes of other verbs. The error says why.
    async fn check_write(&self) -> Result<Answer<()>, StoreError>;

    /// The same store with connections of its own, which belong to the tokio runtime that this is called in. A process that
    /// drops its last handle, or shuts its runtime down, makes its last reports with it: the connections of `self` are of no
    /// use then. None, as by default: `self` works in every runtime, or can't be opened again.
    fn reopen(&self) -> Option<Arc<dyn Store>> {
        None
    }
}

/// A store that several registries of this process share.
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

/// What a store answered, and its time when it did.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer<T> {
    /// The store's time.
    pub now: Timestamp,
    /// The answer.
    pub value: T,
}

impl<T> Answer<Vec<Readable<T>>> {
    /// The same if all of it can be read; else the first that can't.
    ///
    /// # Errors
    /// If something can't be read.
    pub fn all(self) -> Result<Answer<Vec<T>>, Unreadable> {
        let value = self.value.into_iter().collect::<Result<_, _>>()?;
        Ok(Answer { now: self.now, value })
    }
}

/// One record to be swapped in.
#[derive(Clone, PartialEq, Debug)]
pub struct Swap {
    /// Whose.
    pub key: Arc<str>,
    /// The version that it replaces; none if there must be no record yet.
    pub expected: Option<Version>,
    /// The new record, with a version of its own.
    pub record: Record,
    /// When the store's time is past this, nothing is written: whoever was paused since it decided is too late.
    pub not_after: Timestamp,
    /// After how long without a merge or a swap the record may be dropped; none: never.
    pub keep_for: Option<Duration>,
}

/// What came of a swap.
#[derive(Clone, PartialEq, Debug)]
pub enum Swapped {
    /// The record is in.
    Won,
    /// Somebody else was first. This is what is there.
    Lost(Option<Record>),
    /// The deadline had passed. This is what is there.
    TooLate(Option<Record>),
}

/// Which circuits to list.
#[derive(Clone, PartialEq, Debug)]
pub struct ListQuery {
    /// Only those whose key begins with this. A tenant's begin with its name and a space.
    pub prefix: String,
    /// Only those in this state.
    pub status: Option<Status>,
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many at the most; at least one.
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { prefix: String::new(), status: None, after: None, limit: 100 }
    }
}

/// Where a page ended. What it says is the store's own affair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor(pub String);

/// Some circuits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// Keys and records.
    pub circuits: Vec<(Arc<str>, Record)>,
    /// Where to go on; none: that was all.
    pub next: Option<Cursor>,
    /// Those of this page whose record can't be read.
    pub unreadable: Vec<Unreadable>,
}

/// Who leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// Whether the candidate does.
    pub leads: bool,
    /// Until when, by the store's time, somebody does.
    pub ends_at: Timestamp,
}

/// Why a store did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It did not answer in time.
    #[error("the store did not answer within {limit:?}")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// It can't be reached, or refused the request.
    #[error("the store can't be used")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// What it holds for a key can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// What a store holds for a key can't be read: another version of this library wrote it, or somebody else. Upgrade this
/// process, or delete the record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: the store's record can't be read: {reason}")]
pub struct Unreadable {
    /// Whose record.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What a store has for one of many keys. If that can't be read, the others are not concerned.
pub type Readable<T> = Result<T, Unreadable>;
