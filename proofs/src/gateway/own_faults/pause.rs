//! The process is repeatedly paused for longer than its request timeout. Responses that arrived meanwhile
//! count, and requests without a response do not count.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, Pace};
use breakerbox_testkit::receiver::Behaviour;
use serde_json::json;

use super::{Size, degraded, judge_blame, judge_recovery};
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::site::{Site, WAIT_LIMIT, create_all};

/// The number of endpoints, each with its own circuit.
const ENDPOINTS: usize = 40;
/// The duration of a request at the receiver, so that many requests are in flight when the process is paused.
const TAKES: Duration = Duration::from_millis(200);
/// The timeout for a request, which is shorter than a pause.
const LIMIT: &str = "2s";
/// The number of events per second.
const PER_SECOND: f64 = 10.0;

pub(super) fn prove(program: &Path, size: Size) -> Result<Findings> {
    let title =
        format!("stopped for {}, {} times, with requests that may take 2 s", Millis(size.pause), size.pauses);
    let mut findings = Findings::new(title);
    let mut site = Site::start(Settings::new(program), &["shop"])?;
    let paths: Vec<String> = (0..ENDPOINTS).map(|number| format!("/in/{number}")).collect();
    for path in &paths {
        site.receiver.set(path, Behaviour::after(200, TAKES));
    }
    let endpoints: Vec<_> = paths.iter().map(|path| (site.receiver.url(path), vec![])).collect();
    create_all(site.api(), "shop", &endpoints, &json!({"timeout": LIMIT}))?;

    let event = Event::new("shop", "order.paid");
    let load = Load { pace: Pace::Open { per_second: PER_SECOND }, ..site.api().load(&event) }.start()?;
    let (mut under_way, mut said) = (0, None);
    for _ in 0..size.pauses {
        // Wait until as many requests are in flight as there are on average.
        let enough = u32::try_from(ENDPOINTS)?;
        site.until("requests are under way", WAIT_LIMIT, |site| {
            Ok(site.receiver.seen_in_all().in_flight >= enough)
        })?;
        site.gateway.pause()?;
        under_way += site.receiver.seen_in_all().in_flight;
        thread::sleep(size.pause);
        site.gateway.resume()?;
        let resumed = Instant::now();
        while said.is_none() && resumed.elapsed() < WAIT_LIMIT {
            said = degraded(site.api())?.into_iter().find(|reason| reason.starts_with("pause: "));
            thread::sleep(Duration::from_millis(50));
        }
    }
    let report = load.stop();
    let wanted = report.successes() * ENDPOINTS as u64;
    let stopped = Instant::now();
    while site.delivered(&paths) < wanted && stopped.elapsed() < WAIT_LIMIT {
        thread::sleep(Duration::from_millis(5));
    }
    findings.note("events accepted", report.successes());
    findings.at_least("requests under way when it was stopped, in all", under_way, 1);
    findings.at_least("deliveries that arrived", site.delivered(&paths), wanted);
    findings.note("sent twice", site.requests(&paths).saturating_sub(wanted));
    findings.hold("health says so", said.as_deref().unwrap_or("no"), "degraded", said.is_some());
    judge_blame(site.api(), &mut findings)?;
    judge_recovery(site.api(), "pause: ", &mut findings)?;
    Ok(findings)
}
