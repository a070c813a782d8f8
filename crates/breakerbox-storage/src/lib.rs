//! The gateway's storage traits: the durable queue, reminders, and everything that the API shows and changes. A
//! backend is a crate that implements them. This crate depends neither on a backend nor on the API.
//!
//! A queue stores, counts, and compares and swaps; it makes no decisions. The caller decides which lane sends next,
//! whether a gate admits a call, and when a retry is due.
//!
//! | part | task |
//! | --- | --- |
//! | [`Queue`] | the hot path: accept, claim, settle |
//! | [`ReminderStore`] | the scheduler's view of reminders |
//! | [`records`] | everything else that the API shows and changes |
//! | [`Directory`] | tenants, endpoints and API keys in memory, for deliveries |
//! | [`clock`] | the wall clock, and the clock for leases, circuits and limits |
//! | `conformance` | the requirements for every backend, as tests; with the feature `conformance` |
//! | [`Routes`] | what a backend reads of the directory while it accepts events |
//! | [`secrets`] | secrets at rest: master keys, sealing, opening |
//! | [`stored`] | the stored form of values, the same in every database |
//!
//! **Durability.** When a method returns `Ok`, its effect survives a power cut. Accepting is one transaction: the
//! events, a delivery for each endpoint, the idempotency key. For a large fan-out, that transaction writes a bounded
//! number of deliveries, and a durable job that writes the rest.
//!
//! **Leases.** A claimed delivery belongs to the process that claimed it until the lease has expired and was
//! reclaimed. A settlement must present the lease; if the lease is no longer current, nothing is changed
//! ([`Settled::Fenced`]). A restart voids the leases that the same process had before, and lease numbers are never
//! reused. If several processes share a queue, the leases of the others stay valid.
//!
//! **Dropped futures.** Dropping the future of a submit or a claim does not undo the operation. The next
//! [`reclaim`](Queue::reclaim) returns the deliveries that the operation leased and the lanes that it woke.
//!
//! **Cost.** The cost of a claim does not depend on the number of deliveries that are parked, scheduled for later, or
//! finished.

pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod directory;
pub mod records;
mod reminder_store;
mod routes;
pub mod secrets;
pub mod stored;

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
pub use self::routes::{Audience, EndpointRoute, Routes, TenantRoutes};

/// The durable queue: the operations on the hot path, and maintenance.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Stores the events of a batch and their deliveries durably, all or none. Each event fans out, by its type, to
    /// the endpoints that the tenant has at that moment.
    ///
    /// For each new delivery that is due at once, the queue asks the [`Reservations`] whether this process takes the
    /// delivery now. Deliveries that are taken are leased at once and returned.
    ///
    /// # Errors
    /// Returns the reason why nothing was accepted.
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError>;

    /// Leases waiting deliveries, in the order of the claims. A claim that finds nothing is not an error.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was leased.
    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, QueueError>;

    /// Stores the result of an attempt to send a leased delivery. The call waits up to 10 ms for a group commit.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was written.
    async fn settle(&self, settlement: Settlement) -> Result<Settled, QueueError>;

    /// Returns a leased delivery that was not attempted. The delivery waits again, at its old position.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, the lease stays valid until it expires.
    async fn hand_back(&self, delivery: DeliveryId, lease: Lease) -> Result<Settled, QueueError>;

    /// Returns up to `limit` lanes with waiting deliveries, ordered by id, that follow `after`. Used at startup and
    /// for repairs.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn waiting_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<WaitingLane>, QueueError>;

    /// Returns whether a delivery of this lane may probe the lane's circuit now.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn probe_supply(&self, lane: LaneId) -> Result<ProbeSupply, QueueError>;

    /// Makes up to `limit` deliveries whose lease has expired wait again. Returns the lanes of these deliveries, and
    /// whether there may be more expired leases.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn reclaim(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Writes up to `limit` deliveries of large fan-outs that were not written when their event was accepted, one
    /// tenant at a time.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was written.
    async fn fan_out(&self, limit: u32) -> Result<BatchResult, QueueError>;

    /// Fails up to `limit` waiting deliveries that have expired, with the reason `expired`.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn expire(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Deletes a bounded number of rows of finished work whose retention has ended. [`BatchResult::done`] counts
    /// deliveries only, not events, payloads, attempts or idempotency keys.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn prune(&self, keep: &Retention, limit: usize) -> Result<BatchResult, QueueError>;

    /// Waits until another process that uses the same queue reports that deliveries wait, and returns their lanes.
    /// Reports may be lost, so lanes also have to be [looked for](Self::waiting_lanes) now and then. The default
    /// implementation, for a queue that one process has for itself, never returns.
    async fn woken_by_others(&self) -> Vec<WaitingLane> {
        std::future::pending().await
    }

    /// Returns the current time of the clock by which the queue's leases and due times are set.
    fn now(&self) -> Timestamp;
}

/// Decides which new deliveries this process sends at once, while their batch is accepted. The queue calls
/// these methods while holding a lock, so they must not block.
pub trait Reservations: Send + Sync + 'static {
    /// Reserves a slot for a new delivery in this lane and returns the lease duration, or `None` if this process does
    /// not take the delivery. The slot stays reserved until the delivery arrives or [`release`](Self::release) is
    /// called.
    ///
    /// `key` is the circuit's key if the lane is for a dynamic URL.
    fn reserve(&self, lane: LaneId, tenant: &TenantId, key: Option<&Arc<str>>) -> Option<Duration>;

    /// Frees the slot of a delivery that was taken but did not become durable, or whose result the caller dropped.
    fn release(&self, lane: LaneId);
}

/// The result of submitting a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Submitted {
    /// The accepted events, in the order of the batch.
    pub events: Vec<SubmittedEvent>,
    /// Whether the batch repeats an earlier one with the same idempotency key. If so, nothing was written.
    pub repeated: bool,
    /// New deliveries that this process took. Each includes its payload, so that the payload is not read again.
    pub taken: Vec<Leased>,
    /// Deliveries that wait and were not taken: the number of new ones for each lane and priority, and when the
    /// earliest is due.
    pub woken: Vec<WaitingLane>,
    /// The number of the batch's deliveries that are not written yet, and that [`fan_out`](Queue::fan_out) will write.
    pub deferred: u64,
}

/// One event of an accepted batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubmittedEvent {
    /// The id that the queue gave to the event.
    pub id: EventId,
    /// The number of the event's deliveries, including those not written yet.
    pub deliveries: u32,
}

/// Why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The tenant does not exist.
    #[error("there is no tenant {0}")]
    UnknownTenant(TenantId),
    /// Accepting the whole batch would exceed the tenant's backlog limit.
    #[error("the backlog is full: {waiting} deliveries of {bytes} bytes wait")]
    BacklogFull {
        /// The number of deliveries already waiting.
        waiting: u64,
        /// The payload bytes of the waiting deliveries.
        bytes: u64,
    },
    /// A dynamic URL is not a valid destination.
    #[error(transparent)]
    Url(#[from] KeyError),
    /// The idempotency key was used with a different request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// The disk is nearly full. The remaining space is reserved for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are reserved")]
    DiskReserve {
        /// The number of free bytes on the disk.
        free: u64,
        /// The number of bytes that are reserved.
        reserve: u64,
    },
    /// The queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Why a queue operation failed. The error can be cloned, because one failed commit fails many operations.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// The queue is overloaded. Try again later.
    #[error("the queue is busy; retry")]
    Busy,
    /// The queue is being closed.
    #[error("the queue is closed")]
    Closed,
    /// The disk is full. Nothing was written.
    #[error("the disk is full")]
    DiskFull,
    /// A database file was deleted or replaced. Writes to it would be lost at the next restart.
    #[error("{} was deleted or replaced; stop the gateway, restore the data directory and start it again", .0.display())]
    FileGone(PathBuf),
    /// The operation panicked, which is a bug. Nothing was written.
    #[error("a job of the queue panicked: {0}")]
    Panicked(String),
    /// Any other database error. Nothing was written.
    #[error("the database fails")]
    Database(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// A request to lease waiting deliveries of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Leases due deliveries of one priority, longest due first. Expired ones are failed instead.
    Due {
        /// The lane to lease from.
        lane: LaneId,
        /// The priority of the deliveries.
        priority: Priority,
        /// The maximum number of deliveries to lease.
        limit: u32,
        /// The duration of the lease, after which the delivery can be reclaimed.
        lease: Duration,
    },
    /// Leases one delivery for a probe: the one with the lowest
    /// [rank](breakerbox_model::delivery::ProbeCandidate::rank). One that is not due is brought forward, and not again
    /// until its next wait, unless it is handed back.
    Probe {
        /// The lane to lease from.
        lane: LaneId,
        /// The outage, identified by the epoch of the circuit's first trip.
        outage: Epoch,
        /// The duration of the lease, after which the delivery can be reclaimed.
        lease: Duration,
    },
}

/// Whether a lane's circuit can be probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeSupply {
    /// Whether an unexpired delivery of the lane may probe now: it is due, or it may be brought forward.
    pub can_probe: bool,
    /// For each priority, when the next delivery becomes due. Deliveries that are already due are left out.
    pub next_due: [Option<Timestamp>; 4],
}

/// The result of a claim on a lane.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claimed {
    /// The leased deliveries, longest due first.
    pub deliveries: Vec<Leased>,
    /// For each priority, when the earliest delivery that still waits in the lane is due.
    pub next_due: [Option<Timestamp>; 4],
    /// The number of deliveries that can't be read. They were failed, so that they don't block others.
    pub unreadable: u64,
}

/// The token of a claim, which identifies its holder to the queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lease(pub i64);

/// A leased delivery, which this process may attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct Leased {
    /// The id of the leased delivery.
    pub id: DeliveryId,
    /// The token of the claim that leased the delivery.
    pub lease: Lease,
    /// The lane that the delivery waited in.
    pub lane: LaneId,
    /// The tenant that the delivery belongs to.
    pub tenant: TenantId,
    /// The event that is delivered.
    pub event: EventId,
    /// The event's type, such as `invoice.paid`.
    pub kind: EventType,
    /// The body of the request.
    pub payload: Bytes,
    /// The media type of the payload.
    pub content_type: Arc<str>,
    /// The priority within the tenant. Higher priorities are sent first.
    pub priority: Priority,
    /// The number of attempts used before this lease.
    pub attempts: u32,
    /// The dynamic URL. `None`: the delivery goes to the endpoint's URL.
    pub url: Option<Arc<str>>,
    /// The reminder run that created this delivery. `None` for an event that a customer submitted.
    pub run: Option<LeasedRun>,
    /// The original due time, if the delivery was brought forward for a probe. If the probe fails, no attempt is
    /// used, and the delivery becomes due at this time.
    pub pulled_from: Option<Timestamp>,
    /// When the gateway accepted the event or fired the run.
    pub created_at: Timestamp,
    /// When the delivery expires. `None`: it never expires.
    pub expires_at: Option<Timestamp>,
}

/// A reminder run that is about to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedRun {
    /// The run's id.
    pub id: RunId,
    /// The scheduled time of the occurrence for which the run was fired.
    pub scheduled_at: Timestamp,
    /// The reminder's schedule, from which the latest occurrence at the time of sending is computed. `None`:
    /// the run was already sent, or it serves the occurrence for which it was fired.
    pub latest_of: Option<Arc<Schedule>>,
}

impl LeasedRun {
    /// Returns the later occurrence that the run serves if it is sent now, or `None` if the run serves the occurrence
    /// for which it was fired.
    #[must_use]
    pub fn stands_for(&self, now: Timestamp) -> Option<Missed> {
        self.latest_of.as_ref()?.latest(Some(self.scheduled_at), now)
    }
}

impl Leased {
    /// Returns the `webhook-id` of the delivery's requests, which is the same for every retry and resend.
    #[must_use]
    pub fn webhook_id(&self) -> String {
        self.run.as_ref().map_or_else(|| self.event.to_string(), |run| run.id.to_string())
    }
}

/// The result of an attempt to send a leased delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Settlement {
    /// The id of the delivery that was attempted.
    pub id: DeliveryId,
    /// The token of the claim that leased the delivery.
    pub lease: Lease,
    /// The attempt that was made, to be stored.
    pub attempt: Attempt,
    /// What happens to the delivery next.
    pub next: NextStep,
    /// The later occurrence that a reminder run serves because it was sent late. `None`: the run serves the
    /// occurrence for which it was fired, or the delivery is not a reminder run.
    pub stands_for: Option<Missed>,
}

/// Whether a settlement's lease was current.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settled {
    /// The lease was current, and the result was written.
    Done,
    /// The lease was not current, and nothing was changed.
    Fenced,
}

/// A lane with waiting deliveries.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitingLane {
    /// The lane in which the deliveries wait.
    pub lane: LaneId,
    /// The tenant that the lane belongs to.
    pub tenant: TenantId,
    /// The circuit key, if the lane is for a dynamic URL. `None` for an endpoint's lane.
    pub dynamic: Option<Arc<str>>,
    /// For each priority with waiting deliveries, when the earliest is due. `ZERO` means now or unknown.
    pub next_due: [Option<Timestamp>; 4],
    /// The number of new deliveries at each priority for which `next_due` is set; `u32::MAX` if it is not
    /// known.
    pub count: u32,
}

/// The result of one bounded batch of work.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BatchResult {
    /// The number of deliveries processed.
    pub done: u64,
    /// Lanes in which deliveries now wait.
    pub woken: Vec<WaitingLane>,
    /// Whether more work is left that can be done immediately.
    pub more: bool,
}

/// How long finished deliveries are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// How long delivered and cancelled deliveries are kept.
    pub finished: Duration,
    /// How long dead letters are kept.
    pub failed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self { finished: 7 * day, failed: 30 * day }
    }
}
