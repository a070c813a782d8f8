//! The input of a replay: parses lines of traffic, in JSON or CSV, and reports exactly what is wrong with an invalid
//! line.
//!
//! A file contains calls or samples, never both. Its times are all elapsed or all clock times, and never decrease. Lines are read one at a time, so the
//! memory needed depends only on the longest line, whose length is limited.

mod csv_rows;
mod fields;
mod json_lines;
mod lines;
mod results;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead};

use breakerbox_core::{OutcomeKind, Sample};

use fields::Fault;
pub use results::{Counted, ResultTable};

use crate::clock::{Times, Utc};

/// The maximum length of a line, in bytes. A tick with a million keys is shorter.
pub const MAX_LINE_LENGTH: u64 = 128 * 1024 * 1024;

/// The maximum for times and latencies, in milliseconds: the largest integer that every JSON parser preserves.
pub const MAX_MILLIS: u64 = (1 << 53) - 1;

/// The format of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object per line.
    JsonLines,
    /// CSV: a header, then one row per line.
    Csv,
}

/// The content of one line.
#[derive(Clone, PartialEq, Debug)]
pub enum Line<'a> {
    /// A call in the recorded traffic.
    Call(Call<'a>),
    /// The samples of one tick.
    Tick(Tick),
}

/// One call in the recorded traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Call<'a> {
    /// The start of the call, in milliseconds since an origin that is the same for all lines.
    pub at_ms: u64,
    /// How the line states its time, and so which origin it has.
    pub times: Times,
    /// The circuit's key.
    pub key: Cow<'a, str>,
    /// The call's outcome, if it is not a probe.
    pub outcome: OutcomeKind,
    /// The call's outcome, if it is a probe. It differs only for some statuses.
    pub probe_outcome: OutcomeKind,
    /// The call's latency, in milliseconds.
    pub latency_ms: u64,
    /// The delay that the destination asked for, in milliseconds. `None` if it did not ask for one.
    pub retry_after_ms: Option<u64>,
}

/// The samples of all keys at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// The time of the tick, in milliseconds since an origin that is the same for all lines.
    pub at_ms: u64,
    /// How the line states its time, and so which origin it has.
    pub times: Times,
    /// The keys, each with its sample.
    pub samples: Vec<(String, Sample)>,
}

/// Why a line is invalid. The message names the line, the field if there is one, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {}{reason}", FieldPrefix(field.as_deref()))]
pub struct InputError {
    /// The number of the invalid line; the first is 1.
    pub line: u64,
    /// The invalid field. `None` if the line as a whole is invalid.
    pub field: Option<String>,
    /// What is wrong, and what is accepted instead.
    pub reason: String,
}

/// Why a line could not be read or parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The line is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The input could not be read.
    #[error("can't read the traffic: {0}")]
    Io(#[from] io::Error),
}

struct FieldPrefix<'a>(Option<&'a str>);

impl fmt::Display for FieldPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |field| write!(f, "{field}: "))
    }
}

/// The input. It is boxed, so that the parsers are compiled once, in this crate.
type Input<'r> = Box<dyn BufRead + 'r>;

/// Reads traffic line by line.
pub struct Reader<'r> {
    rows: Rows<'r>,
    order: Order,
    line: u64,
}

enum Rows<'r> {
    Json(json_lines::JsonLines<'r>),
    Csv(Box<csv_rows::CsvRows<'r>>),
}

impl<'r> Reader<'r> {
    /// Creates a reader for this format. If `format` is `None`, the first character determines the format: JSON
    /// begins with `{`. The table maps statuses and faults to outcomes.
    ///
    /// # Errors
    /// Returns an error if the input can't be read or the CSV header is invalid.
    pub fn new(
        input: impl BufRead + 'r,
        format: Option<Format>,
        table: &'r dyn ResultTable,
    ) -> Result<Self, ReadError> {
        Self::of(Box::new(input), format, table)
    }

    fn of(
        mut input: Input<'r>,
        format: Option<Format>,
        table: &'r dyn ResultTable,
    ) -> Result<Self, ReadError> {
        skip_byte_order_mark(&mut input)?;
        refuse_compressed(&mut input)?;
        let lines_before = skip_blank_lines(&mut input)?;
        let format = match format {
            Some(format) => format,
            None => guess_format(&mut input)?,
        };
        let rows = match format {
            Format::JsonLines => Rows::Json(json_lines::JsonLines::new(input, lines_before, table)),
            Format::Csv => Rows::Csv(Box::new(csv_rows::CsvRows::new(input, lines_before, table)?)),
        };
        Ok(Self { rows, order: Order::default(), line: 0 })
    }

    /// Returns the next line that is not blank, or `None` at the end of the input.
    ///
    /// # Errors
    /// Returns an error if the line is invalid, mixes calls with samples or elapsed with clock times, or has an earlier
    /// time than the previous line.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        let read = match &mut self.rows {
            Rows::Json(rows) => rows.next_line()?,
            Rows::Csv(rows) => rows.next_line()?,
        };
        let Some((number, line)) = read else { return Ok(None) };
        self.line = number;
        self.order.check(&line).map_err(|fault| fault.at_line(number))?;
        Ok(Some(line))
    }

    /// Returns the number of the last line read.
    #[must_use]
    pub const fn line_number(&self) -> u64 {
        self.line
    }
}

fn skip_byte_order_mark(input: &mut Input<'_>) -> io::Result<()> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if input.fill_buf()?.starts_with(MARK) {
        input.consume(MARK.len());
    }
    Ok(())
}

fn refuse_compressed(input: &mut Input<'_>) -> Result<(), ReadError> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let start = input.fill_buf()?;
    if start.starts_with(GZIP) || start.starts_with(ZSTD) {
        let reason = "is compressed; decompress it first, for example with gzip -dc or zstd -dc";
        return Err(Fault::of_line(reason).at_line(1));
    }
    Ok(())
}

/// Skips blank lines, and whitespace before the first character. Returns the number of lines skipped.
fn skip_blank_lines(input: &mut Input<'_>) -> io::Result<u64> {
    let mut lines = 0;
    loop {
        let buffer = input.fill_buf()?;
        let blank = buffer.len() - buffer.trim_ascii_start().len();
        lines += buffer[..blank].iter().filter(|byte| **byte == b'\n').count() as u64;
        let is_all = blank == buffer.len() && blank > 0;
        input.consume(blank);
        if !is_all {
            return Ok(lines);
        }
    }
}

/// Guesses the format from the first character: JSON lines if it is `{` or `[`, or if the input is empty; otherwise
/// CSV.
fn guess_format(input: &mut Input<'_>) -> io::Result<Format> {
    Ok(match input.fill_buf()?.first() {
        None | Some(b'{' | b'[') => Format::JsonLines,
        Some(_) => Format::Csv,
    })
}

/// Checks the rules across lines: a file contains one kind of line and of times, and times never decrease.
#[derive(Default)]
struct Order {
    kind: Option<Kind>,
    times: Option<Times>,
    latest_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Calls,
    Samples,
}

impl Order {
    fn check(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let (kind, at_ms, times) = match line {
            Line::Call(call) => (Kind::Calls, call.at_ms, call.times),
            Line::Tick(tick) => (Kind::Samples, tick.at_ms, tick.times),
        };
        let other_kind = |began, put| {
            format!(
                "this file began with {began}, and a file must contain one kind; put {put} in a separate file"
            )
        };
        match (*self.kind.get_or_insert(kind), kind) {
            (Kind::Calls, Kind::Samples) => {
                return Err(Fault::new("samples", other_kind("calls", "samples")));
            }
            (Kind::Samples, Kind::Calls) => return Err(Fault::new("key", other_kind("samples", "calls"))),
            _ => {}
        }
        let field = times.field();
        let first = *self.times.get_or_insert(times);
        if times != first {
            let first = first.field();
            let reason =
                format!("this file began with {first}, and a file must use one; use {first} on every line");
            return Err(Fault::new(field, reason));
        }
        if at_ms < self.latest_ms {
            let shown = |ms: u64| times.utc(ms).map_or_else(|| ms.to_string(), |time: Utc| time.to_string());
            let (now, before) = (shown(at_ms), shown(self.latest_ms));
            let reason =
                format!("must not decrease, but is {now} after {before}; sort the traffic by {field}");
            return Err(Fault::new(field, reason));
        }
        self.latest_ms = at_ms;
        Ok(())
    }
}
