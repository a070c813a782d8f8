//! The adaptive throttle reaches the targets of every scenario, and the simulator itself is correct.
//!
//! Only a few seeds; `cargo xtask prove throttle` runs twenty.

use breakerbox_testkit::overload::{GateKind, Measures, Scenario, judge, simulate};

const SEEDS: u64 = 4;

fn scenario(name: &str) -> Scenario {
    Scenario::all().unwrap().into_iter().find(|scenario| scenario.name == name).unwrap()
}

macro_rules! reaches_its_targets {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let judged = judge(&scenario($name), SEEDS);
                assert!(!judged.is_empty(), "nothing is judged");
                let missed: Vec<_> =
                    judged.iter().filter(|judged| !judged.met).map(ToString::to_string).collect();
                assert!(missed.is_empty(), "{missed:#?}");
            }
        )*

        #[test]
        fn every_judged_scenario_has_a_test() {
            let tested = [$($name),*];
            for scenario in Scenario::all().unwrap() {
                let expected = !scenario.targets.report_only;
                assert_eq!(tested.contains(&scenario.name.as_str()), expected, "{}", scenario.name);
            }
        }
    };
}

reaches_its_targets! {
    reference: "reference";
    fleet_of_100: "fleet-of-100";
    fleet_of_10: "fleet-of-10";
    outage: "outage";
    outage_fleet_of_10: "outage-fleet-of-10";
    outage_fleet_of_100: "outage-fleet-of-100";
    outage_with_answers: "outage-with-answers";
    outage_at_first: "outage-at-first";
    a_fifth_over: "a-fifth-over";
    backend_by_priority: "backend-by-priority";
    costly_rejections: "costly-rejections";
    retries: "retries";
    capacity_changes: "capacity-changes";
    capacity_changes_under_load: "capacity-changes-under-load";
    bursts_that_fit: "bursts-that-fit";
    bursts_that_do_not: "bursts-that-do-not";
    one_a_second: "one-a-second";
    one_a_second_overloaded: "one-a-second-overloaded";
    fifty_thousand_a_second: "fifty-thousand-a-second";
    slow_answers: "slow-answers";
    stray_rejections: "stray-rejections";
    noise_5: "noise-5";
    noise_10: "noise-10";
    noise_20: "noise-20";
    noise_5_fleet_of_4: "noise-5-fleet-of-4";
    noise_10_fleet_of_4: "noise-10-fleet-of-4";
    noise_20_fleet_of_4: "noise-20-fleet-of-4";
    noise_10_fleet_of_100: "noise-10-fleet-of-100";
    noise_20_fleet_of_100: "noise-20-fleet-of-100";
    noise_5_then_overload: "noise-5-then-overload";
    noise_10_then_overload: "noise-10-then-overload";
    noise_20_then_overload: "noise-20-then-overload";
    noise_10_then_overload_fleet_of_4: "noise-10-then-overload-fleet-of-4";
    noise_10_a_fifth_over: "noise-10-a-fifth-over";
    noise_that_begins: "noise-that-begins";
    noise_that_ends: "noise-that-ends";
    noise_that_ends_fleet_of_4: "noise-that-ends-fleet-of-4";
    noise_begins_in_overload: "noise-begins-in-overload";
    noise_at_one_a_second: "noise-at-one-a-second";
    noise_at_five_a_second: "noise-at-five-a-second";
    noise_at_ten_thousand_a_second: "noise-at-ten-thousand-a-second";
    noise_and_outage: "noise-and-outage";
    one_503_then_one_in_5s: "one-503-then-one-in-5s";
    one_503_then_one_a_second: "one-503-then-one-a-second";
    one_503_then_five_a_second: "one-503-then-five-a-second";
    one_refused_then_one_in_5s: "one-refused-then-one-in-5s";
    one_refused_then_one_a_second: "one-refused-then-one-a-second";
    one_refused_then_five_a_second: "one-refused-then-five-a-second";
}

fn close(found: f64, expected: f64, by: f64) {
    assert!((found - expected).abs() <= by, "{found} is not within {by} of {expected}");
}

/// The simulator reproduces the published rows for the reference scenario, which shows that it is correct.
#[test]
fn the_known_rows_of_the_reference_come_out() {
    let run = |gate| {
        let runs: Vec<_> = (1..=4).map(|seed| simulate(&scenario("reference"), gate, seed)).collect();
        Measures::mean(&runs)
    };
    let success = |run: &Measures, expected: [f64; 4]| {
        for (found, expected) in run.success.iter().zip(expected) {
            close(*found, expected, 1.5);
        }
    };
    let none = run(GateKind::None);
    close(none.goodput, 100.0, 0.1);
    close(none.sent, 500.0, 0.1);
    success(&none, [20.0; 4]);
    assert_eq!((none.needless, none.back), (0.0, 0.0));
    let sre = run(GateKind::Sre);
    close(sre.goodput, 100.0, 0.5);
    close(sre.sent, 148.0, 3.0);
    success(&sre, [71.0, 7.0, 2.0, 1.0]);
    close(sre.needless, 11_096.0, 800.0);
    close(sre.back, 255.0, 10.0);
    let oracle = run(GateKind::Oracle);
    close(oracle.goodput, 100.0, 0.1);
    close(oracle.sent, 100.0, 0.1);
    success(&oracle, [80.0, 0.0, 0.0, 0.0]);
    close(oracle.needless, 7.0, 1.0);
    close(oracle.back, 0.1, 0.1);
}

#[test]
fn a_run_depends_on_its_seed_alone() {
    let run = |seed| simulate(&scenario("bursts-that-do-not"), GateKind::Adaptive, seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
