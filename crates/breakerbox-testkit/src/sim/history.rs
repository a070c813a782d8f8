//! The record of what really happened, written by the simulator itself and not by the simulated library: who was given
//! which lease, which probe ended how, what was counted, what was reported. All invariants are checked against it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use breakerbox::{Mode, Nonce, OutcomeKind, OverrideCommand, Policy, Timestamp};

use super::bounds::Settings;
use super::due_reports::DueReports;
use super::outcomes::Outcomes;
use super::sampling::SampledHistory;
use super::scenario::Scenario;
use super::tally::Tally;
use super::watch::{Observed, Ramped, StoreSeen};

/// An invariant of the simulated fleet. The documentation of the module `sim` has the exact conditions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Invariant {
    /// At most one live lease, and one probe in flight by a lease, for each circuit while the store keeps its writes.
    OneLease,
    /// A probe's result is applied only if its lease is in the record, it comes from the holder, and the lease is
    /// live.
    NoStaleResult,
    /// No outcome that has to be reported is lost while nothing fails.
    NothingLost,
    /// No outcome is counted twice, whatever fails, nor in another epoch than its own.
    NothingDoubled,
    /// No record is swapped in after its deadline, and no deadline is later than allowed.
    NoLateSwap,
    /// A worker replaces only a record that it read, with a new version and an epoch that grew.
    CompareAndSwap,
    /// Once nothing fails any more, all workers agree with the store within the bound.
    AllAgree,
    /// Once an endpoint is well, its circuit closes within the bound.
    ClosesInTheEnd,
    /// An override holds until an operator changes it, and all workers apply it within the bound.
    OverridesHold,
    /// One worker that reaches no endpoint opens no circuit that the others find well.
    OneBrokenOpensNothing,
    /// A worker whose write is refused reports within the bound that the store is lost, until writes succeed again.
    StoreLossReported,
    /// Circuits of endpoints that are well close within the bound, although the store can't write.
    RecoversWithoutWrites,
    /// The circuit of an endpoint that is well closes within the bound, although one worker's own network is broken.
    RecoversBesideBroken,
    /// A worker whose own network is broken makes few calls that fail.
    BrokenIsProtected,
    /// Observers receive every change of state, and nothing else.
    ObserversHear,
    /// The epoch of a worker's circuit never goes back.
    EpochsGrow,
    /// All times in the store are by the store's clock.
    StoreTimes,
    /// A worker publishes no record again that all others have left behind.
    NoStaleRecord,
    /// After a closing, at most as many calls are in flight over the whole fleet as the ramp allows.
    RampIsShared,
    /// Failures of workers that live for a few calls open a circuit as those of others do.
    ShortLivedCount,
    /// A leader writes only within its term.
    LeaderWritesInTerm,
    /// A sampled circuit whose destination died opens within the bound, however healthy its past was.
    SampledOpens,
    /// While a sampled circuit is half-open, no more than `probes` calls are made between two ticks.
    FewProbesPerTick,
    /// Once its endpoint is well and nothing fails, a sampled circuit closes within the bound.
    SampledCloses,
}

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The virtual time since the start of the run.
    pub at: Duration,
    /// A description of what was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.6} s: {}", self.invariant, self.at.as_secs_f64(), self.what)
    }
}

/// One life of a worker: from a start to the next restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkerLife {
    pub(super) worker: usize,
    pub(super) life: u32,
}

impl fmt::Debug for WorkerLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}.{}", self.worker, self.life)
    }
}

/// Successes and failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) successes: u64,
    pub(super) failures: u64,
}

impl Counts {
    pub(super) fn exceeds(self, other: Self) -> bool {
        self.successes > other.successes || self.failures > other.failures
    }

    pub(super) fn add(&mut self, more: Self) {
        self.successes += more.successes;
        self.failures += more.failures;
    }
}

#[derive(Default)]
pub(super) struct History {
    pub(super) violations: Vec<Violation>,
    pub(super) keys: Vec<KeyHistory>,
    pub(super) workers: Vec<WorkerHistory>,
    /// The longest pause of any worker so far.
    pub(super) longest_pause: Duration,
    /// When the store last lost writes.
    pub(super) last_loss: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) agree_within: Duration,
    pub(super) store_timeout: Duration,
    /// The fleet of one broken worker, whose failures alone must open no circuit. None: any trip is allowed.
    pub(super) one_is_broken: Option<FleetOfOneBroken>,
    /// From when on the endpoint is well for all workers but one. None: no worker's own network is broken.
    pub(super) well_beside_broken: Option<Duration>,
    /// Whether calls are counted after a closing: only where every worker has to follow the fleet's ramp.
    pub(super) watches_ramps: bool,
    /// Since when the store refuses writes. None: it accepts them.
    pub(super) no_writes_since: Option<Duration>,
    pub(super) observed: BTreeMap<(WorkerLife, usize), Observed>,
    /// The commands of operators, and where they apply.
    pub(super) orders: HashSet<(usize, usize, OverrideCommand)>,
    pub(super) sampled: SampledHistory,
}

/// By what the trips of a fleet are checked in which one worker reaches no endpoint, and all endpoints are well.
pub(super) struct FleetOfOneBroken {
    pub(super) policy: Policy,
    pub(super) settings: Settings,
}

#[derive(Default)]
pub(super) struct WorkerHistory {
    pub(super) life: u32,
    pub(super) alive: bool,
    /// When a request of it last got no answer.
    pub(super) failed_at: Option<Duration>,
    /// When it last started, resumed after a pause, or got no answer.
    pub(super) troubled_at: Duration,
    /// When it last started, or resumed after a pause.
    pub(super) resumed_at: Duration,
    /// The longest of its pauses.
    pub(super) paused_for: Duration,
    pub(super) store: StoreSeen,
}

#[derive(Default)]
pub(super) struct KeyHistory {
    pub(super) versions: HashSet<u128>,
    pub(super) epochs: BTreeSet<u64>,
    /// The store's epochs, and since when.
    pub(super) epoch_changes: Vec<(Duration, u64)>,
    pub(super) grants: Vec<Grant>,
    pub(super) probes: Vec<Probe>,
    /// The counts that were added to the store's window in this epoch; None if that is unknown.
    pub(super) applied: Option<Counts>,
    pub(super) overridden: Option<(Duration, Mode)>,
    /// Whether the store ever expired or lost a record: then epochs of counts can't be distinguished.
    pub(super) forgotten: bool,
    pub(super) counts: BTreeMap<WorkerLife, Counted>,
    /// The outcomes of all workers, where trips are checked by them.
    pub(super) outcomes: Outcomes,
    /// The latest store time that each worker received about this key.
    pub(super) read_at: BTreeMap<WorkerLife, Timestamp>,
    /// When the circuit closed.
    pub(super) closings: Vec<Duration>,
    /// The number of the broken worker's failed probes since the endpoint is well for all other workers.
    pub(super) failed_beside_broken: u32,
    pub(super) ramped: Ramped,
    /// Failed calls of short-lived workers since the store's epoch last changed.
    pub(super) failed_while_closed: u64,
    /// When enough calls had failed that the circuit must open.
    pub(super) enough_failed_at: Option<Duration>,
}

/// A lease that the store granted.
pub(super) struct Grant {
    pub(super) nonce: Nonce,
    pub(super) who: WorkerLife,
    pub(super) expires_at: Timestamp,
    /// When it ended before that time: its result was applied, an operator intervened, or the store lost it.
    pub(super) ended_at: Option<Timestamp>,
    /// Whether a caller has received it.
    pub(super) taken: bool,
}

impl Grant {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }

    /// Notes that it ends now, if it has not ended before.
    pub(super) fn end(&mut self, now: Timestamp) {
        self.ended_at.get_or_insert(now);
    }
}

/// A probe that a caller made.
pub(super) struct Probe {
    pub(super) who: WorkerLife,
    /// The lease of the probe. None: the worker probed without a lease of the store.
    pub(super) nonce: Option<Nonce>,
    /// Whether its worker may have made it alone, beside a lease that the worker did not know of.
    pub(super) may_be_alone: bool,
    pub(super) deadline: Duration,
    pub(super) settled: Option<(Duration, OutcomeKind)>,
    pub(super) applied: bool,
}

/// The outcomes that one worker counted for one key, and those that the store added, by epoch.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) counted: BTreeMap<u64, Counts>,
    pub(super) reported: BTreeMap<u64, Counts>,
    /// The failures that it has to report, by epoch.
    pub(super) due_reports: BTreeMap<u64, DueReports>,
}

impl History {
    pub(super) fn violate(&mut self, invariant: Invariant, at: Duration, what: String) {
        self.violations.push(Violation { invariant, at, what });
    }

    /// Returns whether this worker may have decided alone lately.
    pub(super) fn is_excused(&self, who: WorkerLife, at: Duration) -> bool {
        let worker = &self.workers[who.worker];
        worker.life != who.life || worker.failed_at.is_some_and(|failed| at <= failed + self.agree_within)
    }

    pub(super) fn began(&mut self, who: WorkerLife, at: Duration) {
        self.workers[who.worker] = WorkerHistory {
            life: who.life,
            alive: true,
            troubled_at: at,
            resumed_at: at,
            ..Default::default()
        };
    }

    pub(super) fn got_no_answer(&mut self, who: WorkerLife, at: Duration) {
        let worker = &mut self.workers[who.worker];
        if worker.life == who.life {
            worker.failed_at = Some(at);
            worker.troubled_at = at;
        }
        self.sampled.got_no_answer(who, at);
    }

    /// A worker resumes after a pause. An excuse that held at the pause holds now.
    pub(super) fn resumed(&mut self, who: WorkerLife, paused_at: Duration, at: Duration) {
        if self.is_excused(who, paused_at) {
            self.workers[who.worker].failed_at = Some(at);
        }
        let worker = &mut self.workers[who.worker];
        worker.troubled_at = at;
        worker.resumed_at = at;
        worker.paused_for = worker.paused_for.max(at - paused_at);
        self.longest_pause = self.longest_pause.max(at - paused_at);
    }

    /// Returns whether a lease of this circuit was live within the bound.
    pub(super) fn was_leased(&self, key: usize, now: Timestamp) -> bool {
        let ended_at = |grant: &Grant| grant.ended_at.map_or(grant.expires_at, |at| at.min(grant.expires_at));
        self.keys[key].grants.iter().any(|grant| now <= ended_at(grant) + self.agree_within)
    }

    /// A caller's outcome was counted, in the epoch before the settlement.
    pub(super) fn counted(
        &mut self,
        (who, key, epoch): (WorkerLife, usize, u64),
        failed: bool,
        scenario: &Scenario,
        at: Duration,
    ) {
        if self.one_is_broken.is_some() {
            self.keys[key].outcomes.count(at, epoch, failed);
        }
        let counts = self.keys[key].counts.entry(who).or_default();
        let counted = counts.counted.entry(epoch).or_default();
        counted.add(Counts { successes: u64::from(!failed), failures: u64::from(failed) });
        let due_reports = counts.due_reports.entry(epoch).or_default();
        due_reports.count(failed, scenario, at);
    }

    /// Takes back an outcome that was noted as counted and was not.
    pub(super) fn not_counted(&mut self, who: WorkerLife, key: usize, epoch: u64, failed: bool) {
        let counted = self.keys[key].counts.entry(who).or_default().counted.entry(epoch).or_default();
        let of = if failed { &mut counted.failures } else { &mut counted.successes };
        *of = of.saturating_sub(1);
    }

    /// A caller received a probe's permit. Returns the probe's number.
    pub(super) fn began_probe(
        &mut self,
        who: WorkerLife,
        key: usize,
        at: Duration,
        now: Timestamp,
        left: Duration,
    ) -> usize {
        let excused = self.is_excused(who, at);
        let key_history = &mut self.keys[key];
        let is_its = |grant: &&mut Grant| grant.who == who && !grant.taken && now < grant.expires_at;
        let grant = key_history.grants.iter_mut().rev().find(is_its);
        let nonce = grant.map(|grant| {
            grant.taken = true;
            grant.nonce
        });
        if nonce.is_none() && !excused {
            let what = format!("{who:?} probes e{key} without a lease");
            self.violate(Invariant::OneLease, at, what);
        }
        self.tally.probes_alone += u64::from(nonce.is_none());
        let key_history = &mut self.keys[key];
        let holds = |nonce: Option<Nonce>| {
            key_history.grants.iter().any(|grant| Some(grant.nonce) == nonce && grant.is_live(now))
        };
        let other = key_history.probes.iter().find(|probe| {
            probe.settled.is_none()
                && at < probe.deadline
                && self.workers[probe.who.worker].life == probe.who.life
                && self.workers[probe.who.worker].alive
                && holds(probe.nonce)
        });
        if let Some(other) = other.filter(|_| holds(nonce)) {
            let what = format!("{who:?} probes e{key} beside {:?}", other.who);
            self.violate(Invariant::OneLease, at, what);
        }
        let key_history = &mut self.keys[key];
        key_history.probes.push(Probe {
            who,
            nonce,
            may_be_alone: excused,
            deadline: at + left,
            settled: None,
            applied: false,
        });
        key_history.probes.len() - 1
    }

    pub(super) fn settled_probe(&mut self, key: usize, probe: usize, at: Duration, kind: OutcomeKind) {
        self.keys[key].probes[probe].settled = Some((at, kind));
    }

    /// A caller acquired at `at` and was admitted, or not.
    pub(super) fn answered(&mut self, who: WorkerLife, key: usize, at: Duration, admitted: bool) {
        self.tally.calls += u64::from(admitted);
        self.tally.refusals += u64::from(!admitted);
        let Some((since, mode)) = &self.keys[key].overridden else { return };
        let quiet_since =
            self.workers[who.worker].troubled_at.max(*since).max(self.last_loss.unwrap_or_default());
        let must_admit = matches!(mode, Mode::ForcedClosed(_));
        if at > quiet_since + self.agree_within && admitted != must_admit {
            let what =
                format!("{who:?}, e{key}: admitted is {admitted}, and the circuit {mode:?} since {since:?}");
            self.violate(Invariant::OverridesHold, at, what);
        }
    }
}
