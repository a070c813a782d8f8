//! Backups of a running gateway under load, and restores after a kill, with the commands and real processes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use breakerbox_storage_sqlite::{Database, Options};
use breakerbox_testkit::gateway::{Api, Gateway};
use breakerbox_testkit::receiver::Receiver;
use http::Method;
use serde_json::{Value, json};

use crate::program::{Program, ProgramOutput};

/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(60);

fn run(arguments: &[&str], data: &Path) -> ProgramOutput {
    Program::new(arguments).args(&["--data", data.to_str().unwrap()]).run()
}

#[track_caller]
fn done(ended: &ProgramOutput) -> Value {
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[track_caller]
fn refused(ended: &ProgramOutput, code: i32, why: &str) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
}

/// A load generator that submits events until it is dropped.
struct Load {
    accepted: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(api: &Api) -> Self {
        let (accepted, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let threads = (0..4).map(|_| {
            let (api, accepted, stop) = (api.clone(), Arc::clone(&accepted), Arc::clone(&stop));
            thread::spawn(move || submit(&api, &accepted, &stop))
        });
        let threads = threads.collect();
        Self { accepted, stop, threads }
    }

    /// Waits until `count` more events are accepted. Returns the IDs of all events accepted so far.
    fn until_more(&self, count: usize) -> Vec<String> {
        let (give_up_at, before) = (Instant::now() + LONG, self.accepted.lock().unwrap().len());
        loop {
            let accepted = self.accepted.lock().unwrap().clone();
            if accepted.len() >= before + count {
                return accepted;
            }
            assert!(Instant::now() < give_up_at, "{} events are accepted", accepted.len());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn submit(api: &Api, accepted: &Mutex<Vec<String>>, stop: &AtomicBool) {
    let event = json!({ "type": "a.b", "payload": { "text": "x".repeat(4_000) } });
    while !stop.load(Ordering::Relaxed) {
        // A killed gateway does not respond any more.
        let Ok((202, body)) = api.request(&Method::POST, "/v1/events", Some(&event)) else { return };
        accepted.lock().unwrap().push(body["id"].as_str().unwrap().to_owned());
    }
}

#[test]
fn a_backup_under_load_has_all_that_was_accepted_and_is_restored_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.db");
    let name = file.to_str().unwrap();
    let receiver = Receiver::builder().start().unwrap();
    let mut gateway = Gateway::start(Path::new(env!("CARGO_BIN_EXE_breakerbox"))).unwrap();
    let data = gateway.data().to_owned();
    gateway.api().create_endpoint("default", &receiver.url("/in"), &[], &json!({})).unwrap();
    let load = Load::start(gateway.api());
    load.until_more(50);
    let mut before = Vec::new();
    for round in 0..3 {
        before = load.until_more(20);
        let arguments: &[&str] =
            if round == 0 { &["backup", name, "--json"] } else { &["backup", name, "--overwrite", "--json"] };
        let made = done(&run(arguments, &data));
        assert_eq!(
            (&made["file"], &made["tenants"], &made["endpoints"]),
            (&json!(name), &json!(1), &json!(1))
        );
        assert_eq!(made["master_key"], data.join("keys/master.key").to_str().unwrap());
    }
    refused(&run(&["backup", name], &data), 2, "use --overwrite");
    refused(&run(&["restore", name, "--overwrite"], &data), 1, "in use");
    let after = load.until_more(20).pop().unwrap();
    gateway.kill().unwrap();
    load.stop();
    assert!(data.join("breakerbox.db-wal").exists(), "a killed gateway leaves its log");

    refused(&run(&["restore", name], &data), 2, "use --overwrite");
    let restored = run(&["restore", name, "--overwrite"], &data);
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(!data.join("breakerbox.db-wal").exists() && !data.join("breakerbox.db-shm").exists());
    gateway.start_again().unwrap();
    for event in &before {
        let (status, _) = gateway.api().request(&Method::GET, &format!("/v1/events/{event}"), None).unwrap();
        assert_eq!(status, 200, "{event} was accepted before the backup began");
    }
    let (status, _) = gateway.api().request(&Method::GET, &format!("/v1/events/{after}"), None).unwrap();
    assert_eq!(status, 404, "the last one came after it");
    gateway.api().post("/v1/events", &json!({ "type": "a.b", "payload": 1 })).expect("it goes on");
    gateway.kill().unwrap();

    // Into an empty directory, and over the files that a killed gateway left.
    let copy = folder.path().join("copy.db");
    done(&run(&["backup", copy.to_str().unwrap(), "--json"], &data));
    let fresh = folder.path().join("fresh");
    let restored = run(&["restore", copy.to_str().unwrap()], &fresh);
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(restored.stderr.contains("The master key is missing"), "{}", restored.stderr);
    let file = rusqlite::Connection::open(fresh.join("breakerbox.db")).unwrap();
    let whole: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

/// Creates a data directory with a database, and a backup of it.
fn backed_up(folder: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (data, file) = (folder.join("data"), folder.join("backup.db"));
    std::fs::create_dir(&data).unwrap();
    drop(Database::open(&data, Options::default()).unwrap());
    let made = run(&["backup", file.to_str().unwrap()], &data);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.stderr.contains("keys/master.key"), "it says what else to keep: {}", made.stderr);
    (data, file)
}

#[test]
fn a_backup_is_its_owners_alone_and_leaves_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(folder.path());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let names = |folder: &Path| {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(folder.path()), ["backup.db", "data"]);
    let quiet = run(&["backup", file.to_str().unwrap(), "--overwrite", "--quiet"], &data);
    assert_eq!((quiet.stdout.trim(), quiet.stderr.as_str()), (file.to_str().unwrap(), ""));
}

#[test]
fn what_can_not_be_copied_or_put_back_is_refused_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(folder.path());
    let database = data.join("breakerbox.db");
    let (name, before) = (file.to_str().unwrap().to_owned(), std::fs::read(&database).unwrap());
    let target = folder.path().join("other.db");
    let target = target.to_str().unwrap();

    refused(&run(&["backup", target], &folder.path().join("nowhere")), 2, "the file does not exist");
    refused(&run(&["backup", database.to_str().unwrap(), "--overwrite"], &data), 2, "the database itself");
    refused(&run(&["backup", data.to_str().unwrap(), "--overwrite"], &data), 2, "already exists");
    refused(&run(&["backup", "/nowhere/at/all.db"], &data), 1, "/nowhere/at/all.db");
    refused(&run(&["restore", target], &data), 2, "the file does not exist");
    refused(&run(&["restore", database.to_str().unwrap(), "--overwrite"], &data), 2, "the database itself");

    let whole = std::fs::read(&file).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(target, bytes).unwrap();
        let ended = run(&["restore", target, "--overwrite"], &data);
        assert_eq!(ended.code, 1, "{ended:?}");
        ended.stderr
    };
    let page = 4_096;
    assert!(damaged(&|bytes| bytes[2 * page..3 * page].fill(0xa5)).contains("damaged"));
    let cut = damaged(&|bytes| bytes.truncate(bytes.len() - 3 * page));
    assert!(cut.contains("damaged") || cut.contains("malformed"), "{cut}");
    damaged(&|bytes| *bytes = b"this is no database at all, whatever its name".to_vec());
    assert!(damaged(&|bytes| bytes[60..64].fill(0x7f)).contains("schema"), "a newer version wrote it");
    assert!(damaged(&|bytes| bytes[68..72].fill(0)).contains("another program"));
    std::fs::write(target, "").unwrap();
    refused(&run(&["restore", target, "--overwrite"], &data), 1, "another program");

    let _running = Database::open(&data, Options::default()).unwrap();
    refused(&run(&["restore", &name, "--overwrite"], &data), 1, "in use");
    drop(_running);
    let after = std::fs::read(&database).unwrap();
    assert_eq!(before.len(), after.len());
    drop(Database::open(&data, Options::default()).expect("it is as it was"));
}
