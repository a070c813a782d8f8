//! One run: its timeline, and the actions in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use breakerbox::OverrideCommand;
use breakerbox::store::MemorySnapshot;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{sleep, timeout_at};

use super::history::{Violation, WorkerLife};
use super::network::Network;
use super::sabotage::Sabotage;
use super::sampling::LeaderFault;
use super::scenario::{Cut, Event, Scenario, ShortLived};
use super::tally::Tally;
use super::worker::{Exit, Worker};
use super::world::World;

/// How long operators hold an override before they release it.
const LET_GO_AGAIN: Duration = Duration::from_secs(2);

/// The interval at which the run checks that all workers agree, once they must.
const LOOK: Duration = Duration::from_millis(200);

/// The interval at which observers and the workers' health are checked.
const WATCH: Duration = Duration::from_millis(250);

/// The result of one simulated run.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The seed that determines the run.
    pub seed: u64,
    /// The violated invariants. The run ends with the first violation.
    pub violations: Vec<Violation>,
    /// Statistics about the run.
    pub tally: Tally,
    /// The length of the run in virtual time.
    pub lasted: Duration,
    /// The trace of the run, line by line. Empty unless a trace was requested.
    pub trace: Vec<String>,
}

/// Runs one seed in virtual time. `traced` requests a trace.
///
/// # Panics
/// Panics if the runtime can't be started.
#[must_use]
pub fn run(seed: u64, sabotage: Sabotage, traced: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without IO needs nothing from the system");
    runtime.block_on(async {
        let mut scenario = Scenario::new(seed);
        if let Some(fault) = sabotage.fault() {
            scenario.policy = scenario.policy.with_fault(fault);
            if let Some(plan) = &mut scenario.sampled {
                plan.policy = plan.policy.clone().with_fault(fault);
            }
        }
        let world = World::new(scenario, traced);
        world.note(|| format!("{:#?}", world.scenario));
        let network = Network::new(&world, sabotage);
        Run::new(&world, network).go().await;
        let mut history = world.history();
        Report {
            seed,
            violations: std::mem::take(&mut history.violations),
            tally: history.tally,
            lasted: world.at(),
            trace: world.take_trace(),
        }
    })
}

/// An action that the run performs at a planned time.
enum Action {
    Pause(usize),
    Resume(usize),
    Kill(usize),
    Start(usize),
    Cut(usize, Option<Cut>),
    Stall(Duration),
    RefuseWrites(Duration),
    Flush,
    Copy(usize),
    Restore(usize),
    Order(usize, usize, OverrideCommand),
    /// Starts a fault in the worker that is the leader at this time. `Relieve` ends the fault.
    Strike(usize, LeaderFault),
    Relieve(usize, LeaderFault),
    Remember,
    Heal,
    LetGo,
    Look,
    Watch,
    MustHaveRecovered,
    CloseTheBooks,
    End,
}

pub(super) struct Run {
    pub(super) world: Arc<World>,
    pub(super) network: Arc<Network>,
    pub(super) workers: Vec<Option<Worker>>,
    lives: Vec<u32>,
    copies: Vec<Option<MemorySnapshot>>,
    /// For each leader fault, the worker that was the leader when the fault started.
    struck: Vec<Option<usize>>,
}

impl Run {
    fn new(world: &Arc<World>, network: Arc<Network>) -> Self {
        let count = world.scenario.workers.len();
        let workers = (0..count).map(|_| None).collect();
        let (copies, struck) = (Vec::new(), Vec::new());
        Self { world: Arc::clone(world), network, workers, lives: vec![0; count], copies, struck }
    }

    async fn go(&mut self) {
        for worker in 0..self.workers.len() {
            self.start(worker);
        }
        for (at, act) in self.timeline() {
            let broken = self.world.broken.notified();
            if timeout_at(self.world.instant(at), broken).await.is_ok() {
                return;
            }
            self.act(act).await;
        }
    }

    /// Returns all actions in the run, ordered by time.
    fn timeline(&mut self) -> Vec<(Duration, Action)> {
        let scenario = &self.world.scenario;
        let mut acts = vec![(Duration::from_secs(5), Action::Remember)];
        for &(at, event) in &scenario.events {
            match event {
                Event::Pause { worker, lasts } => {
                    acts.extend([(at, Action::Pause(worker)), (at + lasts, Action::Resume(worker))]);
                }
                Event::Crash { worker, back_after } => {
                    acts.extend([(at, Action::Kill(worker)), (at + back_after, Action::Start(worker))]);
                }
                Event::Cut { worker, how, lasts } => {
                    acts.extend([
                        (at, Action::Cut(worker, Some(how))),
                        (at + lasts, Action::Cut(worker, None)),
                    ]);
                }
                Event::CutAll { how, lasts } => {
                    for worker in 0..scenario.workers.len() {
                        acts.extend([
                            (at, Action::Cut(worker, Some(how))),
                            (at + lasts, Action::Cut(worker, None)),
                        ]);
                    }
                }
                Event::NoWrites { lasts } => {
                    acts.push((at, Action::RefuseWrites(at + lasts)));
                    acts.push((at + lasts, Action::RefuseWrites(Duration::ZERO)));
                }
                Event::Stall { lasts } => acts.push((at, Action::Stall(at + lasts))),
                Event::Flush => acts.push((at, Action::Flush)),
                Event::Failover { lost } => {
                    let copy = self.copies.len();
                    self.copies.push(None);
                    acts.extend([(at.saturating_sub(lost), Action::Copy(copy)), (at, Action::Restore(copy))]);
                }
                Event::Order { worker, endpoint, command } => {
                    acts.push((at, Action::Order(worker, endpoint, command)));
                }
                Event::OnLeader(fault) => {
                    let struck = self.struck.len();
                    self.struck.push(None);
                    acts.push((at, Action::Strike(struck, fault)));
                    acts.push((at + fault.lasts(), Action::Relieve(struck, fault)));
                }
            }
        }
        let (settings, called_every) = (scenario.settings, scenario.called_every());
        let healed_at = scenario.healed_at;
        acts.push((healed_at, Action::Heal));
        // Twice, because an operator's earlier command may be applied after the first release.
        acts.extend([(healed_at, Action::LetGo), (healed_at + LET_GO_AGAIN, Action::LetGo)]);
        // A call that hangs when the faults end must time out first.
        let agree_at = healed_at + Duration::from_secs(1) + settings.agree_within();
        let closed_within = match &scenario.sampled {
            Some(plan) => plan.closed_within(scenario),
            None => settings.closed_within(&scenario.policy, called_every),
        };
        let closed_at = healed_at + LET_GO_AGAIN + closed_within;
        let mut look_at = agree_at;
        while look_at < closed_at {
            acts.push((look_at, Action::Look));
            look_at += LOOK;
        }
        let mut watch_at = WATCH;
        while watch_at < closed_at {
            acts.push((watch_at, Action::Watch));
            watch_at += WATCH;
        }
        if let Some(at) = scenario.must_have_recovered_at() {
            acts.push((at, Action::MustHaveRecovered));
        }
        acts.push((closed_at, Action::CloseTheBooks));
        acts.push((closed_at + Duration::from_secs(1) + settings.counts_reported_within(), Action::End));
        acts.sort_by_key(|(at, _)| *at);
        acts
    }

    async fn act(&mut self, act: Action) {
        match act {
            Action::Pause(worker) => self.pause(worker),
            Action::Resume(worker) => self.resume(worker),
            Action::Kill(worker) => self.kill(worker),
            Action::Start(worker) => self.start(worker),
            Action::Cut(worker, how) => {
                self.world.note(|| format!("w{worker} cut: {how:?}"));
                self.network.cut(worker, how);
            }
            Action::Stall(until) => {
                self.world.note(|| format!("store  stalls until {until:?}"));
                self.network.stall(until);
            }
            Action::RefuseWrites(until) => {
                self.world.note(|| format!("store  refuses writes until {until:?}"));
                self.network.refuse_writes(until);
            }
            Action::Flush => self.network.checked_store.lose(MemorySnapshot::default()).await,
            Action::Copy(copy) => self.copies[copy] = Some(self.network.checked_store.snapshot()),
            Action::Restore(copy) => {
                let copy = self.copies[copy].take().unwrap_or_default();
                self.network.checked_store.lose(copy).await;
            }
            Action::Order(worker, endpoint, command) => {
                if let Some(worker) = &self.workers[worker] {
                    worker.order(endpoint, command, 1);
                }
            }
            Action::Strike(struck, fault) => {
                self.struck[struck] = self.world.history().sampled.leader(self.world.store_time());
                if let Some(worker) = self.struck[struck] {
                    self.inject(worker, fault);
                }
            }
            Action::Relieve(struck, fault) => {
                if let Some(worker) = self.struck[struck].take() {
                    self.heal_leader(worker, fault);
                }
            }
            Action::Remember => self.network.checked_store.remember().await,
            Action::Heal => self.heal(),
            Action::LetGo => self.let_go(),
            Action::Look => self.look(false).await,
            Action::Watch => self.watch(),
            Action::MustHaveRecovered => self.must_have_recovered(),
            Action::CloseTheBooks => {
                self.look(true).await;
                self.world.is_over.store(true, Ordering::Relaxed);
            }
            Action::End => self.audit(),
        }
    }

    pub(super) fn start(&mut self, worker: usize) {
        if let Some(life) = self.world.scenario.workers[worker].short_lived {
            if self.lives[worker] == 0 {
                self.lives[worker] = 1;
                tokio::spawn(live_again_and_again(Arc::clone(&self.network), worker, life));
            }
            return;
        }
        if self.workers[worker].is_none() {
            self.lives[worker] += 1;
            let who = WorkerLife { worker, life: self.lives[worker] };
            self.world.write(|history| history.sampled.disturbed(self.world.at()));
            self.workers[worker] = Some(Worker::start(&self.network, who));
        }
    }

    pub(super) fn kill(&mut self, worker: usize) {
        if let Some(worker) = self.workers[worker].take() {
            self.world.write(|history| history.sampled.disturbed(self.world.at()));
            self.world.note(|| format!("{:?} KILLED", worker.who));
            self.world.write(|history| history.workers[worker.who.worker].alive = false);
            worker.gate.kill();
        }
    }

    pub(super) fn pause(&mut self, worker: usize) {
        if let Some(worker) = self.workers[worker].as_mut().filter(|worker| !worker.gate.is_paused()) {
            self.world.write(|history| history.sampled.disturbed(self.world.at()));
            self.world.note(|| format!("{:?} PAUSED", worker.who));
            worker.paused_at = Some(self.world.at());
            worker.gate.pause();
        }
    }

    pub(super) fn resume(&mut self, worker: usize) {
        let Some(worker) = &mut self.workers[worker] else { return };
        if let Some(paused_at) = worker.paused_at.take() {
            self.world.note(|| format!("{:?} goes on", worker.who));
            self.world.write(|history| {
                history.resumed(worker.who, paused_at, self.world.at());
                history.sampled.disturbed(self.world.at());
            });
            worker.gate.resume();
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.world.note(|| "ALL IS WELL".to_owned());
        for worker in 0..self.workers.len() {
            self.network.cut(worker, None);
            self.resume(worker);
            self.start(worker);
        }
        self.network.stall(Duration::ZERO);
        self.network.refuse_writes(Duration::ZERO);
    }

    /// Makes the operators release all overrides.
    fn let_go(&self) {
        if let Some(worker) = &self.workers[0] {
            for key in 0..worker.circuits.len() {
                worker.order(key, OverrideCommand::Enable, 20);
            }
        }
    }
}

/// Runs a short-lived worker, and restarts it whenever it has exited.
async fn live_again_and_again(network: Arc<Network>, worker: usize, life: ShortLived) {
    let world = Arc::clone(&network.world);
    let mut chance = SmallRng::seed_from_u64(world.scenario.seed ^ (0x11FE + worker as u64));
    for number in 1.. {
        let exit = match network.checked_store.sabotage() {
            Sabotage::ExitsAtOnce => Exit::AtOnce,
            _ if chance.random() => Exit::Closes,
            _ => Exit::Drops,
        };
        Worker::start(&network, WorkerLife { worker, life: number }).live_and_exit(exit).await;
        sleep(life.pause.mul_f64(chance.random_range(0.5..1.5))).await;
        if world.is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}
