//! The power fails under load: no accepted event is lost, and the database is intact.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use breakerbox_testkit::gateway::{Event, Gateway, Settings};
use breakerbox_testkit::load::{Accepted, Load};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use rusqlite::Connection;
use serde_json::json;

use super::findings::Findings;
use super::ledger::{account, wait_for_all};
use super::seed::Seed;
use crate::powercut::{CUT_STATUS, Cut, Left, Shim};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of power failures under load.
    pub cuts: u32,
    /// The number of power failures during the gateway's first start.
    pub first_starts: u32,
    /// The maximum number of file operations before a power failure.
    pub operations: u64,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { cuts: 100, first_starts: 20, operations: 3_000 };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self { cuts: 5, first_starts: 2, operations: 400 };
}

const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// The maximum duration of a sync. Short syncs allow more commits, and so more points for a power failure.
const SYNC: Duration = Duration::from_micros(500);

/// Simulates power failures repeatedly, and checks that the database is intact and no accepted event is lost.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(gateway: &Settings, size: Size, seed: u64) -> Result<Findings> {
    let (mut choices, receiver, shim) = (Seed::new(seed), Receiver::start()?, Shim::build()?);
    let mut seen = Seen::default();
    for _ in 0..size.first_starts {
        let cut = choose(&mut choices, 1..120);
        cut_first_start(gateway, &shim, cut, &mut seen).with_context(|| format!("first start, {cut:?}"))?;
    }
    let mut gateway = gateway.clone().start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let paths = vec!["/in".to_owned()];
    receiver.set(&paths[0], Behaviour::after(200, Duration::from_millis(1)));
    gateway.api().create_endpoint("shop", &receiver.url(&paths[0]), &[], &json!({}))?;
    gateway.ask_to_stop()?;
    gateway.wait_for_end(WAIT_LIMIT)?;

    let mut accepted: Vec<Accepted> = Vec::new();
    for _ in 0..size.cuts {
        let cut = choose(&mut choices, 1..size.operations);
        let report = cut_once(&mut gateway, &shim, cut).with_context(|| format!("{cut:?}"))?;
        seen.note_said(&gateway.log());
        seen.note_database(&gateway)?;
        accepted.extend(report);
        gateway.start_again().with_context(|| format!("after {cut:?}"))?;
        let missing = wait_for_all(&receiver, &accepted, &paths, WAIT_LIMIT).len();
        gateway.kill()?;
        if missing > 0 {
            // More rounds would only repeat the fault.
            break;
        }
    }
    gateway.start_again()?;
    let ledger = account(&receiver, gateway.api(), &accepted, &paths)?;

    let mut findings = Findings::new(format!("power cut under load, {} times (seed {seed})", size.cuts));
    findings.note("events accepted", ledger.accepted);
    findings.at_least("cuts that lost unsynced writes", seen.cuts_with_loss, 1);
    findings.note("unsynced writes lost in all", seen.writes_lost);
    findings.exactly("lost", ledger.lost.len(), 0);
    findings.exactly("not delivered in the end", ledger.waiting + ledger.failed + ledger.cancelled, 0);
    findings.exactly("databases that are not whole", seen.corrupt.len(), 0);
    findings.note("first starts that were cut", seen.first_starts_cut);
    findings.exactly("of which can't be used afterwards", seen.unusable.len(), 0);
    for what in ledger.lost.iter().chain(&seen.corrupt).chain(&seen.unusable).take(5) {
        findings.note("what went wrong", what);
    }
    Ok(findings)
}

fn choose(choices: &mut Seed, after: std::ops::Range<u64>) -> Cut {
    let left = Left::ALL[usize::try_from(choices.number(0..4)).unwrap_or(0)];
    Cut { seed: choices.any(), after: choices.number(after), left, sync: SYNC }
}

/// Starts the gateway with a planned power failure, and sends events until the power fails. Returns the
/// accepted events.
fn cut_once(gateway: &mut Gateway, shim: &Shim, cut: Cut) -> Result<Vec<Accepted>> {
    let environment = shim.environment(gateway.data(), cut);
    gateway.launch(&environment)?;
    let event = Event::new("shop", "order.paid");
    let load = Load { connections: 8, keep_ids: true, ..gateway.api().load(&event) }.start()?;
    let status = gateway.wait_for_end(WAIT_LIMIT);
    let report = load.stop();
    let status = status?;
    ensure!(status.code() == Some(CUT_STATUS), "it ended by itself: {status}\n{}", gateway.log());
    Ok(report.accepted)
}

/// Cuts the power while the gateway creates its data directory. Checks that the gateway then starts as if for
/// the first time.
fn cut_first_start(gateway: &Settings, shim: &Shim, cut: Cut, seen: &mut Seen) -> Result<()> {
    let mut gateway = gateway.clone().prepare()?;
    // The shim can only watch a directory that exists.
    fs::create_dir_all(gateway.data())?;
    let environment = shim.environment(gateway.data(), cut);
    gateway.launch(&environment)?;
    // The gateway may be ready before the power failure: then there was none, and the round is neither counted
    // nor a fault.
    if gateway.wait_until_ready().is_ok() {
        gateway.kill()?;
    } else {
        seen.first_starts_cut += 1;
    }
    let usable = gateway.start_again().and_then(|()| gateway.api().get("/v1/tenants"));
    if let Err(error) = usable {
        seen.unusable.push(format!("{cut:?}: {error}"));
    }
    Ok(())
}

#[derive(Default)]
struct Seen {
    cuts_with_loss: usize,
    writes_lost: u64,
    first_starts_cut: u32,
    corrupt: Vec<String>,
    unusable: Vec<String>,
}

impl Seen {
    /// Parses the number of lost writes from the shim's last log line, such as `...; lost 7 writes, 0 names`.
    fn note_said(&mut self, log: &str) {
        let last = log.lines().rev().find(|line| line.starts_with("powercut: "));
        let lost = last.and_then(|line| line.split_once("; lost ")?.1.split(' ').next()?.parse::<u64>().ok());
        self.writes_lost += lost.unwrap_or(0);
        self.cuts_with_loss += usize::from(lost.unwrap_or(0) > 0);
    }

    /// Checks the integrity of a copy of the database. Opening the original would repair it, which the gateway
    /// must do itself.
    fn note_database(&mut self, gateway: &Gateway) -> Result<()> {
        let copy = tempfile::tempdir()?;
        let mut databases: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(gateway.data())? {
            let (entry, to) = (entry?, copy.path());
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_file() && !name.ends_with("-shm") {
                fs::copy(entry.path(), to.join(&name))?;
            }
            if [".db", ".sqlite", ".sqlite3"].iter().any(|end| name.ends_with(end)) {
                databases.push(to.join(&name));
            }
        }
        ensure!(!databases.is_empty(), "there is no database in {}", gateway.data().display());
        for database in databases {
            let check = || -> rusqlite::Result<String> {
                Connection::open(&database)?.query_row("PRAGMA integrity_check", (), |row| row.get(0))
            };
            let verdict = check().unwrap_or_else(|error| error.to_string());
            if verdict != "ok" {
                self.corrupt.push(verdict);
            }
        }
        Ok(())
    }
}
