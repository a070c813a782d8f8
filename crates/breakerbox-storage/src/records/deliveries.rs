//! Events, deliveries and attempts for the API: show, list, cancel, resend.

use async_trait::async_trait;
use breakerbox_model::objects::{Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, Event, EventId};

use super::{Page, PageOf, RecordsError};

/// The unfinished work of all tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnfinishedWork {
    /// Deliveries that wait or are in flight.
    pub backlog: Backlog,
    /// The number of tenants that have any.
    pub tenants: u64,
    /// The number of deliveries of the backlog that are not written yet, because a fan-out is still running.
    pub fanning_out: u64,
}

/// Events, deliveries and attempts.
#[async_trait]
pub trait Deliveries: Send + Sync + 'static {
    /// Returns an event, with its payload.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn event(&self, id: EventId) -> Result<Event, RecordsError>;

    /// Lists deliveries, the newest first.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn deliveries(
        &self,
        filter: &DeliveryFilter,
        page: &PageOf,
    ) -> Result<Page<Delivery>, RecordsError>;

    /// Returns a delivery.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Lists the attempts of a delivery, the newest first.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) delivery, an invalid cursor, or the database fails.
    async fn attempts(&self, id: DeliveryId, page: &PageOf) -> Result<Page<Attempt>, RecordsError>;

    /// Cancels a waiting delivery. One in flight can't be cancelled: its response decides.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`State`](RecordsError::State), or the database fails.
    async fn cancel_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Makes a finished delivery pending again, due at once. It has all its attempts and its original lifetime again.
    /// Its lane is woken.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) (also if its endpoint was deleted), [`State`](RecordsError::State),
    /// [`BacklogFull`](RecordsError::BacklogFull), or the database fails.
    async fn resend_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError>;

    /// Returns the unfinished work of all tenants. The counts are maintained, so this is cheap.
    ///
    /// # Errors
    /// If the database fails.
    async fn waiting(&self) -> Result<UnfinishedWork, RecordsError>;
}
