//! How values are kept in columns: SQLite has signed numbers of 64 bits and nothing else for them.

use breakerbox_core::Timestamp;

/// A count, as SQLite keeps it.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count, as it was kept.
pub(crate) fn whole(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A time, as SQLite keeps it: microseconds since 1970.
pub(crate) fn micros(at: Timestamp) -> i64 {
    number(at.as_micros())
}

/// A time, as it was kept.
pub(crate) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(whole(micros))
}
