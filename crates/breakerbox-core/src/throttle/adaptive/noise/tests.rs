//! Trials on a destination without chance, and what is learnt from them.

use std::vec::Vec;

use super::super::estimate::Estimate;
use super::*;

/// A destination that is called as the estimate says, evaluated fifty times per second. Counts are fractions of
/// calls, so that chance plays no part.
struct Loop {
    estimate: Estimate,
    mode: Mode,
    now: f64,
    sent: f64,
    accepted: f64,
}

impl Loop {
    fn new() -> Self {
        Self { estimate: Estimate::default(), mode: Mode::Calm, now: 1_000.0, sent: 0.0, accepted: 0.0 }
    }

    /// Runs for some seconds. The rates are per second; `noise` is the share that is rejected whatever the load.
    /// Returns the rates of calls sent and accepted.
    fn run(&mut self, seconds: u32, offered: f64, capacity: f64, noise: f64) -> [f64; 2] {
        (self.sent, self.accepted) = (0.0, 0.0);
        for _ in 0..seconds * 50 {
            let limit = if self.mode == Mode::Calm { f64::INFINITY } else { self.estimate.rate(self.mode) };
            let sent = offered.min(limit) / 50.0;
            let accepted = (sent * (1.0 - noise)).min(capacity / 50.0);
            self.now += 0.02;
            let seen = Seen {
                now: self.now,
                seconds: 0.02,
                asked: offered / 50.0,
                sent,
                accepted,
                rejected: sent - accepted,
                neither: 0.0,
                latency: 0.01,
            };
            self.mode = self.estimate.look(self.mode, seen);
            self.sent += sent;
            self.accepted += accepted;
        }
        [self.sent, self.accepted].map(|count| count / f64::from(seconds))
    }
}

#[test]
fn noise_is_learnt_and_not_shed_for() {
    for offered in [20.0, 100.0, 1_000.0, 50_000.0] {
        for noise in [0.15, 0.2, 0.3] {
            let mut calls = Loop::new();
            calls.run(30, offered, f64::INFINITY, 0.0);
            calls.run(30, offered, f64::INFINITY, noise);
            let [sent, _] = calls.run(60, offered, f64::INFINITY, noise);
            assert!(sent >= 0.99 * offered, "{sent} of {offered} with {noise}");
            let learnt = calls.estimate.noise_share();
            assert!(learnt == 0.0 || (noise * 0.7..=noise * 1.01).contains(&learnt), "{learnt} for {noise}");
        }
    }
}

#[test]
fn an_overload_is_not_noise() {
    for offered in [120.0, 150.0, 500.0, 5_000.0] {
        let mut calls = Loop::new();
        calls.run(30, 90.0, 100.0, 0.0);
        calls.run(10, offered, 100.0, 0.0);
        let [sent, accepted] = calls.run(120, offered, 100.0, 0.0);
        assert_eq!(calls.mode, Mode::Shedding, "{offered}/s");
        assert!(calls.estimate.noise_share() < 0.02, "{offered}/s: {}", calls.estimate.noise_share());
        assert!(accepted >= 98.0, "{accepted} of 100 at {offered}/s");
        assert!(sent <= 103.0 + 0.025 * offered, "{sent} at {offered}/s");
    }
}

#[test]
fn an_overload_on_top_of_noise_is_found() {
    // With more noise, more of the capacity is lost while the noise is measured again.
    for (noise, offered, least) in
        [(0.1, 150.0, 96.0), (0.1, 500.0, 96.0), (0.2, 150.0, 90.0), (0.2, 500.0, 90.0)]
    {
        let mut calls = Loop::new();
        calls.run(60, 90.0, 100.0, noise);
        calls.run(30, offered, 100.0, noise);
        let [sent, accepted] = calls.run(120, offered, 100.0, noise);
        assert_eq!(calls.mode, Mode::Shedding, "{offered}/s with {noise}");
        assert!(accepted >= least, "{accepted} of 100 at {offered}/s with {noise}");
        assert!(sent * (1.0 - noise) <= 118.0, "{sent} at {offered}/s with {noise}");
        calls.run(5, 90.0, 100.0, noise);
        assert_eq!(calls.mode, Mode::Calm, "after {offered}/s with {noise}");
    }
}

#[test]
fn noise_is_forgotten_within_a_minute() {
    let mut noise = Noise::default();
    noise.learn(100_000.0, 500_000.0);
    assert!((0.18..0.2).contains(&noise.share()), "{}", noise.share());
    let seen = Seen { seconds: 1.0, accepted: 100.0, ..Seen::default() };
    let known =
        Known { offered: 100.0, usual: 100.0, accepts: 100.0, outcomes: 100.0, share: 0.0, count: 100.0 };
    let some = Known { share: 0.09, ..known };
    noise.look(Mode::Calm, seen, some);
    assert!(noise.share() > 0.15, "a second with fewer rejects may be chance: {}", noise.share());
    noise.look(Mode::Calm, seen, known);
    assert_eq!(noise.share(), 0.0, "every call is sent, and none is rejected");
    noise.learn(100_000.0, 500_000.0);
    (0..60).for_each(|_| assert_eq!(noise.look(Mode::Probing, seen, known), None));
    assert!(noise.share() > 0.15, "probes tell nothing: {}", noise.share());
    // While calls are shed, rejects are seen in any case. Without a trial, they confirm nothing.
    let known = Known { share: 0.3, accepts: 0.0, ..known };
    (0..60).for_each(|_| assert_eq!(noise.look(Mode::Shedding, seen, known), None));
    assert!(noise.share() < 0.16, "{}", noise.share());
}

#[test]
fn a_trial_that_proves_nothing_keeps_the_rate_of_accepts_before() {
    let known =
        Known { offered: 110.0, usual: 110.0, accepts: 50.0, outcomes: 62.0, share: 0.2, count: 60.0 };
    // Rejects among 20 outcomes, where the share was 20 % before, and the rate of accepts before it fell.
    for (rejects, base) in [(0.0, 50.0), (1.0, 80.0)] {
        let mut trial = Noise { before: 0.2, base: 80.0, count: 20.0, rejects, ..Noise::default() };
        assert_eq!(trial.conclude(known), None, "{rejects}");
        assert_eq!(trial.base, base, "{rejects}");
    }
}

#[test]
fn far_above_the_capacity_a_trial_gives_no_growth_but_restores_what_collapsed() {
    let known =
        Known { offered: 500.0, usual: 500.0, accepts: 25.0, outcomes: 31.0, share: 0.2, count: 60.0 };
    for (base, accepts) in [(26.0, None), (80.0, Some(80.0))] {
        let mut trial = Noise { before: 0.2, base, count: 100.0, rejects: 20.0, ..Noise::default() };
        assert_eq!(trial.conclude(known), accepts, "{base}/s before");
    }
}

#[test]
fn a_client_with_few_calls_tolerates_rejects() {
    for (offered, accepts, expected) in
        [(1.0, 0.8, true), (1.0, 0.5, false), (5.0, 1.0, false), (100.0, 80.0, false)]
    {
        assert_eq!(Noise::is_tolerated(offered, accepts), expected, "{accepts} of {offered}");
    }
}

#[test]
fn few_rejects_are_not_certain() {
    // Rejects and outcomes of trials, and the share that is assumed.
    for (rejected, outcomes, least, most) in
        [(0.0, 60.0, 0.0, 0.0), (1.0, 60.0, 0.0, 0.0), (6.0, 60.0, 0.08, 0.09), (50.0, 500.0, 0.09, 0.1)]
    {
        let mut noise = Noise::default();
        noise.learn(rejected, outcomes);
        assert!((least..=most).contains(&noise.share()), "{rejected} of {outcomes}: {}", noise.share());
    }
}

#[test]
fn a_trial_tells_noise_from_load() {
    let known =
        Known { offered: 110.0, usual: 110.0, accepts: 80.0, outcomes: 100.0, share: 0.2, count: 100.0 };
    // Rejects among 100 outcomes at a lower rate, where the share was 20 % before; the rate of accepts that the
    // destination takes, if they are noise; and the share of noise.
    let table = [
        (0.0, None, 0.0..=0.0),
        (4.0, None, 0.02..=0.04),
        (10.0, Some(90.0), 0.08..=0.1),
        (20.0, Some(120.0), 0.18..=0.2),
        (30.0, Some(120.0), 0.2..=0.26),
        (90.0, Some(120.0), 0.25..=0.4),
    ];
    for (rejects, accepts, learnt) in table {
        let mut trial = Noise { before: 0.2, base: 90.0, count: 100.0, rejects, ..Noise::default() };
        assert_eq!(trial.conclude(known), accepts, "{rejects}");
        assert!(learnt.contains(&trial.share()), "{rejects}: {}", trial.share());
        assert!(!trial.is_trial());
    }
    // Far more is offered, and fewer calls are rejected in the trial than before: load is the cause of the others.
    let far = Known { offered: 500.0, ..known };
    let mut trial = Noise { before: 0.2, base: 90.0, count: 100.0, rejects: 10.0, ..Noise::default() };
    assert_eq!(trial.conclude(far), None);
    assert!((0.08..=0.1).contains(&trial.share()), "{}", trial.share());
}

#[test]
fn trials_of_all_clients_are_at_the_same_time() {
    let known = |accepts: f64| Known {
        offered: 500.0,
        usual: 500.0,
        accepts,
        outcomes: accepts,
        share: 0.1,
        count: 60.0,
    };
    let begins = |accepts: f64| {
        let tenths = (0..2_000).map(|tenth| f64::from(tenth) / 10.0);
        let common = tenths.filter(|now| {
            let slot = Slot::at(*now, known(accepts));
            slot.is_common && slot.position < 0.05
        });
        common.collect::<Vec<_>>()
    };
    assert_eq!(begins(100.0), (0..10).map(|n| f64::from(n) * 20.0).collect::<Vec<_>>());
    assert_eq!(begins(25.0), begins(100.0));
    assert_eq!(begins(100_000.0), begins(100.0), "shorter, but no more often");
    assert_eq!(begins(4.0), [0.0, 80.0, 160.0], "few calls: longer, and less often");
}

#[test]
fn more_rejects_than_noise_explains_are_noticed() {
    let mut noise = Noise::default();
    assert!(noise.is_exceeded_by(0.001, 1_000.0), "without noise, any reject is more");
    noise.learn(50.0, 500.0);
    for (share, count, expected) in [(0.1, 100.0, false), (0.14, 100.0, false), (0.2, 100.0, true)] {
        assert_eq!(noise.is_exceeded_by(share, count), expected, "{share} of {count}");
    }
}
