//! Parses Rust source as far as the module graph requires: which modules a file declares, and which paths its
//! code names.
//!
//! Code behind `#[cfg(test)]` or `#[cfg(doctest)]` is left out. Paths are found by their tokens, without types:
//! a dependency that occurs only in a method call is not found.

use super::tokens::{Token, tokens};

/// The declarations and paths in one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The modules declared with `mod name;`, by their paths from the root of the crate.
    pub(crate) modules: Vec<Vec<String>>,
    pub(crate) paths: Vec<Path>,
}

/// A path that the code names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The module whose code names the path, as a path from the root of the crate.
    pub(crate) from: Vec<String>,
    /// The named item, as a path from the root of the crate if `is_of_crate`.
    pub(crate) to: Vec<String>,
    /// Whether the path starts with `crate`, `self` or `super`. Otherwise the path may be in another crate.
    pub(crate) is_of_crate: bool,
    /// The name under which `use` imports the path, or `None` if the path is not in a `use`.
    pub(crate) import: Option<String>,
    /// Whether the path is in a `pub use`, which only re-exports an item.
    pub(crate) is_reexport: bool,
    pub(crate) line: usize,
}

/// Parses the file of the module with this path.
pub(crate) fn read(text: &str, module: &[String]) -> Source {
    let mut reader = Reader {
        tokens: tokens(text),
        at: 0,
        module: module.to_vec(),
        open: Vec::new(),
        found: Source::default(),
    };
    reader.read();
    reader.found
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    /// The module that contains the next token.
    module: Vec<String>,
    /// For each open brace, whether the brace belongs to a module.
    open: Vec<bool>,
    found: Source,
}

impl Reader<'_> {
    fn read(&mut self) {
        while self.at < self.tokens.len() {
            match (self.text(0), self.text(1), self.text(2)) {
                ("#", ..) => self.attribute(),
                ("mod", name, ";") => {
                    let module = self.module.iter().cloned().chain([name.to_owned()]).collect();
                    self.found.modules.push(module);
                    self.at += 3;
                }
                ("mod", name, "{") => {
                    self.module.push(name.to_owned());
                    self.open.push(true);
                    self.at += 3;
                }
                ("{", ..) => {
                    self.open.push(false);
                    self.at += 1;
                }
                ("}", ..) => {
                    if self.open.pop() == Some(true) {
                        self.module.pop();
                    }
                    self.at += 1;
                }
                ("use", ..) => self.import(),
                (word, "::", _) if is_name(word) && !self.is_inside_path() => self.path(),
                _ => self.at += 1,
            }
        }
    }

    /// Returns the token this many positions ahead, or an empty string after the last.
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn before(&self, back: usize) -> &str {
        self.at.checked_sub(back).map_or("", |at| self.tokens[at].text)
    }

    /// Returns whether the current word continues a path, or names a scope as in `pub(in crate::name)`.
    fn is_inside_path(&self) -> bool {
        matches!(self.before(1), "::" | ".") || self.before(1) == "in" && self.before(2) == "("
    }

    /// Parses an attribute, and skips the following item if it exists only in tests.
    fn attribute(&mut self) {
        let start = self.at;
        self.at += 1;
        while !matches!(self.text(0), "[" | "") {
            self.at += 1;
        }
        self.skip_brackets();
        let words: Vec<_> = self.tokens[start..self.at].iter().map(|token| token.text).collect();
        let is_of_tests = words.contains(&"cfg")
            && words.iter().any(|word| matches!(*word, "test" | "doctest"))
            && !words.contains(&"not");
        if is_of_tests {
            while self.text(0) == "#" {
                self.at += 1;
                self.skip_brackets();
            }
            self.skip_item();
        }
    }

    /// Skips an opening bracket and everything up to the matching closing bracket.
    fn skip_brackets(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips an item up to its `;` or its closing brace, or a field up to its comma.
    fn skip_item(&mut self) {
        let is_import = self.text(0) == "use" || self.text(0) == "pub" && self.text(1) == "use";
        let is_field = self.text(1) == ":" || self.text(2) == ":";
        loop {
            match self.text(0) {
                "" | "}" | ")" => return,
                ";" => break,
                "," if is_field => break,
                "{" if !is_import => return self.skip_brackets(),
                "(" | "[" | "{" => self.skip_brackets(),
                _ => self.at += 1,
            }
        }
        self.at += 1;
    }

    fn import(&mut self) {
        let is_reexport = matches!(self.before(1), "pub" | ")");
        self.at += 1;
        self.tree(&[], is_reexport);
    }

    /// Parses one branch of a `use`, after the given prefix.
    fn tree(&mut self, prefix: &[String], is_reexport: bool) {
        let mut path = prefix.to_vec();
        loop {
            match self.text(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.tree(&path, is_reexport);
                        if self.text(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "::" => self.at += 1,
                "*" => {
                    self.at += 1;
                    return self.add(&path, None, is_reexport);
                }
                word if is_name(word) && word != "as" => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
                _ => break,
            }
        }
        let mut name = path.last().cloned();
        if self.text(0) == "as" {
            name = Some(self.text(1).to_owned());
            self.at += 2;
        }
        if self.text(0) != "," && self.text(0) != "}" {
            self.at += 1;
        }
        // `name::{self}` imports the name itself.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
            name = path.last().cloned();
        }
        self.add(&path, name, is_reexport);
    }

    /// Parses a path in an expression, a type or an attribute.
    fn path(&mut self) {
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" && is_name(self.text(1)) {
            path.push(self.text(1).to_owned());
            self.at += 2;
        }
        self.add(&path, None, false);
    }

    /// Adds a path, in which leading `crate`, `self` and `super` are resolved.
    fn add(&mut self, path: &[String], import: Option<String>, is_reexport: bool) {
        if path.is_empty() {
            return;
        }
        let line = self.tokens.get(self.at.saturating_sub(1)).map_or(0, |token| token.line);
        let mut to = Vec::new();
        let mut names = path.iter().map(String::as_str).peekable();
        let is_of_crate = matches!(names.peek().copied(), Some("crate" | "self" | "super"));
        while let Some(keyword @ ("crate" | "self" | "super")) = names.peek().copied() {
            match keyword {
                "self" => to.clone_from(&self.module),
                "super" if to.is_empty() => to = self.module[..self.module.len().saturating_sub(1)].to_vec(),
                "super" => to.truncate(to.len().saturating_sub(1)),
                _ => to.clear(),
            }
            names.next();
        }
        to.extend(names.map(str::to_owned));
        let from = self.module.clone();
        self.found.paths.push(Path { from, to, is_of_crate, import, is_reexport, line });
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paths in a file of the module `one::two`, joined, with `?` before paths that may be in
    /// another crate, and `+` before re-exports.
    fn paths(text: &str) -> Vec<String> {
        let shown = |path: &Path| {
            let sign = if path.is_reexport { "+" } else { "" };
            let of = if path.is_of_crate { "" } else { "?" };
            format!("{sign}{of}{}", path.to.join("::"))
        };
        read(text, &["one".to_owned(), "two".to_owned()]).paths.iter().map(shown).collect()
    }

    #[test]
    fn paths_are_resolved_from_the_root_of_the_crate() {
        let table: [(&str, &[&str]); 15] = [
            ("use crate::a::B;", &["a::B"]),
            ("use super::{a::{self, B}, c};", &["one::a", "one::a::B", "one::c"]),
            ("use super::super::a::B;", &["a::B"]),
            ("use self::a::B as C;", &["one::two::a::B"]),
            ("use crate::a::*;", &["a"]),
            ("pub(crate) use crate::{a::B};", &["+a::B"]),
            ("use std::fmt; fn f(a: fmt::Result) {}", &["?std::fmt", "?fmt::Result"]),
            ("fn f() { crate::a::b::<u8>(); }", &["a::b"]),
            ("mod inner { use super::a::B; } use super::c::D;", &["one::two::a::B", "one::c::D"]),
            ("pub(in crate::one) fn f() {}", &[]),
            ("// crate::a\n let b = \"crate::c\";", &[]),
            ("#[cfg(test)] mod tests { use crate::a::B; } use crate::c::D;", &["c::D"]),
            ("#[cfg(test)] #[allow(x)] fn f<A, B>() { crate::a::b() } use crate::c::D;", &["c::D"]),
            ("struct S { #[cfg(test)] a: crate::a::B, c: crate::c::D }", &["c::D"]),
            ("#[cfg(not(test))] use crate::a::B;", &["a::B"]),
        ];
        for (text, expected) in table {
            assert_eq!(paths(text), expected, "{text}");
        }
    }

    #[test]
    fn modules_are_declared_by_their_paths() {
        let text = "pub mod a; #[cfg(test)] mod tests; mod b { mod c; } mod d {}";
        let found = read(text, &["one".to_owned()]).modules;
        let found: Vec<_> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["one::a", "one::b::c"]);
    }

    #[test]
    fn imports_have_the_name_that_the_module_uses() {
        let found = read("pub use a::{B, C as D};\n\nuse e;", &[]).paths;
        let found: Vec<_> = found.iter().map(|path| (path.import.as_deref(), path.line)).collect();
        assert_eq!(found, [(Some("B"), 1), (Some("D"), 1), (Some("e"), 3)]);
    }
}
