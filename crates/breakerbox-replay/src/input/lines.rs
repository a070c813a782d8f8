//! Reads lines one at a time into a reused buffer of limited size.

use std::io::{self, BufRead, Read};

use super::fields::Fault;
use super::{Input, MAX_LINE_LENGTH, ReadError};

pub(super) struct Lines<'r> {
    input: Input<'r>,
    buffer: Vec<u8>,
    number: u64,
}

impl<'r> Lines<'r> {
    /// Creates a reader for the lines of `input`. `lines_before` is the number of lines that were already read.
    pub(super) const fn new(input: Input<'r>, lines_before: u64) -> Self {
        Self { input, buffer: Vec::new(), number: lines_before }
    }

    /// Reads the next line that is not blank. Returns false at the end of the input.
    pub(super) fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            if !self.fill()? {
                return Ok(false);
            }
            self.number += 1;
            if self.buffer.len() as u64 > MAX_LINE_LENGTH {
                let reason = format!("is longer than {} MiB", MAX_LINE_LENGTH >> 20);
                return Err(Fault::of_line(reason).at_line(self.number));
            }
            if !self.buffer.iter().all(u8::is_ascii_whitespace) {
                return Ok(true);
            }
        }
    }

    /// Returns the current line, without its line break.
    pub(super) fn text(&self) -> Result<&str, Fault> {
        std::str::from_utf8(self.buffer.trim_ascii_end())
            .map_err(|error| Fault::of_line(format!("is not UTF-8 after {} bytes", error.valid_up_to())))
    }

    /// Returns the number of the current line; the first is 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        let mut limited = self.input.by_ref().take(MAX_LINE_LENGTH + 1);
        Ok(limited.read_until(b'\n', &mut self.buffer)? > 0)
    }
}
