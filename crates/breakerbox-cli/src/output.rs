//! The output of commands: aligned tables for people, JSON for programs, or only ids for shell scripts.
//!
//! Colours are for terminals. Values from other parties (names, URLs, responses) are never printed raw, because they
//! could move the cursor.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use clap::Args;
use serde_json::Value;

use super::failure::{Failure, output_failed, printable, say};

/// How a command prints its results.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Print results and errors as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,

    /// Print only resource IDs or the created key, without hints and summaries
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
}

/// A column of a table: its title, and the JSON pointer to its value in an item.
pub(super) type Column = (&'static str, &'static str);

impl Output {
    /// Prints a list of items. `more` states whether the gateway has more results.
    pub(super) fn list(self, columns: &[Column], items: &[Value], more: bool) -> Result<(), Failure> {
        if self.json {
            return print(&format!("{}\n", pretty(&Value::from(items))));
        }
        if self.quiet {
            let names: String = items.iter().map(|item| cell(item, columns[0].1) + "\n").collect();
            return print(&names);
        }
        print(&table(columns, items, colourful()))?;
        if items.is_empty() {
            self.hint("no results");
        } else if more {
            self.hint("more results available; use --limit");
        }
        Ok(())
    }

    /// Prints one item with all its fields.
    pub(super) fn show(self, item: &Value) -> Result<(), Failure> {
        match (self.json, self.quiet) {
            (true, _) => print(&format!("{}\n", pretty(item))),
            (_, true) => self.name(item, "/id"),
            _ => print(&record(item)),
        }
    }

    /// Prints one item; in quiet mode, only the value at this pointer.
    pub(super) fn name(self, item: &Value, pointer: &str) -> Result<(), Failure> {
        if self.quiet && !self.json {
            return match item.pointer(pointer) {
                Some(_) => print(&format!("{}\n", cell(item, pointer))),
                None => Ok(()),
            };
        }
        self.show(item)
    }

    /// Prints a hint, unless the output is for a program.
    pub(super) fn hint(self, text: &str) {
        if !self.quiet && !self.json {
            say(text);
        }
    }
}

/// Returns whether the output goes to a terminal that shows colours.
pub(super) fn colourful() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| output_failed(&error))
}

/// Formats JSON with indentation.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Formats an item's value at this pointer in one line.
fn cell(item: &Value, pointer: &str) -> String {
    item.pointer(pointer).map_or_else(|| "-".into(), flat)
}

fn flat(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) if text.is_empty() => "-".into(),
        Value::String(text) => printable(text.chars()),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(flat).collect::<Vec<_>>().join(",")
        }
        other => printable(other.to_string().chars()),
    }
}

/// Returns the colour for a state: red for problems, yellow for work in progress.
fn colour_of(word: &str) -> Option<&'static str> {
    match word {
        "open" | "forced_open" | "disabled" | "failed" | "stopped" => Some("31"),
        "half_open" | "retrying" | "in_flight" | "paused" => Some("33"),
        "closed" | "delivered" | "active" => Some("32"),
        _ => None,
    }
}

fn table(columns: &[Column], items: &[Value], colour: bool) -> String {
    let rows: Vec<Vec<String>> =
        items.iter().map(|item| columns.iter().map(|(_, pointer)| cell(item, pointer)).collect()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let width = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.max().unwrap_or(0).max(columns[place].0.len())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &[String], colour: bool| {
        let mut written = String::new();
        for (place, cell) in cells.iter().enumerate() {
            let padding = widths[place] - cell.chars().count();
            match colour_of(cell).filter(|_| colour) {
                Some(code) => {
                    let _ = write!(written, "\u{1b}[{code}m{cell}\u{1b}[0m");
                }
                None => written.push_str(cell),
            }
            let _ = write!(written, "{:padding$}  ", "");
        }
        text.push_str(written.trim_end());
        text.push('\n');
    };
    let titles: Vec<String> = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    line(&titles, false);
    rows.iter().for_each(|row| line(row, colour));
    text
}

/// Formats one item, with one line per value.
fn record(item: &Value) -> String {
    let mut lines = vec![];
    collect("", item, &mut lines);
    // The id comes first; other fields stay in alphabetical order.
    lines.sort_by_key(|(name, _)| name != "id");
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    lines.into_iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

fn collect(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| collect(&inner(&printable(name.chars())), value, lines));
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items
                .iter()
                .enumerate()
                .for_each(|(place, value)| collect(&format!("{path}[{place}]"), value, lines));
        }
        Value::Null if path.is_empty() => {}
        other => lines.push((path.to_owned(), flat(other))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_are_aligned_and_can_not_disturb_a_terminal() {
        let items = [
            json!({"id": "a", "circuit": {"state": "open"}, "types": ["x", "y.*"], "on": true}),
            json!({"id": "long\u{1b}[2J", "circuit": null, "types": [], "on": false}),
        ];
        let columns = [("ID", "/id"), ("STATE", "/circuit/state"), ("TYPES", "/types"), ("ON", "/on")];
        let expected = [
            "ID             STATE  TYPES  ON",
            "a              open   x,y.*  yes",
            "long\\u{1b}[2J  -      -      no",
        ];
        let plain = table(&columns, &items, false);
        assert_eq!(plain.lines().collect::<Vec<_>>(), expected);
        let coloured = table(&columns, &items, true);
        assert!(coloured.contains("\u{1b}[31mopen\u{1b}[0m"), "{coloured}");
        assert_eq!(coloured.replace("\u{1b}[31m", "").replace("\u{1b}[0m", ""), plain);
    }

    #[test]
    fn a_record_has_a_line_for_each_value() {
        let item =
            json!({"id": "ep_1", "circuit": {"state": "closed", "trips": 0}, "tries": [{"status": 200}]});
        let text = record(&item);
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "circuit.state    closed",
                "circuit.trips    0",
                "id               ep_1",
                "tries[0].status  200"
            ]
        );
    }
}
