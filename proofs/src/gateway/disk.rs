//! The disk is full: the gateway refuses new events with a reason; accepted events are still delivered and
//! settled; the gateway accepts events again when there is space.
//!
//! The disk is a small tmpfs, mounted for this test, so that no real disk is filled. That requires root.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, Report};
use breakerbox_testkit::receiver::Receiver;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::findings::Findings;
use super::ledger::{account, wait_for_all};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The size of the disk, in megabytes.
    pub disk: u64,
    /// The gateway's disk reserve, in megabytes. With 0, the disk is filled completely, and the gateway can't
    /// settle deliveries until space is freed.
    pub reserve: u64,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: [Self; 2] = [Self { disk: 256, reserve: 64 }, Self { disk: 128, reserve: 0 }];
    /// A part of the full size, for `cargo test`.
    pub const SMALL: [Self; 2] = [Self { disk: 48, reserve: 16 }, Self { disk: 24, reserve: 0 }];
}

const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Fills the disk, frees space, and checks that the gateway rejects and then accepts events.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!(
        "disk full: {} MB of which {} MB are kept in reserve",
        size.disk, size.reserve
    ));
    let disk = match SmallDisk::mount(size.disk) {
        Ok(disk) => disk,
        Err(error) => {
            findings.note("not tried: a small disk can't be mounted here", format!("{error:#}"));
            return Ok(findings);
        }
    };
    // Another file on the disk, which is removed later.
    let others = disk.path().join("others");
    fs::write(&others, vec![0; usize::try_from(size.disk << 20)? / 4])?;
    let receiver = Receiver::start()?;
    let settings = Settings::new(program).flag("--limits-disk-reserve", format!("{}MiB", size.reserve));
    let mut gateway = settings.folder(&disk.path().join("data")).start()?;
    gateway.api().create_tenant("shop", &json!({}))?;
    let paths = vec!["/in".to_owned()];
    let parked = json!({"enabled": false});
    let id = gateway.api().create_endpoint("shop", &receiver.url(&paths[0]), &[], &parked)?;

    let event = Event { size: 4_096, ..Event::new("shop", "bulk") };
    let fill = Load { connections: 4, keep_ids: true, time: WAIT_LIMIT, ..gateway.api().load(&event) };
    let filling = fill.start()?;
    // Check the first refusal: after the load has ended, a checkpoint can free space in the log for a few more
    // events.
    let (status, problem) = first_refusal(&gateway)?;
    let mut report = filling.stop();
    note_refusal(&mut findings, "when it is full", status, &problem);
    findings.note("accepted before", report.successes());

    let enable = || gateway.api().post(&format!("/v1/endpoints/{id}/enable"), &json!({}));
    if size.reserve > 0 {
        // Accepted events are sent and settled, in the remaining space.
        enable()?;
        let missing = wait_for_all(&receiver, &report.accepted, &paths, WAIT_LIMIT).len();
        findings.exactly("not delivered from the reserve", missing, 0);
    }
    let ballast = disk.fill()?;
    // The database may have space left in its log for a few events.
    let (status, problem) = first_refusal(&gateway)?;
    note_refusal(&mut findings, "without a byte left", status, &problem);
    fs::remove_file(ballast)?;
    fs::remove_file(others)?;
    if size.reserve == 0 {
        until("it can be enabled", || Ok(enable().ok().map(drop)))?;
    }
    let more: Report = resume(&gateway, &event)?;
    findings.at_least("accepted when there is room again, without a restart", more.successes(), 1);
    report.accepted.extend(more.accepted);
    wait_for_all(&receiver, &report.accepted, &paths, WAIT_LIMIT);
    let ledger = account(&receiver, gateway.api(), &report.accepted, &paths)?;
    findings.exactly("lost", ledger.lost.len(), 0);
    findings.exactly("not delivered in the end", ledger.waiting + ledger.failed + ledger.cancelled, 0);
    findings.exactly("ended by itself", gateway.ended()?.is_some(), false);
    findings.exactly("panics in the log", gateway.log().matches("panicked").count(), 0);
    Ok(findings)
}

fn submit(gateway: &breakerbox_testkit::gateway::Gateway) -> Result<(u16, Value)> {
    let event = json!({"tenant": "shop", "type": "one", "payload": {"fill": "x".repeat(1_000)}});
    Ok(gateway.api().request(&Method::POST, "/v1/events", Some(&event))?)
}

/// Submits events until the gateway rejects one. Returns the response's status and body.
fn first_refusal(gateway: &breakerbox_testkit::gateway::Gateway) -> Result<(u16, Value)> {
    until("it is full", || {
        let (status, problem) = submit(gateway)?;
        Ok((status != 202).then_some((status, problem)))
    })
}

/// Submits events until the gateway accepts one again.
fn resume(gateway: &breakerbox_testkit::gateway::Gateway, event: &Event) -> Result<Report> {
    let mut last = None;
    until("it accepts again", || {
        let one = Load { requests: 1, connections: 1, keep_ids: true, ..gateway.api().load(event) };
        let report = one.run()?;
        let accepted = report.successes() > 0;
        last = Some(report);
        Ok(accepted.then_some(()))
    })?;
    last.context("it was asked at least once")
}

fn note_refusal(findings: &mut Findings, when: &str, status: u16, problem: &Value) {
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or_default();
    let code = problem.get("code").and_then(Value::as_str).unwrap_or_default();
    let holds = matches!(status, 503 | 507) && !code.is_empty() && detail.contains("disk");
    let seen = format!("{status} {code}: {detail}");
    findings.hold(&format!("an event {when}"), seen, "503 or 507, and why", holds);
}

fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(began.elapsed() < WAIT_LIMIT, "{what}: not within {WAIT_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A small tmpfs, which is unmounted when the value is dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(megabytes: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(folder.path());
        let output = mount.output().context("there is no `mount`")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim().to_owned());
        Ok(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills all remaining space with a file, and returns its path.
    fn fill(&self) -> Result<PathBuf> {
        let path = self.path().join("ballast");
        let mut ballast = File::create(&path)?;
        for size in [1 << 20, 4 << 10, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Unmounts lazily: a process that still has a file open there can use it until it closes the file.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}
