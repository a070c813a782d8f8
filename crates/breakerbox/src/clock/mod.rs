//! Sources of time.
//!
//! A clock is read often, so it has two methods. [`Clock::now`] is exact. [`Clock::recent`] may be a few milliseconds
//! old and costs almost nothing, which is enough for windows of many seconds. With a [`ManualClock`] both are exact,
//! so that users' tests are exact to the microsecond.

#[cfg(not(feature = "quanta"))]
mod quanta;
mod tokio_clock;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};

use breakerbox_core::fleet::Consistency;
use breakerbox_core::{RandomBits, Timestamp};

pub use self::tokio_clock::TokioClock;
pub(crate) use self::tokio_clock::is_paused;
use crate::random::RandomSource;
use crate::telemetry::Telemetry;

/// A source of time. Implementations must be fast and must not access a circuit, because they are called while a
/// circuit's lock is held.
pub trait Clock: Send + Sync + 'static {
    /// Returns the exact time, which must never go back.
    fn now(&self) -> Timestamp;

    /// Returns a recent time, which may be a few milliseconds old but is never in the future. The time is older if a
    /// busy machine delays the thread that updates it. The default implementation returns the exact time.
    fn recent(&self) -> Timestamp {
        self.now()
    }
}

/// The machine's monotonic clock. It shows Unix time as of its first use, and ignores later adjustments of the system's
/// time. So the throttles of a fleet, which do some things at fixed times, do them at about the same time.
///
/// # The clock thread
///
/// A call through a circuit does not read the machine's clock, unless a trip rule is about latency: a thread of the
/// process, named `breakerbox-clock`, writes the time to an atomic every 2 ms, and calls load it. All registries and
/// throttles that use the system clock share this thread.
///
/// - It starts with the first call, not when a registry is built.
/// - Without calls for half a second it sleeps, and wakes up with the next call, which reads the machine's clock itself.
///   An idle process is not woken up.
/// - It ends when the last registry and throttle that uses the system clock is dropped.
/// - While calls are made, it wakes up 500 times a second, reads the clock and writes one number.
/// - If the system cannot start a thread, every call reads the machine's clock.
///
/// With a [`ManualClock`], a [`TokioClock`] or a clock of your own there is no such thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        precise()
    }

    #[inline(always)]
    fn recent(&self) -> Timestamp {
        match RECENT.load(Ordering::Relaxed) {
            ASLEEP => wake_the_ticker(),
            micros => {
                // Written only if it is not set yet, so that busy threads share the cache line instead of contending
                // for it.
                if !WAS_READ.load(Ordering::Relaxed) {
                    WAS_READ.store(true, Ordering::Relaxed);
                }
                Timestamp::from_micros(micros)
            }
        }
    }
}

/// The system clock, which needs no dynamic dispatch, or another clock.
pub(crate) enum AnyClock {
    System(ClockUser),
    Custom(Arc<dyn Clock>),
}

impl AnyClock {
    pub(crate) fn system() -> Self {
        Self::System(ClockUser::new())
    }

    /// Returns this clock. But if the user chose no clock and tokio's time is paused, as in a test, returns tokio's
    /// clock.
    pub(crate) fn or_paused(self) -> Self {
        match self {
            Self::System(_) if is_paused() => Self::Custom(Arc::new(TokioClock::new())),
            chosen => chosen,
        }
    }
}

impl Clock for AnyClock {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        match self {
            Self::System(_) => SystemClock.now(),
            Self::Custom(clock) => clock.now(),
        }
    }

    #[inline(always)]
    fn recent(&self) -> Timestamp {
        match self {
            Self::System(_) => SystemClock.recent(),
            Self::Custom(clock) => clock.recent(),
        }
    }
}

/// The local clock, and its offset to the clock that records use, which is the store's clock if there is a store.
pub(crate) struct Times {
    clock: AnyClock,
    /// The number of microseconds by which the store's clock is ahead of the local clock, modulo 2^64.
    ahead: AtomicU64,
    /// The consistency of circuits that are shared through a store; `None` if circuits are not shared.
    pub(crate) shared: Option<Consistency>,
    /// Whether this process is the store's only user.
    pub(crate) is_exclusive: bool,
    /// Whether every call must take the slow path, because the store is unavailable and calls are not decided locally.
    shut: AtomicBool,
    random: RandomSource,
    /// The registry's telemetry, because circuits count in it and have no other link to their registry.
    pub(crate) telemetry: Telemetry,
}

/// The minimum difference at which the offset to the store's clock is corrected, in microseconds. Smaller differences
/// are due to varying response times.
const TOLERANCE: u64 = 20_000;

impl Times {
    pub(crate) fn new(clock: AnyClock, shared: Option<Consistency>, random: RandomSource) -> Self {
        let (ahead, shut) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { clock, ahead, shared, is_exclusive: false, shut, random, telemetry: Telemetry::default() }
    }

    /// Sets the registry's telemetry.
    pub(crate) fn with_telemetry(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Sets whether this process is the store's only user.
    pub(crate) fn exclusive(self, is_exclusive: bool) -> Self {
        Self { is_exclusive, ..self }
    }

    /// Returns new random bits for one step.
    pub(crate) fn draw(&self) -> RandomBits {
        self.random.draw()
    }

    pub(crate) fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::SeqCst);
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst)
    }

    /// Converts a local time to the store's time.
    #[inline]
    pub(crate) fn to_store_time(&self, local_time: Timestamp) -> Timestamp {
        Timestamp::from_micros(local_time.as_micros().wrapping_add(self.ahead.load(Ordering::Relaxed)))
    }

    /// Converts a store time to local time, saturating at zero.
    pub(crate) fn to_local_time(&self, store_time: Timestamp) -> Timestamp {
        let local_time = store_time.as_micros().wrapping_sub(self.ahead.load(Ordering::Relaxed));
        // In the upper half of the range the value has wrapped, so the time is before the local clock started.
        Timestamp::from_micros(if local_time > u64::MAX / 2 && store_time.as_micros() <= u64::MAX / 2 {
            0
        } else {
            local_time
        })
    }

    /// Corrects the offset to the store's clock. `store_time` is the time in the response to a request that was sent at
    /// the local time `sent_at`. Returns the correction in microseconds; zero if it is too small to apply.
    pub(crate) fn note(&self, store_time: Timestamp, sent_at: Timestamp) -> u64 {
        let ahead = store_time.as_micros().wrapping_sub(sent_at.as_micros());
        let before = self.ahead.load(Ordering::Relaxed);
        let step = ahead.wrapping_sub(before).min(before.wrapping_sub(ahead));
        if step > TOLERANCE {
            self.ahead.store(ahead, Ordering::Relaxed);
            return step;
        }
        0
    }
}

impl Clock for Times {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline(always)]
    fn recent(&self) -> Timestamp {
        self.clock.recent()
    }
}

/// The interval at which the recent time is updated while it is being read.
const TICK: Duration = Duration::from_millis(2);

/// The number of ticks without a read of the recent time after which the ticker sleeps.
const IDLE_TICKS: u32 = 250;

/// The recent time in microseconds, or [`ASLEEP`].
static RECENT: AtomicU64 = AtomicU64::new(ASLEEP);
const ASLEEP: u64 = 0;

/// Whether the recent time has been read since the last tick.
static WAS_READ: AtomicBool = AtomicBool::new(false);

/// The first use of the machine's clock.
struct Origin {
    clock: quanta::Clock,
    /// The clock's raw reading.
    raw: u64,
    /// The same time in microseconds since 1970. At least 1, because 0 means that the ticker sleeps.
    unix_micros: u64,
}

static ORIGIN: LazyLock<Origin> = LazyLock::new(|| {
    let clock = quanta::Clock::new();
    let raw = clock.raw();
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_micros = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX).max(1);
    Origin { clock, raw, unix_micros }
});

/// The thread that updates the recent time.
static TICKER: Mutex<Ticker> = Mutex::new(Ticker::Ended);

/// The number of registries and throttles that use the system clock. If there are none, the ticker thread ends instead
/// of sleeping.
static USERS: AtomicUsize = AtomicUsize::new(0);

enum Ticker {
    /// The thread has not been needed yet, or is no longer needed.
    Ended,
    /// The thread is ticking or sleeping.
    Runs(Thread),
    /// The system could not start the thread, so readers use the exact time.
    Failed,
}

impl Ticker {
    fn start() -> Self {
        let ticker = thread::Builder::new().name("breakerbox-clock".into()).spawn(tick);
        ticker.map_or(Self::Failed, |handle| Self::Runs(handle.thread().clone()))
    }

    fn lock() -> MutexGuard<'static, Self> {
        TICKER.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a registry or a throttle that uses the system clock. When the last of them is dropped, the thread that
/// updates the recent time ends.
pub(crate) struct ClockUser(());

impl ClockUser {
    fn new() -> Self {
        USERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for ClockUser {
    fn drop(&mut self) {
        if USERS.fetch_sub(1, Ordering::Relaxed) == 1
            && let Ticker::Runs(thread) = &*Ticker::lock()
        {
            // If the thread sleeps, it wakes up and finds that it is not needed.
            thread.unpark();
        }
    }
}

fn precise() -> Timestamp {
    let Origin { clock, raw, unix_micros } = &*ORIGIN;
    // In plain integers: a call with a latency rule reads the time twice, and durations would double what that costs.
    let elapsed_micros = clock.delta_as_nanos(*raw, clock.raw()) / 1_000;
    Timestamp::from_micros(unix_micros.saturating_add(elapsed_micros))
}

#[cold]
fn wake_the_ticker() -> Timestamp {
    WAS_READ.store(true, Ordering::Relaxed);
    // If the mutex is locked, there is no need to wait: another thread is waking the ticker.
    if let Ok(mut ticker) = TICKER.try_lock() {
        match &*ticker {
            Ticker::Runs(thread) => thread.unpark(),
            Ticker::Ended => *ticker = Ticker::start(),
            Ticker::Failed => {}
        }
    }
    precise()
}

/// Updates the recent time while it is being read. Without reads, sleeps until the next one, or ends if there are no
/// users left.
fn tick() {
    let mut unasked = 0;
    loop {
        RECENT.store(precise().as_micros(), Ordering::Relaxed);
        thread::sleep(TICK);
        unasked = if WAS_READ.swap(false, Ordering::Relaxed) { 0 } else { unasked + 1 };
        if unasked >= IDLE_TICKS {
            // From now on, readers use the exact clock and wake this thread. An earlier unpark is not lost.
            RECENT.store(ASLEEP, Ordering::Relaxed);
            while !WAS_READ.load(Ordering::Relaxed) {
                let mut ticker = Ticker::lock();
                if USERS.load(Ordering::Relaxed) == 0 {
                    *ticker = Ticker::Ended;
                    return;
                }
                drop(ticker);
                thread::park();
            }
            unasked = 0;
        }
    }
}

/// A clock for tests, which moves only when it is advanced.
///
/// ```
/// use breakerbox::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(clock.now().since(before), Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock that shows one second.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000)))
    }

    /// Advances the time, for all clones of this clock.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(by))).ok();
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_time_is_never_ahead_and_follows() {
        let clock = SystemClock;
        let start = clock.now();
        let limit = start + Duration::from_secs(20);
        for _ in 0..100_000 {
            assert!(clock.recent() <= clock.now());
        }
        while clock.recent() < start + Duration::from_millis(50) {
            assert!(clock.now() < limit, "it follows the exact time");
        }
    }

    #[test]
    fn the_system_clock_tells_the_time_since_1970() {
        let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let told = Duration::from_micros(SystemClock.now().as_micros());
        assert!(told.abs_diff(since_1970()) < Duration::from_secs(3_600), "{told:?}");
        assert!(SystemClock.now() >= Timestamp::ZERO + told);
    }

    /// Runs in a separate process, because other tests in this process use the clock.
    #[test]
    fn the_thread_ends_when_the_last_user_is_gone_and_starts_again() {
        const ALONE: &str = "BREAKERBOX_CLOCK_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let test = "clock::tests::the_thread_ends_when_the_last_user_is_gone_and_starts_again";
            let run = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test])
                .env(ALONE, "1")
                .output()
                .unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            return;
        }
        let limit = SystemClock.now() + Duration::from_secs(60);
        let until = |what: &str, is: fn(&Ticker) -> bool| {
            while !is(&Ticker::lock()) {
                assert!(SystemClock.now() < limit, "{what}");
                thread::sleep(TICK);
            }
        };
        for _ in 0..2 {
            let clocks = [AnyClock::system(), AnyClock::system()];
            let [first, second] = clocks;
            first.recent();
            until("a question starts it", |ticker| matches!(ticker, Ticker::Runs(_)));
            drop(first);
            while RECENT.load(Ordering::Relaxed) != ASLEEP {
                assert!(SystemClock.now() < limit, "without questions it falls asleep");
                thread::sleep(TICK);
            }
            assert!(matches!(*Ticker::lock(), Ticker::Runs(_)), "it sleeps as long as there is a user");
            drop(second);
            until("it ends with the last user", |ticker| matches!(ticker, Ticker::Ended));
        }
    }

    #[test]
    fn a_ticker_that_fell_asleep_is_woken_by_a_question() {
        let clock = SystemClock;
        let limit = clock.now() + Duration::from_secs(20);
        while RECENT.load(Ordering::Relaxed) != ASLEEP {
            assert!(clock.now() < limit, "without questions it falls asleep");
            thread::sleep(TICK);
        }
        clock.recent();
        while RECENT.load(Ordering::Relaxed) == ASLEEP {
            assert!(clock.now() < limit, "and a question wakes it");
            thread::yield_now();
        }
    }
}
