//! A gateway's data directory while no gateway uses it: a test adds tenants and reminders through the library.
//! In this way a million reminders take a minute, and the stored data are the same as through the API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox::{CircuitBy, Timestamp};
use breakerbox_model::objects::{
    Backlog, Priority, Reminder, ReminderId, ReminderRules, ReminderSettings, TenantId, TenantSettings,
};
use breakerbox_model::reminder::{CatchUp, Repeat, Schedule};
use breakerbox_storage::records::{NewReminder, NewTenant, Reminders, Tenants};
use breakerbox_storage::secrets::KeySource;
use breakerbox_storage::{Defaults, RecordsError};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Runtime;

/// The number of reminders that are created concurrently, so that they share a commit.
const AT_ONCE: usize = 512;

/// A backlog limit that no tenant reaches.
const ROOMY: Backlog = Backlog { count: 100_000_000, bytes: 1 << 40 };

/// A gateway's data directory, opened while no gateway runs on it.
pub(in crate::gateway) struct Folder {
    pub(super) runtime: Runtime,
    pub(super) database: Database,
    pub(super) records: SqliteRecords,
}

/// The properties of a reminder to add.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct New {
    /// The reminder's tenant.
    pub(super) tenant: TenantId,
    /// The callback URL.
    pub(super) url: String,
    /// The time of the first run.
    pub(in crate::gateway) first_at: Timestamp,
    /// The interval between runs, or `None` if the reminder runs once.
    pub(super) every: Option<Duration>,
    /// The time after which no run is due, or `None` if the reminder does not end.
    pub(super) ends_at: Option<Timestamp>,
    /// The catch-up rule, or `None` for the tenant's default.
    pub(super) catch_up: Option<CatchUp>,
}

impl New {
    /// Returns a reminder that runs once.
    pub(in crate::gateway) fn once(tenant: &TenantId, url: String, at: Timestamp) -> Self {
        Self { tenant: tenant.clone(), url, first_at: at, every: None, ends_at: None, catch_up: None }
    }

    /// Returns a reminder that runs at this interval, this many times.
    pub(super) fn repeated(
        tenant: &TenantId,
        url: String,
        first_at: Timestamp,
        every: Duration,
        times: u32,
    ) -> Self {
        let ends_at = Some(first_at + every * times.saturating_sub(1));
        Self { tenant: tenant.clone(), url, first_at, every: Some(every), ends_at, catch_up: None }
    }

    fn reminder(self) -> Result<NewReminder> {
        let Self { tenant, url, first_at, every, ends_at, catch_up } = self;
        let settings = ReminderSettings {
            reference: None,
            url: url.parse()?,
            content_type: "application/json".into(),
            priority: Priority::Medium,
            schedule: Schedule {
                first_at,
                repeat: every.map_or(Repeat::Once, Repeat::Every),
                ends_at,
                max_runs: None,
            },
            catch_up,
            expires_after: None,
        };
        Ok(NewReminder { tenant, settings, payload: r#"{"order":"12345678"}"#.into() })
    }
}

impl Folder {
    /// Opens the directory, which is created if it does not exist.
    pub(in crate::gateway) fn open(data: &Path) -> Result<Self> {
        std::fs::create_dir_all(data)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let database = Database::open(data, Options::default())?;
        let sealed = runtime.block_on(SqliteRecords::anything_sealed(&database))?;
        let keyring = KeySource::in_folder(data).keyring(sealed)?;
        let opened = SqliteRecords::open(database.clone(), keyring, Defaults::default());
        let records = runtime.block_on(opened)?;
        Ok(Self { runtime, database, records })
    }

    /// Adds a tenant with these reminder rules, with one circuit for all of its callbacks, and with limits that no
    /// test reaches.
    pub(in crate::gateway) fn add_tenant(&self, name: &str, rules: ReminderRules) -> Result<TenantId> {
        let id: TenantId = name.parse()?;
        let mut settings = TenantSettings::new(name);
        settings.backlog = Some(ROOMY);
        settings.reminders = ReminderRules { limit: Some(ROOMY), circuit_by: CircuitBy::Tenant, ..rules };
        let new = NewTenant { id: id.clone(), settings, secret: None };
        self.runtime.block_on(self.records.create_tenant(new))?;
        Ok(id)
    }

    /// Adds reminders, and returns their IDs in the same order.
    pub(in crate::gateway) fn add(
        &self,
        reminders: impl IntoIterator<Item = New>,
    ) -> Result<Vec<ReminderId>> {
        let create = |new: New| async {
            Ok::<_, anyhow::Error>(self.records.create_reminder(new.reminder()?).await?.id)
        };
        let all = stream::iter(reminders).map(create).buffered(AT_ONCE).try_collect();
        self.runtime.block_on(all).context("reminders could not be created")
    }

    /// Reads a reminder.
    pub(super) fn reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError> {
        self.runtime.block_on(self.records.reminder(id))
    }

    /// Closes the directory, so that a gateway can open it.
    pub(in crate::gateway) fn close(self) {
        let Self { runtime, database, records } = self;
        drop(records);
        runtime.block_on(database.close());
    }
}

/// Returns reminder rules with this policy and in-flight limit.
pub(super) fn rules(policy: serde_json::Value, max_in_flight: u32) -> ReminderRules {
    ReminderRules { policy: Some(policy), max_in_flight: Some(max_in_flight), ..ReminderRules::default() }
}
