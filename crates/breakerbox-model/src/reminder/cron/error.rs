//! The errors in a cron expression. Each names the field, the invalid part and the remedy.

use super::MAX_LENGTH;
use super::fields::CronField;

/// Why a cron expression is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// The number of fields is not five.
    #[error(
        "must have five fields (minute hour day month weekday, such as \"30 9 * * MON-FRI\"), but has {found}{}",
        if *.found == 6 { "; seconds are not supported" } else { "" }
    )]
    Fields {
        /// The number of fields in the expression.
        found: usize,
    },
    /// The expression has too many bytes.
    #[error("must have at most {MAX_LENGTH} characters, but has {found}")]
    TooLong {
        /// The expression's length, in bytes.
        found: usize,
    },
    /// The short form, such as `@daily`, is unknown.
    #[error("{found:?} is unknown; use @hourly, @daily, @weekly, @monthly or @yearly")]
    Nickname {
        /// The short form as given.
        found: String,
    },
    /// A value is missing between two commas, or before or after a dash or a slash.
    #[error("{field}: {part:?} is not complete; write {}", .field.shapes())]
    Incomplete {
        /// The field that contains the error.
        field: CronField,
        /// The invalid part of the field.
        part: String,
    },
    /// A value is neither a number nor a name.
    #[error("{field}: {part:?} is not a valid {}; write {}", .field.name(), .field.shapes())]
    NoValue {
        /// The field that contains the error.
        field: CronField,
        /// The invalid part of the field.
        part: String,
    },
    /// A value is too small or too large.
    #[error("{field}: {part:?} is out of range; write {}", .field.span())]
    OutOfRange {
        /// The field that contains the error.
        field: CronField,
        /// The invalid part of the field.
        part: String,
    },
    /// A range ends before it begins.
    #[error("{field}: {part:?} runs backwards; write the smaller one first, or two ranges with a comma")]
    Backwards {
        /// The field that contains the error.
        field: CronField,
        /// The invalid part of the field.
        part: String,
    },
    /// The step is 0, not a number, or larger than the field's maximum.
    #[error("{field}: the step of {part:?} must be from 1 to {}", .field.max())]
    Step {
        /// The field that contains the error.
        field: CronField,
        /// The invalid part of the field.
        part: String,
    },
    /// A step is applied to a single value.
    #[error("{field}: {part:?} has a step, but no range; write {suggestion:?}")]
    StepOfOne {
        /// The field that contains the error.
        field: CronField,
        /// The invalid part of the field.
        part: String,
        /// The part that was probably intended.
        suggestion: String,
    },
    /// The expression matches no date, such as 30 February.
    #[error("{}: never happens: no month of field 4 has this day; write an existing day", CronField::Day)]
    NeverHappens,
}
