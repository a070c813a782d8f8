//! The conformance suite: the requirements on every store, with one test for each.
//!
//! A store's tests call [`store_conformance!`](crate::store_conformance) with an expression that creates a
//! store. Each check uses its own keys, so that stores may share a server. Checks test only the operations:
//! they wait explicitly whenever time must pass, and pass past times as ages.
//!
//! | file | checks |
//! | --- | --- |
//! | `merges` | counts: none is lost or added to another epoch; the run of failures |
//! | `swaps` | one winner, deadlines, complete records |
//! | `lists` | pages, filters, change events |
//! | `ramps` | ramp slots: never more than the limit, none from another epoch |
//! | `terms` | leaders' terms: one leader at a time |
//! | `checks` | write checks change nothing |

mod checks;
mod lists;
mod merges;
mod ramps;
mod swaps;
mod terms;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use breakerbox::store::{Store, Swap, Swapped};
use breakerbox::{CircuitStatus, Epoch, Mode, Record, State, Timestamp, Version};

pub use self::checks::*;
pub use self::lists::*;
pub use self::merges::*;
pub use self::ramps::*;
pub use self::swaps::*;
pub use self::terms::*;

/// The maximum time that a check waits for an expected event.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Runs the whole suite, with one test for each check. The argument is an expression for a future that returns
/// a new or shared store.
///
/// ```
/// use breakerbox::store::MemoryStore;
///
/// breakerbox_testkit::store_conformance!(async { MemoryStore::new() });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::store_conformance! { $make =>
            counts_of_many_processes_add_up
            counts_of_another_epoch_are_late
            counts_for_a_circuit_without_a_record_need_no_epoch
            a_batch_is_answered_in_its_order
            what_is_older_than_the_window_does_not_count
            a_window_of_another_length_sees_the_same_counts
            a_success_ends_the_run_of_failures
            failures_before_the_latest_success_extend_no_run
            a_run_of_failures_outlives_the_window
            a_success_ends_a_run_that_is_older_than_the_window
            a_late_run_that_began_before_the_latest_success_adds_nothing
            a_new_epoch_drops_the_run_of_failures
            a_run_of_failures_is_kept_when_idle
            a_run_of_failures_is_forgotten_after_a_week
            the_latest_success_and_the_first_failure_after_it_are_remembered
            what_the_record_knows_of_outcomes_is_answered_too
            merges_at_once_lose_nothing
            the_first_record_needs_that_there_is_none
            a_record_comes_back_whole
            a_swap_needs_the_version_that_is_there
            a_swap_after_its_deadline_writes_nothing
            a_new_epoch_begins_with_an_empty_window
            of_swaps_at_once_one_wins_and_all_see_it
            of_first_records_at_once_one_wins
            of_many_swaps_each_stands_for_itself
            an_idle_record_goes_and_one_to_keep_stays
            pages_hold_every_circuit_once
            circuits_are_found_by_state
            circuits_are_found_by_tenant
            a_swap_is_heard_by_everybody
            slots_are_taken_up_to_the_limit
            a_slot_that_is_given_back_is_free
            a_limit_is_replaced_by_whoever_saw_the_latest_step
            a_slot_expires
            a_ramp_that_is_over_is_over_for_everybody
            a_ramp_belongs_to_an_epoch
            an_idle_ramp_goes
            takes_at_once_never_exceed_the_limit
            a_call_for_reports_is_heard_by_everybody
            of_candidates_at_once_one_leads
            a_leader_prolongs_its_term
            a_term_that_ends_or_is_given_back_is_free
            a_write_check_changes_nothing
            a_write_check_answers_with_the_stores_time
        }
    };
    ($make:expr => $($check:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let store: ::std::sync::Arc<dyn ::breakerbox::store::Store> = ::std::sync::Arc::new($make.await);
                $crate::conformance::$check(store).await;
            }
        )*
    };
}

/// The store that a check runs against.
type AnyStore = Arc<dyn Store>;

/// Returns a string that no other check uses, in this process or another.
fn unique(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{}-{count}", std::process::id(), since_1970.as_nanos())
}

fn unique_key(name: &str) -> Arc<str> {
    unique(name).into()
}

/// Returns a record for a circuit in this state.
fn record(status: CircuitStatus, epoch: u64, version: u128) -> Record {
    let by = || breakerbox::Attribution::new("ops", "a check").expect("short");
    let (state, mode) = match status {
        CircuitStatus::Open => (State::Open, Mode::Automatic),
        CircuitStatus::HalfOpen => (State::HalfOpen, Mode::Automatic),
        CircuitStatus::Disabled => (State::Open, Mode::Disabled(by())),
        _ => (State::Closed, Mode::Automatic),
    };
    let mut record = Record::fresh(Epoch(epoch), Version(version), Timestamp::from_micros(epoch));
    record.state = state;
    record.mode = mode;
    record
}

/// Returns a swap whose deadline has not passed and whose record does not expire.
fn swap(key: &Arc<str>, expected: Option<u128>, record: Record) -> Swap {
    let not_after = Timestamp::from_micros(u64::MAX >> 11);
    Swap { key: Arc::clone(key), expected: expected.map(Version), record, not_after, keep_for: None }
}

/// Asserts that a swap without competitors won.
#[track_caller]
fn won(swapped: &Swapped) {
    assert_eq!(*swapped, Swapped::Won);
}

async fn put(store: &AnyStore, key: &Arc<str>, expected: Option<u128>, record: Record) {
    won(&store.swap_if(&swap(key, expected, record)).await.expect("the store answers").value);
}

async fn read(store: &AnyStore, key: &Arc<str>) -> Option<Record> {
    let answer = store.read(std::slice::from_ref(key)).await.expect("the store answers");
    let answer = answer.all().expect("the record can be read");
    let [record] = <[_; 1]>::try_from(answer.value).expect("one answer for one key");
    record
}

/// Runs this many tasks concurrently, each with its index, and collects their results.
async fn at_once<T: Send + 'static, F>(tasks: u64, task: impl Fn(u64) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..tasks).map(|n| tokio::spawn(task(n))).collect();
    let mut message = Vec::new();
    for task in tasks {
        message.push(task.await.expect("a check's task does not panic"));
    }
    message
}
