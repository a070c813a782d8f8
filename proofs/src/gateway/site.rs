//! A gateway and a receiver for a test, with endpoints whose latencies are measured, and others.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox_testkit::gateway::{Api, Event, Gateway, Settings};
use breakerbox_testkit::load::{Load, Pace, percentile};
use breakerbox_testkit::receiver::{Receiver, Recording, latencies};
use serde_json::{Value, json};

use super::findings::{Findings, Millis};

/// The timeout for steps without a guaranteed duration, so that a test can't hang.
pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// The number of endpoints that are created at the same time.
const AT_ONCE: usize = 8;

/// The group at the receiver whose latencies are measured.
const HEALTHY: usize = 1;

/// The number of time slices in a measurement of latencies.
const SLICES: u32 = 10;

/// A gateway and a receiver.
pub(super) struct Site {
    pub(super) gateway: Gateway,
    pub(super) receiver: Receiver,
}

impl Site {
    /// Starts a gateway and a receiver, and creates tenants with these names, whose backlog limits are never
    /// reached.
    pub(super) fn start(settings: Settings, tenants: &[&str]) -> Result<Self> {
        let receiver = Receiver::builder().recording(Recording::Off).start()?;
        let site = Self { gateway: settings.start()?, receiver };
        // High enough that no tenant reaches its limit.
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

    /// Includes this path in the measured latencies.
    pub(super) fn count_latencies(&self, path: &str) {
        self.receiver.put_into_group(path, HEALTHY);
    }

    /// Adds endpoints that respond immediately, with paths such as `/shop/healthy/7`, and measures their
    /// latencies.
    pub(super) fn add_healthy(&self, tenant: &str, count: usize, types: &[&str]) -> Result<Vec<String>> {
        let paths: Vec<String> = (0..count).map(|n| format!("/{tenant}/healthy/{n}")).collect();
        for path in &paths {
            self.count_latencies(path);
        }
        let types: Vec<String> = types.iter().map(|kind| (*kind).to_owned()).collect();
        let new = paths.iter().map(|path| (self.receiver.url(path), types.clone())).collect::<Vec<_>>();
        create_all(self.api(), tenant, &new, &json!({}))?;
        Ok(paths)
    }

    /// Sends events at a steady rate, waits until the healthy endpoints have received all of them, and returns
    /// the latencies. Measures in slices, so that a moment in which the machine is busy affects only one slice.
    pub(super) fn measure(
        &self,
        event: &Event,
        per_second: f64,
        time: Duration,
        healthy: &[String],
    ) -> Result<Measured> {
        let measured = self.measure_by(self.api(), event, per_second, time, healthy)?;
        ensure!(measured.refused.is_empty(), "events were refused: {:?}", measured.refused);
        Ok(measured)
    }

    /// Measures like [`measure`](Self::measure), but with another API key, and continues if events are
    /// rejected.
    pub(super) fn measure_by(
        &self,
        api: &Api,
        event: &Event,
        per_second: f64,
        time: Duration,
        healthy: &[String],
    ) -> Result<Measured> {
        let (mut all, mut slices, mut events, mut missing) = (latencies(), Vec::new(), 0, 0);
        let (mut accepts, mut accept_slices, mut refused) = (latencies(), Vec::new(), Vec::new());
        let slow_before = self.slow_commits()?;
        for _ in 0..SLICES {
            self.receiver.forget();
            let before = self.delivered(healthy);
            let pace = Pace::Open { per_second };
            let load = Load { pace, time: time / SLICES, connections: 64, ..api.load(event) };
            let report = load.run()?;
            refused.extend(report.first_refusal.clone());
            accept_slices.push(report.percentile(99.0));
            accepts.add(&report.latencies).context("they have the same bounds")?;
            let wanted = before + report.successes() * healthy.len() as u64;
            let began = Instant::now();
            while self.delivered(healthy) < wanted && began.elapsed() < WAIT_LIMIT {
                thread::sleep(Duration::from_millis(5));
            }
            let slice = self.receiver.latencies(HEALTHY);
            slices.push(percentile(&slice, 99.0));
            all.add(&slice).context("they have the same bounds")?;
            events += report.successes();
            missing += wanted.saturating_sub(self.delivered(healthy));
        }
        let slow_commits = self.slow_commits()? - slow_before;
        let deliveries = Latency::new(percentile(&all, 50.0), percentile(&all, 99.0), slices);
        let accepts = Latency::new(percentile(&accepts, 50.0), percentile(&accepts, 99.0), accept_slices);
        Ok(Measured { deliveries, accepts, events, missing, refused, slow_commits })
    }

    /// Returns the number of commits that took longer than 50 ms, which is a sign of a busy disk.
    fn slow_commits(&self) -> Result<f64> {
        let metrics = self.api().metrics()?;
        let all = metrics.sum("breakerbox_commit_seconds_count").unwrap_or(0.0);
        let quick = metrics.sum_with("breakerbox_commit_seconds_bucket", "le=\"0.05\"").unwrap_or(0.0);
        Ok(all - quick)
    }

    pub(super) fn delivered(&self, paths: &[String]) -> u64 {
        paths.iter().map(|path| self.receiver.seen(path).delivered).sum()
    }

    pub(super) fn requests(&self, paths: &[String]) -> u64 {
        paths.iter().map(|path| self.receiver.seen(path).requests).sum()
    }

    /// Returns the sum of a metric's samples over all labels. Returns an error if there is no such metric.
    pub(super) fn metric(&self, name: &str) -> Result<f64> {
        self.api().metrics()?.sum(name).with_context(|| format!("there is no metric {name}"))
    }

    /// Waits until a condition is met. Returns an error after a timeout.
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

/// The measured latencies of healthy endpoints, and the counts of events.
pub(super) struct Measured {
    /// The latencies from an event's scheduled send time to its delivery.
    pub(super) deliveries: Latency,
    /// The latencies from an event's scheduled send time to the gateway's response.
    pub(super) accepts: Latency,
    pub(super) events: u64,
    /// The number of deliveries that did not arrive.
    pub(super) missing: u64,
    /// The first rejection in each time slice.
    pub(super) refused: Vec<String>,
    slow_commits: f64,
}

/// The latencies of accepting or of delivering events.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    pub(super) p50: Duration,
    /// The 99th percentile over the whole measurement.
    pub(super) p99: Duration,
    /// The median of the time slices' 99th percentiles.
    pub(super) usual_p99: Duration,
}

impl Latency {
    fn new(p50: Duration, p99: Duration, mut slices: Vec<Duration>) -> Self {
        slices.sort();
        Self { p50, p99, usual_p99: slices[slices.len() / 2] }
    }

    /// Compares this latency with the latency during a fault (`beside`), which may be twice as long, or longer
    /// by `or_longer_by`, whichever is more.
    fn compare(
        self,
        beside: Self,
        (what, trouble): (&str, &str),
        or_longer_by: Duration,
        judged: bool,
        findings: &mut Findings,
    ) {
        let bound = |alone: Duration| (2 * alone).max(alone + or_longer_by);
        findings.note(&format!("{what}p50 alone"), Millis(self.p50));
        findings.note(&format!("{what}p50 beside {trouble}"), Millis(beside.p50));
        for (name, alone, beside) in
            [("usual p99", self.usual_p99, beside.usual_p99), ("p99 of all", self.p99, beside.p99)]
        {
            findings.note(&format!("{what}{name} alone"), Millis(alone));
            findings.within(&format!("{what}{name} beside {trouble}"), beside, bound(alone), judged);
        }
    }
}

impl Measured {
    /// Compares these delivery latencies with those during a fault (`beside`), which may be twice as long, or
    /// longer by `or_longer_by`, whichever is more.
    pub(super) fn compare(
        &self,
        beside: &Self,
        trouble: &str,
        or_longer_by: Duration,
        judged: bool,
        findings: &mut Findings,
    ) {
        self.deliveries.compare(beside.deliveries, ("", trouble), or_longer_by, judged, findings);
        let slow = format!("{} and {}", self.slow_commits, beside.slow_commits);
        findings.note("commits of more than 50 ms, alone and beside", slow);
        findings.exactly("deliveries that did not come", self.missing + beside.missing, 0);
    }

    /// Compares the latencies of accepting events, with the same limits as [`compare`](Self::compare).
    pub(super) fn compare_accepts(
        &self,
        beside: &Self,
        trouble: &str,
        or_longer_by: Duration,
        judged: bool,
        findings: &mut Findings,
    ) {
        self.accepts.compare(beside.accepts, ("accepted: ", trouble), or_longer_by, judged, findings);
    }
}

/// Creates endpoints, up to [`AT_ONCE`] at a time, and returns their IDs.
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
