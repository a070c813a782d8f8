//! Finds the programs that the tests run and cargo can't build, and installs missing ones.
//!
//! On Debian and its derivatives, as root or with a `sudo` that needs no password, missing programs are
//! installed. Elsewhere the error names the package to install. No service is started: tests start their own
//! servers. A program whose package would start one is only unpacked, below `target/`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::{output, succeed};

/// A program, and the Debian package that contains it.
struct Package {
    program: &'static str,
    /// The directories to search if the program is not in `PATH`. A `*` stands for any one directory.
    folders: &'static [&'static str],
    debian: &'static str,
}

const PACKAGES: [Package; 6] = [
    Package { program: "redis-server", folders: &["/usr/local/sbin", "/usr/sbin"], debian: "redis-server" },
    Package { program: "initdb", folders: &["/usr/lib/postgresql/*/bin"], debian: "postgresql" },
    // Tests run the worker in `examples/python`, and the Python programs of the guides.
    Package { program: "python3", folders: &[], debian: "python3" },
    // Tests install the library that receivers use, and a client generator.
    Package { program: "pip3", folders: &[], debian: "python3-pip" },
    // Tests run the Node.js programs of the guides, and install a client generator for TypeScript.
    Package { program: "node", folders: &[], debian: "nodejs" },
    Package { program: "npm", folders: &[], debian: "npm" },
];

/// The directory below `target/` into which packages are unpacked. Tests search it too.
const UNPACKED: &str = "target/tools";

/// A test checks the gateway's metrics with `promtool`. Its package contains the Prometheus server, and would start it.
const PROMTOOL: Package =
    Package { program: "promtool", folders: &["target/tools/usr/bin"], debian: "prometheus" };

/// Installs the programs that the tests need and that are missing, with `apt-get`.
pub(crate) fn install() -> Result<()> {
    install_packages()?;
    unpack(&PROMTOOL)
}

/// Downloads a package and unpacks it, without installing it, unless its program is there.
fn unpack(package: &Package) -> Result<()> {
    if package.is_there() {
        return Ok(());
    }
    let by_hand = format!("{} missing; install: {}", package.program, package.debian);
    if find("apt-get", &[]).is_none() {
        bail!("{by_hand}");
    }
    let folder = Path::new(UNPACKED);
    std::fs::create_dir_all(folder)?;
    let download = || succeed(Command::new("apt-get").args(["download", package.debian]).current_dir(folder));
    // The package list may be missing or outdated.
    download().or_else(|_| apt(&["update"]).and_then(|()| download())).with_context(|| by_hand.clone())?;
    let prefix = format!("{}_", package.debian);
    for file in folder.read_dir()? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with(&prefix) && name.ends_with(".deb") {
            succeed(Command::new("dpkg-deb").arg("--extract").arg(file.path()).arg(folder))?;
            std::fs::remove_file(file.path())?;
        }
    }
    if package.is_there() { Ok(()) } else { bail!("{} has no {}", package.debian, package.program) }
}

fn install_packages() -> Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| !package.is_there()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<_> = missing.iter().map(|package| package.program).collect();
    let names: Vec<_> = missing.iter().map(|package| package.debian).collect();
    let by_hand = format!("{} missing; install: {}", programs.join(", "), names.join(" "));
    if find("apt-get", &[]).is_none() {
        bail!("{by_hand}");
    }
    // The package list may be missing or outdated.
    install_with_apt(&names)
        .or_else(|_| apt(&["update"]).and_then(|()| install_with_apt(&names)))
        .with_context(|| format!("{by_hand} (sudo apt-get install {})", names.join(" ")))?;
    match missing.iter().find(|package| !package.is_there()) {
        None => Ok(()),
        Some(package) => bail!("{} was installed, and has no {}", package.debian, package.program),
    }
}

impl Package {
    fn is_there(&self) -> bool {
        find(self.program, self.folders).is_some()
    }
}

fn install_with_apt(names: &[&str]) -> Result<()> {
    apt(&[&["install", "--yes", "--no-install-recommends"], names].concat())
}

fn apt(arguments: &[&str]) -> Result<()> {
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut apt = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        apt.args(["--non-interactive", "env"]);
    }
    apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
    succeed(apt.stdin(Stdio::null()))
}

/// Returns the path of a program, in `PATH` or in one of these directories.
fn find(program: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().flat_map(|folder| matching(Path::new(folder)));
    env::split_paths(&path).chain(folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns the directories that match a pattern with `*`.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    pattern.components().fold(vec![PathBuf::new()], |found, part| {
        if part.as_os_str() != "*" {
            return found.into_iter().map(|folder| folder.join(part)).collect();
        }
        let inside = |folder: PathBuf| folder.read_dir().into_iter().flatten().flatten();
        found.into_iter().flat_map(inside).map(|entry| entry.path()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_programs_on_the_path_and_in_folders() {
        assert!(find("sh", &[]).is_some());
        assert!(find("no-such-program", &["/usr/*/bin", "/no/such/*/folder"]).is_none());
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/*");
        assert_eq!(find("main.rs", &[here]), Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")));
    }
}
