//! Keeps retired words out of public text: the documentation, the example configuration and, in the code, doc
//! comments and strings (help, API descriptions, problems, errors, log messages). `docs/terms.md` lists the
//! words to use.
//!
//! It reads files and builds nothing, so it takes a fraction of a second. It does not check tests, comments
//! inside functions, identifiers, and strings that only developers see (`expect`, `panic!`, assertions).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Retired words and phrases, in lower case, and their replacements. They are matched regardless of case, as
/// whole words and as parts of names such as `notice_sends`.
const RETIRED: &[(&str, &str)] = &[
    ("notice", "notification; for the verb: detect, see"),
    ("notices", "notifications; for the verb: detects, sees"),
    ("ruling", "response rule"),
    ("rulings", "response rules"),
    ("silence_ms", "failing_ms"),
    ("obey", "apply an override"),
    ("household", "tenant"),
    ("whoever", "the actor: the gateway, a client, the operator, the receiver"),
    ("somebody", "the actor: the gateway, a client, the operator, the receiver"),
    ("nobody", "the actor, with `not` or `no`"),
    ("nothing is said", "Default: ..."),
    ("there is nothing of that name", "not found"),
];

/// Files and directories with public text. In directories, Markdown files and crate sources are checked.
const PUBLIC: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "breakerbox.example.toml", "docs", "crates"];

/// Parts of file paths that identify test files, which are not checked.
const NOT_PUBLIC: &[&str] = &["/tests/", "/tests.rs", "_tests.rs", "/conformance/", "/breakerbox-testkit/"];

/// Strings that exclude a line from the check, because its text is for developers, or names data that an
/// earlier version stored.
const FOR_DEVELOPERS: &[&str] = &["expect(", "panic!(", "unreachable!(", "assert", "reason = ", "alias = "];

/// Checks all public text below the current directory.
pub(crate) fn check() -> Result<()> {
    let mut files = Vec::new();
    for path in PUBLIC {
        collect(Path::new(path), &mut files)?;
    }
    let mut found = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        for (line, word, instead) in retired_in(path, &text) {
            found.push(format!("{}:{line}: {word:?} is retired; write: {instead}", path.display()));
        }
    }
    if !found.is_empty() {
        bail!("{} retired words in public text:\n{}", found.len(), found.join("\n"));
    }
    println!("{} files", files.len());
    Ok(())
}

/// Collects the files with public text below this path.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let name = path.to_string_lossy().replace('\\', "/");
    if NOT_PUBLIC.iter().any(|part| format!("{name}/").contains(part) || name.ends_with(part)) {
        return Ok(());
    }
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(|| format!("can't read {name}"))?;
        let mut entries = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| collect(entry, files));
    }
    let is_source = name.ends_with(".rs") && name.contains("/src/");
    if is_source || name.ends_with(".md") || name.ends_with(".toml") && !name.contains("crates/") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// Returns the retired words in the public text of a file, each with its line and its replacement.
fn retired_in(path: &Path, text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    let parts = if is_source { public_parts(text) } else { numbered(text) };
    let in_part = |(line, part): &(usize, String)| {
        let (line, part) = (*line, part.to_lowercase());
        let is_there = move |(word, _): &&(&str, &str)| has_word(&part, word);
        RETIRED.iter().filter(is_there).map(move |(word, instead)| (line, *word, *instead))
    };
    parts.iter().flat_map(in_part).collect()
}

fn numbered(text: &str) -> Vec<(usize, String)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect()
}

/// Returns whether the text contains this word or phrase, except as part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Returns the doc comments and strings in a source file up to its tests, each with its line number.
fn public_parts(source: &str) -> Vec<(usize, String)> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or(source);
    let lines: Vec<&str> = source.lines().collect();
    let mut scan = Scan { rest: source, line: 1 };
    let mut parts = Vec::new();
    while let Some(next) = scan.rest.chars().next() {
        let line = scan.line;
        let is_for_developers =
            || lines.get(line - 1).is_some_and(|text| FOR_DEVELOPERS.iter().any(|mark| text.contains(mark)));
        if scan.rest.starts_with("//") {
            let comment = scan.take(scan.rest.find('\n').unwrap_or(scan.rest.len()));
            let is_doc =
                comment.starts_with("//!") || comment.starts_with("///") && !comment.starts_with("////");
            if is_doc {
                parts.push((line, comment.to_owned()));
            }
        } else if let Some(hashes) = raw_string(scan.rest) {
            let quotes = format!("\"{}", "#".repeat(hashes));
            scan.take(hashes + 2);
            let string = scan.take(scan.rest.find(&quotes).unwrap_or(scan.rest.len()));
            if !is_for_developers() {
                parts.push((line, string.to_owned()));
            }
            scan.take(quotes.len());
        } else if next == '"' {
            scan.take(1);
            let string = scan.take(end_of_string(scan.rest));
            if !is_for_developers() {
                parts.push((line, string.to_owned()));
            }
            scan.take(1);
        } else if next == '\'' {
            scan.take(character(scan.rest));
        } else {
            scan.take(next.len_utf8());
        }
    }
    parts
}

/// The rest of a source file that is being scanned, and the number of its first line.
struct Scan<'s> {
    rest: &'s str,
    line: usize,
}

impl<'s> Scan<'s> {
    /// Consumes and returns this many bytes, or all that are left.
    fn take(&mut self, bytes: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }
}

/// Returns the number of hashes in the opening of a raw string at the start, or `None` if there is no raw
/// string.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest.strip_prefix('r')?;
    let quote = hashes.trim_start_matches('#');
    quote.starts_with('"').then_some(hashes.len() - quote.len())
}

/// Returns the length of a string after its opening quote.
fn end_of_string(rest: &str) -> usize {
    let mut escaped = false;
    for (index, character) in rest.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of the character literal at the start, or 1 for a lifetime's apostrophe.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            let from = escaped + 1;
            rest.get(from..).and_then(|rest| rest.find('\'')).map_or(1, |end| from + end + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        retired_in(Path::new(path), text).into_iter().map(|(line, word, _)| (line, word)).collect()
    }

    #[test]
    fn a_retired_word_is_found_in_each_kind_of_public_text() {
        for (path, text, expected) in [
            ("a.md", "Notifications\n\nA Notice is sent.", vec![(3, "notice")]),
            ("a.toml", "# How long\n#notices = \"30d\"\n", vec![(2, "notices")]),
            ("a.rs", "/// A notice.\nstruct A;", vec![(1, "notice")]),
            ("a.rs", "//! Rulings.", vec![(1, "rulings")]),
            ("a.rs", "fn a() {\n    warn!(\"nobody answers\");\n}", vec![(2, "nobody")]),
            ("a.rs", "#[error(\n    \"rulings.{case}: is wrong\"\n)]", vec![(2, "rulings")]),
            ("a.rs", "const A: &str = r#\"a \"notice\" here\"#;", vec![(1, "notice")]),
            (
                "a.rs",
                "const A: [char; 2] = ['\"', '\\''];\nconst B: &str = \"whoever\";",
                vec![(2, "whoever")],
            ),
            (
                "a.rs",
                "fn a<'a>(b: &'a str) { say(\"50 if\", \"nothing is said\") }",
                vec![(1, "nothing is said")],
            ),
            (
                "a.rs",
                "let a = \"x \\\"; \\\n    y\"; let b = \"SELECT 1 FROM notice_sends\";",
                vec![(2, "notice")],
            ),
        ] {
            assert_eq!(found(path, text), expected, "{text}");
        }
    }

    #[test]
    fn other_words_names_and_texts_for_developers_are_not() {
        for (path, text) in [
            ("a.md", "It stays unnoticed; this is noticeable, and noticed."),
            ("a.rs", "// A notice inside of a function.\nlet notice = notices();"),
            ("a.rs", "let a = b.expect(\"nobody else has it\");"),
            ("a.rs", "#[serde(alias = \"notices\")]\na: u8,"),
            ("a.rs", "/// Fine.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    const A: &str = \"nobody\";\n}"),
        ] {
            assert_eq!(found(path, text), [], "{text}");
        }
    }

    #[test]
    fn public_text_is_found_and_tests_are_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for path in PUBLIC {
            collect(&root.join(path), &mut files).unwrap();
        }
        let is_there = |end: &str| files.iter().any(|file| file.ends_with(end));
        assert!(is_there("docs/terms.md") && is_there("breakerbox.example.toml"));
        assert!(is_there("crates/breakerbox-gateway/src/api/problem.rs"));
        assert!(!is_there("crates/breakerbox-gateway/tests/it/main.rs"));
        assert!(!is_there("crates/breakerbox-storage/src/conformance/mod.rs"));
        // A retired word that is put back into any of these files is found.
        for file in &files {
            let text = fs::read_to_string(file).unwrap();
            let put_back = if file.extension().is_some_and(|extension| extension == "rs") {
                format!("/// The rulings of a tenant.\n{text}")
            } else {
                format!("The rulings of a tenant.\n{text}")
            };
            assert!(
                retired_in(file, &put_back).contains(&(1, "rulings", "response rules")),
                "{}",
                file.display()
            );
        }
    }
}
