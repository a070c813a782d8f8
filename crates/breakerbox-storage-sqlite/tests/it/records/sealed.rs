//! Secrets in the database: sealed (encrypted), bound to their rows, and resealed with another key.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_model::delivery::CustomHeaders;
use breakerbox_model::objects::Secret;
use breakerbox_storage::Defaults;
use breakerbox_storage::conformance::records::world::{endpoint_settings, tenant_settings};
use breakerbox_storage::records::{Endpoints, NewEndpoint, NewTenant, Tenants};
use breakerbox_storage::secrets::{KeySource, Keyring, MasterKey, SecretsError};
use breakerbox_storage::stored::LoadError;
use breakerbox_storage_sqlite::{Database, JobError, Options, Resealed, SqliteRecords};
use tempfile::TempDir;

fn database(folder: &TempDir) -> Database {
    let options = Options { reserve: 0, ..Options::default() };
    Database::open(folder.path(), options).unwrap()
}

async fn open(database: &Database, keys: &[&MasterKey]) -> Result<SqliteRecords, LoadError> {
    let keys: Vec<_> = keys.iter().map(|key| (*key).clone()).collect();
    SqliteRecords::open(database.clone(), Keyring::newest_first(&keys).unwrap(), Defaults::default()).await
}

/// Creates a tenant and an endpoint whose secret and header are unlike anything else in the file.
async fn fill(records: &SqliteRecords, name: &str) -> (Secret, String) {
    let secret = Secret::random();
    let new = NewTenant {
        id: name.parse().unwrap(),
        settings: tenant_settings(name),
        secret: Some(secret.clone()),
    };
    records.create_tenant(new).await.unwrap();
    let header = format!("Bearer {}", Secret::random().reveal());
    let mut settings = endpoint_settings("https://a.example/");
    settings.headers = CustomHeaders::new([("authorization", header.as_str())]).unwrap();
    let tenant = name.parse().unwrap();
    let new = NewEndpoint { tenant, settings, secret: Some(secret.clone()), disabled: false };
    records.create_endpoint(new).await.unwrap();
    (secret, header)
}

fn contains(folder: &TempDir, needle: &[u8]) -> bool {
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.is_file()).any(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_holds_a_secret_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let (database, key) = (database(&folder), MasterKey::random());
    let records = open(&database, &[&key]).await.unwrap();
    let (secret, header) = fill(&records, "acme-tenant").await;
    assert!(contains(&folder, b"acme-tenant"), "the log is looked at too");
    let written = secret.reveal();
    for hidden in [
        secret.bytes(),
        written.as_bytes(),
        &written.as_bytes()[6..],
        header.as_bytes(),
        &header.as_bytes()[7..],
    ] {
        assert!(!contains(&folder, hidden));
    }
    drop(records);
    database.close().await;
    assert!(contains(&folder, b"acme-tenant") && !contains(&folder, &written.as_bytes()[6..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_the_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (database, key) = (database(&folder), MasterKey::random());
    assert!(!SqliteRecords::anything_sealed(&database).await.unwrap());
    let (secret, _) = fill(&open(&database, &[&key]).await.unwrap(), "acme").await;
    assert!(SqliteRecords::anything_sealed(&database).await.unwrap());
    let other = MasterKey::random();
    let refused = open(&database, &[&other]).await.map(drop).unwrap_err();
    assert!(matches!(refused, LoadError::Secrets(SecretsError::KeyMissing { .. })), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&key.id().to_string()) && text.contains("acme"), "{text}");
    let opened = open(&database, &[&other, &key]).await.unwrap();
    let tenant = opened.tenant(&"acme".parse().unwrap()).await.unwrap();
    assert_eq!(tenant.secrets.iter().next().unwrap().secret, secret);
    let gone =
        KeySource::in_folder(folder.path()).keyring(SqliteRecords::anything_sealed(&database).await.unwrap());
    assert!(matches!(gone, Err(SecretsError::FileMissing { .. })), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_was_moved_to_another_row_does_not_open() {
    let swaps = [
        "UPDATE tenants SET sealed = (SELECT sealed FROM tenants WHERE id = 'other') WHERE id = 'acme'",
        "UPDATE endpoints SET sealed = (SELECT sealed FROM endpoints ORDER BY id DESC LIMIT 1)",
        "UPDATE endpoints SET sealed = (SELECT sealed FROM tenants WHERE id = 'acme')",
        "UPDATE tenants SET id = 'third' WHERE id = 'acme'",
        "UPDATE tenants SET sealed = substr(sealed, 1, 40)",
        "UPDATE tenants SET sealed = x''",
    ];
    for swap in swaps {
        let folder = tempfile::tempdir().unwrap();
        let (database, key) = (database(&folder), MasterKey::random());
        let records = open(&database, &[&key]).await.unwrap();
        fill(&records, "acme").await;
        fill(&records, "other").await;
        database
            .write(move |transaction| {
                transaction.connection().execute(swap, [])?;
                Ok::<_, JobError<breakerbox_storage::QueueError>>(())
            })
            .await
            .unwrap();
        let refused = open(&database, &[&key]).await.map(drop);
        assert!(
            matches!(refused, Err(LoadError::Secrets(SecretsError::Damaged { .. }))),
            "{swap}: {refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_sealed_anew_and_the_old_key_can_go() {
    let folder = tempfile::tempdir().unwrap();
    let (database, old, new) = (database(&folder), MasterKey::random(), MasterKey::random());
    let records = open(&database, &[&old]).await.unwrap();
    let mut filled = Vec::new();
    for number in 0..130 {
        let name = format!("t{number}");
        filled.push((name.clone(), fill(&records, &name).await.0));
    }
    let records = open(&database, &[&new, &old]).await.unwrap();
    let acme = filled[0].0.parse().unwrap();
    // A row that changes before it is resealed is already sealed with the newest key.
    records.rotate_tenant_secret(&acme, filled[0].1.clone(), Duration::ZERO).await.unwrap();
    assert!(open(&database, &[&new]).await.is_err());
    assert_eq!(records.reseal().await.unwrap(), Resealed { looked_at: 260, resealed: 259 });
    assert_eq!(records.reseal().await.unwrap(), Resealed { looked_at: 260, resealed: 0 });
    let records = Arc::new(open(&database, &[&new]).await.unwrap());
    for (name, secret) in filled {
        let tenant = records.tenant(&name.parse().unwrap()).await.unwrap();
        assert_eq!(tenant.secrets.iter().next().unwrap().secret, secret);
    }
    assert!(open(&database, &[&old]).await.is_err());
}
