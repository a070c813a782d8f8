//! The free disk space. It is needed often, so the file system's answer is cached for a short time.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum age of the cached number of free bytes.
const STALE_AFTER: Duration = Duration::from_millis(200);
/// The number of bytes that may be written before the file system is queried again, even if the cached number of free
/// bytes is recent.
const STALE_AFTER_BYTES: u64 = 16 << 20;

/// A function that returns the number of free bytes on the disk.
#[derive(Clone)]
pub struct FreeSpace(Arc<dyn Fn() -> std::io::Result<u64> + Send + Sync>);

impl FreeSpace {
    /// Creates a source that calls this function instead of querying the file system.
    pub fn by(ask: impl Fn() -> std::io::Result<u64> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Creates a source that queries the file system of this directory.
    ///
    /// # Errors
    /// Returns an error if the directory can't be opened.
    pub fn of(folder: &Path) -> std::io::Result<Self> {
        let folder = File::open(folder)?;
        Ok(Self::by(move || {
            let stat = rustix::fs::fstatvfs(&folder)?;
            Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
        }))
    }

    /// Returns the number of free bytes.
    ///
    /// # Errors
    /// Returns an error if the file system query fails.
    pub fn bytes(&self) -> std::io::Result<u64> {
        (self.0)()
    }
}

impl fmt::Debug for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreeSpace")
    }
}

/// Decides whether the disk has room for a write. Caches the number of free bytes, and subtracts what was
/// written since it was queried.
#[derive(Debug)]
pub(super) struct Disk {
    free: FreeSpace,
    reserve: u64,
    asked_at: Option<Instant>,
    answer: u64,
    written: u64,
}

/// The write would leave fewer free bytes than are reserved, so it is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BelowReserve {
    pub(super) free: u64,
    pub(super) reserve: u64,
}

impl Disk {
    pub(super) fn new(free: FreeSpace, reserve: u64) -> Self {
        Self { free, reserve, asked_at: None, answer: 0, written: 0 }
    }

    /// Checks that this many bytes can be written without using the reserve, and counts them as written.
    pub(super) fn admits(&mut self, bytes: u64) -> Result<(), BelowReserve> {
        let now = Instant::now();
        let is_fresh = self.written < STALE_AFTER_BYTES
            && self.asked_at.is_some_and(|at| now.duration_since(at) < STALE_AFTER);
        if !is_fresh {
            // A failed query is not a reason to refuse: a write to a full disk fails by itself.
            self.answer = self.free.bytes().unwrap_or(u64::MAX);
            self.asked_at = Some(now);
            self.written = 0;
        }
        let free = self.answer.saturating_sub(self.written);
        if free.saturating_sub(bytes) < self.reserve {
            return Err(BelowReserve { free, reserve: self.reserve });
        }
        self.written = self.written.saturating_add(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn what_is_in_reserve_is_not_given_away_and_the_file_system_is_asked_again_after_growth() {
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let free = FreeSpace::by(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(100 << 20)
        });
        let mut disk = Disk::new(free, 90 << 20);
        assert_eq!(disk.admits(4 << 20), Ok(()));
        assert_eq!(disk.admits(4 << 20), Ok(()));
        assert_eq!(disk.admits(4 << 20), Err(BelowReserve { free: 92 << 20, reserve: 90 << 20 }));
        disk.written = STALE_AFTER_BYTES;
        assert_eq!(disk.admits(4 << 20), Ok(()));
        assert!(asked.load(Ordering::Relaxed) >= 2);
    }
}
