//! Parses the five fields of a cron expression into sets of values, independent of calendars and time zones.

use std::fmt;

use super::error::CronError;

/// A field of a cron expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CronField {
    /// The first field, from 0 to 59.
    Minute,
    /// The second field, from 0 to 23.
    Hour,
    /// The third field: the day of the month, from 1 to 31.
    Day,
    /// The fourth field, from 1 to 12 or `JAN` to `DEC`.
    Month,
    /// The fifth field, from 0 to 7 or `SUN` to `SAT`; 0 and 7 are Sunday.
    Weekday,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const NICKNAMES: [(&str, &str); 5] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
];

impl CronField {
    const ALL: [Self; 5] = [Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Weekday];

    /// Returns the field's name in error messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Weekday => "weekday",
        }
    }

    pub(super) const fn max(self) -> u8 {
        match self {
            Self::Minute => 59,
            Self::Hour => 23,
            Self::Day => 31,
            Self::Month => 12,
            // 7 is Sunday, like 0.
            Self::Weekday => 7,
        }
    }

    const fn min(self) -> u8 {
        match self {
            Self::Minute | Self::Hour | Self::Weekday => 0,
            Self::Day | Self::Month => 1,
        }
    }

    /// Returns the names of the field's values, such as `JAN`, in order. Fields whose values have no names
    /// return an empty slice.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Minute | Self::Hour | Self::Day => &[],
            Self::Month => &MONTHS,
            Self::Weekday => &WEEKDAYS,
        }
    }

    /// Returns the range of allowed values, for error messages.
    pub(super) fn span(self) -> String {
        let numbers = format!("{} to {}", self.min(), self.max());
        match (self.names().first(), self.names().last()) {
            (Some(first), Some(last)) => format!("{numbers}, or {first} to {last}"),
            _ => numbers,
        }
    }

    /// Returns the allowed forms of a field's parts, for error messages.
    pub(super) fn shapes(self) -> String {
        let example = match self {
            Self::Minute => "a list such as \"0,30\", a range such as \"10-20\" or a step such as \"*/15\"",
            Self::Hour => "a list such as \"9,17\", a range such as \"9-17\" or a step such as \"*/2\"",
            Self::Day => "a list such as \"1,15\", a range such as \"1-7\" or a step such as \"*/2\"",
            Self::Month => "a list such as \"JAN,JUL\", a range such as \"1-6\" or a step such as \"*/3\"",
            Self::Weekday => "a list such as \"MON,FRI\" or a range such as \"1-5\"",
        };
        format!("{}, {example}", self.span())
    }

    fn value(self, part: &str, text: &str) -> Result<u8, CronError> {
        let named = self.names().iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(place) = named.and_then(|place| u8::try_from(place).ok()) {
            return Ok(place + self.min());
        }
        if text.is_empty() {
            return Err(CronError::Incomplete { field: self, part: part.to_owned() });
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CronError::NoValue { field: self, part: part.to_owned() });
        }
        let value = text.parse::<u8>().ok().filter(|value| (self.min()..=self.max()).contains(value));
        value.ok_or_else(|| CronError::OutOfRange { field: self, part: part.to_owned() })
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {} ({})", *self as usize + 1, self.name())
    }
}

/// The values of each field, as bit sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: u64,
    pub(super) months: u64,
    /// The weekdays, as a bit set whose bit 0 is Sunday.
    pub(super) weekdays: u64,
    /// Whether a match of either the day or the weekday is enough, because neither field begins with `*`.
    pub(super) either_day: bool,
    /// Whether the hour field begins with `*`. If so, an hour that a clock change repeats counts twice.
    pub(super) every_hour: bool,
}

impl Fields {
    pub(super) fn read(text: &str) -> Result<Self, CronError> {
        if text.starts_with('@') {
            let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            return match known {
                Some((_, meaning)) => Self::read(meaning),
                None => Err(CronError::Nickname { found: text.chars().take(40).collect() }),
            };
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = parts.as_slice() else {
            return Err(CronError::Fields { found: parts.len() });
        };
        let [minute, hour, day, month, weekday] = CronField::ALL;
        let either_day = !days.starts_with('*') && !weekdays.starts_with('*');
        let every_hour = hours.starts_with('*');
        let weekdays = read_list(weekday, weekdays)?;
        let fields = Self {
            minutes: read_list(minute, minutes)?,
            hours: read_list(hour, hours)?,
            days: read_list(day, days)?,
            months: read_list(month, months)?,
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            either_day,
            every_hour,
        };
        if fields.ever_happens() { Ok(fields) } else { Err(CronError::NeverHappens) }
    }
}

fn read_list(field: CronField, list: &str) -> Result<u64, CronError> {
    list.split(',').try_fold(0, |set, part| Ok(set | read_part(field, part)?))
}

fn read_part(field: CronField, part: &str) -> Result<u64, CronError> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let (first, last) = match range.split_once('-') {
        // Not up to the second Sunday (7), which steps would otherwise count.
        None if range == "*" => (field.min(), if field == CronField::Weekday { 6 } else { field.max() }),
        None => {
            let value = field.value(part, range)?;
            if let Some(step) = step {
                let suggestion = format!("{range}-{}/{step}", field.max());
                return Err(CronError::StepOfOne { field, part: part.to_owned(), suggestion });
            }
            (value, value)
        }
        Some((first, last)) => {
            let (from, to) = (field.value(part, first)?, field.value(part, last)?);
            // Sunday may be the end of a range as well as its beginning.
            let to = if field == CronField::Weekday && to == 0 && from > 0 { 7 } else { to };
            (from, to)
        }
    };
    if first > last {
        return Err(CronError::Backwards { field, part: part.to_owned() });
    }
    let step = match step {
        None => 1,
        Some(step) => {
            let digits = step.bytes().all(|byte| byte.is_ascii_digit()).then_some(step);
            let step = digits.and_then(|digits| digits.parse::<u8>().ok());
            step.filter(|step| (1..=field.max()).contains(step))
                .ok_or_else(|| CronError::Step { field, part: part.to_owned() })?
        }
    };
    Ok((first..=last).step_by(usize::from(step)).fold(0, |set, value| set | (1 << value)))
}
