//! The crates in the workspace, and the dependencies between them, as listed by cargo.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::cycles::Graph;
use crate::steps::{cargo, output};

pub(crate) struct Crates {
    pub(crate) members: BTreeMap<String, Crate>,
    /// The dependencies between crates, without those of tests and build scripts.
    pub(crate) graph: Graph,
    /// The dependencies between crates, including those of tests and build scripts.
    pub(crate) with_tests: Graph,
}

pub(crate) struct Crate {
    pub(crate) folder: PathBuf,
    pub(crate) description: String,
}

pub(crate) fn read() -> Result<Crates> {
    let mut members = BTreeMap::new();
    let graph = graph("normal", &mut members)?;
    let with_tests = self::graph("normal,build,dev", &mut members)?;
    Ok(Crates { members, graph, with_tests })
}

fn graph(edges: &str, members: &mut BTreeMap<String, Crate>) -> Result<Graph> {
    let tree = ["tree", "--workspace", "--all-features", "--locked", "--depth", "1", "--no-dedupe"];
    let tree = output(cargo(&tree).args(["--prefix", "depth", "--edges", edges]))?;
    let mut graph = Graph::default();
    let mut user = String::new();
    for line in tree.lines() {
        // A member has a path: `1breakerbox-core v0.1.0 (/folder)`. Other crates have none.
        let Some((depth, rest)) = line.split_at_checked(1) else { continue };
        let Some((package, folder)) = rest.split_once(" (/") else { continue };
        let name = package.split_whitespace().next().unwrap_or_default();
        if depth == "0" {
            let folder = PathBuf::from(format!("/{}", folder.trim_end_matches(')')));
            let folder = folder.strip_prefix(std::env::current_dir()?.canonicalize()?)?.to_owned();
            let description = description(&folder)?;
            members.insert(name.to_owned(), Crate { folder, description });
            graph.add(name);
            name.clone_into(&mut user);
        } else {
            graph.connect(&user, name);
        }
    }
    Ok(graph)
}

fn description(folder: &std::path::Path) -> Result<String> {
    let file = folder.join("Cargo.toml");
    let manifest = fs::read_to_string(&file)?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("description = "));
    let line = line.with_context(|| format!("{} has no description", file.display()))?;
    Ok(line.trim_matches('"').to_owned())
}
