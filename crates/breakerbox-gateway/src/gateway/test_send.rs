//! Test requests to an endpoint: signed like other requests, under the same address policy, and not counted by any
//! circuit.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_egress::Incoming;
use breakerbox_storage::EndpointEntry;

use crate::api::{TestEvent, TestSend};
use crate::dispatch::Dispatch;

/// Sends test requests with the dispatcher's HTTP client.
pub(super) struct Tests(pub(super) Arc<Dispatch>);

#[async_trait]
impl TestSend for Tests {
    async fn test(&self, endpoint: Arc<EndpointEntry>, event: TestEvent) -> Incoming {
        self.0.try_out(endpoint, &event.kind, event.payload, &event.content_type).await
    }
}
