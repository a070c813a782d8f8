//! A leader's tick with a twentieth of the circuits. Its duration is not checked, because the machine may be
//! busy.

use std::time::Duration;

use breakerbox_proofs::sampling::{Sizes, see};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_opens_what_fails_and_everybody_knows() {
    let seen = see(Sizes { known: 5_000, failing: 500 }).await.unwrap();
    assert_eq!((seen.tick.circuits, seen.tick.keys, seen.tick.changes), (5_000, 5_000, 500));
    assert!(seen.checks > 0 && seen.longest_first_check > Duration::ZERO);
}
