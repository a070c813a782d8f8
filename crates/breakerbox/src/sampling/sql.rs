//! The sampler's query on a table of attempts, in the dialects of two databases.
//!
//! One query serves all keys, in two parts. The first selects attempts by the time at which they finished, over the
//! window, without those that finished before a circuit's last transition. The second is for half-open circuits: it
//! selects attempts that *started* since the transition, however long ago that was. Each part needs an index; without
//! it, it reads the whole table:
//!
//! ```sql
//! CREATE INDEX ON attempts (finished_at);
//! CREATE INDEX ON attempts (endpoint, started_at); -- Postgres, if it is no text: ((endpoint::text), started_at)
//! ```
//!
//! Names and values come from the user's own code. They are quoted nevertheless, so that none can break the query's
//! syntax.

use std::fmt::Write;

/// A table with one row per attempt, and the names of its columns. Names are quoted in the query, so write them exactly
/// as the database has them, including case.
///
/// The table needs two indices, one on the time at which attempts finished, and one on the key and the time at which
/// attempts started. Without them, each poll reads the whole table.
///
/// ```
/// use breakerbox::sampling::{Dialect, LatencyUnit, SqlSource, SqlTable, TimeFormat};
///
/// let table = SqlTable::new("deliveries.attempts")
///     .key_column("endpoint")
///     .outcome_column("status", &["delivered"], &["failed", "timed out"])
///     .latency_column("took_ms", LatencyUnit::Millis)
///     .started_at_column("sent_at")
///     .finished_at_column("answered_at")
///     .times(TimeFormat::Native);
/// let query = SqlSource::from(table).text(Dialect::Postgres)?;
/// assert!(query.contains(r#"FROM "deliveries"."attempts" AS a"#));
///
/// let refused = SqlSource::from(SqlTable::new("attempts").key_column("")).text(Dialect::Sqlite);
/// assert_eq!(refused.unwrap_err().to_string(), "key_column: must not be empty");
/// # Ok::<(), breakerbox::sampling::SqlError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct SqlTable {
    table: String,
    key: String,
    outcome: Outcome,
    latency: Option<(String, LatencyUnit)>,
    started_at: String,
    finished_at: String,
    times: TimeFormat,
    runs: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    /// The name of a boolean column. Its value is null while the outcome is not known.
    Succeeded(String),
    /// The name of a column with the outcome, and its values for successes and failures. Attempts with other values are
    /// not counted.
    Says { column: String, good: Vec<String>, bad: Vec<String> },
}

/// The format of times in a table. Prefer a precise format. With a coarse format, attempts shortly after a transition
/// may have the same time as the transition, and are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TimeFormat {
    /// The native format: `timestamptz` in Postgres; in SQLite, text in the format of `CURRENT_TIMESTAMP`, with or
    /// without fractions of a second, in UTC.
    #[default]
    Native,
    /// Seconds since the Unix epoch, as a whole number.
    UnixSeconds,
    /// Milliseconds since the Unix epoch, as a whole number.
    UnixMillis,
    /// Microseconds since the Unix epoch, as a whole number.
    UnixMicros,
}

/// The unit of the latencies in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LatencyUnit {
    /// Seconds, with or without fractions.
    Seconds,
    /// Milliseconds, with or without fractions.
    Millis,
    /// Microseconds, with or without fractions.
    Micros,
}

/// Your own query, for tables that a [`SqlTable`] cannot describe. It must return one row per key, with the columns
/// `key` (text), `successes`, `failures` (integers) and, if latencies are known, `latency_sum_us` (microseconds). For
/// closed circuits it may also return `recent_successes`, `recent_failures` and `recent_latency_sum_us`, over the
/// recent part of the window, and `failure_run`: the number of consecutive failures since the latest success.
///
/// | Postgres | SQLite | meaning |
/// | --- | --- | --- |
/// | `$1::bigint` | `?1` | the window, in microseconds |
/// | `$2::text[]` | `temp.breakerbox_since.key` | the keys for which fewer attempts count |
/// | `$3::bigint[]` | `temp.breakerbox_since.age` | the times since these keys' transitions, in microseconds |
/// | `$4::bool[]` | `temp.breakerbox_since.started` | whether to count attempts that started since then, not those that finished |
/// | `$5::bigint` | `?2` | the length of the recent part, in microseconds |
///
/// In SQLite the middle three are the columns of a temporary table, with one row for each such key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlQuery(pub String);

/// The data source for an SQL sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SqlSource {
    /// A table of attempts, for which the query is generated.
    Table(SqlTable),
    /// The user's own query.
    Query(SqlQuery),
}

impl From<SqlTable> for SqlSource {
    fn from(table: SqlTable) -> Self {
        Self::Table(table)
    }
}

impl From<SqlQuery> for SqlSource {
    fn from(query: SqlQuery) -> Self {
        Self::Query(query)
    }
}

/// The SQL dialect for a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// The dialect of Postgres.
    Postgres,
    /// The dialect of SQLite.
    Sqlite,
}

/// The error for an invalid description of a table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
#[non_exhaustive]
pub struct SqlError {
    /// The name of the invalid setting, such as `key_column`.
    pub field: &'static str,
    /// The reason why the setting is not valid.
    pub reason: String,
}

impl SqlTable {
    /// Describes a table with the columns `key`, `succeeded` (a boolean), `started_at` and `finished_at`, unless
    /// other names are set. The table may be in a schema: `schema.table`.
    pub fn new(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            key: "key".to_owned(),
            outcome: Outcome::Succeeded("succeeded".to_owned()),
            latency: None,
            started_at: "started_at".to_owned(),
            finished_at: "finished_at".to_owned(),
            times: TimeFormat::default(),
            runs: false,
        }
    }

    /// Sets the column with the key that workers [check](super::Sampling::check).
    pub fn key_column(mut self, name: &str) -> Self {
        self.key = name.to_owned();
        self
    }

    /// Sets the boolean column that states whether the attempt succeeded. Attempts with null (not known yet) are not
    /// counted.
    pub fn success_column(mut self, name: &str) -> Self {
        self.outcome = Outcome::Succeeded(name.to_owned());
        self
    }

    /// Sets the text column with the outcome, and its values for successes and failures. Attempts with other values are
    /// not counted.
    pub fn outcome_column(mut self, name: &str, good: &[&str], bad: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        self.outcome = Outcome::Says { column: name.to_owned(), good: owned(good), bad: owned(bad) };
        self
    }

    /// Sets the column with the latency. Required if the policy sets `mean_latency`.
    pub fn latency_column(mut self, name: &str, unit: LatencyUnit) -> Self {
        self.latency = Some((name.to_owned(), unit));
        self
    }

    /// Sets the column with the time at which the attempt started.
    pub fn started_at_column(mut self, name: &str) -> Self {
        self.started_at = name.to_owned();
        self
    }

    /// Sets the column with the time at which the attempt finished. It is null while the attempt runs.
    pub fn finished_at_column(mut self, name: &str) -> Self {
        self.finished_at = name.to_owned();
        self
    }

    /// Sets the format of both times. Default: [`TimeFormat::Native`]. The times should come from the database's own
    /// clock, because ages are measured by that clock.
    pub const fn times(mut self, format: TimeFormat) -> Self {
        self.times = format;
        self
    }

    /// Counts the consecutive failures since each key's latest success, which the rule `consecutive_failures` needs.
    /// The database must sort the window's attempts by key for this. Attempts that finished at the same time as the
    /// latest success are not included.
    pub const fn count_runs(mut self) -> Self {
        self.runs = true;
        self
    }
}

impl SqlSource {
    /// Returns the complete SQL query in a dialect.
    ///
    /// # Errors
    /// If a part of the table's description is not valid; the error names it.
    pub fn text(&self, dialect: Dialect) -> Result<String, SqlError> {
        match self {
            Self::Query(SqlQuery(text)) if text.trim().is_empty() => Err(wrong("query", "must not be empty")),
            Self::Query(SqlQuery(text)) => Ok(text.clone()),
            Self::Table(table) => table.query(dialect),
        }
    }

    /// Returns whether the query's rows have a column `failure_run`.
    #[must_use]
    pub fn returns_runs(&self) -> bool {
        match self {
            Self::Query(SqlQuery(text)) => text.contains("failure_run"),
            Self::Table(table) => table.runs,
        }
    }
}

impl SqlTable {
    fn query(&self, dialect: Dialect) -> Result<String, SqlError> {
        let table = table_name(&self.table)?;
        let key = format!("CAST(a.{} AS text)", name("key_column", &self.key)?);
        let started_at = format!("a.{}", name("started_at_column", &self.started_at)?);
        let finished_at = format!("a.{}", name("finished_at_column", &self.finished_at)?);
        let (good, bad) = self.outcomes(dialect)?;
        let recent = if dialect == Dialect::Postgres { "$5::bigint" } else { "?2" };
        let recently = format!("{finished_at} >= {}", self.ago(dialect, recent));
        let totals = self.totals("", None, &good, &bad)?;
        let recent_totals = self.totals("recent_", Some(&recently), &good, &bad)?;
        // A half-open circuit has no recent totals and no run of failures.
        let nothing =
            vec!["NULL"; 2 + usize::from(self.latency.is_some()) + usize::from(self.runs)].join(", ");
        let since = match dialect {
            Dialect::Postgres => {
                "SELECT s.key, s.age, s.started\n    \
                 FROM unnest($2::text[], $3::bigint[], $4::bool[]) AS s (key, age, started)"
            }
            // A temporary table, because it has an index.
            Dialect::Sqlite => "SELECT key, age, started FROM temp.breakerbox_since",
        };
        let kept = if dialect == Dialect::Postgres { "MATERIALIZED" } else { "NOT MATERIALIZED" };
        let window = if dialect == Dialect::Postgres { "$1::bigint" } else { "?1" };
        let (window_began, since_then) = (self.ago(dialect, window), self.ago(dialect, "s.age"));
        // Only a subquery for each key uses the index on the key.
        let half_open = match dialect {
            Dialect::Postgres => format!(
                "SELECT s.key, h.*, {nothing}\nFROM since AS s\nCROSS JOIN LATERAL (\n    SELECT {totals}\n    FROM {table} AS a\n    \
                 WHERE {key} = s.key AND {started_at} >= {since_then} AND {finished_at} IS NOT NULL\n) AS h\n\
                 WHERE s.started"
            ),
            Dialect::Sqlite => format!(
                "SELECT s.key, {totals}, {nothing}\nFROM since AS s\nCROSS JOIN {table} AS a\n\
                 WHERE s.started AND a.{} = s.key AND {started_at} >= {since_then} AND {finished_at} IS NOT NULL\n\
                 GROUP BY s.key",
                name("key_column", &self.key)?
            ),
        };
        let finished = format!(
            "{table} AS a\n\
             LEFT JOIN since AS s ON s.key = {key}\n\
             WHERE {finished_at} >= {window_began} AND {key} IS NOT NULL\n  \
             AND (s.key IS NULL OR (NOT s.started AND {finished_at} >= {since_then}))"
        );
        let (finished, run) = if self.runs {
            let last = format!("max({finished_at}) FILTER (WHERE {good}) OVER (PARTITION BY {key})");
            let rows = format!("(\nSELECT a.*, {last} AS breakerbox_last_success\nFROM {finished}\n) AS a");
            let after =
                format!("(a.breakerbox_last_success IS NULL OR {finished_at} > a.breakerbox_last_success)");
            (rows, format!(",\n    count(*) FILTER (WHERE ({bad}) AND {after}) AS failure_run"))
        } else {
            (finished, String::new())
        };
        Ok(format!(
            "WITH since AS {kept} (\n    {since}\n)\n\
             SELECT {key} AS key, {totals},\n    {recent_totals}{run}\n\
             FROM {finished}\n\
             GROUP BY {key}\n\
             UNION ALL\n\
             {half_open}"
        ))
    }

    /// Returns the SQL conditions for a success and for a failure.
    fn outcomes(&self, dialect: Dialect) -> Result<(String, String), SqlError> {
        Ok(match &self.outcome {
            Outcome::Succeeded(column) => {
                let column = name("success_column", column)?;
                match dialect {
                    Dialect::Postgres => (format!("a.{column}::boolean"), format!("NOT a.{column}::boolean")),
                    Dialect::Sqlite => (format!("a.{column}"), format!("NOT a.{column}")),
                }
            }
            Outcome::Says { column, good, bad } => {
                let column = name("outcome_column", column)?;
                let says = |words| Ok(format!("CAST(a.{column} AS text) IN ({})", literals(words)?));
                (says(good)?, says(bad)?)
            }
        })
    }

    /// Returns the SQL sums for each group, over all its attempts or over those that match `only`.
    fn totals(&self, prefix: &str, only: Option<&str>, good: &str, bad: &str) -> Result<String, SqlError> {
        let and = only.map(|only| format!(" AND {only}")).unwrap_or_default();
        let mut totals = format!(
            "count(*) FILTER (WHERE ({good}){and}) AS {prefix}successes,\n    \
             count(*) FILTER (WHERE ({bad}){and}) AS {prefix}failures"
        );
        if let Some((column, unit)) = &self.latency {
            let column = name("latency_column", column)?;
            let micros = match unit {
                LatencyUnit::Seconds => 1_000_000,
                LatencyUnit::Millis => 1_000,
                LatencyUnit::Micros => 1,
            };
            // The clock may have been set back during an attempt.
            let counts = format!("(({good}) OR ({bad})) AND a.{column} > 0{and}");
            let sum = format!("sum(a.{column} * {micros}) FILTER (WHERE {counts})");
            let _ =
                write!(totals, ",\n    CAST(round(coalesce({sum}, 0)) AS bigint) AS {prefix}latency_sum_us");
        }
        Ok(totals)
    }

    /// Returns the SQL for the time this many microseconds ago, in the table's format. The time is rounded up, so that
    /// older attempts are not counted.
    fn ago(&self, dialect: Dialect, micros: &str) -> String {
        let now = match dialect {
            Dialect::Postgres => "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint",
            Dialect::Sqlite => "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)",
        };
        match (self.times, dialect) {
            (TimeFormat::Native, Dialect::Postgres) => {
                format!("statement_timestamp() - {micros} * interval '1 microsecond'")
            }
            (TimeFormat::Native, Dialect::Sqlite) => {
                format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || ({micros} / 1000000.0) || ' seconds')")
            }
            (TimeFormat::UnixMicros, _) => format!("{now} - {micros}"),
            (TimeFormat::UnixMillis, _) => format!("({now} - {micros} + 999) / 1000"),
            (TimeFormat::UnixSeconds, _) => format!("({now} - {micros} + 999999) / 1000000"),
        }
    }
}

/// Validates and quotes a name.
fn name(field: &'static str, name: &str) -> Result<String, SqlError> {
    if name.is_empty() {
        return Err(wrong(field, "must not be empty"));
    }
    if name.len() > 63 {
        return Err(wrong(field, "must be at most 63 bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err(wrong(field, "must not have control characters"));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// Quotes a table's name, with its schema if it has one.
fn table_name(table: &str) -> Result<String, SqlError> {
    let parts = table.split('.').map(|part| name("table", part)).collect::<Result<Vec<_>, _>>()?;
    if parts.len() > 2 {
        return Err(wrong("table", "must be table or schema.table"));
    }
    Ok(parts.join("."))
}

/// Quotes strings as literals.
fn literals(words: &[String]) -> Result<String, SqlError> {
    if words.is_empty() {
        return Err(wrong("outcome_column", "needs at least one good and one bad word"));
    }
    let literal = |word: &String| {
        // Some servers are configured to treat a backslash as an escape.
        if word.contains('\\') || word.chars().any(char::is_control) {
            return Err(wrong("outcome_column", "words must have no backslash and no control characters"));
        }
        Ok(format!("'{}'", word.replace('\'', "''")))
    };
    Ok(words.iter().map(literal).collect::<Result<Vec<_>, _>>()?.join(", "))
}

fn wrong(field: &'static str, reason: &str) -> SqlError {
    SqlError { field, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let table = || SqlTable::new("attempts");
        for (table, field) in [
            (SqlTable::new(""), "table"),
            (SqlTable::new("a.b.c"), "table"),
            (SqlTable::new("a."), "table"),
            (table().key_column(""), "key_column"),
            (table().key_column("a\0"), "key_column"),
            (table().success_column(&"x".repeat(64)), "success_column"),
            (table().started_at_column("\n"), "started_at_column"),
            (table().finished_at_column(""), "finished_at_column"),
            (table().latency_column("", LatencyUnit::Millis), "latency_column"),
            (table().outcome_column("", &["a"], &["b"]), "outcome_column"),
            (table().outcome_column("status", &[], &["b"]), "outcome_column"),
            (table().outcome_column("status", &["a"], &["\\'"]), "outcome_column"),
        ] {
            for dialect in [Dialect::Postgres, Dialect::Sqlite] {
                let error = SqlSource::from(table.clone()).text(dialect).unwrap_err();
                assert_eq!(error.field, field, "{error}");
            }
        }
        assert_eq!(SqlSource::from(SqlQuery(" ".into())).text(Dialect::Sqlite).unwrap_err().field, "query");
    }
}
