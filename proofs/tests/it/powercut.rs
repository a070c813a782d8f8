//! The simulated power failure: a program that syncs keeps what it synced, and one that does not loses it.
//! Without the second half, the first is worthless.

use std::time::Duration;

use breakerbox_proofs::powercut::witness::{Found, Kind, observe};
use breakerbox_proofs::powercut::{Cut, Left};

use crate::program;

/// Simulates a power failure after each of these numbers of file operations, each in its own directory. Returns
/// what was found in each directory.
fn observed(kind: Kind, left: Left, cuts: impl IntoIterator<Item = u64>) -> Vec<Found> {
    let observe_one = |after| {
        let folder = tempfile::tempdir().unwrap();
        let cut = Cut { seed: after, after, left, sync: Duration::ZERO };
        observe(program(), kind, folder.path(), cut).unwrap_or_else(|error| panic!("{cut:?}: {error:#}"))
    };
    cuts.into_iter().map(observe_one).collect()
}

#[test]
fn what_was_synced_is_kept_and_nothing_else_if_nothing_is_left() {
    for found in observed(Kind::Files, Left::Nothing, 2..30) {
        assert_eq!((found.kept, found.pieces, &found.wrong), (found.said, false, &None), "{found:?}");
    }
}

#[test]
fn some_of_the_rest_may_be_left_whole_or_torn() {
    for left in [Left::Some, Left::Torn, Left::First] {
        let found = observed(Kind::Files, left, 2..40);
        assert!(found.iter().all(Found::is_whole), "{left:?} {found:?}");
        let more = found.iter().any(|found| found.kept > found.said || found.pieces);
        assert!(more, "{left:?}: nothing was ever left: {found:?}");
    }
}

#[test]
fn a_rename_is_the_old_file_or_the_new_one() {
    for left in Left::ALL {
        let found = observed(Kind::Renames, left, 2..25);
        assert!(found.iter().all(Found::is_whole), "{left:?} {found:?}");
        assert!(found.iter().any(|found| found.said > 0), "{found:?}");
    }
}

#[test]
fn sqlite_keeps_what_it_committed_if_it_syncs() {
    for left in Left::ALL {
        for found in observed(Kind::Sqlite, left, (1..=400).step_by(23)) {
            assert!(found.is_whole(), "{left:?} {found:?}");
        }
    }
}

#[test]
fn sqlite_loses_what_it_committed_if_it_does_not() {
    for left in Left::ALL {
        let found = observed(Kind::CarelessSqlite, left, (100..=400).step_by(50));
        assert!(found.iter().any(|found| !found.is_whole()), "{left:?} {found:?}");
    }
}
