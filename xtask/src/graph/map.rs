//! Checks the module map in ARCHITECTURE.md: every file and directory that it names must exist.
//!
//! The first cell of a row names paths in backticks: the first is relative to the root of the repository, the
//! others to the root or to the directory of the first.

use std::path::Path;

const TITLE: &str = "\n## Module map\n";

/// Returns the paths in a document's module map that do not exist.
pub(crate) fn missing(text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let map = text.split_once(TITLE).map_or("", |(_, after)| after);
    let map = map.split_once("\n## ").map_or(map, |(map, _)| map);
    let cells = map.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let mut missing = Vec::new();
    for cell in cells {
        let names: Vec<&str> = cell.split('`').step_by(2).filter(|name| !name.is_empty()).collect();
        let folder = names.first().and_then(|first| Path::new(first).parent()).unwrap_or(Path::new(""));
        let is_missing = |name: &&&str| !exists(Path::new(name)) && !exists(&folder.join(name));
        missing.extend(names.iter().filter(is_missing).map(|name| (*name).to_owned()));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_neither_at_the_root_nor_beside_the_first_are_missing() {
        let text = "# A\n`x`\n\n## Module map\n\n| folder | what |\n| --- | --- |\n\
                    | `a/b.rs`, `c.rs`, `d/`, `e.rs` | not `z` |\n| `gone/` | |\n\n## Next\n\n| `y` | |\n";
        let there = ["a/b.rs", "a/c.rs", "d/"].map(Path::new);
        assert_eq!(missing(text, |path| there.contains(&path)), ["e.rs", "gone/"]);
    }
}
