//! A simulated power failure: a program runs until a seeded moment, and then its directory contains only the
//! synced data, and some of the unsynced data.
//!
//! | item | description |
//! | --- | --- |
//! | `powercut.c` | loaded into the program with `LD_PRELOAD`: records unsynced writes, and undoes them at the power failure |
//! | [`Shim`] | that file, compiled for this machine |
//! | [`Cut`] | the moment of the power failure, and which unsynced writes remain |
//! | [`witness`] | small programs that write with and without syncing, to check that the simulation works |
//!
//! The shim is in C because the project's own code has no `unsafe`, and uses `LD_PRELOAD` because a file system
//! that loses writes would need more permissions than a test has. It intercepts calls to the C library, which
//! SQLite and the standard library make exclusively.

pub mod witness;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const SOURCE: &str = include_str!("../../powercut/powercut.c");

/// The exit status of a program whose power failed.
pub const CUT_STATUS: i32 = 86;

/// Which of the unsynced writes remain after a power failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Left {
    /// None of the unsynced writes remain.
    Nothing,
    /// Some of the unsynced writes remain, regardless of their order.
    Some,
    /// Some sectors of some unsynced writes remain.
    Torn,
    /// All unsynced writes up to a certain one remain.
    First,
}

impl Left {
    /// Every kind of loss that a power failure can cause.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Some, Self::Torn, Self::First];

    /// Returns the name of the value, for output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Some => "some",
            Self::Torn => "torn",
            Self::First => "the first",
        }
    }

    const fn mode(self) -> &'static str {
        match self {
            Self::Nothing => "all",
            Self::Some => "some",
            Self::Torn => "torn",
            Self::First => "late",
        }
    }
}

/// A planned power failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The seed that determines which writes remain.
    pub seed: u64,
    /// The number of writes, syncs and renames before the power failure.
    pub after: u64,
    /// Which of the unsynced writes remain.
    pub left: Left,
    /// The maximum duration of a sync.
    pub sync: Duration,
}

/// The path of the compiled shim library, which simulates the power failure.
#[derive(Clone, Debug)]
pub struct Shim(PathBuf);

impl Shim {
    /// Compiles the shim library, once for each calling program, in that program's directory.
    ///
    /// # Errors
    /// Returns an error if there is no C compiler.
    pub fn build() -> Result<Self> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let built = BUILT.get_or_init(|| compile().map_err(|error| format!("{error:#}")));
        match built {
            Ok(path) => Ok(Self(path.clone())),
            Err(error) => bail!("{error}"),
        }
    }

    /// Returns the environment variables that load the shim into a program. The program's power then fails as
    /// planned, and loses writes in `folder`.
    #[must_use]
    pub fn environment(&self, folder: &Path, cut: Cut) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.0.clone().into()),
            ("POWERCUT_FOLDER", folder.into()),
            ("POWERCUT_SEED", cut.seed.to_string().into()),
            ("POWERCUT_AFTER", cut.after.to_string().into()),
            ("POWERCUT_MODE", cut.left.mode().into()),
            ("POWERCUT_SYNC_US", cut.sync.as_micros().to_string().into()),
        ]
    }
}

fn compile() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("a program is in a folder")?.join("powercut");
    fs::create_dir_all(&folder)?;
    // Several processes may compile it at the same time: each uses its own file names, and the last one
    // replaces the others' identical result.
    let (source, made) = (folder.join(format!("{}.c", id())), folder.join(format!("{}.so", id())));
    fs::write(&source, SOURCE)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o"]).arg(&made).arg(&source);
    compiler.args(["-ldl", "-lpthread"]);
    let output = compiler.output().context("there is no C compiler `cc`; install one, such as gcc")?;
    if !output.status.success() {
        bail!("powercut.c can't be compiled:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    fs::remove_file(&source)?;
    let library = folder.join("libpowercut.so");
    fs::rename(&made, &library)?;
    Ok(library)
}
