//! An agent: a process that samples, and may lead. It reads commands from standard input, one per line, and
//! responds to each with its report on standard output. It exits when its input ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox::sampling::{Poll, SampleError, Sampler};
use breakerbox::store::Store;
use breakerbox::{Breakerbox, Policy, Sample};
use breakerbox_postgres::PostgresStore;
use breakerbox_redis::RedisStore;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;

/// The interval at which the leader polls totals.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// The timeout for a poll, which is longer than any pause in this test.
const POLL_TIMEOUT: Duration = Duration::from_secs(120);

/// The timeout for store requests. It is long, because these tests are not about a slow store, and the machine
/// may be busy.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// The command-line options of an agent.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// URL of the store
    #[arg(long)]
    pub store: String,
    /// Namespace or schema of the fleet
    #[arg(long)]
    pub namespace: String,
    /// Number of keys in the sampler's totals
    #[arg(long)]
    pub keys: u32,
}

/// A command to an agent. The response is a [`Report`].
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerCommand {
    /// Return the report without changing anything.
    Report,
    /// Make all keys fail (`true`) or succeed (`false`) from now on.
    Failing(bool),
    /// Make polls hang from now on (`true`), or let them continue (`false`).
    Hanging(bool),
}

/// The state of an agent's sampling, sent in response to every command.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Report {
    pub(super) leads: bool,
    pub(super) ticks: u64,
    /// Whether a poll is in flight.
    pub(super) polls: bool,
    /// The number of writes that the store rejected because the leader's term had ended.
    pub(super) refused_writes: u64,
}

/// A sampler whose results (failing or succeeding, hanging or not) are set by the test's commands.
struct Totals {
    keys: u32,
    failing: AtomicBool,
    polls: AtomicBool,
    hanging: watch::Sender<bool>,
}

#[async_trait::async_trait]
impl Sampler for Totals {
    async fn sample(&self, _: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        self.polls.store(true, Ordering::SeqCst);
        let mut hanging = self.hanging.subscribe();
        // The sender is part of this sampler, so it can't be dropped before.
        let _ = hanging.wait_for(|hangs| !hangs).await;
        self.polls.store(false, Ordering::SeqCst);
        let is_failing = self.failing.load(Ordering::SeqCst);
        let (successes, failures) = if is_failing { (0, 100) } else { (100, 0) };
        let sample = |n| (key(n), Sample::new(successes, failures));
        Ok((0..self.keys).map(sample).collect())
    }
}

pub(super) fn key(n: u32) -> String {
    format!("tenant https://hooks.example.com/{n}")
}

/// Returns a policy that opens circuits only by their failure rate, and keeps them open for the rest of the
/// test.
fn policy() -> breakerbox::PolicyBuilder {
    Policy::builder().failure_rate(50).min_calls(10).cool_off(Duration::from_secs(300))
}

/// Connects to a store, with this namespace or schema.
///
/// # Errors
/// Returns an error if the store can't be reached.
pub(super) async fn connect(url: &str, namespace: &str) -> Result<Arc<dyn Store>> {
    Ok(if url.starts_with("postgres") {
        let builder = PostgresStore::builder(url).schema(namespace).time_limit(STORE_TIMEOUT);
        Arc::new(builder.connections(2).connect().await?)
    } else {
        Arc::new(RedisStore::builder(url).namespace(namespace).time_limit(STORE_TIMEOUT).connect().await?)
    })
}

/// Runs an agent until its input ends.
///
/// # Errors
/// Returns an error if the settings are invalid, or the store can't be reached.
#[tokio::main(flavor = "current_thread")]
pub async fn run(settings: &Settings) -> Result<()> {
    // A paused agent does not see its input end.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let totals = Arc::new(Totals {
        keys: settings.keys,
        failing: AtomicBool::new(false),
        polls: AtomicBool::new(false),
        hanging: watch::Sender::new(false),
    });
    let sampling = Breakerbox::builder()
        .store(connect(&settings.store, &settings.namespace).await?)
        .store_timeout(STORE_TIMEOUT)
        .sampling(policy())
        .sampler(Arc::clone(&totals))
        .sample_every(SAMPLE_EVERY)
        .poll_timeout(POLL_TIMEOUT)
        .build()?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line).context("an order can't be read")? {
            WorkerCommand::Report => {}
            WorkerCommand::Failing(failing) => totals.failing.store(failing, Ordering::SeqCst),
            WorkerCommand::Hanging(hanging) => _ = totals.hanging.send_replace(hanging),
        }
        let own = sampling.report();
        let polls = totals.polls.load(Ordering::SeqCst);
        let report = Report { leads: own.leads, ticks: own.ticks, polls, refused_writes: own.refused_writes };
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}
