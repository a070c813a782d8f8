//! The record of what actually happened, written by the simulator and not by the simulated library: who was
//! granted which lease, how each probe ended, what was counted, what was reported. All invariants are checked
//! against it.

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

/// An invariant of the simulated fleet. The documentation of the module `sim` states the exact conditions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Invariant {
    /// As long as the store keeps its writes, each circuit has at most one live lease, and at most one probe in
    /// flight with a lease.
    OneLease,
    /// A probe's result is applied only if its lease is in the record, the result comes from the lease's
    /// holder, and the lease is live.
    NoStaleResult,
    /// No outcome that must be reported is lost while there are no faults.
    NothingLost,
    /// No outcome is counted twice or in another epoch, whatever faults occur.
    NothingDoubled,
    /// No record is swapped in after its deadline, and no deadline is later than allowed.
    NoLateSwap,
    /// A worker replaces only a record that it has read, with a new version and a higher epoch.
    CompareAndSwap,
    /// Once all faults have ended, all workers agree with the store within a time limit.
    AllAgree,
    /// Once an endpoint is healthy, its circuit closes within a time limit.
    ClosesInTheEnd,
    /// An override applies until an operator changes it, and all workers apply it within a time limit.
    OverridesHold,
    /// One worker that can't reach any endpoint does not open circuits of endpoints that other workers reach.
    OneBrokenOpensNothing,
    /// A worker whose write was rejected reports within a time limit that the store is lost, until writes
    /// succeed again.
    StoreLossReported,
    /// Circuits of healthy endpoints close within a time limit, even if the store rejects writes.
    RecoversWithoutWrites,
    /// The circuit of a healthy endpoint closes within a time limit, even if one worker's own network is
    /// broken.
    RecoversBesideBroken,
    /// A worker whose own network is broken makes only a few failing calls.
    BrokenIsProtected,
    /// Observers receive every state change, and nothing else.
    ObserversHear,
    /// The epoch of a worker's circuit never decreases.
    EpochsGrow,
    /// All times in the store are from the store's clock.
    StoreTimes,
    /// A worker does not write back to the store an old record that all other workers have replaced.
    NoStaleRecord,
    /// After a circuit closes, the whole fleet has no more calls in flight than the ramp allows.
    RampIsShared,
    /// Failures in workers that live for only a few calls open a circuit just as failures in other workers do.
    ShortLivedCount,
    /// A leader writes only during its term.
    LeaderWritesInTerm,
    /// A sampled circuit whose destination died opens within a time limit, however healthy its past was.
    SampledOpens,
    /// While a sampled circuit is half-open, at most `probes` calls (the policy's setting) are made between two
    /// ticks.
    FewProbesPerTick,
    /// A sampled circuit closes within a time limit once its endpoint is healthy and all faults have ended.
    SampledCloses,
}

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The invariant that was violated.
    pub invariant: Invariant,
    /// When the violation occurred, in virtual time since the start of the run.
    pub at: Duration,
    /// A description of the violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.6} s: {}", self.invariant, self.at.as_secs_f64(), self.what)
    }
}

/// One life of a worker, from one start to the next.
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

/// The numbers of successes and failures.
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
    /// The length of the longest pause of any worker so far.
    pub(super) longest_pause: Duration,
    /// When the store last lost writes, or `None` if it never did.
    pub(super) last_loss: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) agree_within: Duration,
    pub(super) store_timeout: Duration,
    /// The settings for checking that one broken worker's failures alone do not open a circuit. `None` if any
    /// trip is allowed.
    pub(super) one_is_broken: Option<FleetOfOneBroken>,
    /// The time since which the endpoint is healthy for all workers but one. `None` if no worker's own network
    /// is broken.
    pub(super) well_beside_broken: Option<Duration>,
    /// Whether the calls after a circuit closes are checked against the ramp's limit. Only possible if all
    /// workers must follow the fleet's ramp.
    pub(super) watches_ramps: bool,
    /// The time since which the store rejects writes, or `None` if the store accepts writes.
    pub(super) no_writes_since: Option<Duration>,
    pub(super) observed: BTreeMap<(WorkerLife, usize), Observed>,
    /// The operators' commands, each with the worker and the circuit that the command applies to.
    pub(super) orders: HashSet<(usize, usize, OverrideCommand)>,
    pub(super) sampled: SampledHistory,
}

/// The parameters for checking trips in a fleet in which all endpoints are healthy but one worker can't reach
/// them.
pub(super) struct FleetOfOneBroken {
    pub(super) policy: Policy,
    pub(super) settings: Settings,
}

#[derive(Default)]
pub(super) struct WorkerHistory {
    pub(super) life: u32,
    pub(super) alive: bool,
    /// When a request by this worker last got no response.
    pub(super) failed_at: Option<Duration>,
    /// When this worker last started, resumed after a pause, or got no response.
    pub(super) troubled_at: Duration,
    /// When this worker last started, or resumed after a pause.
    pub(super) resumed_at: Duration,
    /// The length of this worker's longest pause.
    pub(super) paused_for: Duration,
    pub(super) store: StoreSeen,
}

#[derive(Default)]
pub(super) struct KeyHistory {
    pub(super) versions: HashSet<u128>,
    pub(super) epochs: BTreeSet<u64>,
    /// The store's epochs, each with its start time.
    pub(super) epoch_changes: Vec<(Duration, u64)>,
    pub(super) grants: Vec<Grant>,
    pub(super) probes: Vec<Probe>,
    /// The counts added to the store's window in the current epoch. `None` if unknown.
    pub(super) applied: Option<Counts>,
    pub(super) overridden: Option<(Duration, Mode)>,
    /// Whether the store ever expired or lost a record. From that moment, counts can't be assigned to epochs
    /// with certainty.
    pub(super) forgotten: bool,
    pub(super) counts: BTreeMap<WorkerLife, Counted>,
    /// All workers' outcomes for this key. Only recorded if trips are checked against them.
    pub(super) outcomes: Outcomes,
    /// The latest store time that each worker received for this key.
    pub(super) read_at: BTreeMap<WorkerLife, Timestamp>,
    /// The times at which the circuit closed.
    pub(super) closings: Vec<Duration>,
    /// The number of the broken worker's failed probes since the endpoint became healthy for all other workers.
    pub(super) failed_beside_broken: u32,
    pub(super) ramped: Ramped,
    /// The number of failed calls by short-lived workers since the epoch in the store last changed.
    pub(super) failed_while_closed: u64,
    /// When enough calls had failed that the circuit must open. `None` if too few calls have failed.
    pub(super) enough_failed_at: Option<Duration>,
}

/// A lease that the store granted.
pub(super) struct Grant {
    pub(super) nonce: Nonce,
    pub(super) who: WorkerLife,
    pub(super) expires_at: Timestamp,
    /// When the lease ended early, because its result was applied, an operator intervened, or the store lost
    /// the lease.
    pub(super) ended_at: Option<Timestamp>,
    /// Whether a caller has received the lease.
    pub(super) taken: bool,
}

impl Grant {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }

    /// Ends the lease now, if it has not ended before.
    pub(super) fn end(&mut self, now: Timestamp) {
        self.ended_at.get_or_insert(now);
    }
}

/// A probe that a caller made.
pub(super) struct Probe {
    pub(super) who: WorkerLife,
    /// The nonce of the probe's lease, or `None` if the worker probed without a lease from the store.
    pub(super) nonce: Option<Nonce>,
    /// Whether the worker may have been disconnected when it probed, so that another worker may hold a lease.
    pub(super) may_be_alone: bool,
    pub(super) deadline: Duration,
    pub(super) settled: Option<(Duration, OutcomeKind)>,
    pub(super) applied: bool,
}

/// The outcomes that one worker counted for one key, and the outcomes that the store added, by epoch.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) counted: BTreeMap<u64, Counts>,
    pub(super) reported: BTreeMap<u64, Counts>,
    /// The failures that the worker must report, by epoch.
    pub(super) due_reports: BTreeMap<u64, DueReports>,
}

impl History {
    pub(super) fn violate(&mut self, invariant: Invariant, at: Duration, what: String) {
        self.violations.push(Violation { invariant, at, what });
    }

    /// Returns whether this worker is excused from some checks, because it may have made decisions while
    /// disconnected. That is the case for `agree_within` after a request without a response, and for former
    /// lives of a worker.
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

    /// Records that a worker resumed after a pause. If the worker was [excused](Self::is_excused) when the
    /// pause started, it is excused for another `agree_within`.
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

    /// Returns whether a lease for this circuit is live, or ended within the last `agree_within`.
    pub(super) fn was_leased(&self, key: usize, now: Timestamp) -> bool {
        let ended_at = |grant: &Grant| grant.ended_at.map_or(grant.expires_at, |at| at.min(grant.expires_at));
        self.keys[key].grants.iter().any(|grant| now <= ended_at(grant) + self.agree_within)
    }

    /// Records that a caller's outcome was counted. `epoch` is the circuit's epoch before the settlement.
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

    /// Takes back an outcome that was recorded as counted, because the store did not count it.
    pub(super) fn not_counted(&mut self, who: WorkerLife, key: usize, epoch: u64, failed: bool) {
        let counted = self.keys[key].counts.entry(who).or_default().counted.entry(epoch).or_default();
        let of = if failed { &mut counted.failures } else { &mut counted.successes };
        *of = of.saturating_sub(1);
    }

    /// Records that a caller received a probe's permit. Returns the probe's number.
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

    /// Records whether a caller that acquired at `at` was admitted.
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
