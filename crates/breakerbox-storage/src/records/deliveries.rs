//! Events, deliveries and attempts, for the API: show, list, cancel, resend.

use async_trait::async_trait;
use breakerbox_model::objects::{
    Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, Event, EventFilter, EventId, EventSummary,
};

use super::{Page, PageOf, RecordsError};

/// The unfinished deliveries of all tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnfinishedWork {
    /// Deliveries that are waiting or in flight.
    pub backlog: Backlog,
    /// The number of tenants that have unfinished work.
    pub tenants: u64,
    /// The number of deliveries in the backlog that are not written yet, because a fan-out is still running.
    pub fanning_out: u64,
}

/// Operations on events, deliveries and attempts.
#[async_trait]
pub trait Deliveries: Send + Sync + 'static {
    /// Returns the event with this id, with its payload.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn event(&self, id: EventId) -> Result<Event, RecordsError>;

    /// Lists the events that match a filter, newest first, without their payloads. Runs of reminders are not listed.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn events(&self, filter: &EventFilter, page: &PageOf) -> Result<Page<EventSummary>, RecordsError>;

    /// Lists the deliveries that match a filter, newest first.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn deliveries(
        &self,
        filter: &DeliveryFilter,
        page: &PageOf,
    ) -> Result<Page<Delivery>, RecordsError>;

    /// Returns the delivery with this id.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Lists a delivery's attempts, newest first.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Cursor`](RecordsError::Cursor) if
    /// the cursor is invalid, or a database error.
    async fn attempts(&self, id: DeliveryId, page: &PageOf) -> Result<Page<Attempt>, RecordsError>;

    /// Cancels a waiting delivery. A delivery in flight can't be cancelled: its response determines the result.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`State`](RecordsError::State) if the
    /// delivery is not waiting, or a database error.
    async fn cancel_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Makes a finished delivery pending again, due at once. Its attempts and its time to live start over. Its lane
    /// is woken.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown or the endpoint was deleted,
    /// [`State`](RecordsError::State) if the delivery is not finished,
    /// [`BacklogFull`](RecordsError::BacklogFull) if the tenant has reached its limit, or a database error.
    async fn resend_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Returns the unfinished work of all tenants. The counts are updated with each change, so this is cheap.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn waiting(&self) -> Result<UnfinishedWork, RecordsError>;
}
