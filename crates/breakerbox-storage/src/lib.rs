//! The gateway's storage, as traits: the durable queue, reminders, and everything that the API shows and changes. A
//! backend is a crate that implements them; none is named here, and nothing here depends on the API.
//!
//! A queue stores, counts, compares and swaps; it never decides. The caller decides which lane sends next, whether a
//! gate admits a call, and when a retry is due.
//!
//! | part | task |
//! | --- | --- |
//! | [`Queue`] | the hot path: accept, claim, settle |
//! | [`ReminderStore`] | the scheduler's view of reminders |
//! | [`records`] | the rest, as the API shows and changes it |
//! | [`Directory`] | tenants, endpoints and API keys in memory, by which deliveries are made |
//! | [`clock`] | the wall clock, and the clock for leases, circuits and limits |
//! | `conformance` | the requirements for every backend, as tests; with the feature `conformance` |
//! | [`secrets`] | secrets at rest: master keys, sealing, opening |
//!
//! **Durability.** When a method returns `Ok`, its effect survives a power cut. Accepting is one transaction: the
//! events, a delivery for each endpoint, the idempotency key. Of a large fan-out that transaction writes a bounded
//! part, and a durable job for the rest.
//!
//! **Leases.** A claimed delivery belongs to its claimer until the lease has ended and was reclaimed. A settlement must
//! present the lease; if it is not current any more, nothing is changed ([`Settled::Fenced`]). Leases of an earlier
//! start of the same file are void, and their numbers are never reused.
//!
//! **Dropped futures.** Dropping the future of an accept or a claim does not undo it. The deliveries and lanes that it
//! leased or woke are returned by the next [`reclaim`](Queue::reclaim).
//!
//! **Cost.** A claim costs the same however much is parked, scheduled for later, or finished.

pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod directory;
pub mod records;
mod reminder_store;
pub mod secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::{Epoch, KeyError, Timestamp};
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{
    Attempt, DeliveryId, EventId, EventType, LaneId, NewBatch, Priority, RunId, TenantId,
};
use breakerbox_model::reminder::{Missed, Schedule};
use bytes::Bytes;

pub use self::directory::{
    BuiltPolicy, Changed, Defaults, Directory, EndpointEntry, ExplainedValue, PolicyLayers, PolicyOrigin,
    ReminderEntry, TenantEndpoints, TenantEntry, Watcher,
};
pub use self::records::{Records, RecordsError};
pub use self::reminder_store::{AppliedDecisions, ApplyError, ReminderStore};

/// The hot path of a queue.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Makes events and their deliveries durable, all of a batch or none. Fans out by event type to the endpoints that
    /// the tenant has at that moment.
    ///
    /// For each fresh delivery that is due at once it asks the [`Reservations`] whether this process takes it now; such a
    /// delivery is leased from the start and is part of the result.
    ///
    /// # Errors
    /// If nothing was accepted.
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError>;

    /// Leases waiting deliveries of lanes, in the order of the claims. A claim that finds nothing is not an error.
    ///
    /// # Errors
    /// If the database fails; nothing was leased.
    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError>;

    /// Stores the result of an attempt of a leased delivery. It waits at most 10 ms for a group commit.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn settle(&self, settlement: Settlement) -> Result<Settled, QueueError>;

    /// Returns a leased delivery that was not tried. It waits again, at its old position.
    ///
    /// # Errors
    /// If the database fails; the lease holds until it ends.
    async fn hand_back(&self, delivery: DeliveryId, lease: Lease) -> Result<Settled, QueueError>;

    /// Returns the lanes with waiting deliveries, in the order of their ids, after this one. For the start, and for
    /// repairs.
    ///
    /// # Errors
    /// If the database fails.
    async fn waiting_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<WaitingLane>, QueueError>;

    /// Returns whether any delivery waits in this lane that has not expired, so that its circuit can be probed.
    ///
    /// # Errors
    /// If the database fails.
    async fn has_waiting(&self, lane: LaneId) -> Result<bool, QueueError>;

    /// Makes deliveries whose lease has ended wait again. Returns their lanes, and whether there may be more.
    ///
    /// # Errors
    /// If the database fails.
    async fn reclaim(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Writes deliveries of large fan-outs that were not written when their event was accepted, at most `limit` and of
    /// one tenant at a time.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn fan_out(&self, limit: u32) -> Result<BatchResult, QueueError>;

    /// Fails waiting deliveries that have expired, with the reason `expired`.
    ///
    /// # Errors
    /// If the database fails.
    async fn expire(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Deletes finished work whose retention has ended, a bounded number of rows. [`BatchResult::done`] counts deliveries
    /// alone, not their events, payloads, attempts and idempotency keys.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune(&self, keep: &Retention, limit: usize) -> Result<BatchResult, QueueError>;

    /// Returns the queue's time: the wall clock at the start and monotonic time since, or the database's time.
    fn now(&self) -> Timestamp;
}

/// Decides, while a batch is accepted, which fresh deliveries this process takes at once. The queue calls it under its
/// own lock: it must not block.
pub trait Reservations: Send + Sync + 'static {
    /// Returns the lease time if this process takes a fresh delivery of this lane, or `None`. If it does, a slot is
    /// reserved until the delivery arrives or [`release`](Self::release) is called.
    ///
    /// `key` is the circuit's, for a lane of a dynamic URL.
    fn reserve(&self, lane: LaneId, tenant: &TenantId, key: Option<&Arc<str>>) -> Option<Duration>;

    /// Frees the slot of a delivery that was taken but did not become durable, or whose caller dropped the result.
    fn release(&self, lane: LaneId);
}

/// The result of accepting a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Submitted {
    /// The events, in the order of the batch.
    pub events: Vec<SubmittedEvent>,
    /// Whether this was a repetition. If so, nothing was written.
    pub repeated: bool,
    /// Fresh deliveries that this process took. They carry the payload, so that it is not read again.
    pub taken: Vec<Leased>,
    /// Deliveries that wait now and were not taken: for each lane and priority the number of new ones, and when the
    /// earliest is due.
    pub woken: Vec<WaitingLane>,
    /// The number of deliveries that have no row yet: [`fan_out`](Queue::fan_out) writes them.
    pub deferred: u64,
}

/// One accepted event of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubmittedEvent {
    /// The id of the event.
    pub id: EventId,
    /// The number of its deliveries.
    pub deliveries: u32,
}

/// Why nothing was accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The tenant does not exist.
    #[error("there is no tenant {0}")]
    UnknownTenant(TenantId),
    /// The tenant's backlog limit has no room for the whole batch.
    #[error("the backlog is full: {waiting} deliveries of {bytes} bytes wait")]
    BacklogFull {
        /// The number of waiting deliveries.
        waiting: u64,
        /// The bytes of their payloads.
        bytes: u64,
    },
    /// A dynamic URL can't be a destination.
    #[error(transparent)]
    Url(#[from] KeyError),
    /// The idempotency key was used with a different request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// The disk is nearly full. The rest is reserved for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are reserved")]
    DiskReserve {
        /// The number of free bytes.
        free: u64,
        /// The number of reserved bytes.
        reserve: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Why the queue failed. It can be cloned: one failed commit is the result of many jobs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// The queue is overloaded. Try again.
    #[error("the queue is busy; retry")]
    Busy,
    /// The queue is being closed.
    #[error("the queue is closed")]
    Closed,
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull,
    /// A file of the database was deleted or replaced. Writes to it would be lost at the next start.
    #[error("{} was deleted or replaced; stop the gateway, restore the data folder and start it again", .0.display())]
    FileGone(PathBuf),
    /// The job panicked, which is a bug. Nothing of it was written.
    #[error("a job of the queue panicked: {0}")]
    Panicked(String),
    /// Any other error. Nothing was written.
    #[error("the database fails")]
    Database(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// A request to lease deliveries of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Due deliveries of a lane at one priority, the longest due first. Expired ones fail, and are not leased.
    Due {
        /// The lane.
        lane: LaneId,
        /// The priority.
        priority: Priority,
        /// The maximum number of deliveries.
        limit: u32,
        /// The duration of the lease.
        lease: Duration,
    },
    /// One delivery for a probe. The first due one, by priority and age, that has not failed a probe in this outage;
    /// else the next one to be due of which that is true, pulled forward, so that a poison payload that backs off is
    /// not used for probes again and again; else the one that is due first.
    Probe {
        /// The lane.
        lane: LaneId,
        /// The outage: the epoch of the circuit's first trip in it.
        outage: Epoch,
        /// The duration of the lease.
        lease: Duration,
    },
}

/// The result of a claim.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claimed {
    /// The leased deliveries.
    pub deliveries: Vec<Leased>,
    /// For each priority: when the earliest delivery that still waits in that lane is due.
    pub next_due: [Option<Timestamp>; 4],
    /// The number of deliveries that can't be read. They have failed, so that they don't block others.
    pub unreadable: u64,
}

/// The token of a claim, by which the queue recognizes its holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease(pub i64);

/// A delivery that this process may try.
#[derive(Clone, PartialEq, Debug)]
pub struct Leased {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The token of the claim.
    pub lease: Lease,
    /// The lane that it waited in.
    pub lane: LaneId,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// The event that is delivered.
    pub event: EventId,
    /// The type of the event.
    pub kind: EventType,
    /// The body of the request.
    pub payload: Bytes,
    /// The media type of the payload.
    pub content_type: Arc<str>,
    /// The priority within the tenant.
    pub priority: Priority,
    /// The number of attempts that were used up before.
    pub attempts: u32,
    /// The dynamic URL. `None`: the endpoint's URL.
    pub url: Option<Arc<str>>,
    /// The run of a reminder that this delivery stands for. `None` for an event that a customer submitted.
    pub run: Option<LeasedRun>,
    /// When the delivery would have been due, if it was pulled forward for a probe. Then a failure uses no attempt, and
    /// the delivery is due again at this time.
    pub pulled_from: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it expires. `None`: never.
    pub expires_at: Option<Timestamp>,
}

/// The run of a reminder, as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedRun {
    /// The id of the run.
    pub id: RunId,
    /// The occurrence for which the run was fired.
    pub scheduled_at: Timestamp,
    /// The schedule, if the run was not sent yet and stands for the latest occurrence at that time.
    pub latest_of: Option<Arc<Schedule>>,
}

impl LeasedRun {
    /// Returns the later occurrence that the run stands for if it is sent now. `None`: the one for which it was fired.
    #[must_use]
    pub fn stands_for(&self, now: Timestamp) -> Option<Missed> {
        self.latest_of.as_ref()?.latest(Some(self.scheduled_at), now)
    }
}

impl Leased {
    /// Returns the `webhook-id` of its requests: the same on every retry and resend.
    #[must_use]
    pub fn webhook_id(&self) -> String {
        self.run.as_ref().map_or_else(|| self.event.to_string(), |run| run.id.to_string())
    }
}

/// The result of an attempt of a leased delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Settlement {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The token of the claim.
    pub lease: Lease,
    /// The request that was made.
    pub attempt: Attempt,
    /// The next step.
    pub next: NextStep,
    /// The occurrence that a run of a reminder stands for, if it was sent later than it was due.
    pub stands_for: Option<Missed>,
}

/// Whether the lease was current.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settled {
    /// The lease was current, and the result is written.
    Done,
    /// The lease was not current, and nothing is changed.
    Fenced,
}

/// A lane with waiting deliveries.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitingLane {
    /// The id of the lane.
    pub lane: LaneId,
    /// The tenant that the lane belongs to.
    pub tenant: TenantId,
    /// The key of a dynamic lane's circuit. `None` for an endpoint's lane.
    pub dynamic: Option<Arc<str>>,
    /// For each priority with waiting deliveries: when the earliest is due. `ZERO` stands for now or not known.
    pub next_due: [Option<Timestamp>; 4],
    /// The number of new deliveries that wait at each of those priorities; `u32::MAX` if not known.
    pub count: u32,
}

/// The result of a bounded piece of work.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BatchResult {
    /// The number of rows.
    pub done: u64,
    /// Lanes with deliveries that wait now.
    pub woken: Vec<WaitingLane>,
    /// Whether there is more work to do at once.
    pub more: bool,
}

/// How long finished work is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// The retention of delivered and cancelled deliveries.
    pub finished: Duration,
    /// The retention of dead letters.
    pub failed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self { finished: 7 * day, failed: 30 * day }
    }
}
