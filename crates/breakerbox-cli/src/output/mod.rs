//! The output of commands: tables for people, JSON for programs, or only ids for shell scripts.
//!
//! Colours are for terminals. Values from other parties (names, URLs, responses) are never printed raw, because they
//! could move the cursor.

mod table;

use std::io::{self, IsTerminal, Write};

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use self::table::flat;
pub(super) use self::table::{Column, colour_of, cut, table};
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

    /// Print tables with full IDs, times and texts, however wide they are. Default: tables have at most 100 columns
    #[arg(long, global = true)]
    pub(super) wide: bool,
}

impl Output {
    /// Prints a list of items. In quiet mode, prints the value at `id` for each. `more` states whether the gateway has
    /// more results.
    pub(super) fn list(
        self,
        columns: &[Column],
        id: &str,
        items: &[Value],
        more: bool,
    ) -> Result<(), Failure> {
        if self.json {
            return print(&format!("{}\n", pretty(&Value::from(items))));
        }
        if self.quiet {
            let names: String = items.iter().map(|item| cell(item, id) + "\n").collect();
            return print(&names);
        }
        print(&table(columns, items, self.wide, colourful(), Timestamp::now()))?;
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
    print_bytes(text.as_bytes())
}

pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush()).map_err(|error| output_failed(&error))
}

/// Formats JSON with indentation.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Formats an item's value at this pointer in one line.
fn cell(item: &Value, pointer: &str) -> String {
    item.pointer(pointer).map_or_else(|| "-".into(), flat)
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
        // A setting with the place that it comes from.
        Value::Object(fields)
            if fields.len() == 2 && fields.contains_key("value") && fields.contains_key("origin") =>
        {
            lines
                .push((path.to_owned(), format!("{} ({})", flat(&fields["value"]), flat(&fields["origin"]))));
        }
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
