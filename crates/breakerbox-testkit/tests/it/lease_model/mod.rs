//! Model checks every interleaving of the lease protocol, for two workers and one circuit: who gets the probe,
//! and whose result counts.
//!
//! The decisions are made by the real core: each worker is a [`Member`](breakerbox_core::fleet::Member), each
//! record a real one. The test makes the library's moves itself, step by step, in every order: a read, the swap
//! of a lease, the swap of a result, each with a request and a response that may be late, or arrive after their
//! worker has died. A lost message is one that never arrives; a paused worker is one that does nothing while
//! time passes, which is possible between any two steps. A run ends when two acquires were made, one worker
//! died, and more time than a lease has passed. Tests at the end break the store, and verify that the
//! properties then fail.

mod protocol;
mod state;

use stateright::{Checker, HasDiscoveries, Model};

use self::protocol::{Protocol, Store};

fn check(store: Store, until: HasDiscoveries) -> impl Checker<Protocol> {
    Protocol::new(store).checker().threads(2).finish_when(until).spawn_bfs().join()
}

#[test]
fn of_all_interleavings_none_has_two_leases_or_a_stale_result() {
    let checker = check(Store::Right, HasDiscoveries::AnyFailures);
    println!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.is_done(), "all of them");
    assert!(checker.unique_state_count() > 10_000, "{}", checker.unique_state_count());
}

#[test]
fn a_store_that_ignores_versions_gives_two_leases() {
    let checker = check(Store::IgnoresVersions, HasDiscoveries::AnyFailures);
    assert!(checker.discovery("at most one live lease").is_some());
}

#[test]
fn a_store_that_ignores_deadlines_applies_stale_results() {
    let checker = check(Store::IgnoresDeadlines, HasDiscoveries::AllOf(["no stale result"].into()));
    assert!(checker.discovery("no stale result").is_some());
}
