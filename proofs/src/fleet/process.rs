//! The proof's handle of a worker: sends commands, stops, resumes and kills it. Dropping the handle kills the worker.

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

use super::words::{
    Answer, Health, HeardChange, Known, Numbered, Operator, Order, Outcome, Run, Seen, Tally,
};
use super::worker::Settings;

/// The timeout of a worker's answer, so that a proof cannot hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// A worker process. It is killed when this is dropped.
pub struct Process {
    /// The settings with which the worker was started.
    pub settings: Settings,
    child: Child,
    orders: tokio::sync::Mutex<ChildStdin>,
    waiting: Waiting,
    count: AtomicU64,
}

/// An answer that has not arrived yet.
pub struct Pending {
    order: String,
    worker: u32,
    answer: oneshot::Receiver<Answer>,
}

/// The result of an acquire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A permit for an ordinary call.
    Call(u64),
    /// A permit for a probe.
    Probe(u64),
    /// No permit, and the name of the reason.
    Refused(String),
}

impl Process {
    /// Starts a worker, and waits until it is ready.
    ///
    /// # Errors
    /// Fails if the worker does not start.
    pub async fn start(program: &Path, settings: &Settings) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("worker").args(arguments(settings)).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = spawn(command).await.with_context(|| format!("{} can't be run", program.display()));
        let mut child = child?;
        let (orders, answers) = child.stdin.take().zip(child.stdout.take()).context("it has no pipes")?;
        let (ready, is_ready) = oneshot::channel();
        let waiting = Waiting::new(Mutex::new(HashMap::from([(0, ready)])));
        tokio::spawn(hear(answers, Arc::clone(&waiting)));
        timeout(PATIENCE, is_ready).await?.context("a worker ended at its start")?;
        let (orders, settings) = (tokio::sync::Mutex::new(orders), settings.clone());
        Ok(Self { settings, child, orders, waiting, count: AtomicU64::new(1) })
    }

    /// Returns the worker's number, which it sends to the receiver.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.settings.number
    }

    /// Sends a command, and does not wait for the answer.
    ///
    /// # Errors
    /// Fails if the worker has exited.
    pub async fn begin(&self, order: Order) -> Result<Pending> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let text = format!("{order:?}");
        let mut line = serde_json::to_vec(&Numbered { number, word: order })?;
        line.push(b'\n');
        let (heard, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, heard);
        let mut orders = self.orders.lock().await;
        orders.write_all(&line).await.with_context(|| format!("worker {} has ended", self.number()))?;
        Ok(Pending { order: text, worker: self.number(), answer })
    }

    /// Sends a command, and waits for the answer.
    ///
    /// # Errors
    /// Fails if the worker has exited, does not answer, or answers with an error.
    pub async fn order(&self, order: Order) -> Result<Answer> {
        self.begin(order).await?.answer().await
    }

    /// Acquires a permit.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn try_acquire(&self, key: &str) -> Result<Asked> {
        match self.order(Order::Ask { key: key.to_owned() }).await? {
            Answer::Permit { permit, is_probe: true } => Ok(Asked::Probe(permit)),
            Answer::Permit { permit, is_probe: false } => Ok(Asked::Call(permit)),
            Answer::Refused { why, .. } => Ok(Asked::Refused(why)),
            other => unexpected(&other),
        }
    }

    /// Makes the call of a permit, and returns the HTTP status. `None`: the receiver did not answer.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn send(&self, permit: u64, path: &str) -> Result<Option<u16>> {
        match self.order(Order::Send { permit, path: path.to_owned() }).await? {
            Answer::Sent { status } => Ok(status),
            other => unexpected(&other),
        }
    }

    /// Settles a permit, and returns the settlement: `counted`, `uncounted` or `late`.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn settle(&self, permit: u64, outcome: Outcome) -> Result<String> {
        match self.order(Order::Settle { permit, outcome }).await? {
            Answer::Settled { how } => Ok(how),
            other => unexpected(&other),
        }
    }

    /// Returns the worker's view of a circuit.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn state(&self, key: &str) -> Result<Known> {
        known(self.order(Order::State { key: key.to_owned() }).await?)
    }

    /// Returns the state of each circuit that the worker has.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn circuits(&self) -> Result<Vec<Seen>> {
        match self.order(Order::Circuits).await? {
            Answer::Circuits(circuits) => Ok(circuits),
            other => unexpected(&other),
        }
    }

    /// Starts to make calls at a rate, and returns the number of the run.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn run(&self, run: Run) -> Result<u64> {
        match self.order(Order::Run(run)).await? {
            Answer::Running { run } => Ok(run),
            other => unexpected(&other),
        }
    }

    /// Waits until the worker sees a circuit in this state.
    ///
    /// # Errors
    /// As [`order`](Self::order); also fails after [`PATIENCE`].
    pub async fn becomes(&self, key: &str, status: &str) -> Result<Known> {
        match self.order(Order::Await { key: key.to_owned(), status: status.to_owned() }).await {
            Ok(answer) => known(answer),
            Err(error) => Err(error.context(format!("it knows {:?}", self.state(key).await?))),
        }
    }

    /// Returns the health of the store, as the worker sees it.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn health(&self) -> Result<Health> {
        match self.order(Order::Health).await? {
            Answer::Health(health) => Ok(health),
            other => unexpected(&other),
        }
    }

    /// Returns all changes that the worker's observers received since the last call of this function.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn changes(&self) -> Result<Vec<HeardChange>> {
        match self.order(Order::Changes).await? {
            Answer::Changes(changes) => Ok(changes),
            other => unexpected(&other),
        }
    }

    /// Makes one call, closes the registry, and lets the process exit. Returns whether the call was admitted.
    ///
    /// # Errors
    /// As [`order`](Self::order), or if the process does not exit within [`PATIENCE`].
    pub async fn call_and_exit(self, key: &str, path: &str) -> Result<bool> {
        let call = Order::Call { key: key.to_owned(), path: path.to_owned() };
        let answer = self.order(call).await?;
        self.order(Order::Close).await?;
        let Self { orders, mut child, .. } = self;
        // A worker exits at the end of its input.
        drop(orders);
        timeout(PATIENCE, child.wait()).await.context("it does not exit")??;
        Ok(!matches!(answer, Answer::Refused { .. }))
    }

    /// Applies an operator's override through this worker.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn apply_override(&self, key: &str, command: Operator) -> Result<()> {
        self.order(Order::Obey { key: key.to_owned(), command }).await.map(drop)
    }

    /// Ends the process as `kill -9` does.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Stops the process as `SIGSTOP` does, and waits until it has stopped: one thread receives the signal, and until
    /// that thread is scheduled the others continue.
    ///
    /// # Errors
    /// Fails if the process has exited, or the system refuses.
    pub async fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let stopped = async {
            while waitid(WaitId::Pid(self.id()?), look)?.is_none() {
                sleep(Duration::from_millis(1)).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, stopped).await.context("it does not stop")?
    }

    /// Resumes a stopped process.
    ///
    /// # Errors
    /// Fails if the process has exited, or the system refuses.
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
    /// Waits for the answer.
    ///
    /// # Errors
    /// Fails if the answer does not come within [`PATIENCE`], or is an error.
    pub async fn answer(self) -> Result<Answer> {
        let Self { order, worker, answer } = self;
        let answer = timeout(PATIENCE, answer).await.with_context(|| format!("worker {worker}, {order}"))?;
        match answer.with_context(|| format!("worker {worker} ended before it answered {order}"))? {
            Answer::Error { error } => bail!("worker {worker}, {order}: {error}"),
            answer => Ok(answer),
        }
    }

    /// Waits for an answer that is a tally.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub async fn tally(self) -> Result<Tally> {
        match self.answer().await? {
            Answer::Tally(tally) => Ok(tally),
            other => unexpected(&other),
        }
    }
}

/// Starts a process on a thread that lives as long as the program: a worker ends with the thread that started it, and
/// the threads of a runtime come and go.
async fn spawn(mut command: Command) -> Result<Child> {
    static STARTER: LazyLock<mpsc::Sender<Box<dyn FnOnce() + Send>>> = LazyLock::new(|| {
        let (starts, to_start) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || to_start.into_iter().for_each(|start| start()));
        starts
    });
    let (runtime, (tell, told)) = (Handle::current(), oneshot::channel());
    let start = move || {
        let _within = runtime.enter();
        // If the caller no longer waits, the child is dropped here, which kills it.
        let _ = tell.send(command.spawn());
    };
    STARTER.send(Box::new(start)).map_err(|_| anyhow!("nobody is there to start it"))?;
    Ok(told.await??)
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

/// Reads answers until the output ends. Callers that still wait then get an error.
async fn hear(answers: ChildStdout, waiting: Waiting) {
    let mut lines = BufReader::new(answers).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // An unreadable line answers no command; its caller then gets an error.
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
        ("--on-store-loss", on_loss.map_or_else(String::new, |value| value.get_name().to_owned())),
        ("--mode", settings.mode.name().to_owned()),
    ];
    let named = named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    named.chain(settings.without_waiting.then(|| "--without-waiting".to_owned())).collect()
}
