//! A wall clock that a test sets while a gateway runs: the system's time plus an offset from a file.
//!
//! The test passes the file's path in an environment variable. Only this package's `serve` reads it; the
//! `breakerbox` binary always uses the system's clocks.
//!
//! ```no_run
//! use breakerbox_proofs::gateway::clock_file::{ClockFile, VARIABLE};
//! use breakerbox_testkit::gateway::Settings;
//!
//! # fn main() -> anyhow::Result<()> {
//! let clock = ClockFile::new()?;
//! clock.set(-900)?;
//! let settings = Settings::new(&std::env::current_exe()?).variable(VARIABLE, clock.path());
//! let mut gateway = settings.start()?; // 15 minutes behind
//! clock.set(0)?; // corrected
//! # Ok(()) }
//! ```

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result};
use breakerbox::Timestamp;
use breakerbox_storage::clock::{Clocks, WallClock};
use tempfile::TempDir;

/// The environment variable that names the clock file.
pub const VARIABLE: &str = "BREAKERBOX_TEST_CLOCK_FILE";

/// A file with the offset of a gateway's wall clock from the system's clock, in seconds. A negative offset is
/// in the past.
pub struct ClockFile {
    folder: TempDir,
    path: PathBuf,
}

impl ClockFile {
    /// Creates a clock file with the offset 0.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("clock").tempdir()?;
        let file = Self { path: folder.path().join("offset"), folder };
        file.set(0)?;
        Ok(file)
    }

    /// Returns the path of the file, which is the value for [`VARIABLE`].
    #[must_use]
    pub fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    /// Sets the wall clock of all gateways that read this file. `seconds_ahead` is the offset from the system's
    /// clock.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn set(&self, seconds_ahead: i64) -> Result<()> {
        // Replaces the file atomically, so that a reader never sees half a number.
        let new = self.folder.path().join("new");
        fs::write(&new, seconds_ahead.to_string())?;
        fs::rename(&new, &self.path).context("the clock file can't be replaced")
    }
}

/// Returns the clocks for a gateway under test. These are the system's clocks, unless [`VARIABLE`] names a
/// clock file.
///
/// # Errors
/// Returns an error if the file does not contain a number.
pub fn clocks() -> Result<Clocks> {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(Clocks::system());
    };
    let latest = AtomicI64::new(read(&path)?);
    let wall: WallClock = Arc::new(move || {
        // If the file is missing or unreadable, the offset stays as it was.
        let seconds = read(&path).unwrap_or_else(|_| latest.load(Ordering::Relaxed));
        latest.store(seconds, Ordering::Relaxed);
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let micros = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
        Timestamp::from_micros(micros.saturating_add_signed(seconds.saturating_mul(1_000_000)))
    });
    Ok(Clocks::with_wall(wall))
}

fn read(path: &Path) -> Result<i64> {
    let text = fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    text.trim().parse().with_context(|| format!("{} does not hold a number of seconds", path.display()))
}
