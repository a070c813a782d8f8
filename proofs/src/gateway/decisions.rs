//! The decision API under load: rate, latency and CPU time for acquiring and settling permits, compared with a
//! request that does nothing and with accepting an event. It also checks that among many workers that acquire
//! for a recovering destination, one probes at a time.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox_testkit::gateway::{Api, Event, Metrics};
use breakerbox_testkit::load::{Client, Load, Report, Template, percentile};
use breakerbox_testkit::receiver::{Behaviour, latencies};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::findings::{Findings, Millis};
use super::site::{Site, WAIT_LIMIT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of concurrent workers.
    pub workers: usize,
    /// The number of circuits that the workers acquire from.
    pub keys: usize,
    /// The duration of each measurement.
    pub time: Duration,
    /// The number of outages and recoveries of a destination.
    pub recoveries: u32,
    /// Whether figures are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self =
        Self { workers: 32, keys: 1_000, time: Duration::from_secs(15), recoveries: 100, judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self =
        Self { workers: 8, keys: 20, time: Duration::from_millis(500), recoveries: 3, judged: false };
}

/// The maximum allowed CPU time for a permit and its settlement, as a multiple of the CPU time for accepting an
/// event. A permit and its settlement take one request each, and one of the two requests writes.
const WORTH_EVENTS: f64 = 3.0;

/// The number of probes that fail before the destination recovers.
const FAILING_PROBES: u64 = 3;

/// The duration of a probe at the receiver, long enough that another probe could overlap with it.
const PROBE_TAKES: Duration = Duration::from_millis(20);

/// How long a worker waits after a refusal before it acquires again.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// Takes all measurements, and tests the recovery of a destination.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let site = Site::plain(program, &["shop"])?;
    let mut findings = Findings::new(format!("decisions: {} workers, {} circuits", size.workers, size.keys));
    let nothing = Template::get(&site.gateway.address().to_string(), "/healthz");
    let nothing = figures(&site, Load::new(site.gateway.address(), nothing), size)?;
    let accepted = figures(&site, site.api().load(&Event::new("shop", "nobody.listens")), size)?;
    let decided = decide(&site, size)?;
    for (name, figures) in
        [("GET /healthz", &nothing), ("accepting an event", &accepted), ("acquire and settle", &decided)]
    {
        findings.note(&format!("{name}: in a second"), format_args!("{:.0}", figures.rate));
        findings.note(&format!("{name}: p50"), Millis(figures.p50));
        findings.note(&format!("{name}: p99"), Millis(figures.p99));
        findings.note(&format!("{name}: CPU of the gateway, each"), Millis(figures.cpu));
    }
    let share = accepted.rate / decided.rate.max(1e-9);
    let limit = format!("at most {WORTH_EVENTS}");
    findings.judge(
        "a decision in events",
        format_args!("{share:.2}"),
        limit,
        share <= WORTH_EVENTS,
        size.judged,
    );
    recover(&site, size, &mut findings)?;
    Ok(findings)
}

/// The rate, latency and CPU time of one kind of request.
struct Figures {
    rate: f64,
    p50: Duration,
    p99: Duration,
    /// The gateway's CPU time for one request.
    cpu: Duration,
}

impl Figures {
    fn of(report: &Report, cpu: Duration) -> Self {
        let each = cpu.checked_div(u32::try_from(report.successes()).unwrap_or(u32::MAX)).unwrap_or_default();
        Self { rate: report.rate(), p50: report.percentile(50.0), p99: report.percentile(99.0), cpu: each }
    }
}

fn figures(site: &Site, load: Load, size: Size) -> Result<Figures> {
    let before = site.gateway.usage()?.cpu;
    let report = Load { connections: size.workers, time: size.time, ..load }.run()?;
    ensure!(report.failures() == 0, "requests were refused: {:?}", report.first_refusal);
    Ok(Figures::of(&report, site.gateway.usage()?.cpu - before))
}

/// Measures the decision API: each worker repeatedly acquires a permit and settles it.
fn decide(site: &Site, size: Size) -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (before, began) = (site.gateway.usage()?.cpu, Instant::now());
    let worker = |number: usize| {
        let mut worker = Worker::new(site);
        async move {
            let mut took = latencies();
            let mut key = number;
            while began.elapsed() < size.time {
                key = (key + 1) % size.keys.max(1);
                let asked = Instant::now();
                let answer = worker
                    .request("/v1/circuits/acquire", &json!({"tenant": "shop", "key": format!("key {key}")}))
                    .await?;
                let id = answer.pointer("/permit/id").with_context(|| format!("a permit: {answer}"))?;
                let report = json!({"id": id, "outcome": "success", "latency_ms": 12});
                let settled = worker.request("/v1/permits/settle", &report).await?;
                ensure!(settled["settled"] == "counted", "it counts: {settled}");
                took.saturating_record(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
            }
            Ok(took)
        }
    };
    let mut all = latencies();
    runtime.block_on(async {
        let mut workers: JoinSet<Result<_>> = JoinSet::new();
        for number in 0..size.workers {
            workers.spawn(worker(number));
        }
        while let Some(took) = workers.join_next().await {
            all.add(took??).context("they have the same bounds")?;
        }
        anyhow::Ok(())
    })?;
    let (time, cpu) = (began.elapsed(), site.gateway.usage()?.cpu - before);
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    Ok(Figures {
        rate: f64::from(count) / time.as_secs_f64(),
        p50: percentile(&all, 50.0),
        p99: percentile(&all, 99.0),
        cpu: cpu.checked_div(count).unwrap_or_default(),
    })
}

/// A simulated worker, with its connection to the gateway.
struct Worker {
    client: Client,
    api: Api,
}

impl Worker {
    fn new(site: &Site) -> Self {
        Self { client: Client::new(site.gateway.address(), WAIT_LIMIT), api: site.api().clone() }
    }

    async fn request(&mut self, path: &str, body: &Value) -> Result<Value> {
        let mut request = Vec::new();
        self.api.template(path, &body.to_string()).fill(0, 0, &mut request);
        let answered = self.client.call(&request).await?;
        let answer = self.client.body(&answered);
        ensure!(answered.status == 200, "{path}: {} {}", answered.status, String::from_utf8_lossy(answer));
        Ok(serde_json::from_slice(answer)?)
    }
}

/// Makes a destination fail and recover repeatedly, while all workers want to call it.
fn recover(site: &Site, size: Size, findings: &mut Findings) -> Result<()> {
    let policy = json!({
        "failure_rate": "off", "consecutive_failures": 3, "cool_off": "100ms", "cool_off_factor": 1,
        "jitter": 0, "probes": 1, "probe_timeout": "60s", "ramp_cap": "off",
    });
    site.api().patch("/v1/tenants/shop", &json!({"policy": policy}))?;
    let half_open = || site.api().metrics().map(|metrics| half_opens(&metrics));
    let before = half_open()?;
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut workers = JoinSet::new();
    for _ in 0..size.workers {
        let worker = Worker::new(site);
        let url = site.receiver.url("/destination");
        workers.spawn_on(call(worker, url, Arc::clone(&stop)), runtime.handle());
    }
    for _ in 0..size.recoveries {
        let (calls, probes) = (site.receiver.seen("/call"), site.receiver.seen("/probe"));
        site.receiver.set("/call", Behaviour::status(500));
        site.receiver.set("/probe", Behaviour::after(500, PROBE_TAKES));
        site.until("it is probed, and fails", WAIT_LIMIT, |site| {
            Ok(site.receiver.seen("/probe").requests >= probes.requests + FAILING_PROBES)
        })?;
        site.receiver.set("/call", Behaviour::status(200));
        site.receiver.set("/probe", Behaviour::after(200, PROBE_TAKES));
        site.until("it is called again", WAIT_LIMIT, |site| {
            Ok(site.receiver.seen("/call").delivered > calls.delivered)
        })?;
    }
    stop.store(true, Ordering::Relaxed);
    let ended = runtime.block_on(async {
        while let Some(ended) = workers.join_next().await {
            ended??;
        }
        anyhow::Ok(())
    });
    ended?;
    let seen = site.receiver.seen("/probe");
    findings.note("recoveries", size.recoveries);
    findings.note("calls of workers", site.receiver.seen("/call").requests);
    findings.note("probes", seen.requests);
    findings.exactly("probes at the receiver at once, at the most", seen.most_in_flight, 1);
    findings.exactly(
        "probes for each time that the circuit was half-open",
        seen.requests,
        half_open()? - before,
    );
    Ok(())
}

fn half_opens(metrics: &Metrics) -> u64 {
    let count = metrics.sum_with("breakerbox_circuit_transitions_total", "half_open").unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let count = count as u64;
    count
}

/// Runs a worker that calls a destination whenever it gets a permit, and settles with the outcome.
async fn call(mut worker: Worker, url: String, stop: Arc<AtomicBool>) -> Result<()> {
    let receiver: SocketAddr =
        url.trim_start_matches("http://").split('/').next().unwrap_or_default().parse()?;
    let mut client = Client::new(receiver, WAIT_LIMIT);
    let mut request = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let answer = worker.request("/v1/circuits/acquire", &json!({"tenant": "shop", "url": url})).await?;
        let Some(permit) = answer.get("permit") else {
            tokio::time::sleep(ASK_AGAIN).await;
            continue;
        };
        let path = if permit["probe"] == true { "/probe" } else { "/call" };
        Template::post(&receiver.to_string(), path, &[], "{}").fill(0, 0, &mut request);
        let status = client.call(&request).await?.status;
        worker.request("/v1/permits/settle", &json!({"id": permit["id"], "status": status})).await?;
    }
    Ok(())
}
