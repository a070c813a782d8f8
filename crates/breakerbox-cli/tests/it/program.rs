//! Runs any command of the real binary, in its own directory and environment.

use std::process::{Command, Stdio};

/// A run of the `breakerbox` command in its own directory.
pub(crate) struct Program {
    command: Command,
    folder: tempfile::TempDir,
}

/// The exit code and the output of a run.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_breakerbox"));
        command.args(arguments).current_dir(&folder);
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("BREAKERBOX_")) {
            command.env_remove(name);
        }
        Self { command, folder }
    }

    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Writes a file into the run's directory.
    pub(crate) fn file(self, name: &str, contents: &str) -> Self {
        std::fs::write(self.folder.path().join(name), contents).unwrap();
        self
    }

    pub(crate) fn run(mut self) -> ProgramOutput {
        let output = self.command.stdin(Stdio::null()).output().unwrap();
        ProgramOutput {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
