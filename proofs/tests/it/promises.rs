//! A fleet's guarantees at a small scale: counts are checked, durations are not. `cargo xtask prove fleet` runs
//! them in full.

use breakerbox_proofs::fleet::{
    Jobs, Kind, Mode, Row, Scale, keep_states, ramp_together, recover_beside_broken, run_jobs,
};
use breakerbox_proofs::leaders::pause_leaders;

use crate::program;

/// The number of rounds in each test.
const ROUNDS: u32 = 2;

/// The number of processes that share the ramp.
const RAMPING: u32 = 8;

fn holds(row: &Row) {
    assert!(row.faults().is_empty(), "{}\n{row}", Row::head());
    assert_eq!(row.rounds, u64::from(ROUNDS));
}

macro_rules! local_first_and_strict {
    ($($test:ident: $kind:ident, |$store:ident, $mode:ident| $row:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let $store = Kind::$kind;
                for $mode in Mode::ALL {
                    holds(&$row.await.unwrap());
                }
            }
        )*
    };
}

local_first_and_strict! {
    a_broken_process_holds_up_no_recovery_over_redis: Redis,
        |kind, mode| recover_beside_broken(program(), kind, mode, Scale::small(ROUNDS).patient());
    a_broken_process_holds_up_no_recovery_over_postgres: Postgres,
        |kind, mode| recover_beside_broken(program(), kind, mode, Scale::small(ROUNDS).patient());
    nothing_that_was_decided_alone_is_undone_over_redis: Redis,
        |kind, mode| keep_states(program(), kind, mode, Scale::small(ROUNDS));
    nothing_that_was_decided_alone_is_undone_over_postgres: Postgres,
        |kind, mode| keep_states(program(), kind, mode, Scale::small(ROUNDS));
    all_processes_share_one_ramp_over_redis: Redis,
        |kind, mode| ramp_together(program(), kind, mode, RAMPING, Scale::small(ROUNDS).patient());
    all_processes_share_one_ramp_over_postgres: Postgres,
        |kind, mode| ramp_together(program(), kind, mode, RAMPING, Scale::small(ROUNDS).patient());
    one_call_jobs_open_the_circuit_over_redis: Redis,
        |kind, mode| run_jobs(program(), kind, mode, Jobs { count: 10, at_once: 1 }, Scale::small(ROUNDS));
    one_call_jobs_open_the_circuit_over_postgres: Postgres,
        |kind, mode| run_jobs(program(), kind, mode, Jobs { count: 10, at_once: 1 }, Scale::small(ROUNDS));
    one_call_jobs_at_once_open_the_circuit: Redis,
        |kind, mode| run_jobs(program(), kind, mode, Jobs { count: 12, at_once: 4 }, Scale::small(ROUNDS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_paused_writes_nothing() {
    for kind in Kind::ALL {
        let paused = pause_leaders(program(), kind, ROUNDS).await.unwrap();
        assert!(paused.faults(false).is_empty(), "{paused}: {:?}", paused.faults(false));
    }
}
