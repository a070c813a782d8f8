//! The rate limit for test notifications. Each destination has the same limit as for other messages, regardless of
//! which tenant requests the test; in addition, each tenant has a limit over all its targets. So an API key that may
//! change targets can't be used to flood mailboxes. The time is an argument.

use std::time::Duration;

use breakerbox_core::Timestamp;

use super::target::{NotificationTarget, Way};
use crate::delivery::KeyedBuckets;
use crate::values::{RateLimit, TenantId};

/// The number of test messages that a tenant may send at once, to all its targets together.
const OF_TENANT: u32 = 20;

/// The maximum number of tenants and destinations whose buckets are kept.
const REMEMBERED: usize = 20_000;

/// Limits the rate of test notifications, both per tenant and per destination.
#[derive(Debug)]
pub struct TestPace {
    tenants: KeyedBuckets<TenantId>,
    destinations: KeyedBuckets<String>,
}

impl TestPace {
    /// Creates a limiter that allows each destination `burst` messages at once, and then one per interval.
    /// Each tenant may also send at most 20 messages at once, and then one per interval.
    #[must_use]
    pub fn new(burst: u32, interval: Duration) -> Self {
        let limit = |burst| RateLimit { per_second: 1.0 / interval.as_secs_f64(), burst };
        Self {
            tenants: KeyedBuckets::new(limit(OF_TENANT), REMEMBERED),
            destinations: KeyedBuckets::new(limit(burst), REMEMBERED),
        }
    }

    /// Takes a token for each message to these targets, or no tokens at all.
    ///
    /// # Errors
    /// Returns the time to try again, if a limit is exceeded.
    pub fn take(
        &mut self,
        tenant: &TenantId,
        targets: &[NotificationTarget],
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let destinations: Vec<_> = targets.iter().flat_map(|target| destinations(&target.way)).collect();
        let messages = u32::try_from(destinations.len()).unwrap_or(u32::MAX);
        self.tenants.take(tenant, messages, now)?;
        for (place, destination) in destinations.iter().enumerate() {
            if let Err(due) = self.destinations.take(destination.as_str(), 1, now) {
                self.tenants.give_back(tenant, messages);
                for taken in &destinations[..place] {
                    self.destinations.give_back(taken.as_str(), 1);
                }
                return Err(due);
            }
        }
        Ok(())
    }
}

/// Returns the destinations of a message: a URL, or each recipient of an e-mail.
fn destinations(way: &Way) -> Vec<String> {
    match way {
        Way::Webhook { url, .. } | Way::Slack { url } => vec![url.to_string()],
        Way::Email { to } => to.iter().map(|address| address.to_string().to_ascii_lowercase()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kinds;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000 + seconds * 1_000)
    }

    fn mail(to: &str) -> NotificationTarget {
        let to = to.split(' ').map(|address| address.parse().unwrap()).collect();
        NotificationTarget { name: "tgt_1".into(), way: Way::Email { to }, on: Kinds::ALL }
    }

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    #[test]
    fn one_address_gets_no_more_whoever_asks() {
        let mut pace = TestPace::new(5, MINUTE);
        for _ in 0..5 {
            assert_eq!(pace.take(&tenant("a"), &[mail("victim@example.com")], at(0)), Ok(()));
        }
        assert_eq!(pace.take(&tenant("a"), &[mail("victim@example.com")], at(0)), Err(at(60)));
        assert_eq!(pace.take(&tenant("b"), &[mail("Victim@Example.com")], at(0)), Err(at(60)));
        assert_eq!(pace.take(&tenant("b"), &[mail("other@example.com")], at(0)), Ok(()));
        assert_eq!(pace.take(&tenant("b"), &[mail("victim@example.com")], at(60)), Ok(()));
    }

    #[test]
    fn a_tenant_that_changes_its_targets_sends_no_more() {
        let mut pace = TestPace::new(5, MINUTE);
        let sent = (0..100)
            .filter(|n| pace.take(&tenant("a"), &[mail(&format!("v{n}@example.com"))], at(0)).is_ok());
        assert_eq!(sent.count(), 20);
        let many = (0..15).map(|n| format!("w{n}@example.com")).collect::<Vec<_>>().join(" ");
        assert_eq!(pace.take(&tenant("b"), &[mail(&many)], at(0)), Ok(()), "each recipient counts");
        let sent = (0..100)
            .filter(|n| pace.take(&tenant("b"), &[mail(&format!("x{n}@example.com"))], at(0)).is_ok());
        assert_eq!(sent.count(), 5);
    }

    #[test]
    fn what_is_refused_takes_nothing() {
        let mut pace = TestPace::new(1, MINUTE);
        assert_eq!(pace.take(&tenant("a"), &[mail("busy@example.com")], at(0)), Ok(()));
        let both = [mail("fresh@example.com"), mail("busy@example.com")];
        for _ in 0..50 {
            assert_eq!(pace.take(&tenant("a"), &both, at(0)), Err(at(60)));
        }
        assert_eq!(pace.take(&tenant("a"), &[mail("fresh@example.com")], at(0)), Ok(()));
    }
}
