//! The simulated fleet: nothing goes wrong in a thousand of them, whatever is sabotaged is found, and a seed replays exactly.

use breakerbox_testkit::sim::{Flavour, Invariant, Sabotage, Scenario, run, run_many};

#[test]
fn nothing_goes_wrong_in_a_thousand_fleets() {
    let summary = run_many(0..1_000, Sabotage::None, false, |_| {});
    if let Some((seed, violations)) = summary.failed.iter().next() {
        panic!("{}; see it again: cargo xtask sim --seed {seed}", violations[0]);
    }
    let tally = summary.tally;
    println!("{} runs, {:?} of virtual time, {tally:?}", summary.runs, summary.lasted);
    // What never happens proves nothing.
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
    ];
    assert!(happened.iter().all(|times| *times > 20), "{tally:?}");
}

#[test]
fn a_seed_replays_exactly() {
    let mut flavours = Vec::new();
    for seed in 0..12 {
        let [one, other] = [(); 2].map(|()| run(seed, Sabotage::None, true));
        assert!(one.trace.len() > 500, "{} lines", one.trace.len());
        for (n, (one, other)) in one.trace.iter().zip(&other.trace).enumerate() {
            assert_eq!(one, other, "seed {seed}, line {n}");
        }
        assert_eq!(one, other);
        assert_eq!(run(seed, Sabotage::None, false).tally, one.tally, "traced or not");
        flavours.push(Scenario::new(seed).flavour);
    }
    for flavour in [Flavour::Calm, Flavour::OneBroken, Flavour::Faulty] {
        assert!(flavours.contains(&flavour), "{flavour:?}");
    }
}

/// What is broken, and which of the invariants says so first, in one of the first seeds.
const FOUND: [(Sabotage, Invariant); 13] = [
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
];

#[test]
fn whatever_is_sabotaged_is_found() {
    assert_eq!(FOUND.map(|(sabotage, _)| sabotage), Sabotage::ALL);
    let mut missed = Vec::new();
    for (sabotage, invariant) in FOUND {
        let mut said = Vec::new();
        let found = (0..100).any(|seed| {
            let report = run(seed, sabotage, false);
            said.extend(report.violations.iter().map(|violation| (seed, violation.invariant)));
            report.violations.iter().any(|violation| violation.invariant == invariant)
        });
        println!("{sabotage:?}: {said:?}");
        if !found {
            missed.push((sabotage, invariant));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
