//! Read-only access to a running gateway's database. The metrics for waiting deliveries are up to two seconds
//! old; the database shows what is durable now.

use anyhow::Result;
use rusqlite::{Connection, OpenFlags};

use crate::gateway::site::Site;

/// Opens a read-only connection to the gateway's database.
pub(in crate::gateway) fn connect(site: &Site) -> Result<Connection> {
    let path = site.gateway.data().join("breakerbox.db");
    Ok(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// Returns the number of deliveries that are waiting or in flight.
pub(super) fn waiting(site: &Site) -> Result<i64> {
    let sql = "SELECT count(*) FROM deliveries WHERE state IN (0, 1)";
    Ok(connect(site)?.query_row(sql, [], |row| row.get(0))?)
}

/// Returns the number of a tenant's active reminders.
pub(super) fn active(site: &Site, tenant: &str) -> Result<i64> {
    let sql =
        "SELECT count(*) FROM reminders r JOIN tenants t ON t.row = r.tenant WHERE t.id = ?1 AND r.state = 0";
    Ok(connect(site)?.query_row(sql, [tenant], |row| row.get(0))?)
}

/// Returns the sum of the latencies of all stored attempts, in seconds.
pub(super) fn latencies(site: &Site) -> Result<f64> {
    Ok(connect(site)?.query_row("SELECT sum(latency) / 1e6 FROM attempts", [], |row| row.get(0))?)
}
