//! Scenarios around one fault, timed so that its consequences are certain to show: a store that refuses writes,
//! a prober with a broken network, workers that live for one call, many callers when a circuit closes.

use std::time::Duration;

use breakerbox::{Consistency, OnStoreLoss, Policy, PolicyBuilder};
use rand::RngExt;

use super::random::{ScenarioRng, settings};
use super::scenario::{
    BROKEN_WORKER, Behaviour, Cut, Event, Flavour, Losses, Phase, Scenario, ShortLived, WorkerPlan,
};

impl Scenario {
    /// Returns a scenario in which the store rejects writes, from about the time when an endpoint dies until
    /// long after the endpoint has recovered.
    pub(super) fn no_writes(seed: u64, chance: &mut ScenarioRng) -> Self {
        let (dead_at, dead_for) = (chance.ms(1_000, 3_000), chance.ms(1_500, 5_000));
        let well_at = dead_at + dead_for;
        let policy = with_some_rule(quick(chance), chance);
        let endpoints = chance.number(1, 2);
        let (workers, every): (usize, _) = (chance.number(2, 6), chance.ms(50, 250));
        let mut scenario = Self::around(seed, Flavour::NoWrites, policy, chance);
        scenario.workers = (0..workers).map(|_| plan(endpoints, every, chance)).collect();
        scenario.endpoints = vec![outage(dead_at, well_at, Behaviour::Well); endpoints];
        let from = dead_at + chance.ms(0, 700).max(chance.ms(0, 2_000)).min(dead_for);
        let recovers = scenario.recovers_without_writes_within();
        scenario.healed_at = well_at.max(from) + recovers + chance.ms(500, 3_000);
        scenario.events.push((from, Event::NoWrites { lasts: scenario.healed_at - from }));
        scenario
    }

    /// Returns a scenario in which the endpoint recovers for all workers but worker 0, which acquires about as
    /// often as all other workers together.
    pub(super) fn broken_prober(seed: u64, chance: &mut ScenarioRng) -> Self {
        let dead_at = chance.ms(1_000, 2_000);
        let well_at = dead_at + chance.ms(1_500, 4_000);
        let cool_off = chance.ms(800, 2_000);
        let policy = Policy::builder()
            .window(chance.ms(4_000, 8_000))
            .min_calls(chance.number(5, 10))
            .failure_rate(60_u64)
            .consecutive_failures(chance.number::<u64>(3, 6))
            .cool_off(cool_off)
            .cool_off_factor(2.0)
            .cool_off_max(8 * cool_off)
            .jitter(chance.number(0, 20))
            .probes(chance.number(2, 3))
            .probe_timeout(chance.ms(300, 1_500));
        let (workers, every): (usize, _) = (chance.number(4, 8), chance.ms(40, 100));
        let mut scenario = Self::around(seed, Flavour::BrokenProber, built(policy), chance);
        scenario.workers = (0..workers).map(|_| plan(1, every, chance)).collect();
        scenario.workers[BROKEN_WORKER].broken_from = Some(dead_at);
        scenario.workers[BROKEN_WORKER].every = vec![every / 8];
        // All probes of a half-open circuit fit into the time for which the worker lets others probe first,
        // once the cool-off has grown.
        scenario.settings.latency = scenario.settings.latency.min(Duration::from_millis(10));
        scenario.endpoints = vec![outage(dead_at, well_at, Behaviour::Well)];
        scenario.healed_at = well_at + scenario.recovers_beside_broken_within();
        scenario
    }

    /// Returns a scenario in which workers are jobs that start, make a call or two, and exit.
    pub(super) fn short_lived(seed: u64, chance: &mut ScenarioRng) -> Self {
        let dead_at = chance.ms(500, 2_000);
        let well_at = dead_at + chance.ms(6_000, 10_000);
        let failures = chance.number::<u64>(3, 6);
        let policy = quick(chance).window(chance.ms(4_000, 8_000)).cool_off(Duration::from_secs(2));
        let policy = policy.cool_off_max(Duration::from_secs(3));
        let policy =
            if chance.one_in(3) { policy.failures(failures) } else { policy.consecutive_failures(failures) };
        let (workers, every): (usize, _) = (chance.number(2, 5), chance.ms(5, 50));
        let mut scenario = Self::around(seed, Flavour::ShortLived, built(policy), chance);
        scenario.workers = (0..workers).map(|_| plan(1, every, chance)).collect();
        // There may be one long-lived worker among them.
        let first = usize::from(chance.one_in(4));
        for worker in &mut scenario.workers[first..] {
            worker.short_lived = Some(ShortLived { calls: chance.number(1, 2), pause: chance.ms(20, 300) });
        }
        scenario.endpoints = vec![outage(dead_at, well_at, Behaviour::Well)];
        scenario.healed_at = well_at + Duration::from_secs(1);
        scenario
    }

    /// Returns a scenario in which many workers want to call when the circuit closes, and each call takes long.
    pub(super) fn crowd(seed: u64, chance: &mut ScenarioRng) -> Self {
        let dead_at = chance.ms(500, 1_500);
        let well_at = dead_at + chance.ms(1_500, 3_000);
        let policy = quick(chance)
            .ramp_cap(chance.number::<u64>(8, 64))
            .window(chance.ms(2_000, 4_000))
            .cool_off(chance.ms(300, 1_000))
            .cool_off_max(Duration::from_millis(1_500))
            .consecutive_failures(chance.number::<u64>(3, 6));
        let (workers, every): (usize, _) = (chance.number(8, 20), chance.ms(30, 120));
        let takes: u64 = chance.number(100, 400);
        let policy = policy.probe_timeout(Duration::from_millis(2 * takes));
        let mut scenario = Self::around(seed, Flavour::Crowd, built(policy), chance);
        scenario.workers = (0..workers).map(|_| plan(1, every, chance)).collect();
        scenario.endpoints = vec![outage(dead_at, well_at, Behaviour::Slow(takes))];
        scenario.healed_at = well_at + chance.ms(2_000, 4_000);
        scenario
    }

    /// Returns a scenario in which worker 0 is disconnected while the circuit is open. The other workers see
    /// the circuit close, and then no worker calls until the circuit's record has expired.
    pub(super) fn long_absence(seed: u64, chance: &mut ScenarioRng) -> Self {
        let dead_at = chance.ms(500, 1_500);
        let cut_at = dead_at + chance.ms(1_500, 3_000);
        let well_at = cut_at + chance.ms(100, 1_000);
        let policy = with_some_rule(quick(chance).forgive_after(chance.ms(500, 2_000)), chance);
        let quiet_at = well_at + 2 * policy.cool_off_max() + chance.ms(1_000, 4_000);
        let back_at = quiet_at + policy.window() + policy.forgive_after() + chance.ms(1_000, 2_000);
        let (workers, every): (usize, _) = (chance.number(2, 4), chance.ms(50, 250));
        let mut scenario = Self::around(seed, Flavour::LongAbsence, policy, chance);
        scenario.workers = (0..workers).map(|_| plan(1, every, chance)).collect();
        scenario.workers[0].on_loss =
            chance.of(&[OnStoreLoss::Local, OnStoreLoss::Admit, OnStoreLoss::Refuse]);
        scenario.endpoints = vec![outage(dead_at, well_at, Behaviour::Well)];
        let how = chance.of(&[Cut::Refuses, Cut::BlackHole]);
        scenario.events.push((cut_at, Event::Cut { worker: 0, how, lasts: back_at - cut_at }));
        scenario.quiet = Some((quiet_at, back_at + chance.ms(0, 1_000)));
        scenario.healed_at = back_at + chance.ms(0, 500);
        scenario
    }

    /// Returns the time at which the endpoints recover permanently.
    pub(super) fn well_at(&self) -> Duration {
        self.endpoints
            .iter()
            .filter_map(|phases| phases.last())
            .map(|phase| phase.from)
            .max()
            .unwrap_or_default()
    }

    /// Returns the time by which every worker that can close an endpoint's circuit must have closed it, even if
    /// a fault is still active. `None` if there is no such deadline.
    pub(super) fn must_have_recovered_at(&self) -> Option<Duration> {
        match self.flavour {
            Flavour::NoWrites => {
                let from = self.events.iter().map(|(at, _)| *at).max()?;
                Some(self.well_at().max(from) + self.recovers_without_writes_within())
            }
            Flavour::BrokenProber => Some(self.well_at() + self.recovers_beside_broken_within()),
            Flavour::OneBroken => Some(self.healed_at),
            _ => None,
        }
    }

    /// Returns the maximum time in which circuits recover while the store rejects writes. In this time, each
    /// worker detects the loss of the store, and then makes enough probes while disconnected.
    fn recovers_without_writes_within(&self) -> Duration {
        let policy = &self.policy;
        // Earlier failures may still open the circuit once, through a call that was in flight.
        let opens_last = Duration::from_secs(1) + policy.cool_off_max().mul_f64(1.2);
        let lease = policy.probe_timeout() + Duration::from_secs(2);
        let asks_again = Duration::from_secs(4);
        let round = self.called_every() + 2 * self.settings.store_timeout + Duration::from_millis(500);
        self.settings.reported_within() + opens_last + asks_again + lease + policy.probes() * round
    }

    /// Returns the maximum time in which a circuit recovers while one worker's own network is broken. In this
    /// time, that worker makes a few failing probes, and then lets other workers probe first.
    fn recovers_beside_broken_within(&self) -> Duration {
        let policy = &self.policy;
        let round = self.called_every() + 4 * self.settings.store_timeout + Duration::from_millis(500);
        // The last cool-off before the recovery, and two more.
        policy.cool_off_max().mul_f64(2.4) + Duration::from_secs(4) + policy.probes() * round
    }

    /// Returns the maximum number of failing calls by the broken worker: enough calls to open its process-local
    /// circuit, and one probe for each later cool-off.
    pub(super) fn failing_calls_of_broken(&self) -> u64 {
        let policy = &self.policy;
        let opens = policy.min_calls().max(policy.consecutive_failures().unwrap_or(0));
        let lasts = self.healed_at.as_millis() / policy.cool_off().as_millis().max(1);
        (2 * opens + u64::try_from(lasts).unwrap_or(u64::MAX) + 5) * self.endpoints.len() as u64
    }

    /// Returns a scenario with this policy and random settings, but without calls or faults.
    pub(super) fn around(seed: u64, flavour: Flavour, policy: Policy, chance: &mut ScenarioRng) -> Self {
        Self {
            seed,
            flavour,
            policy,
            settings: settings(chance),
            consistency: Consistency::LocalFirst,
            workers: Vec::new(),
            endpoints: Vec::new(),
            losses: Losses::default(),
            events: Vec::new(),
            quiet: None,
            sampled: None,
            healed_at: Duration::ZERO,
        }
    }
}

/// Returns a policy with which a circuit recovers within a few seconds.
fn quick(chance: &mut ScenarioRng) -> PolicyBuilder {
    let cool_off = chance.ms(100, 600);
    Policy::builder()
        .window(chance.ms(2_000, 4_000))
        .min_calls(chance.number(2, 6))
        .failure_rate(None)
        .consecutive_failures(None)
        .cool_off(cool_off)
        .cool_off_factor(chance.of(&[1.0, 1.5, 2.0]))
        .cool_off_max(cool_off + chance.ms(400, 1_400))
        .jitter(chance.number(0, 20))
        .probes(chance.number(1, 3))
        .probe_timeout(chance.ms(200, 800))
        .forgive_after(chance.ms(500, 20_000))
        .ramp_cap(if chance.one_in(2) { None } else { Some(chance.number(1, 16)) })
}

fn with_some_rule(policy: PolicyBuilder, chance: &mut ScenarioRng) -> Policy {
    built(match chance.0.random_range(0..3) {
        0 => policy.failure_rate(chance.number::<u64>(30, 80)),
        1 => policy.failures(chance.number::<u64>(2, 6)),
        _ => policy.consecutive_failures(chance.number::<u64>(2, 5)),
    })
}

fn built(policy: PolicyBuilder) -> Policy {
    policy.build().expect("all of these are within their bounds")
}

pub(super) fn plan(endpoints: usize, every: Duration, chance: &mut ScenarioRng) -> WorkerPlan {
    WorkerPlan {
        on_loss: if chance.one_in(5) { OnStoreLoss::Admit } else { OnStoreLoss::Local },
        skew: Duration::from_secs(chance.number(0, 100_000)),
        every: vec![every; endpoints],
        broken_from: None,
        short_lived: None,
    }
}

/// Returns the phases of an outage. The endpoint is healthy until `dead_at`, dead until `well_at`, and behaves
/// as `then` states afterwards.
fn outage(dead_at: Duration, well_at: Duration, then: Behaviour) -> Vec<Phase> {
    vec![
        Phase { from: Duration::ZERO, behaviour: Behaviour::Well },
        Phase { from: dead_at, behaviour: Behaviour::Dead },
        Phase { from: well_at, behaviour: then },
    ]
}
