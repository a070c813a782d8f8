//! A worker: a process with its own registry on the shared store. It reads commands from standard input and
//! writes responses to standard output.
//!
//! A worker exits when its input ends, and when the process that started it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use breakerbox::store::Store;
use breakerbox::{
    Attribution, Breakerbox, CallError, Circuit, CircuitChange, OnStoreLoss, OwnedPermit, PolicyBuilder,
    Refusal, Settlement, StoreHealth,
};
use breakerbox_postgres::PostgresStore;
use breakerbox_redis::RedisStore;
use clap::{Args, ValueEnum};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::caller::Caller;
use super::mode::Mode;
use super::protocol::{Answer, Health, Known, Numbered, ObservedChange, Outcome, Seen, WorkerCommand};
use super::traffic::{self, Traffic};
use super::watched::Watched;

/// The interval at which a worker checks a condition that it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The maximum number of observed changes that a worker stores until the test reads them. Further changes are
/// dropped, and the next read then returns an error.
const MAX_OBSERVED: usize = 100_000;

/// The timeout for calls to the receiver. It is longer than any call that succeeds, and shorter than the time for which
/// a test waits for a worker, so that a call that hangs counts as a failure, and the test goes on.
const CALL_TIMEOUT_MS: u64 = 60_000;

/// The command-line options of a worker.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// URL of the store: Redis or Postgres
    #[arg(long)]
    pub store: String,
    /// Base URL of the receiver
    #[arg(long)]
    pub receiver: String,
    /// Number of the worker, which it sends to the receiver
    #[arg(long, default_value_t = 0)]
    pub number: u32,
    /// Policy, as JSON
    #[arg(long, default_value = "{}")]
    pub policy: String,
    /// Timeout for store requests, in milliseconds
    #[arg(long, default_value_t = 500)]
    pub store_timeout_ms: u64,
    /// Interval between reports of failures, in milliseconds
    #[arg(long, default_value_t = 100)]
    pub flush_every_ms: u64,
    /// Interval at which circuits that are not closed are read again, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    pub reread_every_ms: u64,
    /// Timeout for calls to the receiver, in milliseconds
    #[arg(long, default_value_t = CALL_TIMEOUT_MS)]
    pub call_timeout_ms: u64,
    /// What to do while the store is unreachable
    #[arg(long, value_enum, default_value_t = OnLoss::Local)]
    pub on_store_loss: OnLoss,
    /// Consistency mode
    #[arg(long, value_enum, default_value_t = Mode::LocalFirst)]
    pub mode: Mode,
    /// Start even if the store is unreachable
    #[arg(long)]
    pub without_waiting: bool,
}

impl Settings {
    /// Returns settings with the library's defaults.
    #[must_use]
    pub fn new(store: &str, receiver: &str, number: u32) -> Self {
        Self {
            store: store.to_owned(),
            receiver: receiver.to_owned(),
            number,
            policy: "{}".to_owned(),
            store_timeout_ms: 500,
            flush_every_ms: 100,
            reread_every_ms: 2_000,
            call_timeout_ms: CALL_TIMEOUT_MS,
            on_store_loss: OnLoss::Local,
            mode: Mode::LocalFirst,
            without_waiting: false,
        }
    }
}

/// What a fleet does while the store is unreachable.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum OnLoss {
    /// Each process continues with its own circuits.
    Local,
    /// Every call is admitted.
    Admit,
    /// Every call is refused.
    Refuse,
}

impl OnLoss {
    /// Every behaviour that a fleet can be configured with.
    pub const ALL: [Self; 3] = [Self::Local, Self::Admit, Self::Refuse];

    /// Returns the behaviour's name in settings and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Admit => "admit",
            Self::Refuse => "refuse",
        }
    }
}

/// Runs the worker until its input ends.
///
/// # Errors
/// Returns an error if the settings are invalid, or the store can't be reached.
pub fn work(settings: &Settings) -> Result<()> {
    // A paused worker does not see its input end.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let worked = runtime.block_on(run_orders(settings));
    // Does not wait for commands in progress.
    runtime.shutdown_background();
    worked
}

async fn run_orders(settings: &Settings) -> Result<()> {
    let worker = Arc::new(Worker::start(settings).await?);
    let (answers, mut to_say) = mpsc::unbounded_channel::<Numbered<Answer>>();
    let saying = tokio::spawn(async move {
        let mut out = tokio::io::stdout();
        while let Some(answer) = to_say.recv().await {
            let mut line = serde_json::to_vec(&answer)?;
            line.push(b'\n');
            out.write_all(&line).await?;
            out.flush().await?;
        }
        anyhow::Ok(())
    });
    // The first line reports that the worker is ready.
    answers.send(Numbered { number: 0, word: Answer::Done })?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Numbered { number, word } = serde_json::from_str(&line).context("an order can't be read")?;
        let (worker, answers) = (Arc::clone(&worker), answers.clone());
        tokio::spawn(async move {
            let word = worker
                .execute(word)
                .await
                .unwrap_or_else(|error| Answer::Error { error: format!("{error:#}") });
            // If the output is closed, the response is not needed.
            let _ = answers.send(Numbered { number, word });
        });
        if saying.is_finished() {
            bail!("nobody hears what is answered");
        }
    }
    Ok(())
}

struct Worker {
    breakers: Breakerbox,
    store: Arc<Watched>,
    caller: Caller,
    /// The number of times that the store was lost, and the number of times that it returned.
    news: Arc<[AtomicU64; 2]>,
    /// The changes that observers received and the test has not read yet.
    observed: Arc<Mutex<Vec<ObservedChange>>>,
    permits: Mutex<HashMap<u64, OwnedPermit>>,
    runs: Mutex<HashMap<u64, Traffic>>,
    count: AtomicU64,
}

impl Worker {
    async fn start(settings: &Settings) -> Result<Self> {
        let policy: PolicyBuilder = serde_json::from_str(&settings.policy).context("--policy")?;
        let store = Watched::new(connect(settings).await?);
        let news = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (store_news, observed) = (Arc::clone(&news), Arc::default());
        let breakers = Breakerbox::builder()
            .policy(policy.build().context("--policy")?)
            .store(Arc::clone(&store))
            .store_timeout(Duration::from_millis(settings.store_timeout_ms))
            .flush_every(Duration::from_millis(settings.flush_every_ms))
            .reread_every(Duration::from_millis(settings.reread_every_ms))
            .on_store_loss(match settings.on_store_loss {
                OnLoss::Local => OnStoreLoss::Local,
                OnLoss::Admit => OnStoreLoss::Admit,
                OnLoss::Refuse => OnStoreLoss::Refuse,
            })
            .consistency(settings.mode.into())
            .observer(keep_changes(&observed))
            .store_observer(move |news| {
                store_news[usize::from(*news == StoreHealth::Connected)].fetch_add(1, Ordering::Relaxed);
            })
            .build();
        Ok(Self {
            breakers,
            store,
            caller: Caller::new(settings)?,
            news,
            observed,
            permits: Mutex::default(),
            runs: Mutex::default(),
            count: AtomicU64::new(0),
        })
    }

    async fn execute(&self, command: WorkerCommand) -> Result<Answer> {
        Ok(match command {
            WorkerCommand::Acquire { key } => self.try_acquire(&key).await?,
            WorkerCommand::Send { permit, path } => {
                let is_probe = self.permits().get(&permit).context("there is no such permit")?.is_probe();
                Answer::Sent { status: self.caller.call(&path, is_probe).await.ok() }
            }
            WorkerCommand::Settle { permit, outcome } => self.settle(permit, outcome)?,
            WorkerCommand::Call { key, path } => self.call(&key, &path).await?,
            WorkerCommand::Hammer { key, path } => {
                Answer::Tally(traffic::hammer(&self.circuit(&key)?, &self.caller, &path).await)
            }
            WorkerCommand::Await { key, status } => {
                let circuit = self.circuit(&key)?;
                while circuit.status().name() != status {
                    sleep(LOOK_EVERY).await;
                }
                self.known(&circuit)
            }
            WorkerCommand::State { key } => self.known(&self.circuit(&key)?),
            WorkerCommand::Circuits => Answer::Circuits(self.circuits()),
            WorkerCommand::Health => Answer::Health(self.health()),
            WorkerCommand::Run(run) => {
                let traffic = Traffic::start(&run, &self.breakers, &self.caller)?;
                let run = self.number();
                self.runs().insert(run, traffic);
                Answer::Running { run }
            }
            WorkerCommand::Tally { run } => {
                Answer::Tally(self.runs().get(&run).context("there is no such run")?.tally())
            }
            WorkerCommand::Calls { run, since_us } => {
                Answer::Calls(self.runs().get(&run).context("there is no such run")?.calls(since_us)?)
            }
            WorkerCommand::Stop { run } => {
                let traffic = self.runs().remove(&run).context("there is no such run")?;
                Answer::Tally(traffic.stop().await)
            }
            WorkerCommand::Changes => Answer::Changes(self.changes()?),
            WorkerCommand::Close => {
                self.breakers.close().await?;
                Answer::Done
            }
            WorkerCommand::Override { key, command } => {
                let by = Attribution::new("proof", "it is part of the proof")?;
                self.circuit(&key)?.apply_override(command.into(), &by).await?;
                Answer::Done
            }
        })
    }

    async fn try_acquire(&self, key: &str) -> Result<Answer> {
        // Acquires without waiting: one attempt, and one more if the first is refused.
        Ok(match self.circuit(key)?.acquire_owned_within(Duration::ZERO).await {
            Ok(permit) => {
                let (number, is_probe) = (self.number(), permit.is_probe());
                self.permits().insert(number, permit);
                Answer::Permit { permit: number, is_probe }
            }
            Err(refusal) => refused(&refusal),
        })
    }

    fn settle(&self, permit: u64, outcome: Outcome) -> Result<Answer> {
        let permit = self.permits().remove(&permit).ok_or_else(|| anyhow!("there is no such permit"))?;
        let how = match outcome {
            Outcome::Success => permit.success(),
            Outcome::Failure => permit.failure(),
            Outcome::RetryAfter { ms } => permit.failure_with_retry_after(Duration::from_millis(ms)),
            Outcome::Ignored => permit.ignored(),
            Outcome::Dropped => {
                drop(permit);
                return Ok(Answer::Settled { how: "dropped".into() });
            }
        };
        let how = match how {
            Settlement::Counted => "counted",
            Settlement::Uncounted => "uncounted",
            Settlement::Late => "late",
            Settlement::Unconfirmed => "unconfirmed",
        };
        Ok(Answer::Settled { how: how.into() })
    }

    async fn call(&self, key: &str, path: &str) -> Result<Answer> {
        let circuit = self.circuit(key)?;
        // This guess may be wrong by the time the call is made; the receiver does not rely on it.
        let is_probe = circuit.status().name() != "closed";
        let call = async { self.caller.call(path, is_probe).await.and_then(Caller::succeeded) };
        Ok(match circuit.call(call).await {
            Ok(status) => Answer::Sent { status: Some(status) },
            Err(CallError::Refused(refusal)) => refused(&refusal),
            Err(_) => Answer::Sent { status: None },
        })
    }

    fn changes(&self) -> Result<Vec<ObservedChange>> {
        let changes = std::mem::take(&mut *self.observed.lock().unwrap_or_else(PoisonError::into_inner));
        if changes.len() >= MAX_OBSERVED {
            bail!("more than {MAX_OBSERVED} changes since they were last asked for");
        }
        Ok(changes)
    }

    fn circuit(&self, key: &str) -> Result<Circuit> {
        Ok(self.breakers.circuit(key)?)
    }

    fn known(&self, circuit: &Circuit) -> Answer {
        let leases = self.store.leases(circuit.key());
        Answer::Circuit(Box::new(Known {
            status: circuit.status().name().to_owned(),
            record: circuit.record(),
            leases_won: leases.won,
            leases_lost: leases.lost,
        }))
    }

    fn circuits(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        self.breakers.for_each(|circuit| {
            // Reads one record, so that state and epoch belong together.
            let record = circuit.record();
            let (key, status) = (circuit.key().to_owned(), record.status().name().to_owned());
            seen.push(Seen { key, status, epoch: record.epoch });
        });
        seen
    }

    fn health(&self) -> Health {
        let counts = self.breakers.counts();
        let degraded = match self.breakers.store_health() {
            Some(StoreHealth::Degraded { error }) => Some(error),
            _ => None,
        };
        Health {
            degraded,
            losses: self.news[0].load(Ordering::Relaxed),
            returns: self.news[1].load(Ordering::Relaxed),
            requests: self.store.requests(),
            merges: self.store.merges(),
            late_results: counts.late_results,
            unanswered_reports: counts.unanswered_reports,
        }
    }

    fn number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    fn permits(&self) -> MutexGuard<'_, HashMap<u64, OwnedPermit>> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u64, Traffic>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an observer that stores the changes, for the test to read.
fn keep_changes(observed: &Arc<Mutex<Vec<ObservedChange>>>) -> impl Fn(&CircuitChange) + Send + Sync + use<> {
    let observed = Arc::clone(observed);
    move |CircuitChange { key, change, .. }| {
        let mut observed = observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.len() < MAX_OBSERVED {
            let (from, to) = (change.from.name().to_owned(), change.to.name().to_owned());
            observed.push(ObservedChange { key: key.to_string(), from, to, epoch: change.epoch });
        }
    }
}

fn refused(refusal: &Refusal) -> Answer {
    let retry_in_ms = refusal.retry_in().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    Answer::Refused { why: refusal.name().to_owned(), retry_in_ms }
}

/// Connects to the store. The store's own timeout is slightly shorter than the library's, as it is by default.
async fn connect(settings: &Settings) -> Result<Arc<dyn Store>> {
    let limit = Duration::from_millis(settings.store_timeout_ms * 4 / 5);
    let url = &settings.store;
    if url.starts_with("postgres") {
        let builder = PostgresStore::builder(url).time_limit(limit);
        let store = if settings.without_waiting { builder.open()? } else { builder.connect().await? };
        return Ok(Arc::new(store));
    }
    let builder = RedisStore::builder(url).time_limit(limit);
    let store = if settings.without_waiting { builder.open()? } else { builder.connect().await? };
    Ok(Arc::new(store))
}
