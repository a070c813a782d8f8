//! A gateway and a receiver side by side, with endpoints of both kinds: those that must not notice anything, and the others.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox_testkit::gateway::{Api, Event, Gateway, Settings};
use breakerbox_testkit::load::{Load, Pace, Report, percentile};
use breakerbox_testkit::receiver::{Receiver, Recording};
use serde_json::{Value, json};

/// How long anything may take that has no promised time. Only so that nothing hangs for ever.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How many endpoints are created at the same time.
const AT_ONCE: usize = 8;

/// The group of endpoints whose latencies count.
const HEALTHY: usize = 1;

/// A gateway and a receiver.
pub(super) struct Site {
    pub(super) gateway: Gateway,
    pub(super) receiver: Receiver,
}

impl Site {
    /// With tenants of these names.
    pub(super) fn start(settings: Settings, tenants: &[&str]) -> Result<Self> {
        let receiver = Receiver::builder().recording(Recording::Off).start()?;
        let site = Self { gateway: settings.start()?, receiver };
        // Nobody's limit is to be met here.
        let roomy = json!({"backlog": {"count": 100_000_000, "bytes": 1_000_000_000_000_u64}});
        for tenant in tenants {
            site.api().create_tenant(tenant, &roomy)?;
        }
        Ok(site)
    }

    pub(super) fn plain(program: &Path, tenants: &[&str]) -> Result<Self> {
        Self::start(Settings::new(program), tenants)
    }

    pub(super) fn api(&self) -> &Api {
        self.gateway.api()
    }

    /// Endpoints that answer at once: paths such as `/healthy/7`. Their latencies count.
    pub(super) fn add_healthy(&self, tenant: &str, count: usize, types: &[&str]) -> Result<Vec<String>> {
        let paths: Vec<String> = (0..count).map(|n| format!("/{tenant}/healthy/{n}")).collect();
        for path in &paths {
            self.receiver.put_into_group(path, HEALTHY);
        }
        let types: Vec<String> = types.iter().map(|kind| (*kind).to_owned()).collect();
        let new = paths.iter().map(|path| (self.receiver.url(path), types.clone())).collect::<Vec<_>>();
        create_all(self.api(), tenant, &new, &json!({}))?;
        Ok(paths)
    }

    /// Sends events at a steady pace, waits until the healthy endpoints have all of them, and says how old they were.
    pub(super) fn measure(
        &self,
        event: &Event,
        per_second: f64,
        time: Duration,
        healthy: &[String],
    ) -> Result<Measured> {
        self.receiver.forget();
        let before = self.delivered(healthy);
        let load = Load { pace: Pace::Open { per_second }, time, connections: 64, ..self.api().load(event) };
        let report = load.run()?;
        ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
        let wanted = before + report.successes() * healthy.len() as u64;
        let began = Instant::now();
        while self.delivered(healthy) < wanted && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        let latencies = self.receiver.latencies(HEALTHY);
        Ok(Measured {
            p50: percentile(&latencies, 50.0),
            p99: percentile(&latencies, 99.0),
            missing: wanted.saturating_sub(self.delivered(healthy)),
            report,
        })
    }

    pub(super) fn delivered(&self, paths: &[String]) -> u64 {
        paths.iter().map(|path| self.receiver.seen(path).delivered).sum()
    }

    pub(super) fn requests(&self, paths: &[String]) -> u64 {
        paths.iter().map(|path| self.receiver.seen(path).requests).sum()
    }

    /// What a metric says; the proof fails if there is none of that name.
    pub(super) fn metric(&self, name: &str) -> Result<f64> {
        self.api().metrics()?.sum(name).with_context(|| format!("there is no metric {name}"))
    }

    /// Waits for a condition.
    pub(super) fn until(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let began = Instant::now();
        while !holds(self)? {
            ensure!(began.elapsed() < limit, "{what}: not within {limit:?}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// What healthy endpoints saw.
pub(super) struct Measured {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// Deliveries that did not come.
    pub(super) missing: u64,
    /// What the sender saw.
    pub(super) report: Report,
}

impl Measured {
    /// The bound for the same with trouble beside it: twice as long, or so much longer.
    pub(super) fn bound(&self, or_longer_by: Duration) -> Duration {
        (2 * self.p99).max(self.p99 + or_longer_by)
    }
}

/// Creates endpoints, some at the same time.
pub(super) fn create_all(
    api: &Api,
    tenant: &str,
    endpoints: &[(String, Vec<String>)],
    settings: &Value,
) -> Result<Vec<String>> {
    let share = endpoints.len().div_ceil(AT_ONCE).max(1);
    let create = |some: &[(String, Vec<String>)]| -> Result<Vec<String>> {
        let one = |(url, types): &(String, Vec<String>)| {
            let types: Vec<&str> = types.iter().map(String::as_str).collect();
            Ok(api.create_endpoint(tenant, url, &types, settings)?)
        };
        some.iter().map(one).collect()
    };
    thread::scope(|scope| {
        let some: Vec<_> = endpoints.chunks(share).map(|some| scope.spawn(|| create(some))).collect();
        let mut ids = Vec::new();
        for some in some {
            ids.extend(some.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
        }
        Ok(ids)
    })
}
