//! Helpers for all benchmarks: a median, and a description of the machine.

use std::fs;
use std::thread;
use std::time::Duration;

/// Returns the median of the durations, or the upper one of the two in the middle. Panics if there are none.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Returns a description of this machine: its number of cores and its processor model.
pub(crate) fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("an unknown processor");
    format!("{cores} cores of {}", model.trim_start_matches([' ', '\t', ':']))
}
