//! Tests of cron expressions: parsing, matching, and time zones.

mod reading;
mod transitions;
mod zones;
