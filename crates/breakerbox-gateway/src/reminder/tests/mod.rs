//! Schedules and what comes next, in virtual time.
