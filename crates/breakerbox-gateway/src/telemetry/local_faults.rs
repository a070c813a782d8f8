//! Local faults: counted by cause, logged once when they begin, and reported in health for as long as they last.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_model::delivery::LocalFault;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;
use tracing::warn;

use super::labels::Label;
use super::metrics::ByLabel;

/// How long a fault counts as current after its last occurrence. This is longer than the interval at which lanes retry.
const OVER_AFTER: Duration = Duration::from_secs(10);

/// The local faults of this process, by cause.
#[derive(Debug)]
pub struct LocalFaults {
    counters: ByLabel<LocalFault, Counter>,
    latest: Mutex<[Option<Seen>; LocalFault::ALL.len()]>,
}

#[derive(Clone, Debug)]
struct Seen {
    last: Instant,
    detail: String,
}

impl Seen {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.last) >= OVER_AFTER
    }
}

impl LocalFaults {
    pub(super) const fn new(counters: ByLabel<LocalFault, Counter>) -> Self {
        Self { counters, latest: Mutex::new([const { None }; LocalFault::ALL.len()]) }
    }

    /// Records a fault. `detail` is shown to the operator.
    pub fn note(&self, fault: LocalFault, detail: &str) {
        self.counters.of(fault).inc();
        let now = Instant::now();
        let mut latest = self.latest();
        let seen = &mut latest[fault.index()];
        let begins = seen.as_ref().is_none_or(|seen| seen.is_over(now));
        *seen = Some(Seen { last: now, detail: detail.to_owned() });
        drop(latest);
        if begins {
            warn!(cause = fault.name(), detail, "local fault; deliveries wait, and no circuit counts it");
        }
    }

    /// Returns the number of times that a fault occurred.
    #[must_use]
    pub fn count(&self, fault: LocalFault) -> u64 {
        self.counters.of(fault).get()
    }

    /// Returns the faults that are not over yet, each with advice for the operator.
    #[must_use]
    pub fn current(&self) -> Vec<String> {
        let now = Instant::now();
        let latest = self.latest();
        let going_on = LocalFault::ALL.into_iter().filter_map(|fault| {
            let seen = latest[fault.index()].as_ref().filter(|seen| !seen.is_over(now))?;
            Some(format!("{}: {}; {}", fault.name(), seen.detail, advice(fault)))
        });
        going_on.collect()
    }

    fn latest(&self) -> MutexGuard<'_, [Option<Seen>; LocalFault::ALL.len()]> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn advice(fault: LocalFault) -> &'static str {
    match fault {
        LocalFault::Descriptors => {
            "raise the limit of open files (LimitNOFILE=, ulimit -n), or lower limits.connections"
        }
        LocalFault::Memory => "give the host more memory, or lower delivery.slots",
        LocalFault::Ports => "widen net.ipv4.ip_local_port_range, or lower delivery.slots",
        LocalFault::LookUps => "look at the host's DNS resolver; names that hang take all look-ups",
        LocalFault::Proxy => "look at egress.proxy",
        LocalFault::Pause => "the host is overloaded, or the process was suspended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[tokio::test(start_paused = true)]
    async fn a_fault_is_reported_for_as_long_as_it_goes_on() {
        let metrics = Metrics::new();
        let faults = &metrics.local_faults;
        assert!(faults.current().is_empty());
        for _ in 0..3 {
            faults.note(LocalFault::Descriptors, "no connection: Too many open files");
            tokio::time::advance(OVER_AFTER / 2).await;
        }
        let [reason] = &faults.current()[..] else { panic!("{:?}", faults.current()) };
        assert!(reason.starts_with("descriptors: no connection: Too many open files; raise"), "{reason}");
        tokio::time::advance(OVER_AFTER / 2).await;
        assert!(faults.current().is_empty());
        assert_eq!(faults.count(LocalFault::Descriptors), 3);
        let text = metrics.encode();
        assert!(text.contains("breakerbox_local_faults_total{cause=\"descriptors\"} 3\n"), "{text}");
    }
}
