//! What the gateway stores, as traits: the durable queue, reminders, and everything that people see and change. A backend is a
//! crate that implements them; none is named here, and nothing here knows the API.
//!
//! A queue stores, counts, compares and swaps; it never decides. Which lane has its turn, whether a gate lets a call through,
//! when a retry is due: all of that is said to it.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Queue`] | the hot path: accept, claim, settle |
//! | [`Calendar`] | reminders, as the scheduler sees them |
//! | [`records`] | the rest, as people see and change it |
//! | [`Directory`] | tenants, endpoints and API keys in memory, by which deliveries are made |
//! | [`clock`] | the wall clock, and the clock that leases, circuits and limits go by |
//! | `conformance` | what every backend must do, as tests; with the feature `conformance` |
//! | [`secrets`] | secrets at rest: master keys, sealing, opening |
//!
//! **Durability.** When a method returns `Ok`, what it did survives a power cut. Accepting is one transaction: the events, a
//! delivery for each endpoint, the idempotency key. Of a large fan-out that transaction writes a bounded part, and a durable
//! job for the rest.
//!
//! **Leases.** A delivery that is claimed belongs to its claimer until the lease has ended and was reclaimed. Whoever settles
//! shows the lease; if it is not current any more, nothing is changed ([`Settled::Fenced`]). Leases of an earlier start of the
//! same file are void, and their numbers never come again.
//!
//! **Answers that nobody waits for.** Whoever drops the future of an accept or a claim does not undo it. What was leased or
//! woken for them comes back with the next [`reclaim`](Queue::reclaim).
//!
//! **Cost.** A claim costs the same however much is parked, in the future, or finished.

mod calendar;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod directory;
pub mod records;
pub mod secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::{Epoch, KeyError, Timestamp};
use breakerbox_model::delivery::Next;
use breakerbox_model::objects::{
    Attempt, DeliveryId, EventId, EventType, LaneId, NewBatch, Priority, RunId, TenantId,
};
use breakerbox_model::reminder::{Missed, Schedule};
use bytes::Bytes;

pub use self::calendar::{Calendar, StepError, Stepped};
pub use self::directory::{
    BuiltPolicy, Changed, Defaults, Directory, EndpointEntry, ExplainedValue, Household, PolicyLayers,
    PolicyOrigin, ReminderEntry, TenantEntry, Watcher,
};
pub use self::records::{Records, RecordsError};

/// The hot path of a queue.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Makes events and their deliveries durable, all of a batch or none. Fans out by event type to the endpoints that the
    /// tenant has at that moment.
    ///
    /// For each fresh delivery that is due at once it asks the [`HandOver`] whether this process takes it now; such a
    /// delivery is leased from the start and comes back in the answer.
    ///
    /// # Errors
    /// If nothing was accepted.
    async fn accept(&self, batch: NewBatch) -> Result<Accepted, AcceptError>;

    /// Leases waiting deliveries of lanes, in the order of the claims. A claim that finds nothing is no error.
    ///
    /// # Errors
    /// If the database fails; nothing was leased.
    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError>;

    /// Says what became of a leased delivery. Waits at most 10 ms for others to be written with.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn settle(&self, settle: Settle) -> Result<Settled, QueueError>;

    /// Gives back a delivery that was leased and not tried. It waits again, at its old place.
    ///
    /// # Errors
    /// If the database fails; the lease holds until it ends.
    async fn hand_back(&self, delivery: DeliveryId, lease: Lease) -> Result<Settled, QueueError>;

    /// The lanes in which something waits, in the order of their ids, after this one. For the start, and to repair.
    ///
    /// # Errors
    /// If the database fails.
    async fn waiting_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<WaitingLane>, QueueError>;

    /// Whether anything waits in this lane that has not expired: whether there is anything to probe its circuit with.
    ///
    /// # Errors
    /// If the database fails.
    async fn has_waiting(&self, lane: LaneId) -> Result<bool, QueueError>;

    /// Makes deliveries wait again whose lease has ended. Returns their lanes, and whether there may be more.
    ///
    /// # Errors
    /// If the database fails.
    async fn reclaim(&self, limit: usize) -> Result<Batch, QueueError>;

    /// Writes deliveries of large fan-outs that were not written when their event was accepted, at most so many and of one
    /// tenant at a time.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn fan_out(&self, limit: u32) -> Result<Batch, QueueError>;

    /// Gives up waiting deliveries whose time is over: failed, [`FailReason::Expired`](breakerbox_model::objects::FailReason::Expired).
    ///
    /// # Errors
    /// If the database fails.
    async fn expire(&self, limit: usize) -> Result<Batch, QueueError>;

    /// Deletes finished work that was kept long enough, a bounded number of rows. [`Batch::done`] counts deliveries alone, not
    /// their events, payloads, attempts and idempotency keys.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune(&self, keep: &Retention, limit: usize) -> Result<Batch, QueueError>;

    /// The queue's time: the wall clock at the start and monotonic time since, or the database's.
    fn now(&self) -> Timestamp;
}

/// Decides, while a batch is accepted, which fresh deliveries this process takes at once. Asked by the queue under its own
/// lock: it must not wait.
pub trait HandOver: Send + Sync + 'static {
    /// Whether a fresh delivery of this lane is taken, and for how long it is leased then. If so, its place is reserved until
    /// the delivery arrives or is said to be lost.
    ///
    /// `key` is the circuit's, for a lane of a dynamic URL.
    fn take(&self, lane: LaneId, tenant: &TenantId, key: Option<&Arc<str>>) -> Option<Duration>;

    /// A delivery that was taken did not become durable, or whoever asked did not wait for the answer.
    fn lost(&self, lane: LaneId);
}

/// What came of a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Accepted {
    /// The events, in the order of the batch.
    pub events: Vec<AcceptedEvent>,
    /// Whether this was a repetition: nothing was written.
    pub repeated: bool,
    /// Fresh deliveries that this process took. They carry the payload, so that it is not read again.
    pub taken: Vec<Leased>,
    /// What waits now that was not taken: for each lane and priority how much more, and when the earliest of it is due.
    pub woken: Vec<WaitingLane>,
    /// How many deliveries have no row yet: [`fan_out`](Queue::fan_out) writes them.
    pub deferred: u64,
}

/// One event of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedEvent {
    /// Its name.
    pub id: EventId,
    /// To how many endpoints it goes.
    pub deliveries: u32,
}

/// Why nothing was accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// There is no such tenant.
    #[error("there is no tenant {0}")]
    UnknownTenant(TenantId),
    /// The tenant's backlog has no room for all of it.
    #[error("the backlog is full: {waiting} deliveries of {bytes} bytes wait")]
    BacklogFull {
        /// How many deliveries wait.
        waiting: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// A dynamic URL can't be a destination.
    #[error(transparent)]
    Url(#[from] KeyError),
    /// The same idempotency key came with another request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// The disk is nearly full. What is left is for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are kept in reserve")]
    DiskReserve {
        /// Free bytes.
        free: u64,
        /// Bytes in reserve.
        reserve: u64,
    },
    /// The database fails.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Why the queue can't do it. It can be copied: one failed commit is the answer to many.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// More is asked of it than it can do. Try again.
    #[error("the queue is busy; try again")]
    Busy,
    /// It is being closed.
    #[error("the queue is closed")]
    Closed,
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull,
    /// A file of the database was deleted or replaced. What was written to it would be lost at the next start.
    #[error("{} was deleted or replaced; stop the gateway, restore the data folder and start it again", .0.display())]
    FileGone(PathBuf),
    /// The job panicked, which is a fault of this program. Nothing of it was written.
    #[error("a job of the queue panicked: {0}")]
    Panicked(String),
    /// Anything else. Nothing was written.
    #[error("the database fails")]
    Database(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// What to lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// What is due in a lane at one priority, the longest due first. What has expired is given up and not leased.
    Due {
        /// Where.
        lane: LaneId,
        /// Of which level.
        priority: Priority,
        /// How many at the most.
        limit: u32,
        /// For how long.
        lease: Duration,
    },
    /// One delivery to probe with. The first due one, by priority and age, that has not failed a probe in this outage; else the
    /// next due one of which that is true, pulled forward, so that a poison payload that backs off is not probed with again
    /// and again; else whichever is due first.
    Probe {
        /// Where.
        lane: LaneId,
        /// Which outage: the epoch of the circuit's first trip in it.
        outage: Epoch,
        /// For how long.
        lease: Duration,
    },
}

/// What was leased.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claimed {
    /// The deliveries.
    pub deliveries: Vec<Leased>,
    /// What waits in that lane now, for each priority: when the earliest is due.
    pub next_due: [Option<Timestamp>; 4],
    /// How many were found that can't be read. They have failed, so that they don't block others.
    pub unreadable: u64,
}

/// Proof of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease(pub i64);

/// A delivery that this process may try.
#[derive(Clone, PartialEq, Debug)]
pub struct Leased {
    /// Which.
    pub id: DeliveryId,
    /// The proof.
    pub lease: Lease,
    /// Where it waited.
    pub lane: LaneId,
    /// Whose.
    pub tenant: TenantId,
    /// What.
    pub event: EventId,
    /// What kind.
    pub kind: EventType,
    /// What is sent.
    pub payload: Bytes,
    /// What the payload is.
    pub content_type: Arc<str>,
    /// How important.
    pub priority: Priority,
    /// Attempts that were used up before.
    pub attempts: u32,
    /// A dynamic URL; none: the endpoint's.
    pub url: Option<Arc<str>>,
    /// The run of a reminder that it is.
    pub run: Option<LeasedRun>,
    /// It was not due and was pulled forward to probe: a failure uses no attempt, and it is due again then.
    pub pulled_from: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Given up after.
    pub expires_at: Option<Timestamp>,
}

/// The run of a reminder, as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedRun {
    /// Which.
    pub id: RunId,
    /// The occurrence that it was fired for.
    pub scheduled_at: Timestamp,
    /// If it was not sent yet and stands for the latest occurrence when it is: when those are.
    pub latest_of: Option<Arc<Schedule>>,
}

impl LeasedRun {
    /// The later occurrence that it stands for if it is sent now; none: the one that it was fired for.
    #[must_use]
    pub fn stands_for(&self, now: Timestamp) -> Option<Missed> {
        self.latest_of.as_ref()?.latest(Some(self.scheduled_at), now)
    }
}

impl Leased {
    /// The `webhook-id` of its requests: the same on every retry and resend.
    #[must_use]
    pub fn webhook_id(&self) -> String {
        self.run.as_ref().map_or_else(|| self.event.to_string(), |run| run.id.to_string())
    }
}

/// What became of a leased delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Settle {
    /// Which.
    pub id: DeliveryId,
    /// The proof.
    pub lease: Lease,
    /// The request that was made.
    pub attempt: Attempt,
    /// What comes next.
    pub next: Next,
    /// A run of a reminder that was sent later than it was due, and stands for this occurrence.
    pub stands_for: Option<Missed>,
}

/// Whether a lease was current.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settled {
    /// It was, and it is written.
    Done,
    /// It was not, and nothing is changed.
    Fenced,
}

/// A lane in which something waits.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitingLane {
    /// Which.
    pub lane: LaneId,
    /// Whose.
    pub tenant: TenantId,
    /// The key of a dynamic lane's circuit; none for an endpoint's lane.
    pub dynamic: Option<Arc<str>>,
    /// For each priority: when the earliest is due, if that is known; `ZERO` stands for now or not known.
    pub next_due: [Option<Timestamp>; 4],
    /// How many more of them wait at each of those priorities; `u32::MAX` if that is not known.
    pub count: u32,
}

/// How far a bounded piece of work came.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Batch {
    /// How many rows it concerned.
    pub done: u64,
    /// Lanes in which something waits now.
    pub woken: Vec<WaitingLane>,
    /// Whether there is more to do at once.
    pub more: bool,
}

/// How long finished work is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// What was delivered or cancelled.
    pub finished: Duration,
    /// Dead letters.
    pub failed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self { finished: 7 * day, failed: 30 * day }
    }
}
