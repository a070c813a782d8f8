//! An endpoint recovers with many deliveries parked: it gets a few requests at first, more as it accepts them,
//! and never for long more than it can handle.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox_testkit::gateway::Event;
use breakerbox_testkit::load::Load;
use breakerbox_testkit::receiver::Behaviour;
use serde_json::json;

use super::findings::{Findings, Millis};
use super::site::{Site, WAIT_LIMIT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of deliveries that are parked when the endpoint recovers.
    pub parked: u64,
    /// The number of concurrent requests that the endpoint accepts.
    pub takes: u32,
    /// The duration of each request at the endpoint.
    pub each: Duration,
    /// Whether the delivery rate is checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { parked: 100_000, takes: 40, each: Duration::from_millis(20), judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self = Self { parked: 1_500, takes: 10, each: Duration::from_millis(20), judged: false };
}

/// The number of events in one request.
const BATCH: usize = 500;

/// The interval at which the endpoint is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The maximum allowed time until the recovered endpoint receives requests at its full rate.
const FULL_RATE_WITHIN: Duration = Duration::from_secs(60);

/// The maximum allowed share of responses after the recovery that report an overload.
const REFUSED: f64 = 0.05;

/// Makes an endpoint with parked deliveries recover, and checks that it is used fully but not overloaded.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let site = Site::plain(program, &["shop"])?;
    site.receiver.set("/back", Behaviour::FAILING);
    let policy = json!({"policy": {"cool_off": "2s", "cool_off_factor": 1, "cool_off_max": "2s", "jitter": 0}, "max_in_flight": 200,
        "retry": ["1s", "1s", "1s", "2s", "2s", "2s", "2s", "2s", "5s", "5s", "5s", "5s", "5s", "10s", "10s", "10s"]});
    site.api().create_endpoint("shop", &site.receiver.url("/back"), &[], &policy)?;
    let batches = site.api().load_of_batches(&Event { size: 128, ..Event::new("shop", "bulk") }, BATCH);
    let load = Load { requests: size.parked / BATCH as u64, connections: 2, ..batches };
    let filled = load.run()?;
    ensure!(filled.failures() == 0, "the queue could not be filled: {:?}", filled.first_refusal);

    let before = site.receiver.seen("/back");
    site.receiver.set("/back", Behaviour::Limited { at_most: size.takes, takes: size.each });
    site.until("it is probed", WAIT_LIMIT, |site| Ok(site.receiver.seen("/back").delivered > 0))?;
    let (recovered, mut looks) = (Instant::now(), Vec::new());
    let goal = size.parked;
    while site.receiver.seen("/back").delivered < goal && recovered.elapsed() < 3 * FULL_RATE_WITHIN {
        let seen = site.receiver.seen("/back");
        looks.push((recovered.elapsed(), seen.in_flight, seen.delivered));
        thread::sleep(LOOK_EVERY);
    }
    let after = site.receiver.seen("/back");
    let capacity = f64::from(size.takes) / size.each.as_secs_f64();
    let busy = busy_after(&looks, capacity * 0.7);
    let first = looks.iter().take_while(|look| look.0 < Duration::from_millis(100));
    let first = first.map(|look| look.1).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let refused = {
        let (delivered, requests) = (after.delivered - before.delivered, after.requests - before.requests);
        requests.saturating_sub(delivered) as f64 / requests.max(1) as f64
    };

    let mut findings = Findings::new(format!(
        "recovery with {} parked; the endpoint takes {} at once, {} ms each",
        size.parked,
        size.takes,
        size.each.as_millis()
    ));
    findings.at_most("in flight in the first 100 ms", first, 9);
    findings.note("the most in flight later", after.most_in_flight);
    let holds = refused <= REFUSED;
    findings.hold(
        "refused by the endpoint, share",
        format!("{refused:.3}"),
        format!("at most {REFUSED}"),
        holds,
    );
    findings.note("what it could take in a second", format!("{capacity:.0}"));
    match busy {
        Some(after) => findings.within("until it gets 70 % of that", after, FULL_RATE_WITHIN, size.judged),
        None if size.judged => findings.hold("until it gets 70 % of that", "never", "a minute", false),
        None => findings.note("until it gets 70 % of that", "never"),
    }
    findings.exactly("delivered in the end", after.delivered, goal);
    findings.note("after", Millis(looks.last().map_or(Duration::ZERO, |look| look.0)));
    Ok(findings)
}

/// Returns the time of the first sample at which the endpoint's delivery rate over the past half second was
/// at least `rate` (in deliveries per second). `None` if there is no such sample.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn busy_after(looks: &[(Duration, u32, u64)], rate: f64) -> Option<Duration> {
    const OVER: Duration = Duration::from_millis(500);
    let mut begin = 0;
    for (at, _, delivered) in looks {
        while looks[begin].0 + OVER < *at {
            begin += 1;
        }
        let (since, before) = (looks[begin].0, looks[begin].2);
        let time = (*at - since).as_secs_f64();
        if time > 0.4 && (delivered - before) as f64 / time >= rate {
            return Some(*at);
        }
    }
    None
}
