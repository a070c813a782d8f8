//! Why a cron expression is refused: which field, which part of it, and what would be right.

use super::MAX_LENGTH;
use super::fields::CronField;

/// Why a cron expression is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// Nothing is there, or not five fields.
    #[error(
        "must have five fields (minute hour day month weekday, such as \"30 9 * * MON-FRI\"), but has {found}{}",
        if *.found == 6 { "; there are no seconds" } else { "" }
    )]
    Fields {
        /// How many there are.
        found: usize,
    },
    /// It is longer than any that makes sense.
    #[error("must have at most {MAX_LENGTH} characters, but has {found}")]
    TooLong {
        /// How many there are.
        found: usize,
    },
    /// There is no such short form.
    #[error("{found:?} is unknown; there are @hourly, @daily, @weekly, @monthly and @yearly")]
    Nickname {
        /// What was written.
        found: String,
    },
    /// Something is missing between two commas, before or after a dash or a slash.
    #[error("{field}: {part:?} is not complete; write {}", .field.shapes())]
    Incomplete {
        /// Where.
        field: CronField,
        /// The part.
        part: String,
    },
    /// It is neither a number nor a name.
    #[error("{field}: {part:?} is no {}; write {}", .field.name(), .field.shapes())]
    NoValue {
        /// Where.
        field: CronField,
        /// The part.
        part: String,
    },
    /// It is too small or too large.
    #[error("{field}: {part:?} is out of range; write {}", .field.span())]
    OutOfRange {
        /// Where.
        field: CronField,
        /// The part.
        part: String,
    },
    /// Its end is before its beginning.
    #[error("{field}: {part:?} runs backwards; write the smaller one first, or two ranges with a comma")]
    Backwards {
        /// Where.
        field: CronField,
        /// The part.
        part: String,
    },
    /// The step is none, or goes past the end at once.
    #[error("{field}: the step of {part:?} must be from 1 to {}", .field.max())]
    Step {
        /// Where.
        field: CronField,
        /// The part.
        part: String,
    },
    /// One value has a step.
    #[error("{field}: {part:?} has a step, but no range; write {suggestion:?}")]
    StepOfOne {
        /// Where.
        field: CronField,
        /// The part.
        part: String,
        /// What is probably meant.
        suggestion: String,
    },
    /// There is no such date.
    #[error(
        "{}: never happens: no month of field 4 has such a day; write a day that there is",
        CronField::Day
    )]
    NeverHappens,
}
