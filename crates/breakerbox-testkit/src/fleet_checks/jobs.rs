//! Processes that make one call and exit, such as cron jobs: the outcome is in the store when the process has
//! ended, however it ended.

use std::time::Duration;

use breakerbox::store::Store;
use breakerbox::{Breakerbox, CallError, Consistency, Policy};
use tokio::runtime::{Builder, Runtime};

/// The number of consecutive failures that open a circuit.
const FAILURES: u8 = 5;

/// The number of jobs, which is more than the number of failures that open the circuit.
const JOBS: usize = 8;

/// The way in which a job ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// The job closes the registry.
    Close,
    /// The job drops all handles.
    Drop,
    /// The job's runtime shuts down before the job drops its last handle.
    Shutdown,
}

/// Runs several jobs that each make one failing call, and checks that the circuit opens after exactly the
/// configured number of failures, so that no later job sends its call. Repeats the check for every consistency
/// and every way in which a job can end.
///
/// # Panics
/// Panics if a different number of jobs sends its call.
pub fn one_call_jobs_count<S: Store>(connect: impl AsyncFn() -> S) {
    for consistency in [Consistency::LocalFirst, Consistency::Strict] {
        for end in [End::Close, End::Drop, End::Shutdown] {
            let key = format!("acme https://hooks.acme.example/{consistency:?}/{end:?}");
            let sent = (0..JOBS).filter(|n| {
                let runtime = match n % 2 {
                    0 => Builder::new_current_thread().enable_all().build(),
                    _ => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
                };
                let runtime = runtime.expect("a runtime starts");
                run_job(&connect, runtime, &key, consistency, end)
            });
            assert_eq!(sent.count(), usize::from(FAILURES), "{consistency:?}, {end:?}");
        }
    }
}

/// Runs a job that makes one failing call. Returns whether the call was sent.
fn run_job<S: Store>(
    connect: &impl AsyncFn() -> S,
    runtime: Runtime,
    key: &str,
    consistency: Consistency,
    end: End,
) -> bool {
    let (breakers, sent) = runtime.block_on(async {
        // The circuit stays open for longer than all jobs take.
        let policy =
            Policy::builder().consecutive_failures(u64::from(FAILURES)).cool_off(Duration::from_secs(60));
        let breakers = Breakerbox::builder()
            .policy(policy.build().expect("a valid policy"))
            .store(connect().await)
            .consistency(consistency)
            // Only the end of the process sends the report.
            .flush_every(Duration::from_secs(3_600))
            .store_timeout(Duration::from_secs(5))
            .build();
        let circuit = breakers.circuit(key).expect("a short key");
        let result = circuit.call(async { Err::<(), _>("down") }).await;
        drop(circuit);
        if end == End::Close {
            breakers.close().await.expect("the store accepts the last reports");
        }
        let breakers = (end == End::Shutdown).then_some(breakers);
        (breakers, matches!(result, Err(CallError::Failed(_))))
    });
    drop(runtime);
    drop(breakers);
    sent
}
