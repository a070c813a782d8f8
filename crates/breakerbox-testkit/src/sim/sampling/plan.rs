//! The random parts of a scenario with sampled circuits, and its time limits.
//!
//! Endpoints die after a healthy past about as long as the window, and recover. Around each death, the leader
//! has a fault.

use std::time::Duration;

use breakerbox::{OnStoreLoss, Policy, PolicyBuilder};
use rand::RngExt;

use crate::sim::plans::plan;
use crate::sim::random::ScenarioRng;
use crate::sim::scenario::{Behaviour, Cut, Event, Flavour, Losses, Phase, Scenario};

/// The minimum length of a leader's term.
const SHORTEST_TERM: Duration = Duration::from_secs(5);

/// How much longer a probe's lease lasts than the probe's timeout.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// The maximum time that a candidate waits before it campaigns, after a term has ended or a request got no
/// response.
const COMES_LATER: Duration = Duration::from_millis(750);

/// How circuits are sampled in one run.
#[derive(Clone, Debug)]
pub(in crate::sim) struct SampledPlan {
    pub(in crate::sim) policy: PolicyBuilder,
    pub(super) sample_every: Duration,
    pub(super) poll_timeout: Duration,
    /// The rate of failing polls, in thousandths. No two consecutive polls fail.
    pub(super) failing_polls: u32,
    pub(super) slow_polls: u32,
    /// The planned pauses of a leader in the middle of a tick with decisions, each with its earliest start
    /// and its duration.
    pub(super) paused_in_tick: Vec<(Duration, Duration)>,
}

/// A fault that strikes the current leader.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::sim) enum LeaderFault {
    Paused(Duration),
    Killed(Duration),
    CutOff(Cut, Duration),
    /// The leader reaches the store, but not the table of attempts.
    NoPolls(Duration),
}

impl LeaderFault {
    pub(in crate::sim) const fn lasts(self) -> Duration {
        match self {
            Self::Paused(lasts) | Self::Killed(lasts) | Self::CutOff(_, lasts) | Self::NoPolls(lasts) => {
                lasts
            }
        }
    }

    /// Returns the same fault, limited to this duration.
    fn within(self, limit: Duration) -> Self {
        let lasts = self.lasts().min(limit);
        match self {
            Self::Paused(_) => Self::Paused(lasts),
            Self::Killed(_) => Self::Killed(lasts),
            Self::CutOff(how, _) => Self::CutOff(how, lasts),
            Self::NoPolls(_) => Self::NoPolls(lasts),
        }
    }

    fn any(chance: &mut ScenarioRng) -> Self {
        // Some are shorter than a term, most are longer.
        let lasts = if chance.one_in(4) { chance.ms(500, 4_000) } else { chance.ms(5_500, 14_000) };
        match chance.0.random_range(0..8) {
            0..=2 => Self::Paused(lasts),
            3 | 4 => Self::Killed(lasts),
            5 | 6 => Self::CutOff(chance.of(&[Cut::Refuses, Cut::BlackHole, Cut::LosesAnswers]), lasts),
            _ => Self::NoPolls(lasts),
        }
    }
}

impl SampledPlan {
    fn new(policy: PolicyBuilder, chance: &mut ScenarioRng) -> Self {
        Self {
            policy,
            sample_every: chance.ms(600, 1_500),
            poll_timeout: chance.ms(200, 1_800),
            failing_polls: if chance.one_in(2) { chance.number(0, 100) } else { 0 },
            slow_polls: if chance.one_in(2) { chance.number(0, 200) } else { 0 },
            paused_in_tick: Vec::new(),
        }
    }

    /// Returns the length of a leader's term if it is not renewed.
    fn term(&self) -> Duration {
        SHORTEST_TERM.max(3 * self.sample_every)
    }

    /// Returns the length of the last part of the window (the policy's `sample_recent` ticks), which is
    /// evaluated separately.
    pub(super) fn recent(&self, policy: &Policy) -> Duration {
        self.sample_every * policy.sample_recent().unwrap_or_default()
    }

    /// Returns the maximum time after the last fault until a worker leads and has completed a tick.
    pub(super) fn led_within(&self, scenario: &Scenario) -> Duration {
        self.term() + COMES_LATER + 3 * scenario.settings.store_timeout
    }

    /// Returns the maximum time from the start of a poll until the tick of the following poll has ended.
    pub(super) fn round(&self, scenario: &Scenario) -> Duration {
        let requests = 8 * 2 * scenario.settings.latency;
        self.sample_every.max(self.poll_timeout) + self.poll_timeout + requests + Duration::from_millis(100)
    }

    /// Returns the maximum time after the last fault until the circuit of a healthy endpoint is closed.
    ///
    /// | step | maximum time |
    /// | --- | --- |
    /// | a worker leads, and all agree | `led_within`, `agree_within` |
    /// | an earlier lease that was not released expires | `probe_timeout` and 2 s |
    /// | earlier failures may open the circuit once more, or prevent its recovery | the cycle below, twice |
    /// | a cycle: the maximum cool-off, `probes` calls one after the other, a tick for half-open and one for closed | |
    pub(in crate::sim) fn closed_within(&self, scenario: &Scenario) -> Duration {
        let (policy, settings) = (&scenario.policy, &scenario.settings);
        let lease = policy.probe_timeout() + LEASE_MARGIN;
        let probe = scenario.called_every() / 2 + 4 * settings.latency + Duration::from_millis(200);
        let tick = self.sample_every + 16 * settings.latency + Duration::from_millis(100);
        let cycle = policy.cool_off_max().mul_f64(1.2) + policy.probes() * probe + 2 * tick;
        self.led_within(scenario) + settings.agree_within() + lease + 2 * cycle
    }
}

impl Scenario {
    /// Returns a scenario for a sampled fleet, in which endpoints die and recover, and leaders change.
    pub(in crate::sim) fn sampled(seed: u64, chance: &mut ScenarioRng) -> Self {
        let (window, cool_off) = (chance.ms(30_000, 60_000), chance.ms(300, 1_500));
        let builder = Policy::builder()
            .window(window)
            .min_calls(chance.number(2, 4))
            .failure_rate(chance.number::<u64>(50, 80))
            .cool_off(cool_off)
            .cool_off_factor(chance.of(&[1.0, 1.5, 2.0]))
            .cool_off_max(cool_off + chance.ms(0, 1_500))
            .jitter(chance.number(0, 20))
            .probes(chance.number(1, 3))
            .recovery_rate(chance.of(&[50, 80, 100]))
            .probe_timeout(chance.ms(200, 800))
            .forgive_after(chance.ms(500, 20_000));
        let policy = builder.build_for_sampling().expect("all of these are within their bounds");
        let (workers, endpoints): (usize, usize) = (chance.number(3, 6), chance.number(1, 2));
        // All calls by all workers to one endpoint: 10 to 20 per second.
        let every = Duration::from_millis(workers as u64 * chance.number::<u64>(50, 100));
        let mut scenario = Self::around(seed, Flavour::Sampled, policy, chance);
        scenario.workers = (0..workers).map(|_| plan(endpoints, every, chance)).collect();
        for worker in &mut scenario.workers {
            worker.on_loss = chance.of(&[OnStoreLoss::Local, OnStoreLoss::Admit, OnStoreLoss::Refuse]);
        }
        let mut sampled = SampledPlan::new(builder, chance);
        let mut well_at = Duration::ZERO;
        for _ in 0..endpoints {
            let phases = dies_and_recovers(window, chance);
            let dead_at = phases[1].from;
            for _ in 0..chance.number(0, 3) {
                let at = dead_at.saturating_sub(Duration::from_secs(3)) + chance.ms(0, 15_000);
                scenario.events.push((at, Event::OnLeader(LeaderFault::any(chance))));
            }
            for _ in 0..chance.number(0, 2) {
                sampled.paused_in_tick.push((dead_at + chance.ms(0, 12_000), chance.ms(4_500, 9_000)));
            }
            well_at = well_at.max(phases.last().map_or(dead_at, |phase| phase.from));
            scenario.endpoints.push(phases);
        }
        sampled.paused_in_tick.sort_unstable();
        if chance.one_in(3) {
            scenario.losses = Losses {
                requests: chance.number(0, 20),
                answers: chance.number(0, 20),
                pushes: chance.number(0, 300),
                spikes: chance.number(0, 10),
            };
        }
        if chance.one_in(4) {
            let lasts = chance.ms(200, 3_000);
            scenario.events.push((chance.ms(5_000, 30_000), Event::Stall { lasts }));
        }
        let heals_after = if chance.one_in(3) { chance.ms(0, 12_000) } else { chance.ms(0, 1_000) };
        let healed_at = well_at + heals_after;
        scenario.healed_at = healed_at;
        scenario.events.retain(|(at, _)| *at < healed_at);
        for (at, event) in &mut scenario.events {
            if let Event::OnLeader(fault) = event {
                *fault = fault.within(healed_at - *at);
            }
        }
        scenario.sampled = Some(sampled);
        scenario
    }
}

/// Returns an endpoint's phases: healthy for about a window, dead for long enough that any leader detects the
/// failure, possibly flaky, and healthy.
fn dies_and_recovers(window: Duration, chance: &mut ScenarioRng) -> Vec<Phase> {
    let phase = |from, behaviour| Phase { from, behaviour };
    let dead_at = window.mul_f64(chance.0.random_range(0.7..1.1));
    let mut phases = vec![phase(Duration::ZERO, Behaviour::Well), phase(dead_at, Behaviour::Dead)];
    let mut at = dead_at + chance.ms(8_000, 24_000);
    if chance.one_in(3) {
        let behaviour =
            if chance.one_in(2) { Behaviour::Flaky(chance.number(20, 90)) } else { Behaviour::Hangs };
        phases.push(phase(at, behaviour));
        at += chance.ms(1_000, 8_000);
    }
    phases.push(phase(at, Behaviour::Well));
    phases
}
