//! The child processes of a server: finds them by their parent, and signals them.
//!
//! Postgres has a child process for each connection, which a signal to the server alone would not reach.

use std::io;
use std::{fs, str};

use rustix::process::{Pid, Signal, kill_process};

use super::process::Process;

/// Sends a signal to a server and all its child processes.
pub(super) fn signal_all(server: &mut Process, signal: Signal) -> io::Result<()> {
    if server.ended()?.is_some() {
        return Ok(());
    }
    // A stopped server starts no more children, so none is missed.
    server.signal(Signal::STOP)?;
    let children = children(server.id())?;
    for child in children {
        match kill_process(child, signal) {
            // The child has exited meanwhile.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    server.signal(signal)
}

/// Returns the IDs of a process's children.
pub(super) fn children(parent: u32) -> io::Result<Vec<Pid>> {
    let parent = parent.to_string();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(id) = entry?.file_name().to_string_lossy().parse() else { continue };
        // A process that has exited meanwhile has no file.
        let stat = fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
        if parent_in(&stat) == Some(&parent) {
            children.extend(Pid::from_raw(id));
        }
    }
    Ok(children)
}

/// Returns the parent's process ID (1 in the example) from a line such as `7 (name) S 1 ...`. The name may
/// contain spaces and parentheses.
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
