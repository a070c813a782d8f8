//! `cargo xtask test`: runs every check, and prints the number of tests in the last line.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::steps::{cargo, output, step, succeed};
use crate::{debian_packages, graph, language, package, public_api};

/// The core's allowed dependencies, none of which reads a clock, does I/O, runs async code or generates random
/// numbers.
const CORE_DEPENDENCIES: [&str; 4] = ["serde", "sha2", "thiserror", "url"];

/// For each package, the crates that it must not depend on, directly or indirectly, separated by spaces. For
/// example, a package that must not access databases must not depend on `rusqlite`.
const BOUNDARIES: [(&str, &str); 6] = [
    ("breakerbox-replay", "tokio rusqlite hyper axum breakerbox breakerbox-model"),
    ("breakerbox-model", "tokio mio rusqlite tokio-postgres redis hyper h2 axum reqwest rustls breakerbox"),
    (
        "breakerbox-storage",
        "rusqlite tokio-postgres hyper h2 axum reqwest breakerbox-egress breakerbox-gateway",
    ),
    ("breakerbox-storage-sqlite", "hyper h2 axum reqwest breakerbox-egress breakerbox-gateway"),
    ("breakerbox-storage-postgres", "hyper h2 axum reqwest breakerbox-egress breakerbox-gateway"),
    ("breakerbox-egress", "rusqlite axum breakerbox-storage breakerbox-gateway"),
];

/// The library's features, each of which is linted together with the default features only. An empty string means no
/// other features.
const LIBRARY_FEATURES: [&str; 8] =
    ["", "http", "tower", "reqwest", "reqwest-middleware", "sqlite", "tracing", "metrics"];

/// Packages and sets of features that are linted without the default features.
const WITHOUT_DEFAULTS: [(&str, &str); 6] = [
    ("breakerbox-core", ""),
    ("breakerbox-core", "serde"),
    ("breakerbox-core", "url"),
    ("breakerbox", ""),
    ("breakerbox", "serde"),
    ("breakerbox", "tower,reqwest,metrics,tracing"),
];

pub(crate) fn run() -> Result<()> {
    step("format", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("words of public text", language::check)?;
    step("dependencies of the core", core_is_pure)?;
    step("boundaries between crates", || {
        BOUNDARIES.iter().try_for_each(|(package, forbidden)| boundary_holds(package, forbidden))
    })?;
    step("graph of crates and modules", graph::check)?;
    step("lints", || {
        let everything = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked"];
        succeed(cargo(&everything).args(["--", "-D", "warnings"]))?;
        // In a workspace build, a package has the union of the features that others enable. Built alone, it has
        // only its own.
        for features in LIBRARY_FEATURES {
            let alone =
                ["clippy", "--package", "breakerbox", "--all-targets", "--locked", "--features", features];
            succeed(cargo(&alone).args(["--", "-D", "warnings"]))?;
        }
        for (package, features) in WITHOUT_DEFAULTS {
            let mut alone = cargo(&["clippy", "--package", package, "--lib", "--locked"]);
            alone.args(["--no-default-features", "--features", features]);
            succeed(alone.args(["--", "-D", "warnings"]))?;
        }
        Ok(())
    })?;
    step("documentation", || {
        let mut doc = cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--locked"]);
        succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("public API of the published crates", public_api::check)?;
    step("packages of the published crates", package::run)?;
    step("fuzz targets build", || {
        // A check does not link, so the fuzzer's C++ code need not be built.
        let mut check =
            cargo(&["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target/fuzz"]);
        succeed(check.arg("--locked").env("CUSTOM_LIBFUZZER_PATH", "target/not-linked.a"))
    })?;
    step("servers for the tests", debian_packages::install)?;
    let mut tally = Tally::default();
    step("tests", || {
        tally.count(&mut cargo(&["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"]))
    })?;
    step("interleavings of the hot paths", || {
        let mut loom = cargo(&["test", "--package", "breakerbox", "--package", "breakerbox-core"]);
        loom.args(["--lib", "--release", "--locked", "--target-dir", "target/loom", "interleavings"]);
        tally.count(loom.env("RUSTFLAGS", "--cfg breakerbox_loom"))
    })?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(())
}

fn core_is_pure() -> Result<()> {
    let names = dependencies("breakerbox-core", &["--depth", "1"])?;
    if names != CORE_DEPENDENCIES {
        bail!("breakerbox-core may depend on {CORE_DEPENDENCIES:?} only, but depends on {names:?}");
    }
    Ok(())
}

/// Checks that the package's dependency tree contains none of the forbidden crates.
fn boundary_holds(package: &str, forbidden: &str) -> Result<()> {
    let names = dependencies(package, &[])?;
    let found: Vec<_> = forbidden.split(' ').filter(|name| names.iter().any(|found| found == name)).collect();
    if !found.is_empty() {
        bail!(
            "{package} must not depend on {found:?}; see `cargo tree --package {package} --invert {}`",
            found[0]
        );
    }
    Ok(())
}

/// Returns the names of a package's dependencies, without those of tests and without features that other
/// packages enable.
fn dependencies(package: &str, more: &[&str]) -> Result<Vec<String>> {
    let tree = ["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--locked"];
    let tree = output(cargo(&tree).args(more))?;
    let names = tree.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Runs tests, and adds the results of each test binary to the totals.
    fn count(&mut self, tests: &mut Command) -> Result<()> {
        let passed_before = self.passed;
        let mut child = tests.stdout(Stdio::piped()).spawn()?;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                let line = line?;
                println!("{line}");
                self.add(&line);
            }
        }
        let status = child.wait()?;
        if !status.success() || self.failed > 0 {
            bail!("{} passed, {} failed", self.passed, self.failed);
        }
        if self.passed == passed_before {
            bail!("no test ran");
        }
        Ok(())
    }

    /// Adds the counts in a line such as `test result: ok. 12 passed; 0 failed; ...` to the totals.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |part: &str| part.split_whitespace().rev().nth(1).and_then(|n| n.parse::<u64>().ok());
        for part in result.split(';') {
            if part.ends_with(" passed") {
                self.passed += number(part).unwrap_or(0);
            } else if part.ends_with(" failed") {
                self.failed += number(part).unwrap_or(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_what_test_binaries_say() {
        let mut tally = Tally::default();
        tally.add("running 3 tests");
        tally.add(
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        tally.add("test result: FAILED. 39 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!((tally.passed, tally.failed), (42, 1));
    }
}
