//! One circuit in this process, which all its threads share.
//!
//! The core decides, under a lock. Most calls never reach it: while the circuit [allows the fast
//! path](breakerbox_core::Circuit::allows_fast_path), acquiring a permit is one load, and settling a success is one
//! compare-and-swap of a tally. The tally is added to the core when its window bucket ends, or before any other step.
//!
//! | field | contents |
//! | --- | --- |
//! | `gate` | the epoch, and what may be done without the lock |
//! | `until` | while closed: the time until which successes may be tallied; while open: the time at which to acquire again |
//! | `tally` | tallied successes, their latencies, and a mark for the epoch to which they belong |
//! | `cold` | the circuit itself, and its policy |
//!
//! Guaranteed: a success is counted in its permit's epoch or not at all, because the tally's mark changes with the
//! epoch, and a swap with an old mark fails. Callers wait only for the lock, and no user code runs under it.
//!
//! The fast path is inlined wherever it is used. Otherwise a permit would go through memory, and a call would cost 16
//! ns instead of 6 (`cargo xtask bench circuit`).

#[cfg(all(test, breakerbox_loom))]
mod interleavings;
mod packed;
mod spread;
mod tickets;

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use breakerbox_core::fleet::{Delta, Member, MemberAnswer, MemberSettled, Pending, ReportDue};
use breakerbox_core::{
    self as core, Attribution, Change, CircuitStatus, Decision, Epoch, Outcome, OverrideCommand, Policy,
    Refusal, Timestamp, Totals,
};

use self::packed::{FastPath, Gate, Tally};
use self::spread::Spread;
use crate::clock::{Clock, Times};
use crate::registry::RegistryEntry;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::telemetry::CountedAs;

/// The number of failed attempts at one update of the shared tally after which more tallies are added, because threads
/// contend for it.
const CONTENDED: u32 = 3;

/// One circuit in this process. The fields that every call uses are adjacent, at the start. With a million circuits,
/// most cells are not in the processor's cache, so each cache line that a call uses costs a memory access.
#[repr(C)]
pub(crate) struct Cell {
    tally: AtomicU64,
    gate: AtomicU64,
    until: AtomicU64,
    /// The latency, in microseconds, from which a success is not harmless, so that the core must count it under the
    /// lock.
    harmless: AtomicU64,
    key: Box<str>,
    /// Additional tallies, set once threads contend for the shared tally.
    spread: OnceLock<Box<Spread>>,
    cold: Mutex<Cold>,
}

/// The fields of a `Cell` that its lock protects.
struct Cold {
    /// The circuit's state; `None` until the first step, and again once the memory of an idle circuit has been
    /// released. The state contains no tenant, because the tenant is derived from the key.
    circuit: Option<Box<Member>>,
    policy: Arc<Policy>,
    born_at: Timestamp,
    counted_as: CountedAs,
}

impl Cold {
    /// Returns the circuit's state and policy, creating the state if the circuit has no history.
    fn member(&mut self, times: &Times) -> (&mut Member, &Policy) {
        let Self { circuit, policy, born_at, .. } = self;
        let make = || {
            Box::new(match times.shared {
                Some(consistency) if times.is_exclusive => {
                    Member::of_fleet(policy, consistency, *born_at).exclusive()
                }
                Some(consistency) => Member::of_fleet(policy, consistency, *born_at),
                None => Member::alone(policy, *born_at),
            })
        };
        (circuit.get_or_insert_with(make), policy)
    }
}

/// The arguments for one step of a circuit.
#[derive(Clone, Copy)]
pub(crate) struct StepInput<'p> {
    pub(crate) policy: &'p Policy,
    /// The time by the local clock.
    pub(crate) local_time: Timestamp,
    /// The time by the clock that records use, which is the store's clock if there is a store.
    pub(crate) store_time: Timestamp,
}

/// The part of a permit that refers to the circuit's state. The type is kept small, because every call has one.
#[derive(Debug)]
pub(crate) enum Held {
    /// The permit was given without the lock.
    Fast { gate: u64, started_at: Timestamp },
    /// The core gave the permit, for a probe, a call in the ramp, or a call whose outcome may trip the circuit.
    Decided(Box<core::Permit>),
}

impl Held {
    pub(crate) fn started_at(&self) -> Timestamp {
        match self {
            Self::Fast { started_at, .. } => *started_at,
            Self::Decided(permit) => permit.started_at(),
        }
    }

    /// Returns a probe's deadline; `None` for other calls.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Fast { .. } => None,
            Self::Decided(permit) => permit.deadline(),
        }
    }

    /// Returns the call's slot in the fleet's ramp, and the slot's epoch; `None` if the call has no slot.
    pub(crate) fn slot(&self) -> Option<(Epoch, core::Nonce)> {
        match self {
            Self::Fast { .. } => None,
            Self::Decided(permit) => permit.slot(),
        }
    }

    fn into_permit(self) -> core::Permit {
        match self {
            Self::Fast { gate, started_at } => core::Permit::fast_path(Gate(gate).epoch(), started_at),
            Self::Decided(permit) => *permit,
        }
    }
}

impl Cell {
    pub(crate) fn new(key: &str, policy: Arc<Policy>, times: &Times) -> Self {
        let now = times.now();
        let cell = Self {
            gate: AtomicU64::new(0),
            until: AtomicU64::new(0),
            tally: AtomicU64::new(0),
            harmless: AtomicU64::new(0),
            spread: OnceLock::new(),
            cold: Mutex::new(Cold {
                circuit: None,
                policy,
                born_at: times.to_store_time(now),
                counted_as: CountedAs::default(),
            }),
            key: key.into(),
        };
        cell.publish(&mut cell.lock(), now, times);
        cell
    }

    /// Admits or refuses a call without the lock. Returns `None` if the core must decide.
    #[inline(always)]
    pub(crate) fn acquire_fast(&self, times: &Times) -> Option<Result<Held, Refusal>> {
        let gate = Gate(self.gate.load(Ordering::Acquire));
        match gate.fast_path() {
            FastPath::Admit => {
                let started_at = if gate.is_timed() { times.now() } else { times.recent() };
                Some(Ok(Held::Fast { gate: gate.0, started_at }))
            }
            FastPath::Refuse => {
                let until = Timestamp::from_micros(self.until.load(Ordering::Acquire));
                let now = times.recent();
                // Check the gate again, because the time may already belong to a later state.
                let refused = now < until && self.gate.load(Ordering::Relaxed) == gate.0;
                let refusal =
                    || Refusal::Open { retry_at: times.to_store_time(until), retry_in: until.since(now) };
                refused.then(|| Err(refusal()))
            }
            FastPath::Locked => None,
        }
    }

    /// Acquires a permit from the core. If the caller cannot wait for the store, a circuit whose record is unknown is
    /// treated as closed.
    #[cold]
    pub(crate) fn try_acquire(&self, times: &Times, can_wait: bool) -> MemberAnswer {
        let (answer, local_time) = self.step(times, |member, at| {
            let answer = if can_wait {
                member.try_acquire(at.policy, times.draw(), at.store_time)
            } else {
                member.acquire_at_once(at.policy, times.draw(), at.store_time)
            };
            (answer, at.local_time)
        });
        match answer {
            MemberAnswer::Decided(core::AcquireResult { decision: Decision::Admitted(permit), change }) => {
                let decision = Decision::Admitted(permit.by_own_clock(local_time));
                MemberAnswer::Decided(core::AcquireResult { decision, change })
            }
            answer => answer,
        }
    }

    /// Counts a success without the lock. Returns false if the core must count the success.
    #[inline(always)]
    pub(crate) fn count_fast(&self, held: &Held, times: &Times) -> bool {
        let Held::Fast { gate, started_at } = *held else { return false };
        let (now, micros) = if Gate(gate).is_timed() {
            let now = times.now();
            (now, now.as_micros().saturating_sub(started_at.as_micros()))
        } else {
            (times.recent(), 0)
        };
        let mut tries = 0;
        let tally = self.tally();
        while self.gate.load(Ordering::Acquire) == gate
            && now.as_micros() < self.until.load(Ordering::Relaxed)
            && micros < self.harmless.load(Ordering::Relaxed)
        {
            let seen = tally.load(Ordering::Relaxed);
            let Some(Tally(next)) = Tally(seen).with(Gate(gate).epoch(), micros) else { return false };
            if tally.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                if tries >= CONTENDED {
                    self.spread_out(Gate(gate).epoch());
                }
                return true;
            }
            tries += 1;
        }
        false
    }

    /// Settles a permit in the core.
    #[cold]
    pub(crate) fn settle(
        &self,
        held: Held,
        times: &Times,
        outcome: impl FnOnce(Duration) -> Outcome,
    ) -> MemberSettled {
        self.step(times, |member, at| {
            let outcome = outcome(at.local_time.since(held.started_at()));
            times.telemetry.settled(outcome.kind);
            member.settle(held.into_permit(), &outcome, at.policy, times.draw(), at.store_time)
        })
    }

    /// Settles a permit that was dropped without an outcome.
    #[cold]
    pub(crate) fn settle_dropped(&self, held: Held, times: &Times) -> MemberSettled {
        self.step(times, |member, at| {
            let permit = held.into_permit();
            let outcome = permit.outcome_of_drop(at.policy, at.local_time);
            times.telemetry.settled(outcome.kind);
            member.settle(permit, &outcome, at.policy, times.draw(), at.store_time)
        })
    }

    /// Applies an operator's command to a circuit that is not shared.
    pub(crate) fn try_override(
        &self,
        command: OverrideCommand,
        by: &Attribution,
        times: &Times,
    ) -> Option<Change> {
        self.step(times, |member, at| {
            member.apply_override_alone(command, by, at.policy, times.draw(), at.store_time)
        })
    }

    /// Removes the circuit from the gauge of circuits, because its registry is dropped.
    #[cfg(feature = "metrics")]
    pub(crate) fn uncount(&self, times: &Times) {
        let mut cold = self.lock();
        let local_time = times.now();
        self.add_tallies(&mut cold, local_time, times);
        times.telemetry.uncount(&mut cold.counted_as);
    }

    /// In a fleet, returns whether the circuit's record has been read from the store.
    pub(crate) fn is_known(&self) -> bool {
        self.lock().circuit.as_ref().is_some_and(|member| member.is_known())
    }

    /// Returns whether a circuit whose record has not been read yet has counts to report.
    pub(crate) fn is_unread(&self, times: &Times) -> bool {
        let now = times.to_store_time(times.now());
        let cold = self.lock();
        let is_due = |member: &Member| member.report_due(&cold.policy, now) != ReportDue::Nothing;
        cold.circuit.as_deref().is_some_and(|member| !member.is_known() && is_due(member))
    }

    pub(crate) fn status(&self) -> CircuitStatus {
        self.lock().circuit.as_ref().map_or(CircuitStatus::Closed, |member| member.circuit().status())
    }

    /// Returns whether the circuit is open in this process only.
    pub(crate) fn is_open_locally(&self) -> bool {
        self.lock().circuit.as_ref().is_some_and(|member| member.is_open_locally())
    }

    /// Returns whether the circuit is closed and has no override, in this process's state and, as far as this process
    /// knows, in the store's record.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().circuit.as_ref().is_none_or(|member| member.tells_by_itself())
    }

    pub(crate) fn record(&self, times: &Times) -> core::Record {
        let tenant = Some(Arc::from(tenant_of(&self.key)));
        self.step(times, |member, _| member.circuit().record()).with_tenant(tenant)
    }

    pub(crate) fn totals(&self, times: &Times) -> Totals {
        self.step(times, |member, at| member.circuit().totals(at.store_time))
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.lock().policy)
    }

    /// Changes the circuit's policy. State and counts are kept.
    pub(crate) fn set_policy(&self, policy: Arc<Policy>, times: &Times) {
        let mut cold = self.lock();
        let local_time = times.now();
        self.add_tallies(&mut cold, local_time, times);
        cold.policy = policy;
        self.publish(&mut cold, local_time, times);
    }

    /// Returns the counts to report to the store now; `None` if no report is due. Also returns the next report that is
    /// due.
    pub(crate) fn visit(&self, store_key: &Arc<str>, times: &Times) -> (Option<Delta>, ReportDue) {
        self.step(times, |member, at| {
            let delta = member.take_delta(store_key, at.policy, at.store_time);
            (delta, member.report_due(at.policy, at.store_time))
        })
    }

    /// Returns the work that remains before all counts so far have been reported to the store.
    pub(crate) fn pending(&self, times: &Times) -> Pending {
        self.step(times, |member, at| member.pending(at.store_time))
    }

    /// Performs one step of the circuit under the lock. First moves the tallies' successes to the core, then runs the
    /// step, then updates the gate.
    pub(crate) fn step<R>(&self, times: &Times, step: impl FnOnce(&mut Member, StepInput<'_>) -> R) -> R {
        let mut cold = self.lock();
        let local_time = times.now();
        self.add_tallies(&mut cold, local_time, times);
        let (member, policy) = cold.member(times);
        let result =
            step(member, StepInput { policy, local_time, store_time: times.to_store_time(local_time) });
        self.publish(&mut cold, local_time, times);
        drop(cold);
        times.telemetry.flush();
        result
    }

    /// Adjusts counts and times after the store's clock stepped from `before` to `after`.
    pub(crate) fn clock_moved(&self, times: &Times, before: Timestamp, after: Timestamp) {
        let mut cold = self.lock();
        if let Cold { circuit: Some(member), policy, .. } = &mut *cold {
            let epoch = member.circuit().epoch();
            member.clock_moved(policy, before, after);
            if member.circuit().epoch() != epoch {
                // The tallies belong to the previous epoch, and are not added to this one.
                self.publish(&mut cold, times.now(), times);
            }
        }
        drop(cold);
        // The gate's values are still by the previous clock.
        self.step(times, |_, _| ());
    }

    /// Moves the successes from the tallies to the core.
    fn add_tallies(&self, cold: &mut Cold, local_time: Timestamp, times: &Times) {
        let gate = Gate(self.gate.load(Ordering::Relaxed));
        let empty = Tally::empty(gate.epoch());
        let (mut successes, mut micros) = (0, 0);
        for tally in self.tallies() {
            let counted = Tally(tally.swap(empty.0, Ordering::AcqRel));
            successes += counted.count();
            micros += counted.micros();
        }
        if successes == 0 {
            return;
        }
        // They belong to the bucket that was current then, and may have ended since.
        let at = match self.until.load(Ordering::Relaxed) {
            _ if gate.fast_path() != FastPath::Admit => local_time,
            until => local_time.min(Timestamp::from_micros(until.saturating_sub(1))),
        };
        times.telemetry.succeeded(successes);
        let successes = u32::try_from(successes).unwrap_or(u32::MAX);
        let (member, policy) = cold.member(times);
        member.add_successes(successes, Duration::from_micros(micros), policy, times.to_store_time(at));
    }

    /// Updates the gate, which determines what callers may do without the lock.
    fn publish(&self, cold: &mut Cold, local_time: Timestamp, times: &Times) {
        let Cold { circuit, policy, born_at, counted_as } = cold;
        let now = times.to_store_time(local_time);
        let (epoch, fast_path, until) = match circuit.as_deref() {
            None => {
                let fresh = core::Circuit::new(policy, *born_at);
                // A shared circuit must be read from the store first.
                let fast_path = if times.shared.is_some() { FastPath::Locked } else { FastPath::Admit };
                (fresh.epoch(), fast_path, times.to_local_time(fresh.bucket_ends_at(now)))
            }
            Some(member) => {
                let circuit = member.circuit();
                match circuit.retry_at() {
                    _ if member.allows_fast_path(policy, now) => {
                        (circuit.epoch(), FastPath::Admit, times.to_local_time(circuit.bucket_ends_at(now)))
                    }
                    Some(retry_at) if !member.is_strict() => {
                        (circuit.epoch(), FastPath::Refuse, times.to_local_time(retry_at))
                    }
                    _ => (circuit.epoch(), FastPath::Locked, Timestamp::ZERO),
                }
            }
        };
        let fast_path = if times.is_shut() { FastPath::Locked } else { fast_path };
        let before = Gate(self.gate.load(Ordering::Relaxed));
        let timed = policy.looks_at_latency();
        let gate = Gate::new(epoch, timed, fast_path);
        if gate != before {
            // Lock the gate while the fields change, so that no thread mixes old and new ones. Do not lock it
            // otherwise: threads that find it locked take the lock, and would keep locking it for each other.
            self.gate.store(Gate::new(epoch, timed, FastPath::Locked).0, Ordering::Release);
        }
        if epoch != before.epoch() {
            // From now on, a count for the old epoch fails.
            let empty = Tally::empty(epoch);
            for tally in self.tallies() {
                tally.swap(empty.0, Ordering::AcqRel);
            }
        }
        let harmless = policy
            .harmless_latency()
            .map_or(u64::MAX, |limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
        let status = || circuit.as_deref().map_or(CircuitStatus::Closed, |member| member.circuit().status());
        times.telemetry.count_as(counted_as, status);
        self.harmless.store(harmless, Ordering::Release);
        self.until.store(until.as_micros(), Ordering::Release);
        self.gate.store(gate.0, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Cold> {
        // No code under the lock panics; if it did, the circuit would still be consistent.
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tally that this thread counts in.
    #[inline(always)]
    fn tally(&self) -> &AtomicU64 {
        self.spread.get().map_or(&self.tally, |spread| spread.of_this_thread())
    }

    fn tallies(&self) -> impl Iterator<Item = &AtomicU64> {
        std::iter::once(&self.tally).chain(self.spread.get().into_iter().flat_map(|spread| spread.all()))
    }

    /// Adds tallies, so that threads no longer contend for a single one. The caller holds the lock, so that the new
    /// tallies belong to the current epoch.
    #[cold]
    fn spread_out(&self, epoch: Epoch) {
        let _cold = self.lock();
        if Gate(self.gate.load(Ordering::Relaxed)).epoch() == epoch {
            self.spread.get_or_init(|| Box::new(Spread::new(Tally::empty(epoch).0)));
        }
    }
}

impl RegistryEntry for Cell {
    type Times = Times;

    fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether the circuit can be evicted. Also releases memory that an idle circuit does not need.
    fn is_evictable(&self, times: &Times) -> bool {
        let mut cold = self.lock();
        let local_time = times.now();
        self.add_tallies(&mut cold, local_time, times);
        let Cold { circuit, policy, born_at, .. } = &mut *cold;
        let idle = circuit
            .as_deref()
            .is_none_or(|member| member.is_forgettable(policy, times.to_store_time(local_time)));
        if let Some(forgotten) = circuit.take_if(|_| idle) {
            // Epochs only increase, even if the history was dropped in between.
            *born_at = (*born_at).max(Timestamp::from_micros(forgotten.circuit().epoch().0));
        }
        self.publish(&mut cold, local_time, times);
        idle
    }

    /// Returns whether the circuit can be evicted at the cost of its run of failures.
    fn is_evictable_last(&self, times: &Times) -> bool {
        let mut cold = self.lock();
        let local_time = times.now();
        self.add_tallies(&mut cold, local_time, times);
        let now = times.to_store_time(local_time);
        let has_only_run = |member: &Member| member.is_forgettable_but_for_run(&cold.policy, now);
        let goes = cold.circuit.as_deref().is_none_or(has_only_run);
        self.publish(&mut cold, local_time, times);
        goes
    }
}

/// Returns the tenant with which a key begins, as [`core::Key::of`] builds it. The tenant is the first word, which may
/// be the whole key.
pub(crate) fn tenant_of(key: &str) -> &str {
    key.split(' ').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_small() {
        // With metrics, a circuit knows the state as which it is counted.
        let limit = if cfg!(feature = "metrics") { 104 } else { 96 };
        assert!(size_of::<Cell>() <= limit, "{}", size_of::<Cell>());
        assert!(size_of::<core::Circuit>() <= 200, "{}", size_of::<core::Circuit>());
    }
}
