//! Hostile receivers: each attempt ends in time, and memory usage stays small.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::Load;
use breakerbox_testkit::receiver::{Behaviour, Hostile};
use serde_json::json;

use super::findings::{Findings, Millis};
use super::site::{Site, create_all};
use super::tls::{Wrong, WrongTls};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of endpoints for each kind of hostile response. All endpoints are called at once.
    pub of_each: usize,
    /// The timeout for an attempt.
    pub timeout: Duration,
}

impl Size {
    /// The full size, for which the guarantee is stated: a thousand endpoints at once.
    pub const FULL: Self = Self { of_each: 100, timeout: Duration::from_millis(1_500) };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self { of_each: 5, timeout: Duration::from_millis(1_500) };
}

/// The maximum allowed memory of the gateway, in bytes.
const MOST_MEMORY: u64 = 256 << 20;

/// The label of the bucket in the gateway's latency histogram that ends a second after the timeout.
const IN_TIME: &str = "le=\"2.5\"";

/// The timeout for all attempts together. On a slow machine, the attempts do not all run at once.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Calls all hostile endpoints at once, and checks that attempts end in time and memory stays within its limit.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    // Endpoints without a success share half of all slots.
    let settings = Settings::new(program).flag("--delivery-slots", "4000");
    let site = Site::start(settings, &["shop"])?;
    let (slow, untrusted) = (WrongTls::start(Wrong::Slow)?, WrongTls::start(Wrong::Untrusted)?);
    let mut kinds: Vec<(&str, Vec<String>)> = Vec::new();
    let numbers = 0..size.of_each;
    let manners = Hostile::ALL.map(|how| (how.name(), Behaviour::Hostile(how)));
    for (name, behaviour) in manners.into_iter().chain([("hang", Behaviour::Hang)]) {
        let paths = numbers.clone().map(|n| format!("/{name}/{n}")).collect::<Vec<_>>();
        paths.iter().for_each(|path| site.receiver.set(path, behaviour.clone()));
        kinds.push((name, paths.iter().map(|path| site.receiver.url(path)).collect()));
    }
    kinds.push(("slow TLS", numbers.clone().map(|n| slow.url(&format!("/{n}"))).collect()));
    kinds.push(("wrong certificate", numbers.clone().map(|n| untrusted.url(&format!("/{n}"))).collect()));
    // A healthy endpoint, to check that it stays healthy.
    let healthy = site.add_healthy("shop", 1, &["live"])?;
    let endpoint = json!({"timeout": format!("{}ms", size.timeout.as_millis()), "retry": ["1h"]});
    let urls: Vec<_> =
        kinds.iter().flat_map(|(_, urls)| urls).map(|url| (url.clone(), vec!["hostile".into()])).collect();
    create_all(site.api(), "shop", &urls, &endpoint)?;

    let wanted = urls.len();
    Load { requests: 1, connections: 1, ..site.api().load(&Event::new("shop", "hostile")) }.run()?;
    let (began, mut most) = (Instant::now(), 0);
    let mut ended = 0.0;
    while began.elapsed() < WAIT_LIMIT {
        let metrics = site.api().metrics()?;
        most = most.max(site.receiver.seen_in_all().in_flight);
        ended = metrics.sum("breakerbox_request_seconds_count").unwrap_or(0.0);
        if ended >= exact(wanted) {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let took = began.elapsed();
    let metrics = site.api().metrics()?;
    let in_time = metrics.sum_with("breakerbox_request_seconds_bucket", IN_TIME).unwrap_or(0.0);
    let delivered = metrics.sum_with("breakerbox_deliveries_total", "delivered").unwrap_or(0.0);
    let live = site.measure(&Event::new("shop", "live"), 20.0, Duration::from_secs(1), &healthy)?;

    let mut findings = Findings::new(format!(
        "hostile receivers: {} of each of {}, all at once, {} each",
        size.of_each,
        kinds.iter().map(|kind| kind.0).collect::<Vec<_>>().join(", "),
        Millis(size.timeout)
    ));
    findings.exactly("attempts that ended", ended, exact(wanted));
    findings.exactly("of which within their time and a second", in_time, ended);
    findings.note("the most at once, as the receiver saw it", most);
    findings.note("all of them took", Millis(took));
    // The gateway does not decompress a gzip bomb, so it counts as a success, though it may be too long to be
    // read.
    findings.at_most("taken for delivered", delivered, exact(3 * size.of_each));
    findings.exactly("a healthy endpoint beside them: missing", live.missing, 0);
    findings.at_most("peak memory, MB", site.gateway.usage()?.peak >> 20, MOST_MEMORY >> 20);
    Ok(findings)
}

#[expect(clippy::cast_precision_loss, reason = "there are not that many")]
const fn exact(count: usize) -> f64 {
    count as f64
}
