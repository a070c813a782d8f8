//! The gateway's clocks: the wall clock and the store clock.
//!
//! | clock | reads | used for |
//! | --- | --- | --- |
//! | wall clock ([`WallClock`]) | the current system time; it can be set forward and back | times that other parties see or check: signatures, expiry of keys and secrets, schedules, output |
//! | store clock ([`StoreClock`]) | the wall clock at startup plus the monotonic time since startup; it never jumps | leases, circuits, limits, retries |
//!
//! The two drift apart when the wall clock is set while the gateway runs, and when the machine is suspended:
//! monotonic time does not count a suspension. [`StoreClock::drift`] returns the difference.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use breakerbox::Clock;
use breakerbox_core::Timestamp;

/// The minimum drift at which the gateway reports itself as degraded.
pub const DEGRADED_FROM: Duration = Duration::from_secs(30);

/// The minimum drift that is not ignored when times are converted between the clocks.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// A function that reads the wall clock.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A gateway's wall clock and monotonic clock. A clone reads the same clocks.
#[derive(Clone)]
pub struct Clocks {
    wall: WallClock,
    steady: Arc<dyn Clock>,
    accepts_step: bool,
}

impl Clocks {
    /// Returns this machine's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self::with_wall(Arc::new(system_time))
    }

    /// Returns clocks with another wall clock and this machine's monotonic clock, for tests.
    #[must_use]
    pub fn with_wall(wall: WallClock) -> Self {
        Self::new(wall, Arc::new(Monotonic(Instant::now())))
    }

    /// Creates clocks from this wall clock and this monotonic clock, for tests.
    #[must_use]
    pub fn new(wall: WallClock, steady: Arc<dyn Clock>) -> Self {
        Self { wall, steady, accepts_step: false }
    }

    /// Returns the same clocks, marked as correct even if the newest stored time is more than a day ahead of
    /// them. With unmarked clocks, the gateway would refuse to start.
    #[must_use]
    pub fn accepting_step(self) -> Self {
        Self { accepts_step: true, ..self }
    }

    /// Returns whether the gateway may start even if the newest stored time is more than a day ahead of these clocks.
    #[must_use]
    pub const fn accepts_step(&self) -> bool {
        self.accepts_step
    }

    /// Returns the function that reads the wall clock.
    #[must_use]
    pub fn wall(&self) -> &WallClock {
        &self.wall
    }

    /// Creates a store clock that starts at the current wall-clock time.
    #[must_use]
    pub fn store(&self) -> StoreClock {
        let Self { wall, steady, .. } = self.clone();
        StoreClock { anchor: wall(), since: steady.now(), wall, steady }
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::system()
    }
}

/// The wall clock at startup plus the monotonic time since startup. Unlike the wall clock, it never jumps.
#[derive(Clone)]
pub struct StoreClock {
    anchor: Timestamp,
    since: Timestamp,
    wall: WallClock,
    steady: Arc<dyn Clock>,
}

impl StoreClock {
    /// Returns the current difference between the wall clock and this clock.
    #[must_use]
    pub fn drift(&self) -> Drift {
        Drift::between((self.wall)(), self.now())
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.anchor + self.steady.now().since(self.since)
    }
}

/// The time by which the wall clock is ahead of the store clock or behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drift {
    /// The wall clock is ahead: it was set forward, or the machine was suspended.
    Ahead(Duration),
    /// The wall clock is behind: it was set back.
    Behind(Duration),
}

impl Drift {
    /// No drift: both clocks show the same time.
    pub const NONE: Self = Self::Ahead(Duration::ZERO);

    /// Returns the drift between two readings taken at the same moment.
    #[must_use]
    pub fn between(wall: Timestamp, store: Timestamp) -> Self {
        if wall >= store { Self::Ahead(wall.since(store)) } else { Self::Behind(store.since(wall)) }
    }

    /// Returns the absolute size of the drift.
    #[must_use]
    pub const fn size(self) -> Duration {
        let (Self::Ahead(size) | Self::Behind(size)) = self;
        size
    }

    /// Returns the drift, or [`NONE`](Self::NONE) if it is below a second, because the two clocks are never read at
    /// exactly the same moment.
    #[must_use]
    pub fn noticeable(self) -> Self {
        if self.size() < NOTICEABLE { Self::NONE } else { self }
    }

    /// Returns the drift in seconds; positive if the wall clock is ahead.
    #[must_use]
    pub fn seconds(self) -> f64 {
        match self {
            Self::Ahead(size) => size.as_secs_f64(),
            Self::Behind(size) => -size.as_secs_f64(),
        }
    }

    /// Converts a store-clock time to the wall clock.
    #[must_use]
    pub fn to_wall(self, store: Timestamp) -> Timestamp {
        match self {
            Self::Ahead(size) => store + size,
            Self::Behind(size) => store.before(size),
        }
    }

    /// Converts a wall-clock time to the store clock.
    #[must_use]
    pub fn to_store(self, wall: Timestamp) -> Timestamp {
        match self {
            Self::Ahead(size) => wall.before(size),
            Self::Behind(size) => wall + size,
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(size) => write!(f, "{} s ahead", size.as_secs()),
            Self::Behind(size) => write!(f, "{} s behind", size.as_secs()),
        }
    }
}

/// The system's monotonic clock.
///
/// It uses `std::time::Instant`, which the operating system keeps monotonic across a suspension, unlike the CPU's
/// counter.
struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// Returns the system time, in microseconds since 1970.
fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use breakerbox::ManualClock;

    use super::*;

    #[test]
    fn the_store_clock_starts_at_the_wall_clock_and_does_not_follow_its_steps() {
        let set = Arc::new(AtomicU64::new(5_000_000_000));
        let (steady, read) = (ManualClock::new(), Arc::clone(&set));
        let wall: WallClock = Arc::new(move || Timestamp::from_micros(read.load(Ordering::SeqCst)));
        let store = Clocks::new(wall, Arc::new(steady.clone())).store();
        assert_eq!(store.now(), Timestamp::from_micros(5_000_000_000));
        assert_eq!(store.drift().size(), Duration::ZERO);

        steady.advance(Duration::from_secs(10));
        set.store(5_910_000_000, Ordering::SeqCst);
        assert_eq!(store.now(), Timestamp::from_micros(5_010_000_000), "15 minutes forward: it goes on");
        assert_eq!(store.drift(), Drift::Ahead(Duration::from_secs(900)));
        assert_eq!(store.drift().to_wall(store.now()), Timestamp::from_micros(5_910_000_000));
        assert_eq!(store.drift().to_string(), "900 s ahead");

        set.store(1_410_000_000, Ordering::SeqCst);
        assert_eq!(store.drift(), Drift::Behind(Duration::from_secs(3_600)));
        let wall = Timestamp::from_micros(1_500_000_000);
        assert_eq!(store.drift().to_wall(store.drift().to_store(wall)), wall);
        assert!(store.drift().seconds() < 0.0);
    }
}
