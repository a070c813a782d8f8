//! Sizes with a unit, such as `"256KiB"`, `"4GiB"` or `"10MB"`.

/// Units in bytes. The binary ones come first, largest to smallest, because sizes are formatted with them.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

/// The reason why a string is not a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The number is missing.
    #[error("needs a whole number before its unit, such as \"256KiB\"")]
    NoNumber,
    /// The unit is missing.
    #[error("needs a unit: B, KiB, MiB, GiB or TiB, such as \"256KiB\"")]
    NoUnit,
    /// The unit is unknown.
    #[error(
        "has an unknown unit; the units are B, KiB, MiB, GiB, TiB (and KB, MB, GB, TB by thousands), such as \"256KiB\""
    )]
    UnknownUnit,
    /// The size does not fit in a `u64`.
    #[error("is too large")]
    TooLarge,
}

/// Parses a size: a whole number followed by a unit.
///
/// ```
/// use breakerbox_gateway::config::{SizeError, parse_size};
///
/// assert_eq!(parse_size("256KiB"), Ok(262_144));
/// assert_eq!(parse_size("10MB"), Ok(10_000_000));
/// assert_eq!(parse_size("256"), Err(SizeError::NoUnit));
/// ```
///
/// # Errors
/// Returns what is wrong with the string, and what is accepted.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    if number.is_empty() {
        return Err(SizeError::NoNumber);
    }
    if unit.is_empty() {
        return Err(SizeError::NoUnit);
    }
    let (_, bytes) =
        UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(SizeError::UnknownUnit)?;
    // The number has only digits, so it fails to parse only if it is too large.
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(*bytes)).ok_or(SizeError::TooLarge)
}

/// Formats a size, so that [`parse_size`] returns the same number.
///
/// ```
/// assert_eq!(breakerbox_gateway::config::format_size(4 << 30), "4GiB");
/// ```
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let fits = |unit: u64| bytes >= unit && bytes.is_multiple_of(unit);
    match UNITS.iter().find(|(_, unit)| fits(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => "0B".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in
            [("0B", 0), ("1b", 1), ("4 KiB", 4096), ("512mib", 512 << 20), ("2TB", 2_000_000_000_000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        use SizeError::{NoNumber, NoUnit, TooLarge, UnknownUnit};
        for (text, error) in [
            ("", NoNumber),
            ("KiB", NoNumber),
            ("-1B", NoNumber),
            ("12", NoUnit),
            ("1.5MiB", UnknownUnit),
            ("4K", UnknownUnit),
            ("4  KiB", UnknownUnit),
            ("99999999999999999999B", TooLarge),
            ("99999999TiB", TooLarge),
        ] {
            assert_eq!(parse_size(text), Err(error), "{text}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for bytes in [0, 1, 1000, 1023, 1024, 1536, 10_000_000, 256 << 10, 4 << 30, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes), "{bytes}");
        }
        assert_eq!(format_size(256 << 10), "256KiB");
        assert_eq!(format_size(10_000_000), "10000000B");
    }
}
