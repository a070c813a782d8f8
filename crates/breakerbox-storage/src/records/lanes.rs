//! The unfinished deliveries of lanes, for the API that shows what waits.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Backlog, LaneId, TenantId};

use super::{Page, PageOf, RecordsError};

/// A lane that has unfinished deliveries.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneBacklog {
    /// The lane in which the deliveries wait.
    pub lane: LaneId,
    /// The tenant that the lane belongs to.
    pub tenant: TenantId,
    /// The circuit key, if the lane is for a dynamic URL or reminders. `None` for an endpoint's lane.
    pub dynamic: Option<Arc<str>>,
    /// Deliveries that are waiting or in flight.
    pub unfinished: Backlog,
    /// The waiting delivery that is due first. `None`: all unfinished deliveries are in flight.
    pub next: Option<NextDelivery>,
}

/// The waiting delivery of a lane that is due first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextDelivery {
    /// When the delivery is due.
    pub due_at: Timestamp,
    /// The number of attempts used.
    pub attempts: u32,
}

/// Operations on the unfinished deliveries of lanes. The lanes of deleted endpoints are left out.
#[async_trait]
pub trait LaneBacklogs: Send + Sync + 'static {
    /// Lists the lanes with unfinished deliveries of one tenant or of all, newest lane first.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn lane_backlogs(
        &self,
        tenant: Option<&TenantId>,
        page: &PageOf,
    ) -> Result<Page<LaneBacklog>, RecordsError>;

    /// Returns the unfinished deliveries of these lanes, in the same order. `None`: the lane has none.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn backlogs_of(&self, lanes: &[LaneId]) -> Result<Vec<Option<LaneBacklog>>, RecordsError>;
}
