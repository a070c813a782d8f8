//! `cargo xtask package`: packages the published crates as `cargo publish` would, builds them from their packages, and
//! uses them in a program outside the workspace that follows the README.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::steps::{cargo, output, succeed};

/// The crates that are published. A crate comes after those that it depends on.
pub(crate) const PUBLISHED: [&str; 4] =
    ["breakerbox-core", "breakerbox", "breakerbox-redis", "breakerbox-postgres"];

/// The directory of the program that uses the packages, and of the unpacked packages.
const OUTSIDE: &str = "target/outside";

/// The largest number of lines with which the README may protect a client.
const MAX_LINES: usize = 6;

pub(crate) fn run() -> Result<()> {
    let mut package = cargo(&["package", "--locked", "--allow-dirty", "--quiet"]);
    PUBLISHED.iter().for_each(|name| _ = package.args(["--package", name]));
    succeed(&mut package)?;
    for name in PUBLISHED {
        check_contents(name)?;
    }
    use_outside()
}

/// Checks that a package contains what a user needs, and nothing that refers to files outside it.
fn check_contents(name: &str) -> Result<()> {
    let list = output(cargo(&["package", "--list", "--allow-dirty", "--package", name]).arg("--locked"))?;
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"] {
        ensure!(list.lines().any(|line| line == file), "the package of {name} has no {file}");
    }
    for file in list.lines().filter(|file| file.ends_with(".rs")) {
        let path = format!("crates/{name}/{file}");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        // A file in `src` may include files of its own package only.
        if text.contains("include_str!(\"../../") {
            bail!("{path} includes a file that is not in its package");
        }
    }
    Ok(())
}

/// Builds and runs a program that depends on the packages and contains the README's lines.
fn use_outside() -> Result<()> {
    let outside = Path::new(OUTSIDE);
    if outside.exists() {
        fs::remove_dir_all(outside)?;
    }
    fs::create_dir_all(outside.join("src"))?;
    for name in ["breakerbox-core", "breakerbox"] {
        let folder = outside.join("packages").join(name);
        fs::create_dir_all(&folder)?;
        let archive = format!("target/package/{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        // All files in an archive have the same time, so that cargo would not see a change: `-m` sets the present one.
        let mut unpack = Command::new("tar");
        succeed(unpack.args(["-xzmf", &archive, "--strip-components=1", "-C"]).arg(&folder))?;
    }
    fs::write(outside.join("Cargo.toml"), include_str!("../outside/Cargo.toml.txt"))?;
    fs::copy("Cargo.lock", outside.join("Cargo.lock"))?;
    fs::write(outside.join("src/main.rs"), program()?)?;
    let manifest = outside.join("Cargo.toml");
    let mut run = cargo(&["run", "--quiet", "--offline", "--target-dir", "target", "--manifest-path"]);
    succeed(run.arg(manifest))
}

/// Returns the program with the lines of the library's README.
fn program() -> Result<String> {
    let readme = fs::read_to_string("crates/breakerbox/README.md")?;
    let blocks = rust_blocks(&readme);
    let (Some(client), Some(function)) = (blocks.first(), blocks.get(1)) else {
        bail!("the library's README has fewer than two Rust blocks");
    };
    ensure!(
        client.lines().count() <= MAX_LINES,
        "the README protects a client in more than {MAX_LINES} lines"
    );
    for other in ["README.md", "docs/guide/library.md"] {
        let text = fs::read_to_string(other)?;
        ensure!(
            text.contains(client),
            "{other} does not show the same client as crates/breakerbox/README.md"
        );
    }
    let template = include_str!("../outside/main.rs");
    let with_client = replaced(template, "//README: client", client)?;
    replaced(&with_client, "//README: function", function)
}

fn replaced(template: &str, marker: &str, lines: &str) -> Result<String> {
    ensure!(template.matches(marker).count() == 1, "the template has not one line {marker}");
    Ok(template.replace(marker, lines))
}

/// Returns the contents of a document's Rust blocks.
fn rust_blocks(text: &str) -> Vec<&str> {
    let starts = text.split("```rust\n").skip(1);
    starts.filter_map(|rest| rest.split("```").next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_blocks_are_found_among_others() {
        let text = "a\n```sh\nls\n```\n```rust\nlet a = 1;\nlet b = 2;\n```\nb\n```rust\nc();\n```\n";
        assert_eq!(rust_blocks(text), ["let a = 1;\nlet b = 2;\n", "c();\n"]);
    }

    #[test]
    fn a_missing_marker_is_an_error() {
        assert_eq!(replaced("a MARK b", "MARK", "x").unwrap(), "a x b");
        assert!(replaced("a b", "MARK", "x").is_err());
        assert!(replaced("MARK MARK", "MARK", "x").is_err());
    }
}
