//! A dependency graph of names: a topological order, and the cycles that prevent one.

use std::collections::{BTreeMap, BTreeSet};

/// A graph of dependencies between named crates or modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn add(&mut self, name: &str) {
        self.uses.entry(name.to_owned()).or_default();
    }

    pub(crate) fn connect(&mut self, from: &str, to: &str) {
        self.add(to);
        self.uses.entry(from.to_owned()).or_default().insert(to.to_owned());
    }

    /// Returns the direct dependencies of a name, in alphabetical order.
    pub(crate) fn uses(&self, name: &str) -> impl Iterator<Item = &str> {
        self.uses.get(name).into_iter().flatten().map(String::as_str)
    }

    /// Returns the direct dependencies of a name that are not also indirect dependencies.
    pub(crate) fn closest(&self, name: &str) -> impl Iterator<Item = &str> {
        let is_indirect =
            move |to: &str| self.uses(name).any(|other| other != to && self.reachable(other).contains(to));
        self.uses(name).filter(move |to| !is_indirect(to))
    }

    /// Returns all direct and indirect dependencies of a name.
    fn reachable(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<&str> = self.uses(name).collect();
        while let Some(next) = waiting.pop() {
            if found.insert(next) {
                waiting.extend(self.uses(next));
            }
        }
        found
    }

    /// Returns the cycles: groups of names that depend on each other, directly or indirectly.
    pub(crate) fn cycles(&self) -> Vec<Vec<&str>> {
        let reachable: BTreeMap<&str, _> =
            self.uses.keys().map(|name| (name.as_str(), self.reachable(name))).collect();
        let mut cycles: Vec<Vec<&str>> = Vec::new();
        for (name, found) in &reachable {
            if found.contains(name) && !cycles.iter().flatten().any(|known| known == name) {
                let mutual = found.iter().copied().filter(|other| reachable[other].contains(name));
                cycles.push(mutual.collect());
            }
        }
        cycles
    }

    /// Returns all names in topological order, each after its dependencies. Names that are independent or in a
    /// cycle are in alphabetical order.
    pub(crate) fn order(&self) -> Vec<&str> {
        let depths: BTreeMap<&str, usize> =
            self.uses.keys().map(|name| (name.as_str(), self.reachable(name).len())).collect();
        let mut names: Vec<&str> = self.uses.keys().map(String::as_str).collect();
        // A name reaches more than any of its dependencies does: all that the dependency reaches, and the
        // dependency itself.
        names.sort_by_key(|name| depths[name]);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (from, to) in edges {
            graph.connect(from, to);
        }
        graph
    }

    #[test]
    fn names_that_use_each_other_are_a_cycle() {
        let found =
            graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a")]);
        assert_eq!(found.cycles(), [vec!["a", "b", "c"], vec!["d", "e"]]);
        assert_eq!(graph(&[("a", "b"), ("a", "c"), ("b", "c")]).cycles(), Vec::<Vec<&str>>::new());
    }

    #[test]
    fn a_name_comes_after_those_that_it_uses() {
        let found = graph(&[("a", "z"), ("b", "a"), ("c", "b"), ("c", "z"), ("d", "z")]);
        assert_eq!(found.order(), ["z", "a", "d", "b", "c"]);
    }

    #[test]
    fn the_closest_uses_are_those_that_nothing_else_brings() {
        let found = graph(&[("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")]);
        assert_eq!(found.closest("a").collect::<Vec<_>>(), ["b", "d"]);
    }
}
