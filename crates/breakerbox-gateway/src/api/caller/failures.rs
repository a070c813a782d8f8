//! Counts requests without a valid key per client address. An address with too many of them has to wait; callers with a
//! valid key are not affected, even from the same address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::api::serve::network;

const MINUTE: Duration = Duration::from_secs(60);

/// The maximum number of addresses with a count. Beyond this number, the address with the oldest count is evicted.
const REMEMBERED: usize = 4_096;

/// Counts invalid API keys per client address (for IPv6, per /64 network), to slow down guessing.
#[derive(Debug)]
pub(in crate::api) struct Failures {
    /// The maximum number of failures per address and minute.
    allowed: u32,
    counts: Mutex<HashMap<IpAddr, Count>>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    failures: u32,
    since: Instant,
}

impl Failures {
    /// Creates counters that allow this many failures per address and minute.
    pub(in crate::api) fn new(allowed: u32) -> Self {
        Self { allowed, counts: Mutex::default() }
    }

    /// If this address has used up its failures, returns the time left in its minute, otherwise `None`.
    pub(super) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&network(address))?;
        let left = MINUTE.checked_sub(now.duration_since(count.since))?;
        (count.failures >= self.allowed).then_some(left)
    }

    /// Counts a failure from this address.
    pub(super) fn count(&self, address: IpAddr, now: Instant) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let address = network(address);
        if counts.len() >= REMEMBERED && !counts.contains_key(&address) {
            counts.retain(|_, count| now.duration_since(count.since) < MINUTE);
            if counts.len() >= REMEMBERED {
                let oldest = counts.iter().min_by_key(|(_, count)| count.since).map(|(address, _)| *address);
                oldest.and_then(|oldest| counts.remove(&oldest));
            }
        }
        let count = counts.entry(address).or_insert(Count { failures: 0, since: now });
        if now.duration_since(count.since) >= MINUTE {
            *count = Count { failures: 0, since: now };
        }
        count.failures = count.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const ALLOWED: u32 = 30;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_guesses_waits_out_the_minute() {
        let failures = Failures::new(ALLOWED);
        let start = Instant::now();
        let guesser = address("192.0.2.1");
        for _ in 0..ALLOWED {
            assert_eq!(failures.wait(guesser, start), None);
            failures.count(guesser, start);
        }
        assert_eq!(failures.wait(guesser, start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert!(
            failures.wait(address("::ffff:192.0.2.1"), start).is_some(),
            "the same address, written otherwise"
        );
        assert_eq!(failures.wait(address("192.0.2.2"), start), None);
        assert_eq!(failures.wait(guesser, start + Duration::from_secs(61)), None);
        failures.count(guesser, start + Duration::from_secs(61));
        assert_eq!(failures.wait(guesser, start + Duration::from_secs(61)), None, "counted anew");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        let failures = Failures::new(ALLOWED);
        let now = Instant::now();
        for host in 0..u16::try_from(ALLOWED).unwrap() {
            failures.count(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, host, 0, 0, 1).into(), now);
        }
        assert!(failures.wait(address("2001:db8:0:1:ffff::9"), now).is_some());
        assert!(failures.wait(address("2001:db8:0:2::1"), now).is_none());
    }

    #[test]
    fn the_table_is_bounded() {
        let failures = Failures::new(ALLOWED);
        let now = Instant::now();
        for number in 0..20_000_u32 {
            failures.count(std::net::Ipv4Addr::from(number).into(), now);
        }
        assert_eq!(failures.counts.lock().unwrap().len(), REMEMBERED);
    }
}
