//! A leader that is paused for longer than its term: the other agent leads within the term plus a second, and
//! the store refuses the old leader's writes.
//!
//! One round, with two processes:
//!
//! 1. One of them leads. Its next poll hangs, and during the poll the process is paused (`SIGSTOP`).
//! 2. The other one leads within the term plus a second, and ticks.
//! 3. The first one resumes, and its poll returns that every key fails. It decides to open all circuits, but
//!    writes nothing.
//! 4. The second one gets the same totals in its own term, and opens all circuits.

pub mod agent;

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox::CircuitStatus;
use breakerbox::store::Store;
use futures_util::future::try_join_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use self::agent::{Report, SAMPLE_EVERY, Settings, WorkerCommand, connect, key};
use crate::fleet::{Backing, Kind, WAIT_LIMIT};

/// The number of sampled keys.
const KEYS: u32 = 20;

/// The minimum length of a leader's term.
const SHORTEST_TERM: Duration = Duration::from_secs(5);

/// The maximum allowed time from the end of a term until there is a new leader.
const MARGIN: Duration = Duration::from_secs(1);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The result of all rounds with one kind of store.
#[derive(Debug)]
pub struct Paused {
    kind: Kind,
    rounds: usize,
    /// For each round, the time from the leader's pause until the other agent led.
    successors: Vec<Duration>,
    /// The number of circuits that a leader changed after its term had ended. Must be 0.
    late_changes: usize,
    /// The number of writes that the store rejected because the leader's term had ended.
    refused_writes: u64,
    /// The number of circuits that the new leader failed to open. Must be 0.
    not_opened: usize,
}

/// Pauses the leader in each of `rounds` parallel pairs of processes, for longer than its term.
///
/// # Errors
/// Returns an error if a server or an agent fails. Violated guarantees are reported in the result.
pub async fn pause_leaders(program: &Path, kind: Kind, rounds: u32) -> Result<Paused> {
    let backing = Backing::start(kind).await?;
    let pairs = (0..rounds).map(|n| {
        let (url, namespace) = (backing.url(), format!("proof{n}"));
        async move { round(program, &url, &namespace).await.with_context(|| format!("round {n}")) }
    });
    let mut all =
        Paused { kind, rounds: 0, successors: Vec::new(), late_changes: 0, refused_writes: 0, not_opened: 0 };
    for round in try_join_all(pairs).await? {
        all.rounds += 1;
        all.successors.push(round.successor_after);
        all.late_changes += round.late_changes;
        all.refused_writes += round.refused_writes;
        all.not_opened += round.not_opened;
    }
    Ok(all)
}

struct Round {
    successor_after: Duration,
    late_changes: usize,
    refused_writes: u64,
    not_opened: usize,
}

async fn round(program: &Path, url: &str, namespace: &str) -> Result<Round> {
    let store = connect(url, namespace).await?;
    let settings = Settings { store: url.to_owned(), namespace: namespace.to_owned(), keys: KEYS };
    let mut leader = Agent::start(program, &settings)?;
    leader.until("it leads, and ticks", |report| report.leads && report.ticks >= 2).await?;
    let mut other = Agent::start(program, &settings)?;
    other.until("it follows", |report| !report.leads).await?;
    leader.send(WorkerCommand::Hanging(true)).await?;
    leader.until("its poll hangs", |report| report.polls).await?;

    leader.signal(Signal::STOP)?;
    let paused = Instant::now();
    // The process reads this when it resumes: the poll ends, and returns that all keys fail.
    leader.write(WorkerCommand::Failing(true)).await?;
    leader.write(WorkerCommand::Hanging(false)).await?;
    other.until("the other one leads", |report| report.leads).await?;
    let successor_after = paused.elapsed();
    let ticks = other.send(WorkerCommand::Report).await?.ticks;
    other.until("it ticks", |report| report.ticks > ticks).await?;

    leader.signal(Signal::CONT)?;
    leader.read().await?;
    leader.read().await?;
    let ended = |report: &Report| !report.polls && (!report.leads || report.refused_writes > 0);
    let late = leader.until("the paused one ends its tick", ended).await?;
    let ticks = other.send(WorkerCommand::Report).await?.ticks;
    other.until("the other one ticks", |report| report.leads && report.ticks > ticks + 1).await?;
    let late_changes = count(&*store, |status| status != CircuitStatus::Closed).await?;

    other.send(WorkerCommand::Failing(true)).await?;
    let ticks = other.send(WorkerCommand::Report).await?.ticks;
    other.until("it ticks again", |report| report.ticks > ticks + 2).await?;
    let opened = count(&*store, |status| status == CircuitStatus::Open).await?;
    let not_opened = usize::try_from(KEYS)?.saturating_sub(opened);
    Ok(Round { successor_after, late_changes, refused_writes: late.refused_writes, not_opened })
}

/// Returns how many of the [`KEYS`] circuits have a state in the store that meets the condition. A circuit
/// without a record is closed.
async fn count(store: &dyn Store, is_meant: impl Fn(CircuitStatus) -> bool) -> Result<usize> {
    let keys: Vec<_> = (0..KEYS).map(|n| key(n).into()).collect();
    let records = store.read(&keys).await?.all()?.value;
    let status =
        |record: Option<breakerbox::Record>| record.map_or(CircuitStatus::Closed, |record| record.status());
    Ok(records.into_iter().filter(|record| is_meant(status(record.clone()))).count())
}

/// An agent process. It is killed when the value is dropped.
struct Agent {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    fn start(program: &Path, settings: &Settings) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["agent", "--store", &settings.store, "--namespace", &settings.namespace]);
        command.args(["--keys", &settings.keys.to_string()]).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).context("it has no pipes")?;
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    async fn write(&mut self, command: WorkerCommand) -> Result<()> {
        let line = format!("{}\n", serde_json::to_string(&command)?);
        Ok(self.input.write_all(line.as_bytes()).await?)
    }

    async fn read(&mut self) -> Result<Report> {
        let line =
            timeout(WAIT_LIMIT, self.output.next_line()).await.context("an agent does not answer")??;
        Ok(serde_json::from_str(&line.context("an agent ended")?)?)
    }

    async fn send(&mut self, command: WorkerCommand) -> Result<Report> {
        self.write(command).await?;
        self.read().await
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Report) -> bool) -> Result<Report> {
        let limit = Instant::now() + WAIT_LIMIT;
        loop {
            let report = self.send(WorkerCommand::Report).await?;
            if is_so(&report) {
                return Ok(report);
            }
            ensure!(Instant::now() < limit, "{what}: not within {WAIT_LIMIT:?}: {report:?}");
            sleep(LOOK_EVERY).await;
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(kill_process(id.context("the agent has ended")?, signal)?)
    }
}

impl Paused {
    /// Returns the violated guarantees. Durations are checked only if `judges_times` is set, which requires a
    /// machine that is not busy.
    #[must_use]
    pub fn faults(&self, judges_times: bool) -> Vec<String> {
        let limit = SHORTEST_TERM.max(SAMPLE_EVERY * 3) + MARGIN;
        let longest = self.longest();
        let table = [
            (self.rounds > 0, "no round was made".to_owned()),
            (self.late_changes == 0, format!("{} circuits changed after a term", self.late_changes)),
            (self.not_opened == 0, format!("the next leader left {} circuits closed", self.not_opened)),
            (
                !judges_times || longest <= limit,
                format!("the next leader came after {longest:?}, not {limit:?}"),
            ),
        ];
        table.into_iter().filter(|(is_right, _)| !is_right).map(|(_, fault)| fault).collect()
    }

    fn longest(&self) -> Duration {
        self.successors.iter().max().copied().unwrap_or_default()
    }
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rounds, late_changes, refused_writes, .. } = self;
        write!(
            f,
            "{:9} paused leader: {rounds} rounds, next leader after {:.2} s at the latest, {refused_writes} late writes refused, \
             {late_changes} applied",
            kind.name(),
            self.longest().as_secs_f64()
        )
    }
}
