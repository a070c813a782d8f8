//! The configuration file: TOML, limited in size, each value with its line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Wrong};
use super::format::Raw;
use super::layers::Origin;
use super::names;

/// One value from a configuration file.
pub(super) struct FileValue {
    pub(super) key: String,
    pub(super) raw: Raw,
    pub(super) line: usize,
}

/// Reads a configuration file. Unknown settings are errors; valid settings are still returned, so that all errors are
/// reported at once.
pub(super) fn read(path: &Path) -> (Vec<FileValue>, Vec<ConfigError>) {
    let failed = |line: usize, reason: Wrong| {
        (vec![], vec![ConfigError { key: String::new(), origin: Origin::file(path, line), reason }])
    };
    let text = match text_of(path) {
        Ok(text) => text,
        Err(reason) => return failed(0, reason),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match DeTable::parse(text) {
        Ok(table) => {
            let mut walk = Walk { path, text, set_values: vec![], errors: vec![] };
            walk.table("", table.get_ref());
            // The parser sorts keys, but users read files from the top.
            walk.errors.sort_by_key(|error| match &error.origin {
                Origin::File { line, .. } => *line,
                _ => 0,
            });
            (walk.set_values, walk.errors)
        }
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let line = line_of(text, start);
            let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
            failed(line, Wrong::Syntax(format!("{}: {}", error.message(), super::format::shortened(shown))))
        }
    }
}

fn text_of(path: &Path) -> Result<String, Wrong> {
    const LARGEST: u64 = 1024 * 1024;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| Wrong::NotRead(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Wrong::NotRead("it is larger than 1 MiB; check that it is a configuration file".into()));
    }
    String::from_utf8(bytes).map_err(|_| Wrong::NotRead("it is not UTF-8".into()))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

struct Walk<'a> {
    path: &'a Path,
    text: &'a str,
    set_values: Vec<FileValue>,
    errors: Vec<ConfigError>,
}

impl Walk<'_> {
    fn table(&mut self, above: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = if above.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{above}.{}", name.get_ref())
            };
            let line = line_of(self.text, name.span().start);
            match value.get_ref() {
                DeValue::Table(inner) if names::is_table(&key) => self.table(&key, inner),
                _ if names::keys().any(|known| known == key) => {
                    self.set_values.push(FileValue { key, raw: raw(value.get_ref()), line });
                }
                other => {
                    let reason = if names::is_table(&key) {
                        Wrong::Type { expected: format!("a table, [{key}]"), found: other.type_str().into() }
                    } else {
                        Wrong::Unknown { nearest: names::meant(&key) }
                    };
                    let key = super::format::shortened(&key);
                    self.errors.push(ConfigError { key, origin: Origin::file(self.path, line), reason });
                }
            }
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("a number that is too large"), Raw::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or(Raw::Other("a number that can't be read"), Raw::Float)
        }
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
