//! Rows that an earlier version stored, or that conflict with a new configuration: deliveries continue.

use std::time::Duration;

use breakerbox_model::objects::TenantId;
use breakerbox_storage::Defaults;
use breakerbox_storage::conformance::records::world::tenant_settings;
use breakerbox_storage::records::{NewTenant, Tenants};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};
use serde_json::json;

/// Before there were reminders, a tenant's policy was not checked in combination with the policy for reminders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_from_before_reminders_still_governs_deliveries() {
    let folder = tempfile::tempdir().unwrap();
    let key = MasterKey::random();
    let id: TenantId = "acme".parse().unwrap();
    let open = async || {
        let options = Options { reserve: 0, ..Options::default() };
        let database = Database::open(folder.path(), options).unwrap();
        let records =
            SqliteRecords::open(database.clone(), Keyring::new(&key), Defaults::default()).await.unwrap();
        (database, records)
    };
    let (database, records) = open().await;
    let mut settings = tenant_settings("acme");
    settings.policy = Some(json!({ "cool_off": "2s", "cool_off_max": "1m" }));
    records.create_tenant(NewTenant { id: id.clone(), settings, secret: None }).await.unwrap();
    let path = database.path().to_owned();
    database.close().await;
    drop(records);
    let file = rusqlite::Connection::open(path).unwrap();
    let older = "UPDATE tenants SET settings = replace(settings, '\"cool_off\":\"2s\",', '')";
    assert_eq!(file.execute(older, []).unwrap(), 1);
    drop(file);

    let (database, records) = open().await;
    let tenant = records.directory().tenant(&id).unwrap();
    assert_eq!(tenant.policy.cool_off_max(), Duration::from_secs(60), "the tenant's own");
    assert_eq!(tenant.policy.cool_off(), Duration::from_secs(1), "the default");
    assert_eq!(tenant.reminders.policy.cool_off(), Duration::from_secs(300), "their preset");
    database.close().await;
}
