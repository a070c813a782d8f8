//! `SIGTERM` under load: the gateway exits cleanly and in time, no event is lost, and no delivery that got a
//! response is sent again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, Pace};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use serde_json::json;

use super::findings::Findings;
use super::ledger::{account, duplicates, wait_for_all};
use super::seed::Seed;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of times that the gateway is stopped.
    pub stops: u32,
    /// The number of events per second.
    pub per_second: f64,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { stops: 40, per_second: 500.0 };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self { stops: 3, per_second: 100.0 };
}

/// The gateway's default grace period.
const GRACE: Duration = Duration::from_secs(30);

/// The duration of a request to the slower endpoint, which is shorter than the grace period.
const TAKES: Duration = Duration::from_millis(300);

const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Stops the gateway repeatedly under load, and checks that no accepted event is lost or sent twice.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(gateway: &Settings, size: Size, seed: u64) -> Result<Findings> {
    let (mut choices, receiver) = (Seed::new(seed), Receiver::start()?);
    let mut gateway = gateway.clone().start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let paths: Vec<String> = ["/quick", "/slow"].map(str::to_owned).to_vec();
    receiver.set(&paths[1], Behaviour::after(200, TAKES));
    for path in &paths {
        gateway.api().create_endpoint("shop", &receiver.url(path), &[], &json!({}))?;
    }
    let load = Load {
        pace: Pace::Open { per_second: size.per_second },
        keep_ids: true,
        ..gateway.api().load(&Event::new("shop", "order.paid"))
    };
    let (load, mut longest, mut bad_ends) = (load.start()?, Duration::ZERO, Vec::new());
    let mut in_flight = 0;
    for _ in 0..size.stops {
        thread::sleep(choices.time(Duration::from_millis(300)..Duration::from_millis(900)));
        in_flight += receiver.seen_in_all().in_flight;
        let asked = Instant::now();
        gateway.ask_to_stop()?;
        let status = gateway.wait_for_end(GRACE + WAIT_LIMIT)?;
        longest = longest.max(asked.elapsed());
        if !status.success() {
            bad_ends.push(status.to_string());
        }
        gateway.start_again()?;
    }
    let report = load.stop();
    wait_for_all(&receiver, &report.accepted, &paths, WAIT_LIMIT);
    let ledger = account(&receiver, gateway.api(), &report.accepted, &paths)?;
    let twice = duplicates(&receiver, &[]);

    let mut findings = Findings::new(format!("SIGTERM under load, {} times (seed {seed})", size.stops));
    findings.note("events accepted", ledger.accepted);
    findings.note("not answered, so not known", report.unanswered);
    findings.exactly("ends with another status than 0", bad_ends.len(), 0);
    findings.within("longest end", longest, GRACE, true);
    findings.at_least("in flight when it was stopped, in all", in_flight, 1);
    findings.exactly("lost", ledger.lost.len(), 0);
    findings.exactly("not delivered in the end", ledger.waiting + ledger.failed + ledger.cancelled, 0);
    findings.exactly("sent twice", twice.count, 0);
    Ok(findings)
}
