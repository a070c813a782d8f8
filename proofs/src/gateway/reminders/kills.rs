//! Repeated `kill -9` while reminders fire, half of the time just after many have fired at once: no run is
//! lost, and only callbacks in flight are sent twice.

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox::Timestamp;
use breakerbox_model::objects::{Id, ReminderId, ReminderRules, RunId};
use breakerbox_testkit::gateway::{Gateway, Settings};
use breakerbox_testkit::receiver::{Behaviour, IdHash, Receiver};
use rusqlite::{Connection, OpenFlags};

use super::folder::{Folder, New};
use super::runs::Runs;
use super::times;
use crate::gateway::findings::Findings;
use crate::gateway::ledger::{Interruption, duplicates};
use crate::gateway::seed::Seed;

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of times that the gateway is killed.
    pub kills: u32,
    /// The number of reminders that fire every second. Half of them fire at the same moment; the others are
    /// spread over the second.
    pub reminders: usize,
    /// The number of runs of each reminder.
    pub runs: u32,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self { kills: 100, reminders: 240, runs: 150, judged: true };
    /// About a twentieth of the full size, for `cargo test`.
    pub const SMALL: Self = Self { kills: 5, reminders: 60, runs: 8, judged: false };

    /// Returns the size with this many kills, and enough runs that reminders fire during all of them.
    #[must_use]
    pub fn with_kills(self, kills: u32) -> Self {
        Self { kills, runs: (kills * 3 / 2).max(8), ..self }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// The maximum number of concurrent callbacks. It is lower than the number of reminders that fire at once, so
/// that most runs have fired but are not sent yet when the gateway is killed.
const AT_ONCE: u32 = 8;

/// The duration of a callback.
const TAKES: Duration = Duration::from_millis(4);

/// The time after which a delivery is certainly settled in the database. A settlement waits for at most 10 ms,
/// and then for its commit.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// The maximum allowed time from a restart until the gateway makes callbacks again.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// The timeout for steps without a guaranteed duration, so that a test can't hang.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// The range of delays for a targeted kill. The delay starts at the moment when half of the reminders fire.
const AIM: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(80);

/// The range from which the time between a start and an untargeted kill is chosen.
const LIVES: std::ops::Range<Duration> = Duration::from_millis(50)..Duration::from_millis(900);

const PATH: &str = "/reminders";

/// Kills the gateway repeatedly while reminders fire, and checks that no run is lost.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size, seed: u64) -> Result<Findings> {
    let (mut choices, receiver) = (Seed::new(seed), Receiver::start()?);
    receiver.set(PATH, Behaviour::after(200, TAKES));
    let mut gateway = Settings::new(program).prepare()?;
    let (first_at, reminders) = fill(&gateway, &receiver, size)?;
    gateway.start_again()?;
    times::sleep_until(first_at);

    let (mut kills, mut slowest, mut between, mut unsent) = (Vec::new(), Duration::ZERO, 0, 0);
    for number in 0..size.kills {
        if number.is_multiple_of(2) {
            times::sleep_until(next_after(first_at, times::now()));
            thread::sleep(choices.time(AIM));
        } else {
            thread::sleep(choices.time(LIVES));
        }
        gateway.kill()?;
        let began = receiver.start_time().elapsed();
        let waiting = fired_and_not_sent(&gateway, &receiver)?;
        kills.push(Interruption { began, over: receiver.start_time().elapsed() });
        (between, unsent) = (between + usize::from(waiting > 0), unsent + waiting);
        let (before, launched) = (receiver.seen(PATH).requests, Instant::now());
        gateway.start_again()?;
        while receiver.seen(PATH).requests == before {
            ensure!(launched.elapsed() < WAIT_LIMIT, "nothing is called any more:\n{}", gateway.log());
            thread::sleep(Duration::from_millis(1));
        }
        slowest = slowest.max(launched.elapsed());
    }
    let lasts = first_at + SECOND * size.runs;
    let runs = Runs::of(&reminders, size.runs);
    let end = Instant::now() + lasts.since(times::now()) + WAIT_LIMIT;
    while runs.missing(&runs.came(&receiver, &[PATH])) > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
    }
    let (came, twice) = (runs.came(&receiver, &[PATH]), duplicates(&receiver, &kills));

    let mut findings = Findings::new(format!(
        "kill -9 while {} reminders fire every second, {} times (seed {seed})",
        reminders.len(),
        size.kills
    ));
    findings.note("runs that were to come", runs.count());
    findings.exactly("lost", runs.missing(&came), 0);
    findings.exactly("callbacks that belong to no run", came.unexpected, 0);
    findings.exactly("runs that came before the one before them", runs.out_of_order(&came), 0);
    findings.at_least("kills between firing and sending", between, 1);
    findings.note("runs that had fired and were not sent then", unsent);
    findings.note("sent twice", twice.count);
    findings.note("of which for one kill at the most", twice.most_at_once);
    findings.exactly("sent twice without a kill in between", twice.unexplained, 0);
    findings.within("sent twice, sent first before the kill", twice.oldest, SETTLED_AFTER, size.judged);
    findings.within("slowest start until it calls again", slowest, AGAIN_WITHIN, size.judged);
    Ok(findings)
}

/// Adds reminders whose first run is due after the gateway has had time to start. Returns the first due time,
/// and the reminders' IDs.
fn fill(gateway: &Gateway, receiver: &Receiver, size: Size) -> Result<(Timestamp, Vec<ReminderId>)> {
    let folder = Folder::open(gateway.data())?;
    let rules = ReminderRules { max_in_flight: Some(AT_ONCE), ..ReminderRules::default() };
    let tenant = folder.add_tenant("shop", rules)?;
    let first_at = times::now() + 3 * SECOND;
    let new = |number: usize| {
        let share = u32::try_from(number).unwrap_or(0);
        let count = u32::try_from(size.reminders).unwrap_or(1).max(1);
        let phase = if number.is_multiple_of(2) { Duration::ZERO } else { SECOND * share / count };
        let url = receiver.url(&format!("{PATH}?reminder={number}"));
        New::repeated(&tenant, url, first_at + phase, SECOND, size.runs)
    };
    let reminders = folder.add((0..size.reminders).map(new))?;
    folder.close();
    Ok((first_at, reminders))
}

/// Returns the next moment at which half of the reminders fire.
fn next_after(first_at: Timestamp, now: Timestamp) -> Timestamp {
    let passed = u32::try_from(now.since(first_at).as_secs()).unwrap_or(u32::MAX);
    first_at + SECOND * (passed + 1)
}

/// Returns the number of runs in the database that were not sent. Reads a copy of the database, because opening
/// the original would repair it, which the gateway must do itself.
fn fired_and_not_sent(gateway: &Gateway, receiver: &Receiver) -> Result<usize> {
    let copy = tempfile::tempdir()?;
    for name in ["breakerbox.db", "breakerbox.db-wal"] {
        let from = gateway.data().join(name);
        if from.exists() {
            std::fs::copy(from, copy.path().join(name))?;
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(copy.path().join("breakerbox.db"), flags)?;
    let mut statement = connection.prepare(
        "SELECT e.reminder, e.run FROM deliveries d JOIN events e ON e.id = d.event
         WHERE d.state IN (0, 1) AND e.reminder IS NOT NULL",
    )?;
    let open = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))?;
    let sent: HashSet<IdHash> = receiver.with_visits(|visits| visits.iter().map(|visit| visit.id).collect());
    let mut unsent = 0;
    for run in open {
        let (reminder, number) = run?;
        let id = Id::from_number(reminder).map(|id| RunId { reminder: ReminderId(id), number }.to_string());
        unsent += usize::from(id.is_some_and(|id| !sent.contains(&IdHash::of(id.as_bytes()))));
    }
    Ok(unsent)
}
