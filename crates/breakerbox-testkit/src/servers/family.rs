//! The processes that a server starts for itself: found by their parent, and sent signals.
//!
//! Postgres has one for each connection. A signal to the server alone would leave those as they are.

use std::io;
use std::{fs, str};

use rustix::process::{Pid, Signal, kill_process};

use super::process::Process;

/// Sends a signal to a server and to all that it started.
pub(super) fn signal_all(server: &mut Process, signal: Signal) -> io::Result<()> {
    if server.ended()?.is_some() {
        return Ok(());
    }
    // What is stopped starts no more, so that none is missed.
    server.signal(Signal::STOP)?;
    let children = children(server.id())?;
    for child in children {
        match kill_process(child, signal) {
            // It ended meanwhile.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    server.signal(signal)
}

/// The processes whose parent this is.
pub(super) fn children(parent: u32) -> io::Result<Vec<Pid>> {
    let parent = parent.to_string();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(id) = entry?.file_name().to_string_lossy().parse() else { continue };
        // One that ended meanwhile has no file.
        let stat = fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
        if parent_in(&stat) == Some(&parent) {
            children.extend(Pid::from_raw(id));
        }
    }
    Ok(children)
}

/// `7 (name) S 1 ...`: the parent is 1. A name may hold spaces and brackets.
fn parent_in(stat: &[u8]) -> Option<&str> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    str::from_utf8(&stat[after_name + 1..]).ok()?.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_parent_whatever_the_name() {
        assert_eq!(parent_in(b"7 (postgres: a) b (x) S 42 7 7 0"), Some("42"));
        assert_eq!(parent_in(b""), None);
    }

    #[test]
    fn finds_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        assert!(children(std::process::id()).unwrap().contains(&id.unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
