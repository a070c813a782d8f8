//! Checks every operation at the moment the store applies it.

use std::time::Duration;

use breakerbox::store::{Delta, Merged, Swap};
use breakerbox::{Cause, Lease, Mode, OutcomeKind, OverrideCommand, Record, State, Timestamp};

use super::history::{Counts, Grant, History, Invariant, Probe, WorkerLife};
use super::scenario::{BROKEN_WORKER, Scenario};
use super::world::STORE_BEGINS_AT;

/// A swap that the store applied, with its context.
pub(super) struct Seen<'s> {
    pub(super) who: WorkerLife,
    pub(super) key: usize,
    pub(super) was: Option<&'s Record>,
    pub(super) swap: &'s Swap,
    pub(super) now: Timestamp,
    pub(super) at: Duration,
    /// Whether a leader made the swap in a tick.
    pub(super) by_leader: bool,
}

/// What a swap did to a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    Trip,
    Lease,
    Result(OutcomeKind),
    Order(OverrideCommand),
    /// The swap wrote the current record again, or a record that the store had before.
    Again,
    /// The swap wrote the store's current state again, in a newer epoch, because the worker had decided
    /// differently while disconnected.
    Renewed,
    /// The swap wrote a leader's decision that is not a trip.
    Tick,
}

impl Seen<'_> {
    fn had_lease(&self) -> Option<Lease> {
        self.was.and_then(|was| was.lease)
    }

    fn stays_in_epoch(&self) -> bool {
        self.was.is_some_and(|was| was.epoch == self.swap.record.epoch)
    }

    fn is_overridden(&self) -> bool {
        self.was.is_some_and(|was| was.mode != Mode::Automatic)
    }

    fn meaning(&self, is_known: bool) -> Meaning {
        let record = &self.swap.record;
        if self.by_leader {
            return if matches!(record.cause, Some(Cause::Rule(_))) { Meaning::Trip } else { Meaning::Tick };
        }
        if self.stays_in_epoch() {
            let was_successes = self.was.map_or(0, |was| was.probe_successes);
            return match (self.had_lease(), record.lease) {
                (Some(_), None) if record.probe_successes > was_successes => {
                    Meaning::Result(OutcomeKind::Success)
                }
                (Some(_), None) => Meaning::Result(OutcomeKind::Ignored),
                (had, Some(lease)) if had.map(|had| had.nonce) != Some(lease.nonce) => Meaning::Lease,
                _ => Meaning::Again,
            };
        }
        let is_the_same = |was: &&Record| {
            let cause =
                was.cause.is_some() && (&was.cause, was.changed_at) == (&record.cause, record.changed_at);
            cause && (was.status(), &was.mode) == (record.status(), &record.mode)
        };
        match &record.cause {
            _ if is_known => Meaning::Again,
            _ if self.was.filter(is_the_same).is_some() => Meaning::Renewed,
            Some(Cause::Rule(_)) => Meaning::Trip,
            Some(Cause::CoolOffOver) => Meaning::Lease,
            Some(Cause::ProbesSucceeded) => Meaning::Result(OutcomeKind::Success),
            Some(Cause::ProbeFailed) => Meaning::Result(OutcomeKind::Failure),
            Some(Cause::Override { command, .. }) => Meaning::Order(*command),
            _ => Meaning::Again,
        }
    }
}

impl History {
    /// Records that a worker received a key's record when the store's clock showed `now`.
    pub(super) fn received(
        &mut self,
        who: WorkerLife,
        key: usize,
        was: Option<&Record>,
        now: Timestamp,
        at: Duration,
    ) {
        self.tally.requests += 1;
        let key_history = &mut self.keys[key];
        key_history.read_at.insert(who, now);
        let epoch = was.map_or(0, |was| was.epoch.0);
        let known = key_history.epoch_changes.last().map_or(0, |(_, epoch)| *epoch);
        if epoch != known {
            // The record expired. All other changes are recorded when they happen.
            key_history.forgotten = true;
            key_history.epoch_changes.push((at, epoch));
        }
    }

    pub(super) fn merged(
        &mut self,
        who: WorkerLife,
        key: usize,
        was: Option<&Record>,
        (delta, merged): (&Delta, &Merged),
        at: Duration,
    ) {
        let epoch = was.map_or(0, |was| was.epoch.0);
        if merged.late == (delta.epoch.0 == epoch) {
            let what = format!(
                "{who:?}, e{key}: counts of epoch {}, in {epoch}, late is {}",
                delta.epoch.0, merged.late
            );
            self.violate(Invariant::NothingDoubled, at, what);
        }
        if merged.late {
            return;
        }
        let mut more = Counts::default();
        for bucket in &delta.buckets {
            more.add(Counts { successes: bucket.successes, failures: bucket.failures });
        }
        let key_history = &mut self.keys[key];
        let counted = key_history.counts.entry(who).or_default();
        counted.reported.entry(epoch).or_default().add(more);
        let (mut reported, mut known) = (Counts::default(), Counts::default());
        let counts = |epochs: &std::collections::BTreeMap<u64, Counts>, sum: &mut Counts| {
            epochs
                .iter()
                // An epoch from a worker's own clock is translated when the record is written.
                .filter(|(of, _)| {
                    key_history.forgotten || **of == epoch || (1..STORE_BEGINS_AT.as_micros()).contains(*of)
                })
                .for_each(|(_, more)| sum.add(*more));
        };
        counts(&counted.reported, &mut reported);
        counts(&counted.counted, &mut known);
        if reported.exceeds(known) {
            let what = format!("{who:?}, e{key}: told {reported:?} in epoch {epoch}, counted {known:?}");
            self.violate(Invariant::NothingDoubled, at, what);
            return;
        }
        let holds = Counts { successes: merged.totals.successes, failures: merged.totals.failures };
        if let Some(applied) = &mut key_history.applied {
            applied.add(more);
            if holds.exceeds(*applied) {
                let what = format!("e{key}: the window holds {holds:?}, and was told {applied:?}");
                self.violate(Invariant::NothingDoubled, at, what);
            }
        }
    }

    /// Checks that a report contains every failure that the worker counted before it sent the report. Does
    /// nothing for late reports, in strict mode, and if there are faults.
    pub(super) fn check_report(
        &mut self,
        scenario: &Scenario,
        (who, key): (WorkerLife, usize),
        (delta, merged): (&Delta, &Merged),
        (sent_at, at): (Duration, Duration),
    ) {
        // A report that gets no response is not sent again, and in strict mode outcomes are sent one by one.
        if merged.late || scenario.flavour.has_faults() || scenario.is_strict() {
            return;
        }
        let key_history = &mut self.keys[key];
        let Some(counts) = key_history.counts.get_mut(&who) else { return };
        let Some(due_reports) = counts.due_reports.get_mut(&delta.epoch.0) else { return };
        let failures = delta.buckets.iter().map(|bucket| bucket.failures).sum();
        let lacks = due_reports.reported(failures, sent_at, &scenario.policy);
        due_reports.run_is(merged.totals.failure_run, sent_at, &scenario.policy);
        if lacks > 0 && !key_history.forgotten {
            let what = format!("{who:?}, e{key}: a report lacks {lacks} failures: {delta:?}");
            self.violate(Invariant::NothingLost, at, what);
        }
    }

    /// Checks a record that was swapped in.
    pub(super) fn swapped(&mut self, seen: &Seen<'_>) -> Meaning {
        let (who, key, at) = (seen.who, seen.key, seen.at);
        let record = &seen.swap.record;
        let key_history = &self.keys[key];
        // After a loss, two workers may create the same epoch of the same record; their leases differ.
        let leased = |lease: Lease| key_history.grants.iter().any(|grant| grant.nonce == lease.nonce);
        let is_known = key_history.epochs.contains(&record.epoch.0)
            && !seen.stays_in_epoch()
            && record.lease.is_none_or(leased);
        let meaning = seen.meaning(is_known);
        self.tally.swaps += 1;
        self.verify_write(seen, meaning);
        match meaning {
            Meaning::Lease => self.verify_lease(seen),
            Meaning::Result(kind) => self.verify_result(seen, kind),
            Meaning::Trip => self.verify_trip(seen),
            Meaning::Order(command) => {
                self.tally.orders += 1;
                if !self.orders.contains(&(who.worker, key, command)) {
                    self.violate(
                        Invariant::OverridesHold,
                        at,
                        format!("{who:?}: nobody said {command:?} to e{key}"),
                    );
                }
            }
            Meaning::Tick => {}
            Meaning::Again | Meaning::Renewed => {
                self.tally.publications += 1;
                // A worker that renews waits for another worker's probe to end, which may take longer than any
                // excuse lasts.
                let waited = meaning == Meaning::Renewed
                    && self.workers[who.worker].failed_at.is_some()
                    && self.was_leased(key, seen.now);
                if self.last_loss.is_none() && !waited && !self.is_excused(who, at) {
                    let what =
                        format!("{who:?}, e{key}: a record of before, though nothing was lost: {record:?}");
                    // If there is no record, or an older one, the newer one expired: expiry is not a
                    // transition, and need not be published.
                    let highest = self.keys[key].epochs.last().copied().unwrap_or(0);
                    let invariant = if seen.was.is_none_or(|was| was.epoch.0 < highest) {
                        Invariant::NoStaleRecord
                    } else {
                        Invariant::CompareAndSwap
                    };
                    self.violate(invariant, at, what);
                }
            }
        }
        self.verify_sampled(seen, meaning);
        let key_history = &mut self.keys[key];
        key_history.versions.insert(record.version.0);
        key_history.epochs.insert(record.epoch.0);
        if !seen.stays_in_epoch() {
            key_history.epoch_changes.push((at, record.epoch.0));
            key_history.applied = Some(Counts::default());
            key_history
                .grants
                .iter_mut()
                .filter(|grant| Some(grant.nonce) != record.lease.map(|lease| lease.nonce))
                .for_each(|grant| grant.end(seen.now));
            key_history.failed_while_closed = 0;
            key_history.enough_failed_at = None;
            if record.state == State::Closed {
                key_history.closings.push(at);
                self.tally.closings += u64::from(!matches!(meaning, Meaning::Again | Meaning::Renewed));
            }
            self.ramp_begins(key, record, at);
        }
        let key_history = &mut self.keys[key];
        key_history.overridden = match (&record.mode, key_history.overridden.take()) {
            (Mode::Automatic, _) => None,
            (mode, Some((since, before))) if *mode == before => Some((since, before)),
            (mode, _) => Some((at, mode.clone())),
        };
        meaning
    }

    /// Checks the requirements that apply to every write, such as the expected version and the deadline.
    fn verify_write(&mut self, seen: &Seen<'_>, meaning: Meaning) {
        let (who, key, at, swap) = (seen.who, seen.key, seen.at, seen.swap);
        let record = &swap.record;
        let mut wrong = Vec::new();
        if seen.was.map(|was| was.version) != swap.expected {
            wrong.push((Invariant::CompareAndSwap, "replaced a record that it had not seen".to_owned()));
        }
        if seen.now > swap.not_after && !seen.by_leader {
            let late = seen.now.since(swap.not_after);
            wrong.push((Invariant::NoLateSwap, format!("was {late:?} too late ({meaning:?})")));
        }
        let key_history = &self.keys[key];
        if key_history.versions.contains(&record.version.0) {
            wrong.push((Invariant::CompareAndSwap, "used a version twice".to_owned()));
        }
        let highest = key_history.epochs.last().copied().unwrap_or(0);
        let was = seen.was.map_or(0, |was| was.epoch.0);
        if record.epoch.0 < was
            || (self.last_loss.is_none() && !key_history.forgotten && record.epoch.0 < highest)
        {
            wrong.push((
                Invariant::CompareAndSwap,
                format!("went back from epoch {highest} to {}", record.epoch.0),
            ));
        }
        // An override that the store does not have is written again after any absence: a store that lost its
        // data is more likely than an override that was released and has expired since. But it does not replace
        // a newer record.
        let may_be_lost = record.mode != Mode::Automatic && seen.was.is_none();
        let is_older = self.last_loss.is_none() && record.epoch.0 < highest;
        if meaning == Meaning::Again && is_older && !may_be_lost {
            wrong.push((
                Invariant::NoStaleRecord,
                format!("published epoch {} again, and there was {highest}", record.epoch.0),
            ));
        }
        // The times in an epoch that was in the store before have already been checked.
        let is_new = !key_history.epochs.contains(&record.epoch.0);
        // An epoch that is only one higher than the previous one does not contain a time.
        let epoch = (record.epoch.0 > was + 1).then(|| Timestamp::from_micros(record.epoch.0));
        let times = [Some(record.changed_at), record.opened_at];
        // A process estimates the store's time from when it sent a request, so it is ahead by the time that the
        // request took. That is less than the timeout, unless the process was paused before it could detect the
        // timeout.
        let worker = &self.workers[who.worker];
        let is_ahead = at < worker.resumed_at + self.agree_within;
        let ahead = self.store_timeout + if is_ahead { worker.paused_for } else { Duration::ZERO };
        let latest = seen.now + ahead;
        // An epoch from such an estimate stays ahead, as do those that follow it, in every process that adopts
        // it.
        let latest_epoch = seen.now + self.store_timeout + self.longest_pause;
        let is_of_store = |time: &Timestamp, latest| (STORE_BEGINS_AT..=latest).contains(time);
        let wrong_time = times.into_iter().flatten().find(|time| !is_of_store(time, latest));
        let wrong_time = wrong_time.or(epoch.filter(|epoch| !is_of_store(epoch, latest_epoch)));
        if let Some(wrong_time) = wrong_time.filter(|_| is_new) {
            wrong.push((Invariant::StoreTimes, format!("wrote {wrong_time:?}, which is not the store's")));
        }
        let said = matches!(meaning, Meaning::Order(_) | Meaning::Renewed);
        if seen.is_overridden() && !said && self.last_loss.is_none() && !key_history.forgotten {
            wrong.push((Invariant::OverridesHold, format!("put aside what an operator said ({meaning:?})")));
        }
        if let (Meaning::Trip | Meaning::Lease, Some(reported)) = (meaning, key_history.read_at.get(&who)) {
            let latest = *reported + self.store_timeout;
            if swap.not_after > latest && !seen.by_leader && !self.is_excused(who, at) {
                let over = swap.not_after.since(latest);
                wrong
                    .push((Invariant::NoLateSwap, format!("took {over:?} longer than it may ({meaning:?})")));
            }
        }
        for (invariant, what) in wrong {
            self.violate(invariant, at, format!("{who:?} {what}: e{key}, {record:?}"));
        }
    }

    fn verify_lease(&mut self, seen: &Seen<'_>) {
        let Some(lease) = seen.swap.record.lease else { return };
        let (who, key, at, now) = (seen.who, seen.key, seen.at, seen.now);
        let excused = self.is_excused(who, at);
        let key_history = &mut self.keys[key];
        let other = key_history.grants.iter().find(|grant| grant.is_live(now));
        let is_early = seen.was.and_then(|was| was.retry_at).is_some_and(|retry_at| now < retry_at);
        let what = match other {
            Some(other) => Some(format!("{who:?} got a lease of e{key} beside {:?}", other.who)),
            None if is_early => Some(format!("{who:?} got a lease of e{key} before its cool-off was over")),
            None => None,
        };
        key_history.grants.push(Grant {
            nonce: lease.nonce,
            who,
            expires_at: lease.expires_at,
            ended_at: None,
            taken: false,
        });
        self.tally.leases += 1;
        if let Some(what) = what.filter(|_| !excused) {
            self.violate(Invariant::OneLease, at, what);
        }
    }

    fn verify_result(&mut self, seen: &Seen<'_>, kind: OutcomeKind) {
        let (who, key, at, now) = (seen.who, seen.key, seen.at, seen.now);
        let excused = self.is_excused(who, at);
        let lease = seen.had_lease();
        let key_history = &mut self.keys[key];
        // A caller must have made that probe, and must have reported this outcome.
        let reported = |probe: &&mut Probe| {
            let said = probe.settled.is_some_and(|(_, said)| said == kind);
            probe.who == who && said && !probe.applied
        };
        let nonce = lease.map(|lease| lease.nonce);
        let holds = key_history.grants.iter().any(|grant| Some(grant.nonce) == nonce && grant.who == who);
        let in_time =
            lease.is_some_and(|lease| now < lease.expires_at && seen.swap.not_after < lease.expires_at);
        let mut reports = key_history.probes.iter_mut().rev().filter(reported);
        let wrong = match reports
            .find(|probe| probe.nonce.is_none() || probe.nonce == nonce || (excused && probe.may_be_alone))
        {
            None => Some("that nobody reported"),
            Some(probe) => {
                probe.applied = true;
                // While a worker can't reach the store, it probes without it.
                match (holds, in_time) {
                    _ if excused && (probe.nonce.is_none() || probe.may_be_alone) => None,
                    (false, _) => Some("that has no lease"),
                    (true, false) => Some("after its lease had ended"),
                    (true, true) => None,
                }
            }
        };
        if in_time {
            key_history
                .grants
                .iter_mut()
                .filter(|grant| Some(grant.nonce) == nonce)
                .for_each(|grant| grant.end(now));
        }
        self.tally.results += 1;
        if let Some(wrong) = wrong {
            let what = format!("{who:?}, e{key}: a result ({kind:?}) {wrong}");
            self.violate(Invariant::NoStaleResult, at, what);
        }
        if kind == OutcomeKind::Failure && who.worker == BROKEN_WORKER {
            self.probe_of_broken_failed(key, at);
        }
    }

    /// Records a failed probe by the broken worker. After the endpoint has recovered for all other workers, the
    /// broken worker may make one more probe, and must then let other workers probe first until the circuit
    /// closes.
    fn probe_of_broken_failed(&mut self, key: usize, at: Duration) {
        let Some(well_at) = self.well_beside_broken.filter(|well_at| at > *well_at) else { return };
        let key_history = &mut self.keys[key];
        key_history.failed_beside_broken += 1;
        let has_closed = key_history.closings.iter().any(|closed| *closed > well_at);
        if key_history.failed_beside_broken > 1 && !has_closed {
            let what = format!("the broken worker probed e{key} again, which is well since {well_at:?}");
            self.violate(Invariant::RecoversBesideBroken, at, what);
        }
    }

    fn verify_trip(&mut self, seen: &Seen<'_>) {
        let (who, key, at) = (seen.who, seen.key, seen.at);
        self.tally.trips += 1;
        let epoch = seen.was.map_or(0, |was| was.epoch.0);
        let is_right = self.one_is_broken.as_ref().is_none_or(|fleet| {
            let since = at.saturating_sub(fleet.settings.tripped_within());
            self.keys[key].outcomes.broke_a_rule(&fleet.policy, epoch, since..=at)
        });
        if !is_right {
            let what = format!("{who:?} opened e{key}, though all calls together broke no rule");
            self.violate(Invariant::OneBrokenOpensNothing, at, what);
        }
        let was_closed = seen.was.is_none_or(|was| was.state == State::Closed);
        if !was_closed && !self.is_excused(who, at) {
            let what = format!("{who:?} tripped e{key}, which was not closed");
            self.violate(Invariant::CompareAndSwap, at, what);
        }
    }

    /// Records that the store lost writes. `left` are the records that the store still has.
    pub(super) fn lost(&mut self, at: Duration, left: &[Option<Record>]) {
        self.last_loss = Some(at);
        for (key_history, record) in self.keys.iter_mut().zip(left) {
            key_history.forgotten = true;
            key_history.applied = None;
            key_history.epoch_changes.push((at, record.as_ref().map_or(0, |record| record.epoch.0)));
            key_history.grants.iter_mut().for_each(|grant| grant.end(STORE_BEGINS_AT + at));
            key_history.overridden = match record.as_ref().map(|record| &record.mode) {
                None | Some(Mode::Automatic) => None,
                Some(mode) => Some((at, mode.clone())),
            };
        }
    }
}
