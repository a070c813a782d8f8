//! Checks at certain times in a run: during faults, after all faults have ended, and at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use breakerbox::{CircuitStatus, Mode, OnStoreLoss, Record, State};

use super::caller::epoch_of;
use super::history::{Counts, Invariant};
use super::run::Run;
use super::scenario::Flavour;

impl Run {
    /// Checks that all workers agree with the store and, if `must_be_closed`, that all circuits are closed.
    pub(super) async fn look(&self, must_be_closed: bool) {
        let at = self.world.at();
        let records = self.network.checked_store.records().await;
        // A worker that makes half of all calls, and fails all of them, may open the circuit again at any time.
        let must_be_closed = must_be_closed && self.world.scenario.flavour != Flavour::BrokenProber;
        let closes = match self.world.scenario.flavour {
            Flavour::Sampled => Invariant::SampledCloses,
            _ => Invariant::ClosesInTheEnd,
        };
        for (key, there) in records.iter().enumerate().filter(|_| must_be_closed) {
            if let Some(there) =
                there.as_ref().filter(|there| there.status() != CircuitStatus::Closed && !is_disabled(there))
            {
                let what = format!("e{key} is well, and its circuit {there:?}");
                self.world.write(|history| history.violate(closes, at, what));
            }
        }
        for worker in self.workers.iter().flatten() {
            for (key, (circuit, there)) in worker.circuits.iter().zip(&records).enumerate() {
                let here = circuit.record();
                let wrong = self.disagrees(key, &here, there.as_ref(), at);
                if let Some(wrong) = wrong {
                    let what = format!("{:?}, e{key}: {wrong}", worker.who);
                    self.world.write(|history| history.violate(Invariant::AllAgree, at, what));
                }
                if must_be_closed && here.status() != CircuitStatus::Closed && !is_disabled(&here) {
                    let what = format!("{:?}, e{key} is well, and its circuit {:?}", worker.who, here);
                    self.world.write(|history| history.violate(closes, at, what));
                }
            }
        }
    }

    fn disagrees(&self, key: usize, here: &Record, there: Option<&Record>, at: Duration) -> Option<String> {
        let history = self.world.history();
        let long_ago = at.saturating_sub(history.agree_within);
        let changes = &history.keys[key].epoch_changes;
        let known = changes.iter().rfind(|(since, _)| *since <= long_ago).map_or(0, |(_, epoch)| *epoch);
        let has_lived = here.cause.is_some();
        let has_expired = there.is_none() && here.status() == CircuitStatus::Closed;
        if known > 0 && !has_expired && (!has_lived || here.epoch.0 < known) {
            return Some(format!("knows epoch {} only, and {known} is older than the bound", here.epoch.0));
        }
        match there {
            // No worker overwrites the lease of another worker's probe, even if the state would be the same in
            // a newer epoch. And it takes time to detect that such a lease has expired.
            Some(there)
                if is_same_half_open(here, there) && history.was_leased(key, self.world.store_time()) =>
            {
                None
            }
            Some(there) if has_lived && here.epoch > there.epoch => {
                Some(format!("knows epoch {}, and the store only {}", here.epoch.0, there.epoch.0))
            }
            Some(there) if here.epoch == there.epoch && here.status() != there.status() => {
                Some(format!("is {}, and the store {}", here.status(), there.status()))
            }
            None if here.status() != CircuitStatus::Closed => {
                Some(format!("is {}, and the store knows nothing", here.status()))
            }
            _ => None,
        }
    }

    /// Checks every running worker: its observers must know each circuit's current state, and it must have
    /// reported a store that rejects its writes. Also checks that sampled circuits that must be open are
    /// open.
    pub(super) fn watch(&self) {
        let at = self.world.at();
        let within = self.world.scenario.settings.reported_within();
        for worker in self.workers.iter().flatten().filter(|worker| !worker.gate.is_paused()) {
            for (key, circuit) in worker.circuits.iter().enumerate() {
                let here = circuit.record();
                self.world.write(|history| history.compare_observed(worker.who, key, &here, at));
            }
            self.world.write(|history| history.check_reported(worker.who, within, at));
        }
        if let Some(plan) = &self.world.scenario.sampled {
            self.watch_sampled(plan);
        }
    }

    /// Checks that every worker that can close the circuit of a healthy endpoint has closed it by now.
    pub(super) fn must_have_recovered(&self) {
        let (at, scenario) = (self.world.at(), &self.world.scenario);
        if matches!(scenario.flavour, Flavour::BrokenProber | Flavour::OneBroken) {
            let well_at = scenario.well_at();
            let (closed, failed) = {
                let history = self.world.history();
                (history.keys[0].closings.iter().any(|closed| *closed > well_at), history.tally.broken_calls)
            };
            if !closed && scenario.flavour == Flavour::BrokenProber {
                let what = format!("e0 is well since {well_at:?} for all but one");
                self.world.write(|history| history.violate(Invariant::RecoversBesideBroken, at, what));
            }
            let most = scenario.failing_calls_of_broken();
            if failed > most {
                let what = format!("a worker without a network made {failed} calls, and {most} are enough");
                self.world.write(|history| history.violate(Invariant::BrokenIsProtected, at, what));
            }
            return;
        }
        for worker in self.workers.iter().flatten() {
            let decides_alone = scenario.workers[worker.who.worker].on_loss == OnStoreLoss::Local;
            for (key, circuit) in worker.circuits.iter().enumerate().filter(|_| decides_alone) {
                let here = circuit.record();
                if here.status() != CircuitStatus::Closed {
                    let what = format!("{:?}, e{key} is well, and its circuit {here:?}", worker.who);
                    self.world.write(|history| history.violate(Invariant::RecoversWithoutWrites, at, what));
                }
            }
        }
    }

    /// Checks that all outcomes that must be reported were reported. In strict mode, that is every counted
    /// outcome.
    pub(super) fn audit(&self) {
        if self.world.scenario.flavour.has_faults() {
            return;
        }
        let mut wrong = Vec::new();
        for worker in self.workers.iter().flatten() {
            for (key, circuit) in worker.circuits.iter().enumerate() {
                let (who, epoch) = (worker.who, epoch_of(&circuit.record()));
                let history = self.world.history();
                let key_history = &history.keys[key];
                let Some(counts) = key_history.counts.get(&who).filter(|_| !key_history.forgotten) else {
                    continue;
                };
                let of = |epochs: &BTreeMap<u64, Counts>| epochs.get(&epoch).copied().unwrap_or_default();
                let (counted, reported) = (of(&counts.counted), of(&counts.reported));
                let due_reports = counts.due_reports.get(&epoch).cloned().unwrap_or_default();
                let scenario = &self.world.scenario;
                let overdue = due_reports.overdue(&scenario.settings, self.world.at());
                let is_lost = if scenario.is_strict() { counted != reported } else { overdue > 0 };
                if is_lost {
                    wrong.push(format!(
                        "{who:?}, e{key}: counted {counted:?} in epoch {epoch}, reported {reported:?}, and {overdue} failures are overdue"
                    ));
                }
            }
        }
        for what in wrong {
            self.world.write(|history| history.violate(Invariant::NothingLost, self.world.at(), what));
        }
    }
}

fn is_disabled(record: &Record) -> bool {
    matches!(record.mode, Mode::Disabled(_))
}

/// Returns whether the worker's record (`here`) has the same half-open state as the store's (`there`). The
/// epochs may differ.
fn is_same_half_open(here: &Record, there: &Record) -> bool {
    here.state == State::HalfOpen && (here.state, here.changed_at) == (there.state, there.changed_at)
}
