//! The input of a replay: parses lines of traffic, in JSON or CSV, and reports what is wrong with an invalid one.
//!
//! A file holds calls or samples, never both, and its times never go back. Lines are read one at a time: a file of
//! any size needs no more memory than its longest line, and that has a limit.

mod csv_rows;
mod fields;
mod json_lines;
mod lines;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead};

use breakerbox_core::{OutcomeKind, Sample};

use fields::Fault;

/// The longest line, in bytes. A tick with a million keys is below it.
pub const MAX_LINE_LENGTH: u64 = 128 * 1024 * 1024;

/// The latest time and the longest latency, in milliseconds: the largest integer that every JSON parser preserves.
pub const MAX_MILLIS: u64 = (1 << 53) - 1;

/// The format of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object per line.
    JsonLines,
    /// A header, and one row per line.
    Csv,
}

/// The content of one line.
#[derive(Clone, PartialEq, Debug)]
pub enum Line<'a> {
    /// A past call.
    Call(Call<'a>),
    /// The samples of one tick.
    Tick(Tick),
}

/// One past call.
#[derive(Clone, PartialEq, Debug)]
pub struct Call<'a> {
    /// The start of the call, in milliseconds.
    pub at_ms: u64,
    /// The key of the circuit.
    pub key: Cow<'a, str>,
    /// The outcome of the call.
    pub outcome: OutcomeKind,
    /// The latency, in milliseconds.
    pub latency_ms: u64,
    /// The destination's retry-after, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// The samples of all keys at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// The time of the tick, in milliseconds.
    pub at_ms: u64,
    /// The totals of each key.
    pub samples: Vec<(String, Sample)>,
}

/// The reason why a line was refused. It names the line, the field where there is one, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {}{reason}", FieldPrefix(field.as_deref()))]
pub struct InputError {
    /// The line, counted from 1.
    pub line: u64,
    /// The invalid field. `None` if the line as a whole is invalid.
    pub field: Option<String>,
    /// What is wrong with it, and what is accepted.
    pub reason: String,
}

/// The reason why a line could not be read or parsed.
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

/// What is read. Boxed, so that the parsers are compiled once, in this crate.
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
    /// Builds a reader of this format. Without one, the first character decides: JSON begins with `{`.
    ///
    /// # Errors
    /// If the input can't be read, or a CSV header is wrong.
    pub fn new(input: impl BufRead + 'r, format: Option<Format>) -> Result<Self, ReadError> {
        Self::of(Box::new(input), format)
    }

    fn of(mut input: Input<'r>, format: Option<Format>) -> Result<Self, ReadError> {
        skip_byte_order_mark(&mut input)?;
        refuse_compressed(&mut input)?;
        let lines_before = skip_blank_lines(&mut input)?;
        let format = match format {
            Some(format) => format,
            None => guess_format(&mut input)?,
        };
        let rows = match format {
            Format::JsonLines => Rows::Json(json_lines::JsonLines::new(input, lines_before)),
            Format::Csv => Rows::Csv(Box::new(csv_rows::CsvRows::new(input, lines_before)?)),
        };
        Ok(Self { rows, order: Order::default(), line: 0 })
    }

    /// Returns the next line that is not blank, or `None` at the end.
    ///
    /// # Errors
    /// If the line is invalid, is of another kind than those before, or is earlier than the one before.
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

    /// Returns the number of the last line that was read.
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

/// Skips blank lines, and the white space before the first character. Returns the number of skipped lines.
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

/// Guesses the format by the first character: JSON lines begin with a brace, and a CSV header does not.
fn guess_format(input: &mut Input<'_>) -> io::Result<Format> {
    Ok(match input.fill_buf()?.first() {
        None | Some(b'{' | b'[') => Format::JsonLines,
        Some(_) => Format::Csv,
    })
}

/// The rules across lines: a file holds one kind, and times never go back.
#[derive(Default)]
struct Order {
    kind: Option<Kind>,
    latest_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Calls,
    Samples,
}

impl Order {
    fn check(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let (kind, at_ms) = match line {
            Line::Call(call) => (Kind::Calls, call.at_ms),
            Line::Tick(tick) => (Kind::Samples, tick.at_ms),
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
        if at_ms < self.latest_ms {
            let reason = format!(
                "must not decrease, but is {at_ms} after {}; sort the traffic by at_ms",
                self.latest_ms
            );
            return Err(Fault::new("at_ms", reason));
        }
        self.latest_ms = at_ms;
        Ok(())
    }
}
