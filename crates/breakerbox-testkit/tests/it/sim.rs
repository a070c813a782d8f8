//! The simulated fleet: no violations in a hundred runs, every deliberate fault is detected, and a seed replays
//! exactly.

use breakerbox_testkit::sim::{Flavour, Invariant, Sabotage, Scenario, Tally, run, run_many};

/// The number of simulated runs, limited by the time that a test may take. `cargo xtask sim` runs any number.
const SEEDS: u64 = 100;

#[test]
fn nothing_goes_wrong_in_a_hundred_fleets() {
    let summary = run_many(0..SEEDS, Sabotage::None, false, |_| {});
    if let Some((seed, violations)) = summary.failed.iter().next() {
        panic!("{}; see it again: cargo xtask sim --seed {seed}", violations[0]);
    }
    let tally = summary.tally;
    println!("{} runs, {:?} of virtual time, {tally:?}", summary.runs, summary.lasted);
    // A run proves nothing about events that never occur in it.
    let happened = [
        tally.calls,
        tally.refusals,
        tally.lost_swaps,
        tally.trips,
        tally.leases,
        tally.results,
        tally.probes_alone,
        tally.closings,
        tally.publications,
        tally.late,
        tally.orders,
        tally.refused_writes,
        tally.exits,
        tally.broken_calls,
        tally.elections,
        tally.ticks,
    ];
    assert!(happened.iter().all(|times| *times > 10), "{tally:?}");
}

/// Few of the hundred runs in the other test have sampled circuits, and faults in the middle of a leader's tick
/// are rare, so this test runs only sampled fleets.
#[test]
fn nothing_goes_wrong_in_sampled_fleets() {
    let mut tally = Tally::default();
    for seed in (0..SABOTAGED).filter(|seed| Scenario::new(*seed).flavour == Flavour::Sampled) {
        let report = run(seed, Sabotage::None, false);
        assert_eq!(report.violations, [], "see it again: cargo xtask sim --seed {seed}");
        tally.add(&report.tally);
    }
    println!("{tally:?}");
    assert!(tally.elections > 50 && tally.failed_polls > 10 && tally.fenced_writes > 3, "{tally:?}");
}

/// The number of runs to replay, enough to include every flavour.
const REPLAYED: u64 = 40;

#[test]
fn a_seed_replays_exactly() {
    let mut flavours = Vec::new();
    for seed in 0..REPLAYED {
        let flavour = Scenario::new(seed).flavour;
        if flavours.contains(&flavour) {
            continue;
        }
        let [one, other] = [(); 2].map(|()| run(seed, Sabotage::None, true));
        assert!(one.trace.len() > 200, "{} lines", one.trace.len());
        for (n, (one, other)) in one.trace.iter().zip(&other.trace).enumerate() {
            assert_eq!(one, other, "seed {seed}, line {n}");
        }
        assert_eq!(one, other);
        assert_eq!(run(seed, Sabotage::None, false).tally, one.tally, "traced or not");
        flavours.push(flavour);
    }
    for flavour in Flavour::ALL {
        assert!(flavours.contains(&flavour), "{flavour:?}");
    }
}

/// The maximum number of runs in which a deliberate fault must be detected. Most faults are detected in the
/// first few runs.
const SABOTAGED: u64 = 300;

/// Each deliberate fault, with an invariant that must detect it.
const FOUND: [(Sabotage, Invariant); 25] = [
    (Sabotage::IgnoresDeadlines, Invariant::NoLateSwap),
    (Sabotage::IgnoresVersions, Invariant::CompareAndSwap),
    (Sabotage::HidesLeases, Invariant::OneLease),
    (Sabotage::MergesTwice, Invariant::NothingDoubled),
    (Sabotage::RepeatsMerges, Invariant::NothingDoubled),
    (Sabotage::IgnoresEpochs, Invariant::NothingDoubled),
    (Sabotage::KeepsWindows, Invariant::NothingDoubled),
    (Sabotage::DropsMerges, Invariant::NothingLost),
    (Sabotage::ReadsThePast, Invariant::AllAgree),
    (Sabotage::LeasesNeverEnd, Invariant::ClosesInTheEnd),
    (Sabotage::ForgetsOverrides, Invariant::OverridesHold),
    (Sabotage::RevivesResults, Invariant::NoStaleResult),
    (Sabotage::DropsSuccesses, Invariant::OneBrokenOpensNothing),
    (Sabotage::ChecksNothing, Invariant::StoreLossReported),
    (Sabotage::EndsRamps, Invariant::RampIsShared),
    (Sabotage::ExitsAtOnce, Invariant::ShortLivedCount),
    (Sabotage::NoStandBack, Invariant::RecoversBesideBroken),
    (Sabotage::NoOwnCircuit, Invariant::BrokenIsProtected),
    (Sabotage::DropsProposals, Invariant::ObserversHear),
    (Sabotage::PublishesExpired, Invariant::NoStaleRecord),
    (Sabotage::KeepsOwnTimes, Invariant::StoreTimes),
    (Sabotage::IgnoresTerms, Invariant::LeaderWritesInTerm),
    (Sabotage::CountsThePast, Invariant::SampledCloses),
    (Sabotage::NoRecentTicks, Invariant::SampledOpens),
    (Sabotage::NoProbeLimit, Invariant::FewProbesPerTick),
];

/// Deliberate faults that are reliably detected only in runs with one flavour. Only runs with that flavour are
/// searched.
const CENTRED: [(Sabotage, Flavour); 11] = [
    (Sabotage::DropsProposals, Flavour::Flapping),
    (Sabotage::EndsRamps, Flavour::Crowd),
    (Sabotage::ChecksNothing, Flavour::NoWrites),
    (Sabotage::ExitsAtOnce, Flavour::ShortLived),
    (Sabotage::NoStandBack, Flavour::BrokenProber),
    (Sabotage::NoOwnCircuit, Flavour::BrokenProber),
    (Sabotage::PublishesExpired, Flavour::LongAbsence),
    (Sabotage::IgnoresTerms, Flavour::Sampled),
    (Sabotage::CountsThePast, Flavour::Sampled),
    (Sabotage::NoRecentTicks, Flavour::Sampled),
    (Sabotage::NoProbeLimit, Flavour::Sampled),
];

#[test]
fn whatever_is_sabotaged_is_found() {
    assert_eq!(FOUND.map(|(sabotage, _)| sabotage), Sabotage::ALL);
    let mut missed = Vec::new();
    for (sabotage, invariant) in FOUND {
        let mut violations = Vec::new();
        let concerns = |seed: &u64| {
            let flavour = Scenario::new(*seed).flavour;
            CENTRED.iter().all(|(of, in_flavour)| *of != sabotage || *in_flavour == flavour)
        };
        let found = (0..SABOTAGED).filter(concerns).any(|seed| {
            let report = run(seed, sabotage, false);
            violations.extend(report.violations.iter().map(|violation| (seed, violation.invariant)));
            report.violations.iter().any(|violation| violation.invariant == invariant)
        });
        println!("{sabotage:?}: {violations:?}");
        if !found {
            missed.push((sabotage, invariant));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
