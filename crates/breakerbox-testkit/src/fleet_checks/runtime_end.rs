//! A store whose runtime has ended, as in a program that connects in one runtime and makes calls in another.

use breakerbox::store::{Store, StoreError};
use tokio::runtime::{Builder, Runtime};

use super::message;

/// Checks that every request to a store fails once the runtime on which the store was connected has ended, with
/// an error that states this reason.
///
/// # Panics
/// Panics if a request succeeds, or fails for another reason.
pub fn says_that_its_runtime_has_ended<S: Store>(connect: impl AsyncFn() -> S) {
    let first = runtime();
    let store = first.block_on(async {
        let store = connect().await;
        store.check_write().await.expect("the store accepts writes");
        store
    });
    drop(first);
    let second = runtime();
    for _ in 0..3 {
        let error = second.block_on(store.read(&[])).expect_err("no runtime is left to read on");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        let error = message(&error);
        assert!(error.contains("runtime that this store was connected on has ended"), "{error}");
    }
    // Some stores spawn a task when they are dropped.
    second.block_on(async { drop(store) });
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts")
}
