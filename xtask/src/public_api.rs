//! `cargo xtask public-api`: lists the public API of the published crates in `xtask/public-api`, so that every change
//! to it is seen in review.
//!
//! The list is made from rustdoc's JSON, whose format is not stable: the compiler's version decides which format it
//! writes, and the crate `public-api` reads one. With another compiler the check is skipped, and says so.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::package::PUBLISHED;
use crate::steps::{cargo, succeed};

/// The version of rustdoc's JSON that the crate `public-api` reads. Rust 1.95 writes it.
const FORMAT: &str = "\"format_version\":57";

/// Options of `cargo xtask public-api`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail if a list is out of date, instead of writing it
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check { check() } else { PUBLISHED.iter().try_for_each(|name| write(name)) }
}

/// Fails if a list is out of date.
pub(crate) fn check() -> Result<()> {
    let mut outdated = Vec::new();
    for name in PUBLISHED {
        let Some(api) = list(name)? else { return Ok(()) };
        let path = path(name);
        let known = fs::read_to_string(&path).with_context(|| path.clone())?;
        if known != api {
            print_difference(name, &known, &api);
            outdated.push(name);
        }
    }
    if !outdated.is_empty() {
        bail!(
            "the public API of {outdated:?} has changed; if that is intended, run `cargo xtask public-api`"
        );
    }
    Ok(())
}

fn write(name: &str) -> Result<()> {
    match list(name)? {
        Some(api) => fs::write(path(name), api).with_context(|| path(name)),
        None => bail!("this compiler's rustdoc writes another format; use Rust 1.95"),
    }
}

fn path(name: &str) -> String {
    format!("xtask/public-api/{name}.txt")
}

/// Returns the public API of a crate, one item in each line; `None` if this compiler writes another format.
fn list(name: &str) -> Result<Option<String>> {
    // JSON is an unstable option of rustdoc. The variable that allows it must not reach build scripts, which would
    // otherwise compile all dependencies again.
    let rustdoc = Path::new("target/rustdoc-json.sh");
    fs::create_dir_all("target")?;
    fs::write(rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n")?;
    fs::set_permissions(rustdoc, fs::Permissions::from_mode(0o755))?;
    let mut document = cargo(&["rustdoc", "--quiet", "--locked", "--lib", "--package", name]);
    if name == "breakerbox-core" {
        // Without `sabotage`, which is for tests.
        document.args(["--features", "serde,url"]);
    } else {
        document.arg("--all-features");
    }
    document.env("RUSTDOC", env::current_dir()?.join(rustdoc));
    succeed(document.args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]))?;
    let json = format!("target/doc/{}.json", name.replace('-', "_"));
    let text = fs::read_to_string(&json).with_context(|| json.clone())?;
    if !text.contains(FORMAT) {
        println!("skipped: this compiler's rustdoc does not write {FORMAT}");
        return Ok(None);
    }
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(Some(api.items().map(|item| format!("{item}\n")).collect()))
}

fn print_difference(name: &str, known: &str, api: &str) {
    let (known, api): (Vec<_>, Vec<_>) = (known.lines().collect(), api.lines().collect());
    for line in known.iter().filter(|line| !api.contains(line)) {
        println!("{name}: - {line}");
    }
    for line in api.iter().filter(|line| !known.contains(line)) {
        println!("{name}: + {line}");
    }
}
