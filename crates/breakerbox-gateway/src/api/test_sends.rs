//! Limits the number and the rate of test requests, per tenant. A test request may take as long as the endpoint's
//! timeout, and no circuit or endpoint rate limit applies to it.

use std::sync::{Mutex, PoisonError};

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::KeyedBuckets;
use breakerbox_model::objects::{RateLimit, TenantId};
use breakerbox_model::shares::{NoShare, SharePermit, SharePool};

use super::problem::{ApiResult, Code, Problem};

/// The maximum number of concurrent test requests, over all tenants.
const AT_ONCE: u64 = 8;

/// The rate limit for each tenant's test requests.
const PACE: RateLimit = RateLimit { per_second: 1.0, burst: 30 };

/// The maximum number of tenants whose rates are remembered.
const REMEMBERED: usize = 100_000;

/// Limits test requests: how many are in flight, and how fast each tenant makes them.
#[derive(Debug)]
pub(super) struct TestSends {
    places: SharePool<TenantId>,
    pace: Mutex<KeyedBuckets<TenantId>>,
}

impl TestSends {
    /// Creates the limits. `tenant_share` is the percentage of the slots that one tenant may use.
    pub(super) fn new(tenant_share: u32) -> Self {
        let pace = KeyedBuckets::new(PACE, REMEMBERED);
        Self { places: SharePool::new(AT_ONCE, tenant_share), pace: Mutex::new(pace) }
    }

    /// Takes a slot for a tenant's test request, if the rate limit allows it. The slot is freed on drop.
    pub(super) fn begin(&self, tenant: &TenantId, now: Timestamp) -> ApiResult<SharePermit<TenantId>> {
        let place = self.place(tenant)?;
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.take(tenant, 1, now).map_err(|due| {
            let detail = format!(
                "a tenant may make {} test requests in a burst, then {} per second",
                PACE.burst, PACE.per_second
            );
            Problem::new(Code::TestsTooFast, detail).retry_after(due.since(now))
        })?;
        Ok(place)
    }

    /// Takes a slot for a test request, without a rate limit. The slot is freed on drop.
    pub(super) fn place(&self, tenant: &TenantId) -> ApiResult<SharePermit<TenantId>> {
        self.places.try_acquire(tenant, 1).map_err(|why| match why {
            NoShare::OwnerOver => Problem::new(
                Code::TenantBusy,
                "the tenant has the maximum number of test requests in flight; retry when one is done",
            ),
            NoShare::AllUsed => {
                Problem::new(Code::Overloaded, "too many test requests in flight; retry later")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000 + seconds * 1_000)
    }

    #[test]
    fn a_tenant_leaves_places_for_others() {
        let tests = TestSends::new(25);
        let (hostile, other) = ("hostile".parse().unwrap(), "other".parse().unwrap());
        let mut held: Vec<_> = (0..6).map(|_| tests.begin(&hostile, at(0)).unwrap()).collect();
        assert_eq!(tests.begin(&hostile, at(0)).unwrap_err().code(), Code::TenantBusy);
        held.extend((0..2).map(|_| tests.begin(&other, at(0)).unwrap()));
        assert_eq!(tests.begin(&"third".parse().unwrap(), at(0)).unwrap_err().code(), Code::Overloaded);
        held.clear();
        assert!(tests.begin(&"third".parse().unwrap(), at(0)).is_ok());
    }

    #[test]
    fn a_tenant_that_loops_is_paced_and_others_are_not() {
        let tests = TestSends::new(25);
        let (hostile, other) = ("hostile".parse().unwrap(), "other".parse().unwrap());
        let made = (0..100).filter(|_| tests.begin(&hostile, at(0)).is_ok()).count();
        assert_eq!(made, 30);
        assert_eq!(tests.begin(&hostile, at(0)).unwrap_err().code(), Code::TestsTooFast);
        assert!(tests.begin(&hostile, at(1)).is_ok());
        assert!(tests.begin(&other, at(0)).is_ok());
    }
}
