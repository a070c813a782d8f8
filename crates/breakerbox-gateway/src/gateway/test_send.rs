//! A request to an endpoint now, to try it: signed like any other, by the same address policy, and counted nowhere.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_egress::Incoming;
use breakerbox_storage::EndpointEntry;

use crate::api::{TestEvent, TestSend};
use crate::dispatch::Dispatch;

/// Tries endpoints with dispatch's own courier.
pub(super) struct Tests(pub(super) Arc<Dispatch>);

#[async_trait]
impl TestSend for Tests {
    async fn test(&self, endpoint: Arc<EndpointEntry>, event: TestEvent) -> Incoming {
        self.0.try_out(endpoint, event.payload, event.content_type).await
    }
}
