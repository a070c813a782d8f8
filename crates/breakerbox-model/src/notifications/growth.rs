//! Detects a growing number of dead letters. It counts each tenant's failed deliveries within the last hour, by
//! minute. Pure: the time and the counts are arguments.

use std::collections::BTreeMap;

use breakerbox_core::Timestamp;

use crate::values::TenantId;

/// The length of the counting period, in minutes.
const MINUTES: u64 = 60;

/// Detects tenants with many failed deliveries within the last hour.
#[derive(Debug)]
pub struct Growth {
    /// The first limit, in failed deliveries per hour. Each further limit is ten times the previous one.
    limit: u64,
    tenants: BTreeMap<TenantId, LastHour>,
}

#[derive(Debug, Default)]
struct LastHour {
    /// The number of failed deliveries in each minute that has any, oldest first. The key is the minute's
    /// number.
    minutes: BTreeMap<u64, u64>,
    /// The highest limit that was reported, or 0. When the count falls, this value falls to the highest limit
    /// that the count still reaches, so that higher limits can be reported again.
    reported: u64,
}

/// A tenant whose failed deliveries reached a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grown {
    /// The tenant that the deliveries belong to.
    pub tenant: TenantId,
    /// The number of deliveries that failed within the last hour.
    pub count: u64,
    /// The highest limit that the count has reached.
    pub limit: u64,
}

impl Growth {
    /// Creates a detector with this first limit, in failed deliveries per hour.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit: limit.max(1), tenants: BTreeMap::new() }
    }

    /// Adds a tenant's failed deliveries at this time.
    pub fn add(&mut self, tenant: &TenantId, count: u64, at: Timestamp) {
        let last_hour = self.tenants.entry(tenant.clone()).or_default();
        let in_minute = last_hour.minutes.entry(minute(at)).or_default();
        *in_minute = in_minute.saturating_add(count);
    }

    /// Records that a notification about this limit was created, so that [`grown`](Self::grown) does not
    /// return the limit again while the count still reaches it.
    pub fn reported(&mut self, grown: &Grown) {
        if let Some(last_hour) = self.tenants.get_mut(&grown.tenant) {
            last_hour.reported = grown.limit;
        }
    }

    /// Returns the tenants that reached a limit that was not [reported](Self::reported) yet. Counts older than an
    /// hour are forgotten.
    pub fn grown(&mut self, now: Timestamp) -> Vec<Grown> {
        let first = minute(now).saturating_sub(MINUTES - 1);
        let mut grown = Vec::new();
        for (tenant, last_hour) in &mut self.tenants {
            last_hour.minutes = last_hour.minutes.split_off(&first);
            let count = last_hour.minutes.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
            let limit = over(self.limit, count);
            if limit > last_hour.reported {
                grown.push(Grown { tenant: tenant.clone(), count, limit });
            }
            last_hour.reported = last_hour.reported.min(limit);
        }
        self.tenants.retain(|_, last_hour| !last_hour.minutes.is_empty());
        grown
    }
}

/// Returns the highest limit that this count has reached, or 0. Each limit is ten times the previous one.
fn over(first: u64, count: u64) -> u64 {
    let mut reached = 0;
    let mut limit = first;
    while limit <= count {
        reached = limit;
        match limit.checked_mul(10) {
            Some(next) => limit = next,
            None => break,
        }
    }
    reached
}

fn minute(at: Timestamp) -> u64 {
    at.as_micros() / 60_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_040_000 + minutes * 60_000)
    }

    #[test]
    fn it_is_told_at_the_limit_and_at_ten_times_as_many() {
        let acme: TenantId = "acme".parse().unwrap();
        let mut growth = Growth::new(100);
        let mut reported = |count: u64, minutes: u64| {
            growth.add(&acme, count, at(minutes));
            let grown = growth.grown(at(minutes));
            assert_eq!(grown, growth.grown(at(minutes)), "as long as nobody was told");
            grown.iter().for_each(|grown| growth.reported(grown));
            grown.into_iter().map(|grown| (grown.count, grown.limit)).collect::<Vec<_>>()
        };
        assert_eq!(reported(99, 0), []);
        assert_eq!(reported(1, 1), [(100, 100)]);
        assert_eq!(reported(500, 2), [], "said already");
        assert_eq!(reported(400, 3), [(1_000, 1_000)]);
        assert_eq!(reported(1, 60), [], "the first are over an hour old");
        assert_eq!(reported(1, 63), [], "fewer again");
        assert_eq!(reported(98, 64), [(100, 100)], "and many again");
        assert_eq!(reported(200_000, 64), [(200_100, 100_000)], "one for the highest");
    }

    #[test]
    fn tenants_are_apart_and_are_forgotten() {
        let (one, other): (TenantId, TenantId) = ("one".parse().unwrap(), "other".parse().unwrap());
        let mut growth = Growth::new(10);
        growth.add(&one, 9, at(0));
        growth.add(&other, 9, at(0));
        assert_eq!(growth.grown(at(0)), []);
        growth.add(&one, 1, at(1));
        assert_eq!(growth.grown(at(1)), [Grown { tenant: one, count: 10, limit: 10 }]);
        assert_eq!(growth.grown(at(61)), []);
        assert!(growth.tenants.is_empty(), "nothing is kept of who is quiet");
    }
}
