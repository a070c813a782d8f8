//! CSV input: a header with the field names, then one row per line. A call has one column for each field. Samples
//! have one row for each key and tick: `at_ms,key,successes,failures,latency_sum_ms`, or with `at` instead of `at_ms`.
//! An empty cell is an absent field.

use std::borrow::Cow;
use std::collections::HashSet;

use breakerbox_core::{FileValue, Sample};
use csv_core::ReadRecordResult;

use super::fields::{
    CALL_FIELDS, Fault, Fields, RESULT_FIELDS, SAMPLE_FIELDS, SampleFields, both, check_key, count, fault,
    millis, missing, outcome, status, time, twice, unknown,
};
use super::lines::Lines;
use super::results::ResultTable;
use super::{Input, Line, ReadError, Tick};
use crate::clock::Times;

/// The maximum number of cells in a row, far above the number of fields.
const MAX_CELLS: usize = 64;

pub(super) struct CsvRows<'r> {
    lines: Lines<'r>,
    table: &'r dyn ResultTable,
    cells: Cells,
    columns: Vec<&'static str>,
    /// The first row of the next tick, which was read to find the end of the current tick.
    next_tick: Option<Result<Row, ReadError>>,
}

/// One row of samples: one key at one tick.
struct Row {
    line: u64,
    at_ms: u64,
    times: Times,
    key: String,
    sample: Sample,
}

impl<'r> CsvRows<'r> {
    pub(super) fn new(
        input: Input<'r>,
        lines_before: u64,
        table: &'r dyn ResultTable,
    ) -> Result<Self, ReadError> {
        let mut lines = Lines::new(input, lines_before);
        let mut cells = Cells::new();
        let mut columns = Vec::new();
        if lines.advance()? {
            let header = lines.text().and_then(|text| cells.split(text)).and_then(|()| read_header(&cells));
            columns = header.map_err(|fault| fault.at_line(lines.number()))?;
        }
        Ok(Self { lines, table, cells, columns, next_tick: None })
    }

    /// Returns the next call, or the next tick, which consists of all rows with the same time.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, Line<'_>)>, ReadError> {
        if is_sampled(&self.columns) {
            return self.next_tick();
        }
        if !self.advance()? {
            return Ok(None);
        }
        let number = self.lines.number();
        let call = read_fields(&self.columns, &self.cells).and_then(|(fields, _)| fields.finish(self.table));
        call.map(|call| Some((number, call))).map_err(|fault| fault.at_line(number))
    }

    fn next_tick(&mut self) -> Result<Option<(u64, Line<'_>)>, ReadError> {
        let first = match self.next_tick.take() {
            Some(row) => row?,
            None => match self.next_row()? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        let (mut line, at_ms, times) = (first.line, first.at_ms, first.times);
        let mut seen = HashSet::from([first.key.clone()]);
        let mut samples = vec![(first.key, first.sample)];
        loop {
            match self.next_row() {
                Ok(Some(row)) if row.at_ms == at_ms => {
                    if !seen.insert(row.key.clone()) {
                        return Err(twice(&row.key).at_line(row.line));
                    }
                    line = row.line;
                    samples.push((row.key, row.sample));
                }
                Ok(None) => break,
                // The tick before an invalid row is complete.
                other => {
                    self.next_tick = other.transpose();
                    break;
                }
            }
        }
        Ok(Some((line, Line::Tick(Tick { at_ms, times, samples }))))
    }

    fn next_row(&mut self) -> Result<Option<Row>, ReadError> {
        if !self.advance()? {
            return Ok(None);
        }
        let line = self.lines.number();
        let row = read_fields(&self.columns, &self.cells).and_then(|(fields, sample)| {
            let (at_ms, times) = fields.time()?;
            let key = fields.key.ok_or_else(|| missing("key"))?.into_owned();
            Ok(Row { line, at_ms, times, key, sample: sample.finish()? })
        });
        row.map(Some).map_err(|fault| fault.at_line(line))
    }

    /// Reads the next row into the cells. Returns false at the end of the input.
    fn advance(&mut self) -> Result<bool, ReadError> {
        if !self.lines.advance()? {
            return Ok(false);
        }
        let split = self.lines.text().and_then(|text| self.cells.split(text));
        split.map(|()| true).map_err(|fault| fault.at_line(self.lines.number()))
    }
}

/// The cells of one row, in reused buffers.
struct Cells {
    parser: csv_core::Reader,
    row: Vec<u8>,
    text: Vec<u8>,
    ends: [usize; MAX_CELLS + 1],
    count: usize,
}

impl Cells {
    fn new() -> Self {
        let parser = csv_core::Reader::new();
        Self { parser, row: Vec::new(), text: Vec::new(), ends: [0; MAX_CELLS + 1], count: 0 }
    }

    fn split(&mut self, row: &str) -> Result<(), Fault> {
        self.row.clear();
        self.row.extend_from_slice(row.as_bytes());
        self.row.push(b'\n');
        // Unquoting never makes text longer.
        self.text.resize(self.row.len(), 0);
        self.parser.reset();
        let (result, read, _, count) = self.parser.read_record(&self.row, &mut self.text, &mut self.ends);
        self.count = count;
        let reason = match result {
            ReadRecordResult::Record if read == self.row.len() => return Ok(()),
            // The line break became part of a cell.
            ReadRecordResult::InputEmpty => "has a quote that is not closed; a row is one line",
            ReadRecordResult::OutputEndsFull => "has more cells than fields",
            _ => "has a line end within the row; a row is one line",
        };
        Err(Fault::of_line(reason))
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends);
        let cell = |(start, end): (usize, usize)| {
            std::str::from_utf8(&self.text[start..end]).expect("parts of a text, cut at commas and quotes")
        };
        starts.zip(self.ends).take(self.count).map(cell)
    }
}

/// Parses the header. Its columns determine whether the rows are calls or samples.
fn read_header(cells: &Cells) -> Result<Vec<&'static str>, Fault> {
    let known = || CALL_FIELDS.into_iter().chain(SAMPLE_FIELDS);
    let mut columns = Vec::new();
    for name in cells.iter().map(str::trim) {
        if name.is_empty() {
            return Err(Fault::of_line("has a column without a name; check for an extra comma"));
        }
        let column = known().find(|column| *column == name).ok_or_else(|| unknown(name, known()))?;
        if columns.contains(&column) {
            return Err(twice(name));
        }
        columns.push(column);
    }
    let has = |column: &&str| columns.contains(column);
    if has(&"at") && has(&"at_ms") {
        return Err(both("at", "at_ms"));
    }
    if !has(&"at") && !has(&"at_ms") {
        return Err(Fault::new("at_ms", "is missing in the header; name a column at_ms or at"));
    }
    let needed: &[&str] = if is_sampled(&columns) {
        let of_calls = RESULT_FIELDS.into_iter().chain(["latency_ms", "retry_after_ms"]).find(has);
        if let Some(column) = of_calls {
            return Err(Fault::new(column, "can't be combined with samples; a row is a call or a sample"));
        }
        &["key", "successes", "failures"]
    } else {
        if !RESULT_FIELDS.iter().any(has) {
            return Err(Fault::new(
                "outcome",
                "is missing in the header; name a column outcome, status or fault",
            ));
        }
        &["key"]
    };
    match needed.iter().find(|column| !has(column)) {
        Some(column) => Err(Fault::new(column, "is missing in the header, which must name every column")),
        None => Ok(columns),
    }
}

fn is_sampled(columns: &[&str]) -> bool {
    columns.iter().any(|column| SAMPLE_FIELDS.contains(column))
}

fn read_fields<'a>(columns: &[&'static str], cells: &'a Cells) -> Result<(Fields<'a>, SampleFields), Fault> {
    if cells.count != columns.len() {
        let reason = format!("has {} cells, but the header has {}", cells.count, columns.len());
        return Err(Fault::of_line(reason));
    }
    let mut fields = Fields::default();
    let mut sample = SampleFields::default();
    for (&name, raw) in columns.iter().zip(cells.iter()).filter(|(_, cell)| !cell.is_empty()) {
        let cell = raw.trim();
        match name {
            "at_ms" => fields.at_ms = Some(millis(name, &number(cell))?),
            "key" => {
                // Not trimmed, because whitespace may be part of a key.
                check_key(name, raw)?;
                fields.key = Some(Cow::Borrowed(raw));
            }
            "at" => fields.at = Some(time(name, &FileValue::Text(cell.into()))?),
            "status" => fields.status = Some(status(name, &number(cell))?),
            "fault" => fields.fault = Some(fault(name, &FileValue::Text(cell.into()))?),
            "outcome" => fields.outcome = Some(outcome(name, &FileValue::Text(cell.into()))?),
            "latency_ms" => fields.latency_ms = Some(millis(name, &number(cell))?),
            "retry_after_ms" => fields.retry_after_ms = Some(millis(name, &number(cell))?),
            "successes" => sample.successes = Some(count(name, &number(cell))?),
            "failures" => sample.failures = Some(count(name, &number(cell))?),
            _ => sample.latency_sum_ms = Some(millis(name, &number(cell))?),
        }
    }
    Ok((fields, sample))
}

fn number(cell: &str) -> FileValue {
    match (cell.parse::<i128>(), cell.parse::<f64>()) {
        (Ok(number), _) => FileValue::Integer(number),
        (_, Ok(number)) => FileValue::Float(number),
        _ => FileValue::Text(cell.chars().take(64).collect()),
    }
}
