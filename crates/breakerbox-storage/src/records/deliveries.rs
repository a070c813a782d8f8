//! Events, deliveries and attempts, as people see them, and what they may do with one.

use async_trait::async_trait;
use breakerbox_model::objects::{Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, Event, EventId};

use super::{Page, PageOf, RecordsError};

/// How much waits, all in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// What waits or is in flight.
    pub backlog: Backlog,
    /// How many tenants have any of it.
    pub tenants: u64,
    /// How many deliveries of the backlog are still to be written, because a fan-out is under way.
    pub fanning_out: u64,
}

/// Events, deliveries and attempts.
#[async_trait]
pub trait Deliveries: Send + Sync + 'static {
    /// An event, with its payload.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn event(&self, id: EventId) -> Result<Event, RecordsError>;

    /// Deliveries, the newest first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn deliveries(
        &self,
        filter: &DeliveryFilter,
        page: &PageOf,
    ) -> Result<Page<Delivery>, RecordsError>;

    /// A delivery.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// The attempts of a delivery, the newest first.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) delivery, a cursor that is none, or the database fails.
    async fn attempts(&self, id: DeliveryId, page: &PageOf) -> Result<Page<Attempt>, RecordsError>;

    /// Cancels a delivery that waits. One in flight can't be called back: its answer decides.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`State`](RecordsError::State), or the database fails.
    async fn cancel_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Makes a finished delivery wait again, due at once, with all its attempts before it and as long to live as at first.
    /// Its lane is woken.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) (also if its endpoint is gone), [`State`](RecordsError::State),
    /// [`BacklogFull`](RecordsError::BacklogFull), or the database fails.
    async fn resend_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// How much waits, all in all. Counted all along.
    ///
    /// # Errors
    /// If the database fails.
    async fn waiting(&self) -> Result<Waiting, RecordsError>;
}
