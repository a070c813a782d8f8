//! What every operation needs: the way to the servers, the names of the keys there, and the timeout.

use std::time::Duration;

use breakerbox::store::StoreError;
use tokio::time::Instant;

use crate::layout::{Bucket, Layout};
use crate::wire::{Call, Wire};

/// The servers of a store.
pub(crate) struct Servers {
    pub(crate) wire: Wire,
    pub(crate) layout: Layout,
    pub(crate) limit: Duration,
}

impl Servers {
    /// Returns when an operation that starts now times out.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Returns one bucket of each master; with a single server, any bucket.
    pub(crate) async fn one_bucket_for_each_master(
        &self,
        deadline: Instant,
    ) -> Result<Vec<Bucket>, StoreError> {
        self.wire.one_bucket_for_each_master(self.limit, deadline).await
    }

    /// Makes calls, and returns a response for each.
    pub(crate) async fn exchange(
        &self,
        calls: &[Call],
        deadline: Instant,
    ) -> Result<Vec<redis::Value>, StoreError> {
        self.wire.exchange(calls, self.limit, deadline).await
    }
}
