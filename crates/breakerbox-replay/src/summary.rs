//! The summary: how many failing and successful calls a policy would have refused, for each key and in total.

use std::io::{self, Write};
use std::time::Duration;

use breakerbox_core::format_duration;
use serde::Serialize;
use serde::Serializer;

use super::clock::Utc;
use super::engine::{Finished, KeyLife};
use super::tally::Tally;

impl Finished {
    /// Returns the sum of all keys' counts.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.lives.iter().for_each(|life| total.add(&life.tally));
        total
    }

    /// Returns the keys to inspect first: most trips, then most refused calls, then most failures, then by name.
    #[must_use]
    pub fn most_troubled(&self) -> Vec<&KeyLife> {
        let mut lives: Vec<_> = self.lives.iter().collect();
        lives.sort_by(|a, b| {
            let order =
                |life: &KeyLife| (life.tally.trips, life.tally.refused, life.tally.failed_calls_admitted);
            order(b).cmp(&order(a)).then_with(|| a.key.cmp(&b.key))
        });
        lives
    }

    /// Writes the summary as JSON: the total, and each key in order of appearance.
    ///
    /// # Errors
    /// Returns an error if the summary can't be written.
    pub fn write_json(&self, output: impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Summary<'a> {
            started_ms: u64,
            ended_ms: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            started_at: Option<Utc>,
            #[serde(skip_serializing_if = "Option::is_none")]
            ended_at: Option<Utc>,
            total: Tally,
            #[serde(serialize_with = "by_key")]
            keys: &'a [KeyLife],
        }

        fn by_key<S: Serializer>(lives: &&[KeyLife], serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(lives.iter().map(|life| (&*life.key, &life.tally)))
        }

        let mut output = io::BufWriter::new(output);
        let summary = Summary {
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            started_at: self.times.utc(self.started_ms),
            ended_at: self.times.utc(self.ended_ms),
            total: self.total(),
            keys: &self.lives,
        };
        serde_json::to_writer_pretty(&mut output, &summary)?;
        output.write_all(b"\n")?;
        output.flush()
    }

    /// Formats the summary as a human-readable table: the most troubled keys, then the total.
    #[must_use]
    pub fn to_text(&self) -> String {
        const SHOWN: usize = 20;
        let total = self.total();
        let columns = if total.samples > 0 { SAMPLE_COLUMNS } else { CALL_COLUMNS };
        let row = |name: String, tally: &Tally| {
            let cells = columns.iter().map(|(_, cell)| cell(tally));
            std::iter::once(name).chain(cells).collect::<Vec<_>>()
        };
        let mut table = vec![
            std::iter::once("key").chain(columns.iter().map(|(title, _)| *title)).map(String::from).collect(),
        ];
        let lives = self.most_troubled();
        table.extend(lives.iter().take(SHOWN).map(|life| row(shown_key(&life.key), &life.tally)));
        table.push(row("total".into(), &total));

        let span = Duration::from_millis(self.ended_ms.saturating_sub(self.started_ms));
        let mut text = format!("{} over {}", counted(self.lives.len(), "key"), readable(span));
        if let (Some(from), Some(to)) = (self.times.utc(self.started_ms), self.times.utc(self.ended_ms)) {
            text.push_str(&format!(", from {from} to {to}"));
        }
        text.push_str("\n\n");
        text.push_str(&aligned(&table));
        if lives.len() > SHOWN {
            let hidden = lives.len() - SHOWN;
            let more = counted(hidden, "more key");
            text.push_str(&format!("\nThe total includes {more}. --summary-json lists all keys.\n"));
        }
        let missed = self.lives.iter().filter(|life| life.tally.only_failed_and_never_tripped()).count();
        if missed > 0 {
            let keys = counted(missed, "key");
            text.push_str(&format!(
                "\n{keys} failed on every call and never tripped: too few calls in the window. Consider a longer window.\n"
            ));
        }
        text
    }
}

type Columns = &'static [(&'static str, fn(&Tally) -> String)];

const CALL_COLUMNS: Columns = &[
    ("calls", |t| t.calls.to_string()),
    ("admitted", |t| t.admitted.to_string()),
    ("refused", |t| t.refused.to_string()),
    ("failed calls admitted", |t| t.failed_calls_admitted.to_string()),
    ("failed calls refused", |t| t.failed_calls_refused.to_string()),
    ("successful calls refused", |t| t.successful_calls_refused.to_string()),
    ("trips", |t| t.trips.to_string()),
    ("time open", |t| readable(t.time_open)),
    ("disabled", |t| readable(t.time_disabled)),
];

const SAMPLE_COLUMNS: Columns = &[
    ("samples", |t| t.samples.to_string()),
    ("trips", |t| t.trips.to_string()),
    ("time open", |t| readable(t.time_open)),
    ("half-open", |t| readable(t.time_half_open)),
    ("disabled", |t| readable(t.time_disabled)),
];

/// Aligns a table: the first column to the left, the others to the right.
fn aligned(table: &[Vec<String>]) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..table[0].len()).map(width).collect();
    let mut text = String::new();
    for row in table {
        text.push_str(&format!("{:<width$}", row[0], width = widths[0]));
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text.push('\n');
    }
    text
}

/// Formats a count with its noun, such as "1 key" or "2 keys".
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats a duration for people, without milliseconds if it is a minute or longer.
pub(super) fn readable(duration: Duration) -> String {
    if duration < Duration::from_secs(60) {
        return format_duration(duration);
    }
    format_duration(Duration::from_secs((duration + Duration::from_millis(500)).as_secs()))
}

/// Formats a key for a terminal, without control characters and with limited length.
fn shown_key(key: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String = key.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if key.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let table = [row(["key", "calls", "é"]), row(["long-key", "7", "10"])];
        assert_eq!(aligned(&table), "key       calls   é\nlong-key      7  10\n");
    }

    #[test]
    fn long_durations_are_rounded_to_seconds() {
        let text = |ms| readable(Duration::from_millis(ms));
        assert_eq!(
            (text(59_999), text(60_499), text(60_500)),
            ("59s999ms".into(), "1m".into(), "1m1s".into())
        );
    }

    #[test]
    fn keys_can_not_disturb_a_terminal() {
        assert_eq!(shown_key("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(shown_key(&"x".repeat(1_000)).chars().count(), 61);
    }
}
