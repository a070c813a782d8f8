//! Tables for people, at most 100 columns wide. Pure: the current time is an argument.
//!
//! Ids are shortened to their last characters, times are relative, and the longest texts are cut in the middle until
//! the table fits. Columns without any value are left out if they are marked so. `--wide` turns all of this off.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::failure::printable;
use crate::short_id::short_id;
use crate::times::{relative, tenths};

/// The maximum width of a table.
pub(crate) const MOST: usize = 100;
/// The number of spaces between columns.
const GAP: usize = 2;

/// What a column's values are, which decides how they are shown.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    /// An id, of which the last characters are shown.
    Id,
    /// A time, shown relative to now.
    Time,
    /// The time from another column's time to this one, shown as a duration.
    Since(&'static str),
    /// A class and a text, such as `connect: connection refused`, of which the class is shown.
    Class,
    /// A hash, of which the first characters are shown.
    Hash,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    /// JSON pointers. The first one with a value counts.
    pointers: &'static [&'static str],
    kind: Kind,
    /// The width below which the column is never cut.
    least: usize,
    /// The width above which the column is always cut, unless `--wide` is given.
    most: usize,
    /// Whether the column is left out if no row has a value other than `usual`.
    is_optional: bool,
    usual: &'static str,
    /// Whether only `--wide` shows the column.
    is_extra: bool,
}

impl Column {
    /// A column of texts, which may be cut down to `least` characters.
    pub(crate) const fn text(title: &'static str, pointers: &'static [&'static str], least: usize) -> Self {
        Self {
            title,
            pointers,
            kind: Kind::Text,
            least,
            most: MOST,
            is_optional: false,
            usual: "",
            is_extra: false,
        }
    }

    pub(crate) const fn id(title: &'static str, pointers: &'static [&'static str]) -> Self {
        Self { kind: Kind::Id, ..Self::text(title, pointers, 8) }
    }

    pub(crate) const fn time(title: &'static str, pointers: &'static [&'static str]) -> Self {
        Self { kind: Kind::Time, ..Self::text(title, pointers, 7) }
    }

    /// A column that shows how long after the time at `from` the time at `pointers` is.
    pub(crate) const fn since(
        title: &'static str,
        from: &'static str,
        pointers: &'static [&'static str],
    ) -> Self {
        Self { kind: Kind::Since(from), ..Self::text(title, pointers, 5) }
    }

    /// The tenant, unless it is the default one in all rows.
    pub(crate) const fn tenant() -> Self {
        Self::text("TENANT", &["/tenant"], 6).unless("default")
    }

    /// The result of the latest attempt: a status, or the class of the fault.
    pub(crate) const fn last() -> Self {
        Self { kind: Kind::Class, ..Self::text("LAST", &["/last_status", "/last_error"], 5) }.optional()
    }

    pub(crate) const fn hash(title: &'static str, pointers: &'static [&'static str]) -> Self {
        Self { kind: Kind::Hash, ..Self::text(title, pointers, 8) }
    }

    /// Leaves the column out if it has no value in any row.
    pub(crate) const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Leaves the column out if no row has another value than this one.
    pub(crate) const fn unless(self, usual: &'static str) -> Self {
        Self { usual, ..self.optional() }
    }

    /// Cuts the column to this width even if the table would fit, so that more important columns have room.
    pub(crate) const fn most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Shows the column only with `--wide`.
    pub(crate) const fn extra(self) -> Self {
        Self { is_extra: true, ..self }
    }

    fn value<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        let mut found = self.pointers.iter().filter_map(|pointer| item.pointer(pointer));
        found.find(|value| !is_empty(value))
    }

    fn cell(&self, item: &Value, wide: bool, now: Timestamp) -> String {
        let Some(value) = self.value(item) else { return "-".to_owned() };
        let moment = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        match self.kind {
            Kind::Id if !wide => {
                value.as_str().map_or_else(|| flat(value), |id| printable(short_id(id).chars()))
            }
            Kind::Hash if !wide => flat(value).chars().take(8).collect(),
            Kind::Class if !wide => flat(value).split(':').next().unwrap_or_default().to_owned(),
            Kind::Time if !wide => moment(value).map_or_else(|| flat(value), |at| relative(at, now)),
            Kind::Since(from) if !wide => match (item.pointer(from).and_then(moment), moment(value)) {
                (Some(from), Some(to)) => tenths(to.duration_since(from).unsigned_abs()),
                _ => flat(value),
            },
            _ => flat(value),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Formats a value in one line.
pub(super) fn flat(value: &Value) -> String {
    match value {
        _ if is_empty(value) => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => printable(text.chars()),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(flat).collect::<Vec<_>>().join(",")
        }
        other => printable(other.to_string().chars()),
    }
}

/// Returns the colour for a state: red for problems, yellow for work in progress.
pub(crate) fn colour_of(word: &str) -> Option<&'static str> {
    match word {
        "open" | "forced_open" | "disabled" | "failed" | "stopped" => Some("31"),
        "half_open" | "retrying" | "in_flight" | "paused" => Some("33"),
        "closed" | "delivered" | "active" => Some("32"),
        _ => None,
    }
}

/// Formats items as a table. Returns an empty string if there are none.
pub(crate) fn table(columns: &[Column], items: &[Value], wide: bool, colour: bool, now: Timestamp) -> String {
    if items.is_empty() {
        return String::new();
    }
    let is_remarkable =
        |column: &Column, item| column.value(item).is_some_and(|value| flat(value) != column.usual);
    let is_shown = |column: &&Column| {
        let is_missing = column.is_optional && !items.iter().any(|item| is_remarkable(column, item));
        wide || !(is_missing || column.is_extra)
    };
    let columns: Vec<&Column> = columns.iter().filter(is_shown).collect();
    let cells = |item: &Value| columns.iter().map(|column| column.cell(item, wide, now)).collect();
    let rows: Vec<Vec<String>> = items.iter().map(cells).collect();
    let natural = |place: usize| {
        let widest = rows.iter().map(|row| row[place].width()).max().unwrap_or(0);
        widest.max(columns[place].title.width())
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(natural).collect();
    if !wide {
        widths.iter_mut().zip(&columns).for_each(|(width, column)| *width = (*width).min(column.most));
        fit(&mut widths, &columns);
    }
    let mut text = String::new();
    let mut line = |cells: &[String], colour: bool| {
        let mut written = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let cell = cut(cell, *width);
            let padding = width - cell.width() + GAP;
            match colour_of(&cell).filter(|_| colour) {
                Some(code) => {
                    let _ = write!(written, "\u{1b}[{code}m{cell}\u{1b}[0m");
                }
                None => written.push_str(&cell),
            }
            let _ = write!(written, "{:padding$}", "");
        }
        text.push_str(written.trim_end());
        text.push('\n');
    };
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    line(&titles, false);
    rows.iter().for_each(|row| line(row, colour));
    text
}

/// Reduces the widths until the table fits, the widest column first.
fn fit(widths: &mut [usize], columns: &[&Column]) {
    let gaps = GAP * widths.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(MOST);
    while excess > 0 {
        let spare = |place: &usize| widths[*place] > columns[*place].least.max(columns[*place].title.width());
        let Some(widest) = (0..widths.len()).filter(spare).max_by_key(|place| widths[*place]) else { return };
        widths[widest] -= 1;
        excess -= 1;
    }
}

/// Cuts the middle out of a text that is wider than `width`. The beginning and the end of a URL tell it apart.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (head, tail) = (width.saturating_sub(1).div_ceil(2), width.saturating_sub(1) / 2);
    let kept = |characters: &mut dyn Iterator<Item = char>, most: usize| {
        let mut used = 0;
        let fits = |c: &char| {
            used += c.to_string().width();
            used <= most
        };
        characters.take_while(fits).collect::<Vec<char>>()
    };
    let head = kept(&mut text.chars(), head);
    let tail = kept(&mut text.chars().rev(), tail);
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-18T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn tables_are_aligned_and_can_not_disturb_a_terminal() {
        let items = [
            json!({"id": "a", "circuit": {"state": "open"}, "types": ["x", "y.*"], "on": true}),
            json!({"id": "漢\u{1b}[2J", "circuit": null, "types": [], "on": false}),
        ];
        let columns = [
            Column::text("ID", &["/id"], 4),
            Column::text("STATE", &["/circuit/state"], 9),
            Column::text("TYPES", &["/types"], 5),
            Column::text("ON", &["/on"], 3),
            Column::text("NEVER", &["/never"], 5).optional(),
        ];
        let expected = [
            "ID           STATE  TYPES  ON",
            "a            open   x,y.*  yes",
            "漢\\u{1b}[2J  -      -      no",
        ];
        let plain = table(&columns, &items, false, false, now());
        assert_eq!(plain.lines().collect::<Vec<_>>(), expected);
        let coloured = table(&columns, &items, false, true, now());
        assert!(coloured.contains("\u{1b}[31mopen\u{1b}[0m"), "{coloured}");
        assert_eq!(coloured.replace("\u{1b}[31m", "").replace("\u{1b}[0m", ""), plain);
        assert_eq!(table(&columns, &[], false, false, now()), "");
    }

    #[test]
    fn values_are_short_unless_they_are_asked_for_in_full() {
        let item = json!({
            "id": "dlv_01h5k2m8w4c7e", "at": "2026-11-18T09:59:29.000Z", "until": "2026-11-18T09:59:31.250Z",
            "second": 503, "url": format!("https://hooks.example.com/{}/in", "x".repeat(200)),
        });
        let columns = [
            Column::id("ID", &["/id"]),
            Column::time("AT", &["/at"]),
            Column::since("COOL-OFF", "/at", &["/until"]),
            Column::text("LAST", &["/first", "/second"], 6),
            Column::text("URL", &["/url"], 20),
        ];
        let narrow = table(&columns, std::slice::from_ref(&item), false, false, now());
        let line = narrow.lines().nth(1).unwrap();
        assert_eq!(line.width(), MOST, "{line}");
        assert!(line.starts_with("2m8w4c7e  31s ago  2.2s      503   https://"), "{line}");
        assert!(line.ends_with("xx/in") && line.contains('…'), "{line}");
        let wide = table(&columns, std::slice::from_ref(&item), true, false, now());
        for full in
            ["dlv_01h5k2m8w4c7e", "2026-11-18T09:59:29.000Z", "2026-11-18T09:59:31.250Z", &"x".repeat(200)]
        {
            assert!(wide.contains(full), "{wide}");
        }
    }

    #[test]
    fn the_middle_of_a_long_text_is_cut_out() {
        for (text, width, expected) in [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "ab…ef"),
            ("abcdef", 4, "ab…f"),
            ("abcdef", 1, "…"),
            ("漢漢漢漢", 5, "漢…漢"),
        ] {
            assert_eq!(cut(text, width), expected);
        }
    }
}
