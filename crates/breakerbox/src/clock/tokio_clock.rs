//! Tokio's clock, for tests with paused time, which tokio advances automatically.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as StdInstant};

use breakerbox_core::Timestamp;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Clock;

/// A clock that shows the current tokio runtime's time. While that time is paused (`tokio::time::pause`, or
/// `#[tokio::test(start_paused = true)]`), it advances only with `sleep` and `advance`; otherwise it is the machine's
/// time.
///
/// It is the default clock for a registry, a throttle or a [`MemoryStore`](crate::store::MemoryStore) that is created
/// while tokio's time is paused. So such a test need not set a clock:
///
/// ```
/// use breakerbox::store::MemoryStore;
/// use breakerbox::{Breakerbox, CircuitStatus};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// // In #[tokio::test(start_paused = true)]:
/// let breakers = Breakerbox::builder().store(MemoryStore::new()).build();
/// let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
/// for _ in 0..5 {
///     let _ = circuit.call(async { Err::<(), _>("connection refused") }).await;
/// }
/// breakers.flush().await?;
/// assert_eq!(circuit.status(), CircuitStatus::Open);
/// tokio::time::sleep(Duration::from_secs(40)).await; // Takes no time.
/// assert_eq!(circuit.call(async { Ok::<_, ()>("back") }).await, Ok("back"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If time is paused later, or the registry or the store is created outside the runtime, pass a `TokioClock`
/// explicitly, and clones of the same one to stores.
#[derive(Clone, Debug)]
pub struct TokioClock {
    start: Instant,
    /// The latest time that this clock returned. The clock must never go back, so no later result is earlier than this
    /// time, even if the clock is read outside the runtime.
    latest: Arc<AtomicU64>,
}

/// The time that the clock shows when it is created: one second, as for a [`ManualClock`](crate::ManualClock).
const BEGINS_AT: Duration = Duration::from_secs(1);

impl TokioClock {
    /// Creates a clock that starts now, by this runtime's time.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), latest: Arc::default() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let now = (Timestamp::ZERO + BEGINS_AT + self.start.elapsed()).as_micros();
        Timestamp::from_micros(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// Returns whether this is called in a tokio runtime with paused time. The only way to detect a pause is to read the
/// time twice.
pub(crate) fn is_paused() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let (before, began) = (Instant::now(), StdInstant::now());
    while StdInstant::now() == began {
        std::hint::spin_loop();
    }
    Instant::now() == before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_stands_still_and_moves_with_tokios_time() {
        assert!(is_paused());
        let clock = TokioClock::new();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(3_600));
        let elsewhere = clock.clone();
        let there = std::thread::spawn(move || elsewhere.now()).join().unwrap();
        assert!(there >= clock.now(), "it does not go back, though real time is far behind");
        tokio::time::resume();
        assert!(!is_paused());
    }

    #[test]
    fn outside_of_a_runtime_nothing_is_paused() {
        assert!(!is_paused());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(!runtime.block_on(async { is_paused() }));
    }
}
