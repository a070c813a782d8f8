//! A whole gateway in this process: what a start creates, what it refuses, and the rotation of the master key.

use std::path::Path;
use std::time::{Duration, Instant};

use breakerbox_gateway::config::Config;
use breakerbox_gateway::gateway::{Gateway, HandedOver, Show, StartError};
use breakerbox_storage::clock::Clocks;
use breakerbox_storage::secrets::{KeySource, MasterKey};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};

fn config(folder: &Path) -> Config {
    Config { data: folder.join("data"), listen: ([127, 0, 0, 1], 0).into(), ..Config::default() }
}

async fn started(config: &Config) -> Gateway {
    Gateway::start(config).await.unwrap()
}

#[tokio::test]
async fn the_first_start_lets_somebody_in_and_later_ones_do_not_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let first = started(&config).await;
    assert!(first.first_start().is_some());
    let second = Gateway::start(&config).await;
    assert!(matches!(second, Err(StartError::Open(_))), "one process for each folder");
    assert!(first.stop().await);
    let again = started(&config).await;
    assert!(again.first_start().is_none());
    assert!(again.stop().await);
}

/// Tests two first starts that do not hand over their key: printing the key fails, and the key is not shown.
#[tokio::test]
async fn a_first_start_that_was_cut_off_leaves_no_key_that_nobody_has() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let (clocks, (lose, lost)) = (Clocks::system(), std::sync::mpsc::channel());
    let cut_off = Gateway::start_showing(&config, &clocks, move |key| {
        lose.send(key.reveal()).unwrap();
        Err(std::io::ErrorKind::BrokenPipe.into())
    });
    assert!(matches!(cut_off.await, Err(StartError::AdminKey(_))));
    let unseen = Gateway::start_showing(&config, &clocks, |_| Ok(Show::NotSeen)).await.unwrap();
    assert!(unseen.first_start().is_none() && !unseen.has_keys());
    assert!(unseen.stop().await);
    let gateway = started(&config).await;
    let first = gateway.first_start().unwrap();
    assert_eq!(first.handed_over, HandedOver::Shown);
    assert_ne!(first.admin_key.reveal(), lost.recv().unwrap(), "another key");
    assert!(gateway.stop().await);
}

#[tokio::test]
async fn a_key_file_that_a_first_start_left_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let file = folder.path().join("keys").join("admin.key");
    config.secrets.admin_key_file = Some(file.clone());
    let gateway = started(&config).await;
    let first = gateway.first_start().unwrap();
    assert_eq!(first.handed_over, HandedOver::InFile(file.clone()));
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.trim(), first.admin_key.reveal());
    assert!(gateway.stop().await);

    // The file exists, and the database is new: the start was interrupted in between.
    let cut_off = Config { data: folder.path().join("other"), ..config.clone() };
    let gateway = started(&cut_off).await;
    assert_eq!(gateway.first_start().unwrap().admin_key.reveal(), written.trim());
    assert!(gateway.stop().await);

    std::fs::write(&file, "no key at all").unwrap();
    let refused = Gateway::start(&Config { data: folder.path().join("third"), ..config }).await;
    let Err(refused @ StartError::NotAnApiKey { .. }) = refused else { panic!("it holds no key") };
    assert!(refused.to_string().contains("admin.key"), "{refused}");
}

#[tokio::test]
async fn without_its_master_key_it_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    assert!(started(&config).await.stop().await);
    std::fs::remove_file(config.master_key_file()).unwrap();
    let refused = Gateway::start(&config).await;
    assert!(matches!(refused, Err(StartError::Secrets(_))), "what it sealed would be lost");
    assert!(!config.master_key_file().exists(), "and no other key is made in its place");
}

#[tokio::test]
async fn a_new_master_key_takes_the_place_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    assert!(started(&config).await.stop().await);
    let file = config.master_key_file();
    let old = std::fs::read_to_string(&file).unwrap();
    let new = MasterKey::random().reveal();
    std::fs::write(&file, format!("{new}\n{old}")).unwrap();

    let give_up_at = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(started(&config).await.stop().await);
        if opens_with(&config, &new).await {
            break;
        }
        // It was stopped before everything was encrypted again, and continues at the next start.
        assert!(Instant::now() < give_up_at, "nothing was sealed anew");
    }
    std::fs::write(&file, new).unwrap();
    assert!(started(&config).await.stop().await);
}

/// Returns whether all encrypted values can be decrypted with this key alone.
async fn opens_with(config: &Config, key: &str) -> bool {
    let database = Database::open(&config.data, Options::default()).unwrap();
    let keyring = KeySource::Variable(key.to_owned()).keyring(true).unwrap();
    let records = SqliteRecords::open(database.clone(), keyring, Default::default()).await;
    let opens = records.is_ok();
    drop(records);
    database.close().await;
    opens
}
