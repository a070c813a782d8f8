//! A simulated power cut: a program runs on until a seeded moment, and then its folder has only what was synced, and some of
//! the rest.
//!
//! | part | what it does |
//! | --- | --- |
//! | `powercut.c` | goes into the program with `LD_PRELOAD`: remembers what is not synced, and undoes it at the cut |
//! | [`Shim`] | that file, compiled for this machine |
//! | [`Cut`] | when, and what is left |
//! | [`witness`] | little programs that write with care and without, to see that the cut cuts |
//!
//! It is C because the project's own code has no `unsafe`, and `LD_PRELOAD` because a file system that forgets would need
//! more rights than a test has. It sees what goes through the C library, which is all that SQLite and the standard library do.

pub mod witness;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const SOURCE: &str = include_str!("../../powercut/powercut.c");

/// How a program ends whose power was cut.
pub const CUT_STATUS: i32 = 86;

/// What is left of writes that were not synced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Some of them, in any order.
    Some,
    /// Some sectors of some of them.
    Torn,
    /// All up to one of them.
    First,
}

impl Left {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Some, Self::Torn, Self::First];

    /// Its name.
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

/// When the power is cut, and what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Chooses what is left.
    pub seed: u64,
    /// After how many writes, syncs and changes of names.
    pub after: u64,
    /// What is left.
    pub left: Left,
    /// How long a sync takes at the most.
    pub sync: Duration,
}

/// The library that cuts.
#[derive(Clone, Debug)]
pub struct Shim(PathBuf);

impl Shim {
    /// Compiles it, once for each program that asks, beside that program.
    ///
    /// # Errors
    /// If there is no C compiler.
    pub fn build() -> Result<Self> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let built = BUILT.get_or_init(|| compile().map_err(|error| format!("{error:#}")));
        match built {
            Ok(path) => Ok(Self(path.clone())),
            Err(error) => bail!("{error}"),
        }
    }

    /// What a program needs in its environment so that its power is cut.
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
    // Others may compile it at the same time: each has names of its own, and the last one to be ready is as good as any.
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
