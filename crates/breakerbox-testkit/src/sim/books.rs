//! What really happened, written down by the simulator itself and not by what is simulated: who was given which lease, which
//! probe ended how, what was counted, what was told. All invariants are judged by these books.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use breakerbox::{Command, Mode, Nonce, OutcomeKind, Timestamp};

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Invariant {
    /// At most one live lease, and one probe under way by a lease, for each circuit while the store keeps its writes.
    OneLease,
    /// No result of a probe is applied but that of the lease which is in the record, by its holder, before it ends.
    NoStaleResult,
    /// Nothing that was counted is lost while nothing fails.
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
    /// What an operator said holds until an operator says otherwise, and all obey it within the bound.
    OverridesHold,
    /// One worker that can't reach anybody opens no circuit that the others find well.
    OneBrokenOpensNothing,
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

/// What happened in a run, for those who want to know that it was worth something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Calls that were admitted.
    pub calls: u64,
    /// Calls that were refused.
    pub refusals: u64,
    /// Requests that the store answered.
    pub requests: u64,
    /// Records that were swapped in.
    pub swaps: u64,
    /// Swaps that somebody else was faster than, or that came too late.
    pub lost_swaps: u64,
    /// Circuits that tripped.
    pub trips: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Probes whose result was applied.
    pub results: u64,
    /// Probes that a worker made by itself while the store was away.
    pub probes_alone: u64,
    /// Circuits that closed.
    pub closings: u64,
    /// Records that were written again after the store had lost them, or that were decided alone.
    pub publications: u64,
    /// Results that were too late.
    pub late: u64,
    /// Orders of operators that were done.
    pub orders: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.refusals += more.refusals;
        self.requests += more.requests;
        self.swaps += more.swaps;
        self.lost_swaps += more.lost_swaps;
        self.trips += more.trips;
        self.leases += more.leases;
        self.results += more.results;
        self.probes_alone += more.probes_alone;
        self.closings += more.closings;
        self.publications += more.publications;
        self.late += more.late;
        self.orders += more.orders;
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
    /// What operators wanted, and where.
    pub(super) orders: HashSet<(usize, usize, Command)>,
}

#[derive(Default)]
pub(super) struct WorkerBook {
    pub(super) life: u32,
    pub(super) alive: bool,
    /// When it last got no answer.
    pub(super) failed_at: Option<Duration>,
    /// When it last began, went on after a pause, or got no answer.
    pub(super) troubled_at: Duration,
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
    /// The epoch that it is in; none: somebody has to look.
    pub(super) epoch: Option<u64>,
    pub(super) counted: BTreeMap<u64, Counts>,
    pub(super) told: BTreeMap<u64, Counts>,
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
            WorkerBook { life: who.life, alive: true, failed_at: None, troubled_at: at };
    }

    pub(super) fn got_no_answer(&mut self, who: Who, at: Duration) {
        let worker = &mut self.workers[who.worker];
        if worker.life == who.life {
            worker.failed_at = Some(at);
            worker.troubled_at = at;
        }
    }

    /// A worker goes on after a pause. What excused it then excuses it now.
    pub(super) fn resumed(&mut self, who: Who, paused_at: Duration, at: Duration) {
        if self.is_excused(who, paused_at) {
            self.workers[who.worker].failed_at = Some(at);
        }
        self.workers[who.worker].troubled_at = at;
    }

    /// A worker heard of a change. What epoch it is in now its own record tells: changes may be heard in another order than
    /// they happened in.
    pub(super) fn heard(&mut self, who: Who, key: usize) {
        self.keys[key].counts.entry(who).or_default().epoch = None;
    }

    /// The epoch that a worker is in; `look` is asked if something changed since it was last known.
    pub(super) fn epoch_of(&mut self, who: Who, key: usize, look: impl FnOnce() -> u64) -> u64 {
        *self.keys[key].counts.entry(who).or_default().epoch.get_or_insert_with(look)
    }

    /// A caller was told that its outcome counts, in the epoch that it was in before.
    pub(super) fn counted(&mut self, who: Who, key: usize, epoch: u64, failed: bool) {
        let counted = self.keys[key].counts.entry(who).or_default().counted.entry(epoch).or_default();
        counted.add(Counts { successes: u64::from(!failed), failures: u64::from(failed) });
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
