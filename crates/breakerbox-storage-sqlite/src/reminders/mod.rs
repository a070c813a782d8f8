//! The table of reminders.
//!
//! | part | task |
//! | --- | --- |
//! | `stored` | the stored form of a reminder |
//! | `due` | finds the reminders that have to be checked |
//! | `apply` | applies decisions: fires runs, stops and finishes reminders |
//! | `prune` | deletes reminders that have ended |
//! | `runs` | updates a reminder when its run ends or is withdrawn |
//! | `totals` | counts a tenant's reminders |
//! | `unreadable` | stops reminders whose row can't be read |
//!
//! The scheduler's operations are in [`reminder_store`](super::reminder_store), the API's in
//! [`records`](super::records).

pub(super) mod apply;
pub(super) mod due;
pub(super) mod prune;
pub(super) mod runs;
pub(super) mod stored;
pub(super) mod totals;
pub(super) mod unreadable;
