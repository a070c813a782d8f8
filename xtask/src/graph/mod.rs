//! `cargo xtask graph`: writes the graph of crates and modules into ARCHITECTURE.md, and refuses cycles.
//!
//! Cargo itself refuses cycles between crates, except through the dependencies of tests; here those count too. The
//! compiler allows cycles between the modules of a crate, so nothing but this command finds them.

mod crates;
mod cycles;
mod map;
mod modules;
mod source;
mod tokens;

use std::collections::BTreeMap;
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
    /// Write nothing, and fail if ARCHITECTURE.md is not up to date
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check { check() } else { update() }
}

/// Fails if there is a cycle, if ARCHITECTURE.md shows another graph, or if its module map names what is not there.
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

/// Returns the text with the present graph between the two marks.
fn with_graph(text: &str) -> Result<String> {
    let begin = text.find(BEGIN).with_context(|| format!("{FILE} has no line {BEGIN}"))? + BEGIN.len();
    let end =
        text.find(END).filter(|end| *end >= begin).with_context(|| format!("{FILE} has no line {END}"))?;
    Ok(format!("{}{}{}", &text[..begin], graph()?, &text[end..]))
}

/// Returns the graph as text. Fails if it has a cycle that is not known.
fn graph() -> Result<String> {
    let crates = crates::read()?;
    let mut cycles = Cycles::default();
    for group in crates.with_tests.cycles() {
        cycles.found("crates", &group, "");
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
            cycles.found(name, &group, &modules.edges_between(&group));
        }
    }
    cycles.are_known()?;
    text += "\n";
    Ok(text)
}

/// Cycles that are still to be removed: the crate, and its modules that use each other. Never add one.
const KNOWN_CYCLES: [(&str, &str); 9] = [
    ("breakerbox-cli", "client, failure"),
    ("breakerbox-cli", "completions, lib"),
    ("breakerbox-core", "change, circuit, fleet, ramp, record, rule, transitions, window"),
    ("breakerbox-gateway", "api, config, dispatch, notifications, permits, telemetry"),
    ("breakerbox-model", "delivery, notifications, objects, reminder"),
    (
        "breakerbox-redis",
        "builder, calling, checking, leading, listening, listing, merging, ramping, reading, store, swapping",
    ),
    ("breakerbox-replay", "engine, summary"),
    ("breakerbox-storage-sqlite", "claim, maintenance, queue, reminders, settle"),
    ("breakerbox-storage-sqlite", "database, job, readers, write_queue, writer"),
];

/// The cycles found, with their edges.
#[derive(Default)]
struct Cycles(BTreeMap<(String, String), String>);

impl Cycles {
    fn found(&mut self, place: &str, group: &[&str], edges: &str) {
        self.0.insert((place.to_owned(), group.join(", ")), edges.to_owned());
    }

    /// Fails if a cycle is new, or if a known one is not there any more.
    fn are_known(mut self) -> Result<()> {
        let gone = KNOWN_CYCLES.into_iter().filter(|(place, group)| {
            let known = (String::from(*place), String::from(*group));
            self.0.remove(&known).is_none()
        });
        let gone: Vec<_> = gone.collect();
        if !self.0.is_empty() {
            let found = self.0.iter().map(|((place, group), edges)| format!("{place}: {group}\n{edges}"));
            bail!("there are cycles:\n{}", found.collect::<String>());
        }
        if !gone.is_empty() {
            bail!("these cycles are gone, remove them from KNOWN_CYCLES: {gone:?}");
        }
        Ok(())
    }
}
