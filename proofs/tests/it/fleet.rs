//! Fleets of separate processes: one probe for each recovery, whatever fault a prober has; and calls that flow again
//! soon after an outage.
//!
//! Only a few rounds; `cargo xtask prove fleet` runs a thousand recoveries for each of these tests and fifty
//! rounds for each fault, and also checks whether the processes competed often enough, which here depends on
//! the machine's other load.

use breakerbox_proofs::fleet::{
    Fault, Kind, Latency, Plan, RecoveryLagSize, inject_fault, prove_recovery_lag, recover,
};

use crate::program;

async fn recoveries(kind: Kind, latency: Latency, probes: u32) {
    let plan = Plan { kind, latency, probes, processes: 8, endpoints: 10, rounds: 5 };
    let recoveries = recover(program(), plan).await.unwrap();
    assert!(recoveries.faults().is_empty(), "{recoveries}");
    assert_eq!(recoveries.rounds, 50);
}

macro_rules! one_probe_for_each_recovery {
    ($($test:ident: $kind:ident, $latency:ident, $probes:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                recoveries(Kind::$kind, Latency::$latency, $probes).await;
            }
        )*
    };
}

one_probe_for_each_recovery! {
    one_probe_over_redis: Redis, None, 1;
    one_probe_over_a_slow_redis: Redis, Varying, 1;
    three_probes_over_redis: Redis, None, 3;
    three_probes_over_a_slow_redis: Redis, Varying, 3;
    one_probe_over_postgres: Postgres, None, 1;
    one_probe_over_a_slow_postgres: Postgres, Varying, 1;
    three_probes_over_postgres: Postgres, None, 3;
    three_probes_over_a_slow_postgres: Postgres, Varying, 3;
}

macro_rules! whatever_befalls_a_process {
    ($($test:ident: $fault:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                for kind in Kind::ALL {
                    let fault_results = inject_fault(program(), kind, Fault::$fault, 3, 1).await.unwrap();
                    assert!(fault_results.faults().is_empty(), "{fault_results}");
                    assert_eq!(fault_results.rounds, 3);
                }
            }
        )*

        #[test]
        fn every_fault_has_a_test() {
            assert_eq!(Fault::ALL, [$(Fault::$fault),*]);
        }
    };
}

whatever_befalls_a_process! {
    the_next_probe_comes_when_the_lease_of_a_killed_prober_ends: Killed;
    a_prober_that_comes_back_while_another_probes_changes_nothing: PausedWhileOthersAsk;
    a_prober_that_comes_back_too_late_changes_nothing: PausedAndNobodyAsks;
    who_comes_back_with_old_failures_does_not_trip_the_circuit: CutOff;
    a_failure_in_flight_at_the_trip_moves_no_deadline: InFlight;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_flow_again_soon_after_an_outage() {
    let size = RecoveryLagSize::SMALL;
    for &outage in size.outages {
        let findings = prove_recovery_lag(program(), outage, size).await.unwrap();
        assert!(findings.faults().is_empty(), "{findings}");
    }
}
