//! Reminders in their table.
//!
//! | part | task |
//! | --- | --- |
//! | `stored` | the form of a reminder in its row |
//! | `due` | finds the reminders that are to be checked |
//! | `apply` | carries out decisions about them: fires runs, stops, finishes |
//! | `prune` | deletes those that have ended |
//! | `runs` | the effect of the end of a run on its reminder; withdraws one |
//! | `totals` | the number of reminders of a tenant |
//! | `unreadable` | stops those whose row can't be read |
//!
//! The scheduler's operations are in [`reminder_store`](super::reminder_store), those of the API in
//! [`records`](super::records).

pub(super) mod apply;
pub(super) mod due;
pub(super) mod prune;
pub(super) mod runs;
pub(super) mod stored;
pub(super) mod totals;
pub(super) mod unreadable;
