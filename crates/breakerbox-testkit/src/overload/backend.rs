//! The simulated backend: a token bucket without a queue. The oracle uses such a bucket as well, in front of
//! the real one.

use std::time::Duration;

use breakerbox_core::throttle::{Levels, LoadSignal, Priority};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::scenario::{BackendModel, holds_at};

/// A token bucket that counts millionths of a call, so that rates of whole calls per second cause no rounding
/// errors.
pub(super) struct Capacity {
    model: BackendModel,
    filled: f64,
    filled_at: u64,
}

impl Capacity {
    pub(super) fn of(model: &BackendModel) -> Self {
        Self { model: model.clone(), filled: model.burst * 1e6, filled_at: 0 }
    }

    /// Returns a bucket with the backend's capacity for the oracle, which decides in advance whether the
    /// backend would accept a call. Unlike in the backend, a rejected call uses no capacity.
    pub(super) fn oracle(model: &BackendModel, by_priority: bool) -> Self {
        Self::of(&BackendModel { by_priority, rejection_cost: 0.0, ..model.clone() })
    }

    /// Returns whether a call is accepted, and uses capacity for it: one call if accepted, `rejection_cost`
    /// if rejected.
    pub(super) fn take(&mut self, priority: Priority, now: u64) -> bool {
        self.fill(now);
        let levels = f64::from(Levels::STANDARD.count());
        let kept_for_higher = if self.model.by_priority { f64::from(priority.level()) / levels } else { 0.0 };
        let need = 1.0 + (self.model.burst - 1.0) * kept_for_higher;
        let room = self.filled >= need * 1e6 && !is_out(&self.model, now);
        let cost = if room { 1.0 } else { self.model.rejection_cost };
        self.filled = (self.filled - cost * 1e6).max(-self.model.burst * 1e6);
        room
    }

    fn fill(&mut self, now: u64) {
        let phase = holds_at(&self.model.capacity, |phase| phase.lasts, Duration::from_micros(now));
        let rate = phase.map_or(0.0, |phase| phase.rate);
        let micros = now.saturating_sub(self.filled_at) as f64;
        self.filled = (self.filled + micros * rate).min(self.model.burst * 1e6);
        self.filled_at = now;
    }
}

/// The backend's response to one call.
pub(super) struct Answer {
    pub(super) verdict: LoadSignal,
    pub(super) at_micros: u64,
}

/// The simulated backend, as its clients see it.
pub(super) struct Backend {
    capacity: Capacity,
    calls: u32,
}

impl Backend {
    pub(super) fn of(model: &BackendModel) -> Self {
        Self { capacity: Capacity::of(model), calls: 0 }
    }

    pub(super) fn call(&mut self, priority: Priority, rng: &mut SmallRng, now: u64) -> Answer {
        let stray = rng.random::<f64>() < stray_rejections(&self.capacity.model, now);
        let before = self.calls;
        self.calls = self.calls.saturating_add(1);
        let (refused, rejected) = (self.capacity.model.first_refused, self.capacity.model.first_rejected);
        let verdict = if before < refused {
            LoadSignal::Neither
        } else if before - refused < rejected || stray || !self.capacity.take(priority, now) {
            LoadSignal::Reject
        } else {
            LoadSignal::Accept
        };
        let model = &self.capacity.model;
        let takes = if verdict == LoadSignal::Accept {
            holds_at(&model.accept_takes, |latency| latency.lasts, Duration::from_micros(now))
                .map_or(Duration::ZERO, |latency| latency.takes)
        } else {
            let outage = model.outage.filter(|_| is_out(model, now));
            outage.map_or(model.reject_takes, |outage| outage.fails_after)
        };
        Answer { verdict, at_micros: now + u64::try_from(takes.as_micros()).unwrap_or(u64::MAX / 2) }
    }
}

/// Returns the share of calls that are rejected at random at this time.
fn stray_rejections(model: &BackendModel, now: u64) -> f64 {
    let now = Duration::from_micros(now);
    let applies = model.stray_period.is_none_or(|period| (period.from..period.to).contains(&now));
    if applies { model.stray_rejections } else { 0.0 }
}

fn is_out(model: &BackendModel, now: u64) -> bool {
    let now = Duration::from_micros(now);
    model.outage.is_some_and(|outage| (outage.from..outage.to).contains(&now))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn model(more: &str) -> BackendModel {
        let text = r#"
            capacity = [{ for = "1s", rate = 100 }]
            burst = 10
            accept_takes = [{ for = "1s", takes = "10ms" }]
            reject_takes = "1ms"
        "#;
        toml::from_str(&format!("{text}\n{more}")).unwrap()
    }

    fn taken(capacity: &mut Capacity, priority: Priority, now: u64) -> usize {
        (0..100).filter(|_| capacity.take(priority, now)).count()
    }

    #[test]
    fn takes_a_burst_and_then_its_rate() {
        let mut capacity = Capacity::of(&model(""));
        for (now, expected) in [(0, 10), (9_999, 0), (10_000, 1), (60_000, 5), (10_000_000, 10)] {
            assert_eq!(taken(&mut capacity, Priority::LOW, now), expected, "at {now} us");
        }
    }

    #[test]
    fn keeps_room_for_the_higher_levels_if_it_looks_at_them() {
        let mut capacity = Capacity::of(&model("by_priority = true"));
        let levels = [Priority::LOW, Priority::MEDIUM, Priority::IMPORTANT, Priority::HIGH];
        assert_eq!(levels.map(|priority| taken(&mut capacity, priority, 0)), [3, 2, 2, 3]);
    }

    #[test]
    fn a_rejection_costs_what_the_model_says() {
        let mut capacity = Capacity::of(&model("rejection_cost = 0.1"));
        assert_eq!(taken(&mut capacity, Priority::LOW, 0), 10);
        assert_eq!(taken(&mut capacity, Priority::LOW, 90_000), 0, "9 rejections' worth is still owed");
        assert_eq!(taken(&mut Capacity::oracle(&model("rejection_cost = 0.1"), false), Priority::LOW, 0), 10);
    }

    #[test]
    fn an_answer_takes_its_time() {
        let outage = r#"outage = { from = "1s", to = "2s", fails_after = "500ms" }"#;
        let mut backend = Backend::of(&model(outage));
        let mut answer = |now| {
            let answer = backend.call(Priority::LOW, &mut SmallRng::seed_from_u64(1), now);
            (answer.verdict, answer.at_micros - now)
        };
        assert_eq!(answer(0), (LoadSignal::Accept, 10_000));
        assert_eq!(answer(1_000_000), (LoadSignal::Reject, 500_000));
        assert_eq!(answer(2_000_000), (LoadSignal::Accept, 10_000));
    }

    #[test]
    fn strays_keep_to_their_share_and_period() {
        let period = r#"stray_period = { from = "1s", to = "3s" }"#;
        for (more, expected) in [("", [25.0; 4]), (period, [0.0, 25.0, 25.0, 0.0])] {
            let mut backend = Backend::of(&model(&format!("stray_rejections = 0.25\n{more}")));
            let mut rng = SmallRng::seed_from_u64(1);
            for (second, expected) in expected.into_iter().enumerate() {
                // A call every 20 ms, which is half of the capacity.
                let times = (0..50).map(|n| second as u64 * 1_000_000 + n * 20_000);
                let strays = times
                    .filter(|now| backend.call(Priority::LOW, &mut rng, *now).verdict == LoadSignal::Reject);
                let percent = 2.0 * strays.count() as f64;
                assert!((percent - expected).abs() <= expected / 2.0, "second {second}: {percent} %");
            }
        }
    }

    #[test]
    fn the_first_calls_may_fail_whatever_the_load() {
        let mut backend = Backend::of(&model("first_refused = 1\nfirst_rejected = 2"));
        let mut rng = SmallRng::seed_from_u64(1);
        let verdicts: Vec<_> = (0..4).map(|n| backend.call(Priority::LOW, &mut rng, n).verdict).collect();
        assert_eq!(
            verdicts,
            [LoadSignal::Neither, LoadSignal::Reject, LoadSignal::Reject, LoadSignal::Accept]
        );
    }
}
