//! A test's handle to a worker: sends commands, pauses, resumes and kills it. Dropping the handle kills the
//! worker.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::protocol::{
    Answer, CallRecord, Health, Known, Numbered, ObservedChange, Outcome, OverrideRequest, Run, Seen, Tally,
    WorkerCommand,
};
use super::worker::Settings;

/// The timeout for a worker's response, so that a test can't hang.
pub const WAIT_LIMIT: Duration = Duration::from_secs(180);

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// A worker process. It is killed when the value is dropped.
pub struct Process {
    /// The settings with which the worker was started.
    pub settings: Settings,
    child: Child,
    orders: tokio::sync::Mutex<ChildStdin>,
    waiting: Waiting,
    count: AtomicU64,
}

/// A worker's response that has not arrived yet.
pub struct Pending {
    command: String,
    worker: u32,
    answer: oneshot::Receiver<Answer>,
}

/// The result of [`Process::try_acquire`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// A permit for a regular call (not a probe), with its number.
    Call(u64),
    /// A permit for a probe, with its number.
    Probe(u64),
    /// No permit was granted. The value is the name of the reason.
    Refused(String),
}

impl Process {
    /// Starts a worker, and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if the worker does not start.
    pub async fn start(program: &Path, settings: &Settings) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("worker").args(arguments(settings)).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = spawn(command).await.with_context(|| format!("{} can't be run", program.display()));
        let mut child = child?;
        let (orders, answers) = child.stdin.take().zip(child.stdout.take()).context("it has no pipes")?;
        let (ready, is_ready) = oneshot::channel();
        let waiting = Waiting::new(Mutex::new(HashMap::from([(0, ready)])));
        tokio::spawn(read_answers(answers, Arc::clone(&waiting)));
        timeout(WAIT_LIMIT, is_ready).await?.context("a worker ended at its start")?;
        let (orders, settings) = (tokio::sync::Mutex::new(orders), settings.clone());
        Ok(Self { settings, child, orders, waiting, count: AtomicU64::new(1) })
    }

    /// Returns the worker's number, which it sends to the receiver.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.settings.number
    }

    /// Sends a command, without waiting for the response.
    ///
    /// # Errors
    /// Returns an error if the worker has exited.
    pub async fn begin(&self, command: WorkerCommand) -> Result<Pending> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let text = format!("{command:?}");
        let mut line = serde_json::to_vec(&Numbered { number, word: command })?;
        line.push(b'\n');
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
        let mut orders = self.orders.lock().await;
        orders.write_all(&line).await.with_context(|| format!("worker {} has ended", self.number()))?;
        Ok(Pending { command: text, worker: self.number(), answer })
    }

    /// Sends a command, and waits for the response.
    ///
    /// # Errors
    /// Returns an error if the worker has exited, does not respond, or responds with an error.
    pub async fn command(&self, command: WorkerCommand) -> Result<Answer> {
        self.begin(command).await?.answer().await
    }

    /// Acquires a permit for a circuit.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn try_acquire(&self, key: &str) -> Result<Acquired> {
        match self.command(WorkerCommand::Acquire { key: key.to_owned() }).await? {
            Answer::Permit { permit, is_probe: true } => Ok(Acquired::Probe(permit)),
            Answer::Permit { permit, is_probe: false } => Ok(Acquired::Call(permit)),
            Answer::Refused { why, .. } => Ok(Acquired::Refused(why)),
            other => unexpected(&other),
        }
    }

    /// Makes the call that a permit allows. Returns the response's HTTP status, or `None` if the receiver did
    /// not respond.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn send(&self, permit: u64, path: &str) -> Result<Option<u16>> {
        match self.command(WorkerCommand::Send { permit, path: path.to_owned() }).await? {
            Answer::Sent { status } => Ok(status),
            other => unexpected(&other),
        }
    }

    /// Settles a permit, and returns the settlement, as in [`Answer::Settled`].
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn settle(&self, permit: u64, outcome: Outcome) -> Result<String> {
        match self.command(WorkerCommand::Settle { permit, outcome }).await? {
            Answer::Settled { how } => Ok(how),
            other => unexpected(&other),
        }
    }

    /// Returns what the worker knows about a circuit.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn state(&self, key: &str) -> Result<Known> {
        known(self.command(WorkerCommand::State { key: key.to_owned() }).await?)
    }

    /// Returns the state of each circuit that the worker has.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn circuits(&self) -> Result<Vec<Seen>> {
        match self.command(WorkerCommand::Circuits).await? {
            Answer::Circuits(circuits) => Ok(circuits),
            other => unexpected(&other),
        }
    }

    /// Starts a run of calls at a fixed rate, and returns the run's number, for later commands.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn run(&self, run: Run) -> Result<u64> {
        match self.command(WorkerCommand::Run(run)).await? {
            Answer::Running { run } => Ok(run),
            other => unexpected(&other),
        }
    }

    /// Returns the calls of a run that started at this time or later, in microseconds since the Unix epoch, and
    /// have ended.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn calls(&self, run: u64, since_us: u64) -> Result<Vec<CallRecord>> {
        match self.command(WorkerCommand::Calls { run, since_us }).await? {
            Answer::Calls(calls) => Ok(calls),
            other => unexpected(&other),
        }
    }

    /// Waits until the worker sees a circuit in this state.
    ///
    /// # Errors
    /// See [`command`](Self::command). Also returns an error after [`WAIT_LIMIT`].
    pub async fn becomes(&self, key: &str, status: &str) -> Result<Known> {
        match self.command(WorkerCommand::Await { key: key.to_owned(), status: status.to_owned() }).await {
            Ok(answer) => known(answer),
            Err(error) => Err(error.context(format!("it knows {:?}", self.state(key).await?))),
        }
    }

    /// Returns the store's health from the worker's point of view.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn health(&self) -> Result<Health> {
        match self.command(WorkerCommand::Health).await? {
            Answer::Health(health) => Ok(health),
            other => unexpected(&other),
        }
    }

    /// Returns all changes that the worker's observers received since the previous call.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn changes(&self) -> Result<Vec<ObservedChange>> {
        match self.command(WorkerCommand::Changes).await? {
            Answer::Changes(changes) => Ok(changes),
            other => unexpected(&other),
        }
    }

    /// Makes one call, closes the registry, and waits until the process exits. Returns whether the call was
    /// admitted.
    ///
    /// # Errors
    /// See [`command`](Self::command). Also returns an error if the process does not exit within
    /// [`WAIT_LIMIT`].
    pub async fn call_and_exit(self, key: &str, path: &str) -> Result<bool> {
        let call = WorkerCommand::Call { key: key.to_owned(), path: path.to_owned() };
        let answer = self.command(call).await?;
        self.command(WorkerCommand::Close).await?;
        let Self { orders, mut child, .. } = self;
        // A worker exits at the end of its input.
        drop(orders);
        timeout(WAIT_LIMIT, child.wait()).await.context("it does not exit")??;
        Ok(!matches!(answer, Answer::Refused { .. }))
    }

    /// Applies an operator's override through this worker.
    ///
    /// # Errors
    /// See [`command`](Self::command).
    pub async fn apply_override(&self, key: &str, command: OverrideRequest) -> Result<()> {
        self.command(WorkerCommand::Override { key: key.to_owned(), command }).await.map(drop)
    }

    /// Kills the process, like `kill -9`.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Pauses the process with `SIGSTOP`, and waits until all its threads have stopped. Until the thread that
    /// receives the signal is scheduled, the other threads continue.
    ///
    /// # Errors
    /// Returns an error if the process has exited, or the system call fails.
    pub async fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let stopped = async {
            while waitid(WaitId::Pid(self.id()?), look)?.is_none() {
                sleep(Duration::from_millis(1)).await;
            }
            anyhow::Ok(())
        };
        timeout(WAIT_LIMIT, stopped).await.context("it does not stop")?
    }

    /// Resumes a paused process.
    ///
    /// # Errors
    /// Returns an error if the process has exited, or the system call fails.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.id()?, signal)?)
    }

    fn id(&self) -> Result<Pid> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.context("the worker has ended")
    }
}

impl Pending {
    /// Waits for the worker's response to the command.
    ///
    /// # Errors
    /// Returns an error if the response does not arrive within [`WAIT_LIMIT`], or is an error.
    pub async fn answer(self) -> Result<Answer> {
        let Self { command, worker, answer } = self;
        let answer =
            timeout(WAIT_LIMIT, answer).await.with_context(|| format!("worker {worker}, {command}"))?;
        match answer.with_context(|| format!("worker {worker} ended before it answered {command}"))? {
            Answer::Error { error } => bail!("worker {worker}, {command}: {error}"),
            answer => Ok(answer),
        }
    }

    /// Waits for the worker's response, which must be a tally.
    ///
    /// # Errors
    /// See [`answer`](Self::answer).
    pub async fn tally(self) -> Result<Tally> {
        match self.answer().await? {
            Answer::Tally(tally) => Ok(tally),
            other => unexpected(&other),
        }
    }
}

/// Starts a process from a thread that lives as long as the program. This is necessary because a worker is
/// killed when the thread that started it ends, and a runtime may end its threads at any time.
async fn spawn(mut command: Command) -> Result<Child> {
    static STARTER: LazyLock<mpsc::Sender<Box<dyn FnOnce() + Send>>> = LazyLock::new(|| {
        let (starts, to_start) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || to_start.into_iter().for_each(|start| start()));
        starts
    });
    let (runtime, (send, shown)) = (Handle::current(), oneshot::channel());
    let start = move || {
        let _within = runtime.enter();
        // If the caller no longer waits, the child is dropped here, which kills it.
        let _ = send.send(command.spawn());
    };
    STARTER.send(Box::new(start)).map_err(|_| anyhow!("nobody is there to start it"))?;
    Ok(shown.await??)
}

fn known(answer: Answer) -> Result<Known> {
    match answer {
        Answer::Circuit(known) => Ok(*known),
        other => unexpected(&other),
    }
}

fn unexpected<T>(answer: &Answer) -> Result<T> {
    bail!("that is no answer to this order: {answer:?}")
}

/// Reads responses until the worker's output ends. Callers that are still waiting then get an error.
async fn read_answers(answers: ChildStdout, waiting: Waiting) {
    let mut lines = BufReader::new(answers).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // An unreadable line is ignored; the caller of its command then gets an error.
        let Ok(Numbered { number, word }) = serde_json::from_str(&line) else { continue };
        let waits = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if let Some(waits) = waits {
            let _ = waits.send(word);
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn arguments(settings: &Settings) -> Vec<String> {
    let on_loss = clap::ValueEnum::to_possible_value(&settings.on_store_loss);
    let named = [
        ("--store", settings.store.clone()),
        ("--receiver", settings.receiver.clone()),
        ("--number", settings.number.to_string()),
        ("--policy", settings.policy.clone()),
        ("--store-timeout-ms", settings.store_timeout_ms.to_string()),
        ("--flush-every-ms", settings.flush_every_ms.to_string()),
        ("--reread-every-ms", settings.reread_every_ms.to_string()),
        ("--call-timeout-ms", settings.call_timeout_ms.to_string()),
        ("--on-store-loss", on_loss.map_or_else(String::new, |value| value.get_name().to_owned())),
        ("--mode", settings.mode.name().to_owned()),
    ];
    let named = named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    named.chain(settings.without_waiting.then(|| "--without-waiting".to_owned())).collect()
}
