//! Runs the real binary and captures its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A run of `breakerbox replay` in its own directory.
pub(crate) struct Replay {
    command: Command,
    folder: tempfile::TempDir,
}

/// The result of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    folder: tempfile::TempDir,
}

impl Replay {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_breakerbox"));
        command.arg("replay").current_dir(&folder);
        Self { command, folder }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args(self, arguments: &[&str]) -> Self {
        arguments.iter().fold(self, Self::arg)
    }

    /// Writes a file into the run's directory.
    pub(crate) fn file(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.folder.path().join(name), contents).unwrap();
        self
    }

    pub(crate) fn policy(self, toml: &str) -> Self {
        self.file("policy.toml", toml).arg("--policy").arg("policy.toml")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the command with this standard input.
    pub(crate) fn run(mut self, input: impl AsRef<[u8]>) -> Ran {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        // A run that refuses its input may stop reading it.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            folder: self.folder,
        }
    }

    /// Runs, expecting success, and returns the output as JSON lines.
    #[track_caller]
    pub(crate) fn lines(self, input: impl AsRef<[u8]>) -> Vec<Value> {
        let ran = self.run(input);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.lines()
    }
}

impl Ran {
    /// Returns standard output as JSON lines. Every line must be complete.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        assert!(self.stdout.is_empty() || self.stdout.ends_with('\n'), "a line is half-written");
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the names of the files in the run's directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Formats a call as a line of traffic.
pub(crate) fn call(at_ms: u64, key: &str, outcome: &str, latency_ms: u64) -> String {
    format!("{{\"at_ms\":{at_ms},\"key\":\"{key}\",\"outcome\":\"{outcome}\",\"latency_ms\":{latency_ms}}}\n")
}

/// Returns the repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
