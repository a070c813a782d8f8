//! The connection of each worker to the store: slow, lossy, cut. A message in flight arrives even if its sender
//! is paused or dies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::store::{
    Announcer, Answer, Changes, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, StoreEvent, Swap, Swapped, Term,
};
use breakerbox::{Nonce, Record};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use super::checked_store::CheckedStore;
use super::history::WorkerLife;
use super::sabotage::Sabotage;
use super::sampling::Attempts;
use super::scenario::Cut;
use super::world::World;

/// The connections between all workers and the store.
pub(super) struct Network {
    pub(super) world: Arc<World>,
    pub(super) checked_store: CheckedStore,
    /// The table of attempts, from which sampled circuits are evaluated.
    pub(super) attempts: Attempts,
    connections: Vec<Mutex<Connection>>,
    /// The time at which the store stops stalling.
    stalled_until: Mutex<Duration>,
    /// The time at which the store accepts writes again.
    no_writes_until: Mutex<Duration>,
}

/// The connection of one worker, through all its lives.
struct Connection {
    chance: SmallRng,
    cut: Option<Cut>,
    /// Delivers changes to the worker's current process.
    announcer: Arc<Announcer>,
    /// The arrival time of the last change. Later changes arrive after this time, so that they stay in order.
    last_push: Duration,
}

/// The fate of one request: its delays, whether it arrives, whether it gets a response, and whether it is
/// sent twice.
struct RequestFate {
    out: Duration,
    back: Duration,
    arrives: bool,
    is_answered: bool,
    is_repeated: bool,
}

impl Network {
    pub(super) fn new(world: &Arc<World>, sabotage: Sabotage) -> Arc<Self> {
        let connection = |worker: usize| {
            let chance = SmallRng::seed_from_u64(world.scenario.seed ^ (0xA11 + worker as u64) << 32);
            let announcer = Arc::new(Announcer::new());
            Mutex::new(Connection { chance, cut: None, announcer, last_push: Duration::ZERO })
        };
        Arc::new(Self {
            checked_store: CheckedStore::new(world, sabotage),
            attempts: Attempts::new(world, sabotage),
            connections: (0..world.scenario.workers.len()).map(connection).collect(),
            stalled_until: Mutex::new(Duration::ZERO),
            no_writes_until: Mutex::new(Duration::ZERO),
            world: Arc::clone(world),
        })
    }

    /// Disconnects a worker in the way that `how` states. `None` reconnects the worker.
    pub(super) fn cut(&self, worker: usize, how: Option<Cut>) {
        let mut connection = self.connection(worker);
        let was_cut = connection.cut.is_some();
        connection.cut = how;
        self.world.write(|history| history.sampled.was_cut(worker, how, self.world.at()));
        if how.is_none() && was_cut && connection.chance.random() {
            // Real stores report missed changes when they reconnect. If this one does not, the regular reads
            // must be sufficient.
            connection.announcer.announce(StoreEvent::Missed);
        }
    }

    pub(super) fn stall(&self, until: Duration) {
        *self.stalled_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Makes the store reject writes until this time.
    pub(super) fn refuse_writes(&self, until: Duration) {
        *self.no_writes_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        let since = self.refuses_writes().then(|| self.world.at());
        self.world.write(|history| history.no_writes_since = since);
    }

    fn refuses_writes(&self) -> bool {
        self.world.at() < *self.no_writes_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if the store does not accept this worker's writes now.
    fn may_write(&self, who: WorkerLife, what: &str) -> Result<(), StoreError> {
        let (refused, at) = (self.refuses_writes(), self.world.at());
        self.world.write(|history| {
            history.store_wrote(who, refused, at);
            if refused {
                history.tally.refused_writes += 1;
                history.got_no_answer(who, at);
            }
        });
        if refused {
            self.world.note(|| format!("store  refuses {who:?} a write: {what}"));
            return Err(StoreError::Unavailable("no memory is left for writes".into()));
        }
        Ok(())
    }

    fn connection(&self, worker: usize) -> MutexGuard<'_, Connection> {
        self.connections[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cut(&self, worker: usize, how: &[Cut]) -> bool {
        self.connection(worker).cut.is_some_and(|cut| how.contains(&cut))
    }

    pub(super) fn latency(&self, chance: &mut SmallRng) -> Duration {
        let most = u64::try_from(self.world.scenario.settings.latency.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(chance.random_range(0..=most))
    }

    fn fate(&self, worker: usize) -> RequestFate {
        let losses = if self.world.has_healed() { Default::default() } else { self.world.scenario.losses };
        let mut connection = self.connection(worker);
        let chance = &mut connection.chance;
        let (out, back) = (self.latency(chance), self.latency(chance));
        let mut happens = |thousandths: u32| chance.random_range(0..1_000) < thousandths;
        let (arrives, is_answered) = (!happens(losses.requests), !happens(losses.answers));
        let (slow_out, slow_back) = (happens(losses.spikes), happens(losses.spikes));
        let spike = self.world.scenario.settings.store_timeout * 2;
        let is_repeated = self.checked_store.sabotage() == Sabotage::RepeatsMerges && happens(100);
        RequestFate {
            out: if slow_out { spike } else { out },
            back: if slow_back { spike } else { back },
            arrives,
            is_answered,
            is_repeated,
        }
    }

    /// Sends a change or a request for reports to all workers. Each worker receives the event after some time,
    /// or not at all.
    fn push(self: &Arc<Self>, event: &StoreEvent) {
        let losses = if self.world.has_healed() { 0 } else { self.world.scenario.losses.pushes };
        for worker in 0..self.connections.len() {
            let mut connection = self.connection(worker);
            let delay = self.latency(&mut connection.chance);
            if connection.chance.random_range(0..1_000) < losses {
                continue;
            }
            let at = connection.last_push.max(self.world.at() + delay);
            connection.last_push = at;
            let announcer = Arc::clone(&connection.announcer);
            drop(connection);
            let (network, event) = (Arc::clone(self), event.clone());
            tokio::spawn(async move {
                sleep_until(network.world.instant(at)).await;
                if !network.is_cut(worker, &[Cut::Refuses, Cut::BlackHole, Cut::LosesAnswers]) {
                    announcer.announce(event);
                }
            });
        }
    }

    /// Swaps in a record, and notifies all workers.
    async fn swap(
        self: &Arc<Self>,
        who: WorkerLife,
        swap: &Swap,
        by_leader: bool,
    ) -> Result<Answer<Swapped>, StoreError> {
        let (answer, is_news) = self.checked_store.swap_if(who, swap, by_leader).await?;
        if is_news {
            let (key, record) = (Arc::clone(&swap.key), Arc::new(swap.record.clone()));
            self.push(&StoreEvent::Changed { key, record });
        }
        Ok(answer)
    }

    async fn stalled(&self) {
        let until = *self.stalled_until.lock().unwrap_or_else(PoisonError::into_inner);
        if self.world.at() < until {
            sleep_until(self.world.instant(until)).await;
        }
    }
}

/// The store as seen by one life of a worker (from one start to the next).
pub(super) struct Link {
    network: Arc<Network>,
    who: WorkerLife,
    announcer: Arc<Announcer>,
}

impl Link {
    /// Connects a new life of a worker to the store. From now on, this life receives the changes.
    pub(super) fn new(network: &Arc<Network>, who: WorkerLife) -> Self {
        let announcer = Arc::new(Announcer::new());
        network.connection(who.worker).announcer = Arc::clone(&announcer);
        Self { network: Arc::clone(network), who, announcer }
    }

    /// Sends a request. `apply` is the operation that the store performs when the request arrives.
    async fn pass<T, F>(
        &self,
        what: &'static str,
        apply: impl Fn(Arc<Network>) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let Self { network, who, .. } = self;
        let worker = who.worker;
        let fate = network.fate(worker);
        network.world.note(|| format!("{who:?} asks: {what}"));
        let mut waiting = Waiting { world: &network.world, who: *who, what, is_answered: false };
        if network.is_cut(worker, &[Cut::Refuses]) {
            sleep(fate.out).await;
            return Err(StoreError::Unavailable("connection refused".into()));
        }
        let (sender, receiver) = oneshot::channel();
        let network = Arc::clone(network);
        tokio::spawn(async move {
            sleep(fate.out).await;
            if !fate.arrives || network.is_cut(worker, &[Cut::Refuses, Cut::BlackHole]) {
                return;
            }
            network.stalled().await;
            if fate.is_repeated && what == "merge" {
                let _ = apply(Arc::clone(&network)).await;
            }
            let answer = apply(Arc::clone(&network)).await;
            sleep(fate.back).await;
            if fate.is_answered && network.connection(worker).cut.is_none() {
                let _ = sender.send(answer);
            }
        });
        let Ok(answer) = receiver.await else {
            // The response never arrives.
            return std::future::pending().await;
        };
        waiting.is_answered = true;
        answer
    }
}

/// A pending request. If the value is dropped before a response arrives, the history records that there was
/// none.
struct Waiting<'w> {
    world: &'w World,
    who: WorkerLife,
    what: &'static str,
    is_answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let at = self.world.at();
            self.world.note(|| format!("{:?} gets no answer: {}", self.who, self.what));
            self.world.write(|history| history.got_no_answer(self.who, at));
        }
    }
}

/// Marks all records as readable, because simulated records always are.
fn readable<T>(answer: Answer<Vec<T>>) -> Answer<Vec<Readable<T>>> {
    Answer { now: answer.now, value: answer.value.into_iter().map(Ok).collect() }
}

#[async_trait]
impl Store for Link {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        let (deltas, who): (Arc<[Delta]>, _) = (deltas.into(), self.who);
        let sent_at = self.network.world.at();
        self.pass("merge", move |network| {
            let deltas = Arc::clone(&deltas);
            async move {
                network.may_write(who, "merge")?;
                network.checked_store.merge(who, &deltas, sent_at).await.map(readable)
            }
        })
        .await
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        let (keys, who): (Arc<[Arc<str>]>, _) = (keys.into(), self.who);
        self.pass("read", move |network| {
            let keys = Arc::clone(&keys);
            async move { network.checked_store.read(who, &keys).await.map(readable) }
        })
        .await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        let (swap, who) = (Arc::new(swap.clone()), self.who);
        self.pass("swap", move |network| {
            let swap = Arc::clone(&swap);
            async move {
                network.may_write(who, "swap")?;
                network.swap(who, &swap, false).await
            }
        })
        .await
    }

    /// Swaps in a leader's decisions in one tick. Only leaders swap several records at once.
    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        let (swaps, who): (Arc<[Swap]>, _) = (swaps.into(), self.who);
        self.pass("swap all", move |network| {
            let swaps = Arc::clone(&swaps);
            async move {
                network.may_write(who, "swap all")?;
                let mut value = Vec::new();
                for swap in &*swaps {
                    value.push(network.swap(who, swap, true).await?.value);
                }
                Ok(readable(Answer { now: network.world.store_time(), value }))
            }
        })
        .await
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        let keys: Arc<[Arc<str>]> = keys.into();
        self.pass("call for reports", move |network| {
            network.push(&StoreEvent::ReportsWanted { keys: Arc::clone(&keys) });
            async { Ok(()) }
        })
        .await
    }

    fn changes(&self) -> Changes {
        self.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        let (query, who) = (Arc::new(query.clone()), self.who);
        self.pass("list", move |network| {
            let query = Arc::clone(&query);
            async move { network.checked_store.list(who, &query).await }
        })
        .await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        let (request, who) = (Arc::new(request.clone()), self.who);
        self.pass("ramp", move |network| {
            let request = Arc::clone(&request);
            async move {
                network.may_write(who, "ramp")?;
                network.checked_store.ramp(who, &request).await
            }
        })
        .await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        let (name, who): (Arc<str>, _) = (name.into(), self.who);
        self.pass("lead", move |network| {
            let name = Arc::clone(&name);
            async move {
                network.may_write(who, "lead")?;
                network.checked_store.lead(who, (&name, candidate), ttl).await
            }
        })
        .await
    }

    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        let who = self.who;
        self.pass("check write", move |network| async move {
            if network.checked_store.sabotage() != Sabotage::ChecksNothing {
                network.may_write(who, "check")?;
            }
            network.checked_store.check_write().await
        })
        .await
    }
}
