//! Detects when the process was paused: stopped by a signal, suspended with its machine, or starved by an overloaded
//! host.
//!
//! A task repeatedly sleeps for a short time and measures how late it wakes. The result of a request during a pause
//! says nothing about its receiver: the response may have arrived in time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The interval at which the detecting task wakes.
const EVERY: Duration = Duration::from_millis(100);
/// How late a wakeup may be without counting as a pause.
const ORDINARY: Duration = Duration::from_millis(400);

/// Detects pauses of the process, and adds up their time. Clones share the total. Pauses are detected only while
/// [`watch`](Self::watch) runs.
#[derive(Clone, Debug, Default)]
pub struct Pauses(Arc<Mutex<Watched>>);

#[derive(Debug, Default)]
struct Watched {
    /// The time when the detecting task last woke.
    woke_at: Option<Instant>,
    lost: Duration,
}

impl Watched {
    /// Returns the length of the pause that ended just now, if there was one.
    fn pause(&self, now: Instant) -> Option<Duration> {
        let late = now.duration_since(self.woke_at?).saturating_sub(EVERY);
        (late > ORDINARY).then_some(late)
    }
}

impl Pauses {
    /// Detects pauses until the future is dropped. Calls `report` with the length of each pause.
    pub async fn watch(self, report: impl Fn(Duration)) {
        self.watched().woke_at = Some(Instant::now());
        loop {
            sleep(EVERY).await;
            let pause = {
                let mut watched = self.watched();
                let now = Instant::now();
                let pause = watched.pause(now);
                watched.lost += pause.unwrap_or_default();
                watched.woke_at = Some(now);
                pause
            };
            if let Some(pause) = pause {
                report(pause);
            }
        }
    }

    /// Returns the total length of all pauses so far. This includes a pause that just ended and that the detecting task
    /// has not recorded yet.
    #[must_use]
    pub fn lost(&self) -> Duration {
        let watched = self.watched();
        watched.lost + watched.pause(Instant::now()).unwrap_or_default()
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_gap_is_noticed_at_once_and_counted_once() {
        let (pauses, reported) = (Pauses::default(), Arc::new(Mutex::new(Vec::new())));
        assert_eq!(pauses.lost(), Duration::ZERO, "nobody watches");
        let report = Arc::clone(&reported);
        tokio::spawn(pauses.clone().watch(move |pause| report.lock().unwrap().push(pause)));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(pauses.lost(), Duration::ZERO, "nothing happened");

        let pause = Duration::from_secs(5);
        // The detecting task does not run meanwhile, as if the process were stopped.
        tokio::time::advance(pause).await;
        let lost = pauses.lost();
        assert!(lost + EVERY >= pause && lost <= pause, "{lost:?}");
        sleep(Duration::from_secs(1)).await;
        let after = pauses.lost();
        assert!(after + EVERY >= pause && after <= pause, "{after:?}");
        assert_eq!(*reported.lock().unwrap(), [after], "reported once, with its length");
    }
}
