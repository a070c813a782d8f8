//! Repeated `kill -9` under load: no accepted event is lost, only deliveries in flight are sent twice, and the
//! gateway soon delivers again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, Pace};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use serde_json::json;

use super::findings::Findings;
use super::ledger::{Interruption, account, duplicates, wait_for_all};
use super::seed::Seed;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of times that the gateway is killed.
    pub kills: u32,
    /// The number of events per second.
    pub per_second: f64,
    /// The minimum and maximum time between a start of the gateway and its next kill.
    pub lives: (Duration, Duration),
    /// The maximum time to wait until all accepted events have arrived.
    pub patience: Duration,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        kills: 100,
        per_second: 1_000.0,
        lives: (Duration::from_millis(100), Duration::from_millis(900)),
        patience: WAIT_LIMIT,
        judged: true,
    };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self {
        kills: 5,
        per_second: 150.0,
        lives: (Duration::from_millis(100), Duration::from_millis(500)),
        patience: WAIT_LIMIT,
        judged: false,
    };
}

/// The maximum allowed time from a restart until the gateway delivers again.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// The time after which a delivery is certainly settled in the database. A settlement waits for at most 10 ms,
/// and then for its commit.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// The timeout for steps without a guaranteed duration, so that a test can't hang.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Kills the gateway repeatedly under load, and checks that no accepted event is lost.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(gateway: &Settings, size: Size, seed: u64) -> Result<Findings> {
    let (mut choices, receiver) = (Seed::new(seed), Receiver::start()?);
    let mut gateway = gateway.clone().start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let paths: Vec<String> = ["/quick", "/slow"].map(str::to_owned).to_vec();
    receiver.set(&paths[1], Behaviour::after(200, Duration::from_millis(20)));
    for path in &paths {
        gateway.api().create_endpoint("shop", &receiver.url(path), &[], &json!({}))?;
    }
    let load = Load {
        pace: Pace::Open { per_second: size.per_second },
        connections: 32,
        keep_ids: true,
        ..gateway.api().load(&Event::new("shop", "order.paid"))
    };
    let (load, mut kills, mut slowest) = (load.start()?, Vec::new(), Duration::ZERO);
    for _ in 0..size.kills {
        thread::sleep(choices.time(size.lives.0..size.lives.1));
        gateway.kill()?;
        let began = receiver.start_time().elapsed();
        kills.push(Interruption { began, over: receiver.start_time().elapsed() });
        let (before, launched) = (receiver.seen_in_all().requests, Instant::now());
        gateway.start_again()?;
        while receiver.seen_in_all().requests == before {
            ensure!(launched.elapsed() < WAIT_LIMIT, "it delivers nothing any more:\n{}", gateway.log());
            thread::sleep(Duration::from_millis(1));
        }
        slowest = slowest.max(launched.elapsed());
    }
    let report = load.stop();
    wait_for_all(&receiver, &report.accepted, &paths, size.patience);
    let ledger = account(&receiver, gateway.api(), &report.accepted, &paths)?;
    let twice = duplicates(&receiver, &kills);

    let mut findings = Findings::new(format!("kill -9 under load, {} times (seed {seed})", size.kills));
    findings.note("events accepted", ledger.accepted);
    findings.note("not answered, so not known", report.unanswered);
    let while_starting = report.answers.get(&503).copied().unwrap_or(0);
    let otherwise = report.answers.values().sum::<u64>() - report.successes() - while_starting;
    findings.note("answered 503 while it started", while_starting);
    findings.exactly("answered otherwise", otherwise, 0);
    findings.at_least("accepted for each kill", ledger.accepted / kills.len().max(1), 1);
    findings.exactly("lost", ledger.lost.len(), 0);
    findings.exactly("not delivered in the end", ledger.waiting + ledger.failed + ledger.cancelled, 0);
    findings.note("sent twice", twice.count);
    findings.note("of which for one kill at the most", twice.most_at_once);
    findings.exactly("sent twice without a kill in between", twice.unexplained, 0);
    findings.within("sent twice, sent first before the kill", twice.oldest, SETTLED_AFTER, size.judged);
    findings.within("slowest start until it delivers again", slowest, AGAIN_WITHIN, size.judged);
    for lost in ledger.lost.iter().take(5) {
        findings.note("lost", lost);
    }
    Ok(findings)
}
