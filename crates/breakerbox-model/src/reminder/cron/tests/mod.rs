//! Cron expressions: what is read, what matches, and what zones make of it.

mod reading;
mod transitions;
mod zones;
