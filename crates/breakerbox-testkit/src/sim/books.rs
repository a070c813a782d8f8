//! What really happened, written down by the simulator itself and not by what is simulated: who was given which lease, which
//! probe ended how, what was counted, what was told. All invariants are judged by these books.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use breakerbox::{Command, Mode, Nonce, OutcomeKind, Timestamp};

use super::owed::Owed;
use super::sampling::SampledBook;
use super::scenario::Scenario;
use super::tally::Tally;
use super::watch::{Observed, Ramped, StoreSeen};

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Invariant {
    /// At most one live lease, and one probe under way by a lease, for each circuit while the store keeps its writes.
    OneLease,
    /// No result of a probe is applied but that of the lease which is in the record, by its holder, before it ends.
    NoStaleResult,
    /// Nothing that has to be reported is lost while nothing fails.
    NothingLost,
    /// Nothing is counted twice, whatever fails, and nothing in another epoch than its own.
    NothingDoubled,
    /// Nothing is swapped in after its deadline, and no deadline is later than it may be.
    NoLateSwap,
    /// A record is replaced by whoever saw it, with a version of its own and an epoch that grew.
    CompareAndSwap,
    /// Once nothing fails any more, all agree within the bound.
    AllAgree,
    /// Once an endpoint is well, its circuit closes within the bound.
    ClosesInTheEnd,
    /// What an operator said holds until an operator says otherwise, and all try_override it within the bound.
    OverridesHold,
    /// One worker that can't reach anybody opens no circuit that the others find well.
    OneBrokenOpensNothing,
    /// Whoever is refused a write says within the bound that the store is lost, and does not take it back meanwhile.
    StoreLossReported,
    /// Circuits of endpoints that are well close within the bound, although the store can't write.
    RecoversWithoutWrites,
    /// The circuit of an endpoint that is well closes within the bound, although one worker's own network is broken.
    RecoversBesideBroken,
    /// A worker whose own network is broken makes few calls that fail.
    BrokenIsProtected,
    /// Observers hear of every change of state, and of nothing else.
    ObserversHear,
    /// A worker's epoch of a circuit never goes back.
    EpochsGrow,
    /// All times in the store are the store's.
    StoreTimes,
    /// Nothing is published again that everybody else has left behind.
    NoStaleRecord,
    /// After a closing, as many calls are in flight over the whole fleet as the ramp allows.
    RampIsShared,
    /// Calls of workers that live for a few calls open a circuit as those of others do.
    ShortLivedCount,
    /// A leader writes within its term, and nothing after it.
    LeaderWritesInTerm,
    /// A sampled circuit whose destination died opens within the bound, however healthy its past was.
    SampledOpens,
    /// While a sampled circuit is half-open, no more than `probes` calls are made between two ticks.
    FewProbesPerTick,
    /// Once its endpoint is well and nothing fails, a sampled circuit closes within the bound.
    SampledCloses,
}

/// An invariant that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// When, in virtual time.
    pub at: Duration,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.6} s: {}", self.invariant, self.at.as_secs_f64(), self.what)
    }
}

/// One life of a worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) worker: usize,
    pub(super) life: u32,
}

impl fmt::Debug for Who {
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
pub(super) struct Books {
    pub(super) violations: Vec<Violation>,
    pub(super) keys: Vec<KeyBook>,
    pub(super) workers: Vec<WorkerBook>,
    /// When the store last lost writes.
    pub(super) last_loss: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) agree_within: Duration,
    pub(super) store_timeout: Duration,
    pub(super) one_is_broken: bool,
    /// How many calls are too few for the share of one worker to say nothing about an endpoint.
    pub(super) thin_evidence: u64,
    /// Whether calls are counted after a closing: only where nothing excuses a worker from the fleet's ramp.
    pub(super) watches_ramps: bool,
    /// Since when the store refuses to write.
    pub(super) no_writes_since: Option<Duration>,
    pub(super) observed: BTreeMap<(Who, usize), Observed>,
    /// What operators wanted, and where.
    pub(super) orders: HashSet<(usize, usize, Command)>,
    pub(super) sampled: SampledBook,
}

#[derive(Default)]
pub(super) struct WorkerBook {
    pub(super) life: u32,
    pub(super) alive: bool,
    /// When it last got no answer.
    pub(super) failed_at: Option<Duration>,
    /// When it last began, went on after a pause, or got no answer.
    pub(super) troubled_at: Duration,
    /// When it last began, or went on after a pause.
    pub(super) resumed_at: Duration,
    pub(super) store: StoreSeen,
}

#[derive(Default)]
pub(super) struct KeyBook {
    pub(super) versions: HashSet<u128>,
    pub(super) epochs: BTreeSet<u64>,
    /// What epoch the store had, since when.
    pub(super) history: Vec<(Duration, u64)>,
    pub(super) grants: Vec<Grant>,
    pub(super) probes: Vec<Probe>,
    /// What was added to the store's window in this epoch; none if nobody knows.
    pub(super) applied: Option<Counts>,
    pub(super) overridden: Option<(Duration, Mode)>,
    /// Whether the store ever let go of a record or lost one: then epochs of counts can't be told apart.
    pub(super) forgotten: bool,
    pub(super) counts: BTreeMap<Who, Counted>,
    /// The latest store time that this worker was told about this key.
    pub(super) told_at: BTreeMap<Who, Timestamp>,
    /// When it closed.
    pub(super) closings: Vec<Duration>,
    pub(super) ramped: Ramped,
    /// Calls of short-lived workers that failed since the store last had another epoch.
    pub(super) failed_while_closed: u64,
    /// When so many had failed that it must open.
    pub(super) enough_failed_at: Option<Duration>,
}

/// A lease that the store gave.
pub(super) struct Grant {
    pub(super) nonce: Nonce,
    pub(super) who: Who,
    pub(super) expires_at: Timestamp,
    /// Whether it ended before that: its result was applied, an operator stepped in, or the store lost it.
    pub(super) over: bool,
    /// Whether a caller has it.
    pub(super) taken: bool,
}

/// A probe that a caller made.
pub(super) struct Probe {
    pub(super) who: Who,
    /// None: by no lease of the store's.
    pub(super) nonce: Option<Nonce>,
    /// Whether it may be one that its worker made by itself, beside a lease that it never heard of.
    pub(super) may_be_alone: bool,
    pub(super) deadline: Duration,
    pub(super) settled: Option<(Duration, OutcomeKind)>,
    pub(super) applied: bool,
}

/// What one worker counted for one key, and what the store added of it, by epoch.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) counted: BTreeMap<u64, Counts>,
    pub(super) told: BTreeMap<u64, Counts>,
    /// What it has to report.
    pub(super) owed: BTreeMap<u64, Owed>,
}

impl Books {
    pub(super) fn violate(&mut self, invariant: Invariant, at: Duration, what: String) {
        self.violations.push(Violation { invariant, at, what });
    }

    /// Whether this worker may have been on its own lately.
    pub(super) fn is_excused(&self, who: Who, at: Duration) -> bool {
        let worker = &self.workers[who.worker];
        worker.life != who.life || worker.failed_at.is_some_and(|failed| at <= failed + self.agree_within)
    }

    pub(super) fn began(&mut self, who: Who, at: Duration) {
        self.workers[who.worker] =
            WorkerBook { life: who.life, alive: true, troubled_at: at, resumed_at: at, ..Default::default() };
    }

    pub(super) fn got_no_answer(&mut self, who: Who, at: Duration) {
        let worker = &mut self.workers[who.worker];
        if worker.life == who.life {
            worker.failed_at = Some(at);
            worker.troubled_at = at;
        }
        self.sampled.got_no_answer(who, at);
    }

    /// A worker goes on after a pause. What excused it then excuses it now.
    pub(super) fn resumed(&mut self, who: Who, paused_at: Duration, at: Duration) {
        if self.is_excused(who, paused_at) {
            self.workers[who.worker].failed_at = Some(at);
        }
        self.workers[who.worker].troubled_at = at;
        self.workers[who.worker].resumed_at = at;
    }

    /// Whether somebody had a lease of this circuit within the bound.
    pub(super) fn was_leased(&self, key: usize, now: Timestamp) -> bool {
        self.keys[key].grants.iter().any(|grant| now <= grant.expires_at + self.agree_within)
    }

    /// A caller was told that its outcome counts, in the epoch that it was in before.
    pub(super) fn counted(
        &mut self,
        (who, key, epoch): (Who, usize, u64),
        failed: bool,
        scenario: &Scenario,
        at: Duration,
    ) {
        let counts = self.keys[key].counts.entry(who).or_default();
        let counted = counts.counted.entry(epoch).or_default();
        counted.add(Counts { successes: u64::from(!failed), failures: u64::from(failed) });
        let owed = counts.owed.entry(epoch).or_default();
        owed.count(failed, &scenario.policy, scenario.settings.flush_every, at);
    }

    /// An outcome that was to be counted was not.
    pub(super) fn not_counted(&mut self, who: Who, key: usize, epoch: u64, failed: bool) {
        let counted = self.keys[key].counts.entry(who).or_default().counted.entry(epoch).or_default();
        let of = if failed { &mut counted.failures } else { &mut counted.successes };
        *of = of.saturating_sub(1);
    }

    /// A caller has a probe's permit. Returns its number.
    pub(super) fn began_probe(
        &mut self,
        who: Who,
        key: usize,
        at: Duration,
        now: Timestamp,
        left: Duration,
    ) -> usize {
        let excused = self.is_excused(who, at);
        let book = &mut self.keys[key];
        let is_its = |grant: &&mut Grant| grant.who == who && !grant.taken && now < grant.expires_at;
        let grant = book.grants.iter_mut().rev().find(is_its);
        let nonce = grant.map(|grant| {
            grant.taken = true;
            grant.nonce
        });
        if nonce.is_none() && !excused {
            let what = format!("{who:?} probes e{key} without a lease");
            self.violate(Invariant::OneLease, at, what);
        }
        self.tally.probes_alone += u64::from(nonce.is_none());
        let book = &mut self.keys[key];
        let holds = |nonce: Option<Nonce>| {
            book.grants
                .iter()
                .any(|grant| Some(grant.nonce) == nonce && !grant.over && now < grant.expires_at)
        };
        let other = book.probes.iter().find(|probe| {
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
        let book = &mut self.keys[key];
        book.probes.push(Probe {
            who,
            nonce,
            may_be_alone: excused,
            deadline: at + left,
            settled: None,
            applied: false,
        });
        book.probes.len() - 1
    }

    pub(super) fn settled_probe(&mut self, key: usize, probe: usize, at: Duration, kind: OutcomeKind) {
        self.keys[key].probes[probe].settled = Some((at, kind));
    }

    /// Somebody asked at `at` and was admitted, or not.
    pub(super) fn answered(&mut self, who: Who, key: usize, at: Duration, admitted: bool) {
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
