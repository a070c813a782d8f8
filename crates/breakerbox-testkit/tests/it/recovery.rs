//! Of a hundred callers at the end of a cool-off, exactly one probes, however the probe ends.
//!
//! Only a few rounds; `cargo xtask prove recovery` runs ten thousand for each way to end the probe, and also
//! checks whether the callers competed often enough, which here depends on the machine's other load.

use breakerbox_testkit::recovery::{ProbeEnd, prove};

const ROUNDS: u64 = 500;

macro_rules! one_probe_at_a_time {
    ($($test:ident: $probe_end:ident;)*) => {
        $(
            #[test]
            fn $test() {
                let proof = prove(ProbeEnd::$probe_end, ROUNDS).unwrap();
                assert!(proof.faults().is_empty(), "{proof}");
                assert_eq!(proof.rounds, ROUNDS);
            }
        )*

        #[test]
        fn every_fate_has_a_test() {
            assert_eq!(ProbeEnd::ALL, [$(ProbeEnd::$probe_end),*]);
        }
    };
}

one_probe_at_a_time! {
    one_that_succeeds: Succeeds;
    one_that_fails: Fails;
    one_that_is_dropped_within_the_grace: IsCancelled;
    one_that_is_dropped_after_the_grace: IsDroppedLate;
    one_that_panics: Panics;
    one_that_is_never_heard_of_again: IsLost;
    one_that_times_out: TimesOut;
    one_that_comes_late: ComesLate;
}
