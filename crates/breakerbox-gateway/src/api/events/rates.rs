//! Rate limits for submitted events, per tenant. Only tenants with a limit are remembered.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::TokenBucket;
use breakerbox_model::objects::TenantId;
use breakerbox_storage::TenantEntry;

use crate::api::problem::{ApiResult, Code, Problem};

/// The maximum number of token buckets in memory. When another one is needed, all are dropped, and every tenant
/// restarts with a full bucket.
const REMEMBERED: usize = 100_000;

/// The token buckets that limit how fast tenants submit events, for tenants with an `ingest_rate`.
#[derive(Debug, Default)]
pub(in crate::api) struct IngestRates(Mutex<HashMap<TenantId, TokenBucket>>);

impl IngestRates {
    /// Takes a token for each event, or none if there are too few. A batch larger than the burst needs a full bucket.
    pub(super) fn take(&self, tenant: &TenantEntry, events: usize, now: Timestamp) -> ApiResult<()> {
        let Some(limit) = tenant.ingest_rate else { return Ok(()) };
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED && !buckets.contains_key(&tenant.id) {
            buckets.clear();
        }
        let bucket = buckets.entry(tenant.id.clone()).or_insert_with(|| TokenBucket::new(limit));
        if bucket.limit() != limit {
            bucket.change(limit, now);
        }
        bucket.take_many(u32::try_from(events).unwrap_or(u32::MAX), now).map_err(|due| {
            let detail = format!(
                "the tenant may submit {} events per second, in bursts of {}; nothing was accepted",
                limit.per_second, limit.burst
            );
            Problem::new(Code::RateLimited, detail).retry_after(due.since(now))
        })
    }
}
