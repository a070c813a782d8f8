//! The resource usage of a process or a thread: CPU time and memory, as reported in `/proc`.
//!
//! Only Linux has `/proc`. On other systems there is no data.

use std::fs;
use std::io;
use std::time::Duration;

/// The resource usage of a process so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The CPU time of all threads, with a resolution of 10 ms (the system's clock ticks).
    pub cpu: Duration,
    /// The resident memory, in bytes.
    pub resident: u64,
    /// The maximum resident memory so far, in bytes.
    pub peak: u64,
    /// The number of bytes written to files and sockets.
    pub written: u64,
}

impl Usage {
    /// Returns the resource usage of the process with this ID.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or there is no `/proc`.
    pub fn of(process: u32) -> io::Result<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        let (stat, status) = (read("stat")?, read("status")?);
        // Only the owner of the process may read this file; a missing file counts as zero.
        let io = read("io").unwrap_or_default();
        let kilobytes = |name| field(&status, name).unwrap_or(0) * 1024;
        Ok(Self {
            cpu: cpu_ticks(&stat).map(duration_of).ok_or(io::ErrorKind::InvalidData)?,
            resident: kilobytes("VmRSS:"),
            peak: kilobytes("VmHWM:"),
            written: field(&io, "wchar:").unwrap_or(0),
        })
    }
}

/// Identifies a thread of this process, to read its CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadId(i32);

impl ThreadId {
    /// Returns the ID of the calling thread.
    #[must_use]
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// Returns the CPU time that the thread has used, or zero if the thread has ended or there is no `/proc`.
    #[must_use]
    pub fn cpu(self) -> Duration {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{}/{file}", self.0)).ok();
        let exact = read("schedstat").and_then(|text| text.split_whitespace().next()?.parse().ok());
        exact
            .map(Duration::from_nanos)
            .or_else(|| read("stat").and_then(|stat| cpu_ticks(&stat)).map(duration_of))
            .unwrap_or_default()
    }
}

/// Returns the sum of user and system time in a `stat` file, in clock ticks. The process name may contain any
/// character, and ends at the last parenthesis.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut after_name = stat.rsplit_once(')')?.1.split_whitespace();
    let user: u64 = after_name.nth(11)?.parse().ok()?;
    let system: u64 = after_name.next()?.parse().ok()?;
    Some(user + system)
}

fn duration_of(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Returns the value of a field such as `VmHWM` in a line such as `VmHWM:   14436 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_books_of_the_system() {
        let stat = "42 (a (strange) name) S 1 1 1 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(field("VmPeak:\t 9 kB\nVmHWM:\t  14436 kB\n", "VmHWM:"), Some(14_436));
    }

    #[test]
    fn who_works_uses_time_and_memory() {
        let (thread, before) = (ThreadId::current(), ThreadId::current().cpu());
        let mut sum = 0_u64;
        while thread.cpu() < before + Duration::from_millis(30) {
            sum = (0..10_000).fold(sum, |sum, n| sum.rotate_left(3) ^ n);
        }
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident > 0 && usage.peak >= usage.resident && usage.cpu > Duration::ZERO, "{sum}");
    }
}
