//! `cargo xtask graph`: writes the graph of crates and modules to ARCHITECTURE.md, and fails on cycles.
//!
//! Cargo itself refuses cycles between crates, except through test dependencies, which are included here. The
//! compiler allows cycles between the modules of a crate, so only this command detects them.

mod crates;
mod cycles;
mod map;
mod modules;
mod source;
mod tokens;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

const FILE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- graph: written by `cargo xtask graph` -->\n";
const END: &str = "<!-- graph: end -->\n";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only check: write nothing, and fail if ARCHITECTURE.md is not up to date
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check { check() } else { update() }
}

/// Fails if the graph has a cycle, if ARCHITECTURE.md shows a different graph, or if the module map in
/// ARCHITECTURE.md names a path that does not exist.
pub(crate) fn check() -> Result<()> {
    let text = fs::read_to_string(FILE)?;
    if with_graph(&text)? != text {
        bail!("the graph in {FILE} is not up to date; run `cargo xtask graph`");
    }
    let missing = map::missing(&text, Path::exists);
    if !missing.is_empty() {
        bail!("the module map in {FILE} names what does not exist: {}", missing.join(", "));
    }
    Ok(())
}

fn update() -> Result<()> {
    let text = fs::read_to_string(FILE)?;
    fs::write(FILE, with_graph(&text)?)?;
    Ok(())
}

/// Returns the document with the current graph between the two markers.
fn with_graph(text: &str) -> Result<String> {
    let begin = text.find(BEGIN).with_context(|| format!("{FILE} has no line {BEGIN}"))? + BEGIN.len();
    let end =
        text.find(END).filter(|end| *end >= begin).with_context(|| format!("{FILE} has no line {END}"))?;
    Ok(format!("{}{}{}", &text[..begin], graph()?, &text[end..]))
}

/// Returns the graph as Markdown. Fails if the graph has a cycle.
fn graph() -> Result<String> {
    let crates = crates::read()?;
    let mut cycles = String::new();
    for group in crates.with_tests.cycles() {
        writeln!(cycles, "crates: {}", group.join(", "))?;
    }
    let mut text = "\n```mermaid\nflowchart LR\n".to_owned();
    let id = |name: &str| name.replace('-', "_");
    for name in crates.graph.order() {
        writeln!(text, "    {}[\"{name}\"]", id(name))?;
    }
    for name in crates.graph.order() {
        for used in crates.graph.closest(name) {
            writeln!(text, "    {} --> {}", id(used), id(name))?;
        }
    }
    text += "```\n";
    for name in crates.graph.order() {
        let member = &crates.members[name];
        let Some(modules) = modules::read(&member.folder.join("src"))? else { continue };
        write!(
            text,
            "\n<details><summary>{name}: {}</summary>\n\n```text\n",
            member.description.replace('`', "")
        )?;
        for module in modules.graph.order() {
            let uses: Vec<_> = modules.graph.uses(module).collect();
            let colon = if uses.is_empty() { "" } else { ": " };
            writeln!(text, "{module}{colon}{}", uses.join(", "))?;
        }
        text += "```\n\n</details>\n";
        for group in modules.graph.cycles() {
            let edges = modules.edges_between(&group);
            write!(cycles, "modules of {name}: {}\n{edges}", group.join(", "))?;
        }
    }
    if !cycles.is_empty() {
        bail!("there are cycles:\n{cycles}");
    }
    text += "\n";
    Ok(text)
}
