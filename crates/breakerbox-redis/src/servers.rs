//! What every operation needs: connections to the servers, the names of the keys, and the timeout.

use std::time::Duration;

use breakerbox::store::StoreError;
use tokio::time::Instant;

use crate::layout::{Bucket, Layout};
use crate::wire::{Call, Wire};

/// The connections to a store's servers, the names of the keys on these servers, and the request timeout.
pub(crate) struct Servers {
    pub(crate) wire: Wire,
    pub(crate) layout: Layout,
    pub(crate) limit: Duration,
}

impl Servers {
    /// Returns the deadline for an operation that starts now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Returns one bucket of each master; with a single server, bucket 0.
    pub(crate) async fn one_bucket_for_each_master(
        &self,
        deadline: Instant,
    ) -> Result<Vec<Bucket>, StoreError> {
        self.wire.one_bucket_for_each_master(self.limit, deadline).await
    }

    /// Sends the calls, and returns their responses in the same order.
    pub(crate) async fn exchange(
        &self,
        calls: &[Call],
        deadline: Instant,
    ) -> Result<Vec<redis::Value>, StoreError> {
        self.wire.exchange(calls, self.limit, deadline).await
    }
}
