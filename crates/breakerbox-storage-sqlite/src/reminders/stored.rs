//! Reads reminders from their rows.

use breakerbox_model::objects::{DeliveryId, Reminder, ReminderId, Revision, TenantNumber};
pub(crate) use breakerbox_storage::stored::reminder::*;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::columns::{id, parsed, time, unreadable, whole};

/// All columns that the API needs, from `reminders r JOIN tenants t`.
pub(crate) const COLUMNS: &str = "r.id, t.id, r.settings, r.reference, r.size, r.state, r.reason, r.runs, \
    r.skipped, r.last_at, r.look_at, r.open_run, r.created_at, r.changed_at, r.revision, r.ran_at, r.tenant";

/// Reads a row of [`COLUMNS`].
pub(crate) fn reminder(row: &Row<'_>) -> rusqlite::Result<Reminder> {
    let stored = StoredReminder::read(row.get_ref(2)?.as_str()?).map_err(unreadable(2))?;
    let at = |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(time));
    let changed_at = time(row.get(13)?);
    let open_run = row.get::<_, Option<i64>>(11)?.map(|number| DeliveryId(id(number)));
    Ok(Reminder {
        id: ReminderId(id(row.get(0)?)),
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        owner: TenantNumber(row.get(16)?),
        settings: stored.settings(row.get(3)?).map_err(unreadable(2))?,
        payload_size: whole(row.get(4)?),
        state: state(row.get(5)?, row.get(6)?),
        runs: row.get(7)?,
        skipped: whole(row.get(8)?),
        last_at: at(15)?,
        done_until: at(9)?,
        // A reminder that has to be checked at once has been due since it was changed.
        next_at: at(10)?.filter(|_| open_run.is_none()).map(|next| next.max(changed_at)),
        open_run,
        created_at: time(row.get(12)?),
        changed_at,
        revision: Revision(row.get(14)?),
    })
}

/// Returns the reminder with this id, as the API shows it.
pub(crate) fn show(connection: &Connection, wanted: i64) -> rusqlite::Result<Option<Reminder>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM reminders r JOIN tenants t ON t.row = r.tenant WHERE r.id = ?1"
        ))?
        .query_row([wanted], reminder)
        .optional()
}
