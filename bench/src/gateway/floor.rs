//! The limits of the machine: the same requests sent directly to the receiver, and small writes that are synced
//! one by one.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use breakerbox_testkit::gateway::payload;
use breakerbox_testkit::load::{Load, Report, Template};
use breakerbox_testkit::receiver::Receiver;

use super::PATH;

/// The size of a write, in bytes: one page of the database.
const PAGE: usize = 4_096;

/// The number of writes in one measurement.
const WRITES: usize = 100;

/// Sends requests like those of the gateway directly to the receiver, as a baseline without the gateway.
pub(super) fn straight(receiver: &Receiver, connections: usize, requests: u64) -> Result<Report> {
    let (host, body) = (receiver.address().to_string(), payload(512));
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "breakerbox/0.1.0"),
        ("webhook-id", "evt_01h5k2m8w4c7e"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ];
    let load = Load::new(receiver.address(), Template::post(&host, PATH, &headers, &body));
    Ok(Load { connections, requests, ..load }.run()?)
}

/// Returns the median time to write one page to this directory and sync it. This is the lower bound for a
/// durable commit.
pub(super) fn commit(folder: &Path) -> Result<Duration> {
    let path = folder.join("floor");
    let mut file = File::create(&path)?;
    let mut times = Vec::with_capacity(WRITES);
    // An existing log is overwritten, like the database's own log most of the time.
    file.write_all(&vec![0; 64 * PAGE])?;
    file.sync_all()?;
    for number in 0..WRITES {
        let at = u64::try_from(number % 64 * PAGE)?;
        let began = Instant::now();
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&[1; PAGE])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    drop(file);
    std::fs::remove_file(path)?;
    Ok(super::middle(&times))
}
