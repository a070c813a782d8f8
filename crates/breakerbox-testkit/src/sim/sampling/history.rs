//! The checks on sampled circuits: leaders write during their terms, half-open circuits grant few leases
//! between two ticks, and circuits whose destination died open in time.

use std::time::Duration;

use breakerbox::store::{Answer, Term};
use breakerbox::{State, Timestamp};

use crate::sim::history::{History, Invariant, WorkerLife};
use crate::sim::run::Run;
use crate::sim::scenario::{Cut, Scenario};
use crate::sim::verify::{Meaning, Seen};

use super::plan::SampledPlan;

/// The actual events in sampled circuits and leader elections, which the simulator's checks compare with the
/// invariants.
#[derive(Default)]
pub(in crate::sim) struct SampledHistory {
    is_used: bool,
    probes: u32,
    /// The current leader, and when its term ends.
    term: Option<(WorkerLife, Timestamp)>,
    /// The time of the latest fault that may prevent an election or a tick.
    quiet_since: Duration,
    poll_failed_at: Duration,
    /// For each worker, how it is disconnected from the store, or `None` if it is connected.
    cut: Vec<Option<Cut>>,
    keys: Vec<SampledKey>,
}

struct SampledKey {
    state: State,
    since: Duration,
    /// The number of leases granted since the leader's latest tick.
    leases: u32,
    /// Since when the circuit is closed although many recent attempts failed and none succeeded, so that it
    /// must open. `None` if it need not open.
    ripe_since: Option<Duration>,
}

impl SampledHistory {
    pub(in crate::sim) fn new(scenario: &Scenario) -> Self {
        let key = || SampledKey { state: State::Closed, since: Duration::ZERO, leases: 0, ripe_since: None };
        Self {
            is_used: scenario.sampled.is_some(),
            probes: scenario.policy.probes(),
            cut: vec![None; scenario.workers.len()],
            keys: scenario.endpoints.iter().map(|_| key()).collect(),
            ..Self::default()
        }
    }

    /// Returns the worker that is the leader now.
    pub(in crate::sim) fn leader(&self, now: Timestamp) -> Option<usize> {
        self.term.filter(|(_, ends_at)| now < *ends_at).map(|(who, _)| who.worker)
    }

    /// Records a fault that may prevent an election or a tick.
    pub(in crate::sim) fn disturbed(&mut self, at: Duration) {
        self.quiet_since = at;
    }

    pub(in crate::sim) fn was_cut(&mut self, worker: usize, how: Option<Cut>, at: Duration) {
        self.cut[worker] = how;
        self.disturbed(at);
    }

    /// Records that a worker got no response. If the worker was connected, this counts as a fault.
    pub(in crate::sim) fn got_no_answer(&mut self, who: WorkerLife, at: Duration) {
        if self.cut[who.worker].is_none() {
            self.disturbed(at);
        }
    }

    pub(super) fn poll_failed(&mut self, at: Duration) {
        self.poll_failed_at = at;
    }
}

impl History {
    /// Records that a worker campaigned, or released its term. Returns whether the worker has become the
    /// leader.
    pub(in crate::sim) fn campaigned(
        &mut self,
        who: WorkerLife,
        answer: &Answer<Term>,
        at: Duration,
    ) -> bool {
        let leads = self.sampled.term.filter(|(_, ends_at)| answer.now < *ends_at).map(|(who, _)| who);
        if !answer.value.leads {
            if leads == Some(who) {
                self.sampled.term = None;
                self.sampled.disturbed(at);
            }
            return false;
        }
        self.sampled.term = Some((who, answer.value.ends_at));
        let is_elected = leads != Some(who);
        self.tally.elections += u64::from(is_elected);
        is_elected
    }

    /// Checks a record that was swapped in for a sampled circuit.
    pub(in crate::sim) fn verify_sampled(&mut self, seen: &Seen<'_>, meaning: Meaning) {
        if !self.sampled.is_used {
            return;
        }
        let (who, key, at, record) = (seen.who, seen.key, seen.at, &seen.swap.record);
        if seen.by_leader {
            self.verify_leader(seen);
        }
        let stays = seen.was.is_some_and(|was| was.epoch == record.epoch);
        let live = self.keys[key].grants.iter().any(|grant| grant.is_live(seen.now));
        let key_history = &mut self.sampled.keys[key];
        if !stays {
            (key_history.state, key_history.since) = (record.state, at);
            key_history.leases = u32::from(record.lease.is_some());
        } else if seen.by_leader {
            // A tick. A live lease continues, and counts for the next tick too.
            key_history.leases = u32::from(live);
        } else if meaning == Meaning::Lease {
            key_history.leases += 1;
        }
        let (leases, most) = (key_history.leases, self.sampled.probes);
        if record.state == State::HalfOpen && leases > most {
            let what = format!("{who:?} takes lease {leases} of e{key} since a tick, and {most} are allowed");
            self.violate(Invariant::FewProbesPerTick, at, what);
        }
    }

    fn verify_leader(&mut self, seen: &Seen<'_>) {
        let (who, key, swap) = (seen.who, seen.key, seen.swap);
        let wrong = match self.sampled.term {
            Some((leader, _)) if leader != who => Some(format!("while {leader:?} leads")),
            Some((_, ends_at)) if seen.now >= ends_at => Some("after its term".to_owned()),
            Some((_, ends_at)) if swap.not_after >= ends_at => {
                Some("with a deadline after its term".to_owned())
            }
            Some(_) if seen.now > swap.not_after => Some("of a term that it had before".to_owned()),
            Some(_) => None,
            None => Some("while nobody leads".to_owned()),
        };
        if let Some(wrong) = wrong {
            let what = format!("{who:?} wrote to e{key} {wrong}: {:?}", swap.record);
            self.violate(Invariant::LeaderWritesInTerm, seen.at, what);
        }
    }

    /// Records that a check admitted a call that is not a probe.
    pub(in crate::sim) fn checked_without_lease(&mut self, who: WorkerLife, key: usize, at: Duration) {
        let SampledKey { state, since, .. } = self.sampled.keys[key];
        let in_touch_since = since.max(self.workers[who.worker].troubled_at);
        if state != State::Closed && at > in_touch_since + self.agree_within && !self.is_excused(who, at) {
            let what = format!("{who:?} calls e{key} without a lease, which is {state:?} since {since:?}");
            self.violate(Invariant::FewProbesPerTick, at, what);
        }
    }
}

impl Run {
    /// Checks that circuits that must be open are open.
    pub(in crate::sim) fn watch_sampled(&self, plan: &SampledPlan) {
        let (at, scenario) = (self.world.at(), &self.world.scenario);
        let able = |worker: usize, cut: &Option<Cut>| {
            cut.is_none() && self.workers[worker].as_ref().is_some_and(|worker| !worker.gate.is_paused())
        };
        let recent = plan.recent(&scenario.policy);
        // Enough that no poll between two checks finds fewer than a rule requires.
        let many = 2 * scenario.policy.min_calls() + 2;
        let (led_within, round) = (plan.led_within(scenario), plan.round(scenario));
        self.world.write(|history| {
            let sampled = &mut history.sampled;
            // A worker whose responses are lost stays the leader without knowing it.
            let can_be_led = sampled.cut.iter().enumerate().any(|(worker, cut)| able(worker, cut))
                && !sampled.cut.contains(&Some(Cut::LosesAnswers));
            if !can_be_led {
                sampled.quiet_since = at;
            }
            let led_at = sampled.quiet_since + led_within;
            let mut late = Vec::new();
            for (key, key_history) in sampled.keys.iter_mut().enumerate() {
                let since = at.saturating_sub(recent).max(key_history.since);
                let counts = self.network.attempts.finished_since(key, since);
                let is_ripe =
                    key_history.state == State::Closed && counts.successes == 0 && counts.failures >= many;
                key_history.ripe_since = is_ripe.then(|| key_history.ripe_since.unwrap_or(at));
                let Some(ripe_since) = key_history.ripe_since else { continue };
                if at > ripe_since.max(sampled.poll_failed_at).max(led_at) + round {
                    late.push(format!("e{key} is closed, and must open since {ripe_since:?}"));
                    key_history.ripe_since = None;
                }
            }
            for what in late {
                history.violate(Invariant::SampledOpens, at, what);
            }
        });
    }
}
