//! The modules directly below the root of a crate, and the dependencies between them.
//!
//! A directory counts as one module. The root of the crate is a module too, `lib` or `main`, for the items that
//! it defines itself. A name that the root re-exports counts as a use of the module that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cycles::Graph;
use super::source::{self, Source};

/// The modules of one crate, and the dependencies between them.
pub(crate) struct Modules {
    pub(crate) graph: Graph,
    /// For each dependency between two modules, one location in the code.
    places: BTreeMap<(String, String), String>,
}

impl Modules {
    /// Returns the dependencies between the modules in a group, one per line.
    pub(crate) fn edges_between(&self, group: &[&str]) -> String {
        let is_inside = |(from, to): &(String, String)| group.contains(&&**from) && group.contains(&&**to);
        let edges = self.places.iter().filter(|(edge, _)| is_inside(edge));
        edges.map(|((from, to), place)| format!("    {from} uses {to}: {place}\n")).collect()
    }
}

/// Reads the modules of the crate whose sources are in this directory. Returns `None` if there are no sources.
pub(crate) fn read(folder: &Path) -> Result<Option<Modules>> {
    let Some(root) =
        ["lib", "main"].into_iter().find(|name| folder.join(name).with_extension("rs").is_file())
    else {
        return Ok(None);
    };
    let mut files = Vec::new();
    let mut waiting = vec![(Vec::new(), folder.join(root).with_extension("rs"))];
    while let Some((module, file)) = waiting.pop() {
        let text = fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))?;
        let source = source::read(&text, &module);
        for declared in &source.modules {
            waiting.push((declared.clone(), file_of(folder, declared)?));
        }
        files.push((file, source));
    }
    Ok(Some(connect(root, &files)))
}

fn file_of(folder: &Path, module: &[String]) -> Result<PathBuf> {
    let path = module.iter().fold(folder.to_owned(), |path, name| path.join(name));
    let found = [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|file| file.is_file());
    let Some(found) = found else { bail!("module {} has no file", module.join("::")) };
    Ok(found)
}

fn connect(root: &str, files: &[(PathBuf, Source)]) -> Modules {
    let names: BTreeSet<&str> = files
        .iter()
        .flat_map(|(_, source)| &source.modules)
        .filter(|path| path.len() == 1)
        .map(|path| path[0].as_str())
        .collect();
    let paths = || files.iter().flat_map(|(file, source)| source.paths.iter().map(move |path| (file, path)));
    // In the root, `name::item` belongs to the crate if `name` is one of its modules.
    let is_of_crate =
        |path: &source::Path| path.is_of_crate || path.from.is_empty() && names.contains(&*path.to[0]);
    // All modules can name what the root imports.
    let imported: BTreeMap<&str, Option<&str>> = paths()
        .filter(|(_, path)| path.from.is_empty())
        .filter_map(|(_, path)| {
            let module = path.to.first().map(String::as_str).filter(|_| is_of_crate(path));
            Some((path.import.as_deref()?, module))
        })
        .collect();

    let mut modules = Modules { graph: Graph::default(), places: BTreeMap::new() };
    for name in &names {
        modules.graph.add(name);
    }
    for (file, path) in paths() {
        if !is_of_crate(path) || path.from.is_empty() && path.is_reexport {
            continue;
        }
        let from = path.from.first().map_or(root, String::as_str);
        let to = match path.to.first().map(String::as_str) {
            None => root,
            Some(name) if names.contains(name) => name,
            Some(name) => match imported.get(name) {
                Some(Some(module)) => module,
                Some(None) => continue,
                None => root,
            },
        };
        if from != to {
            modules.graph.connect(from, to);
            let place = || format!("{}:{}: {}", file.display(), path.line, path.to.join("::"));
            modules.places.entry((from.to_owned(), to.to_owned())).or_insert_with(place);
        }
    }
    modules
}
