//! Commands that work on a data directory: keys without the API, and the schema.

use std::path::Path;

use breakerbox_model::objects::ApiKeyText;
use breakerbox_storage_sqlite::{Database, NEWEST, Options};
use serde_json::Value;

use crate::program::{Program, ProgramOutput};

fn on(data: &Path, arguments: &[&str]) -> ProgramOutput {
    Program::new(arguments).args(&["--data", data.to_str().unwrap()]).run()
}

fn json(ended: &ProgramOutput) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn keys_are_made_listed_and_revoked_without_a_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let ended = on(data, &["keys", "list"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("contains no database"), "{}", ended.stderr);
    assert_eq!(on(data, &["migrate", "run"]).code, 0);
    let ended = on(data, &["keys", "create", "--name", "root", "--scope", "admin", "--quiet"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let key: ApiKeyText = ended.stdout.trim().parse().unwrap();
    let created = json(&on(data, &["keys", "create", "--name", "ci", "--scope", "read,send", "--json"]));
    let id = created["id"].as_str().unwrap();

    let listed = json(&on(data, &["keys", "list", "--json"]));
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ci", "root"]);
    assert!(!listed.to_string().contains(&key.reveal()), "a key is shown once");
    assert_eq!(listed[0]["scopes"], serde_json::json!(["read", "send"]));
    assert_eq!(on(data, &["keys", "list", "--limit", "1"]).stdout.lines().count(), 2);

    assert!(json(&on(data, &["keys", "revoke", id, "--json"]))["revoked_at"].is_string());
    assert!(json(&on(data, &["keys", "list", "--json"]))[0]["revoked_at"].is_string());
    let ended = on(data, &["keys", "revoke", "key_0000000000000"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let ended = on(data, &["keys", "create", "--name", "x", "--scope", "read", "--tenant", "nobody"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("nobody"), "{}", ended.stderr);
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _running = Database::open(folder.path(), Options::default()).unwrap();
    let ended = on(folder.path(), &["keys", "create", "--name", "x", "--scope", "admin"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("omit --data and pass an admin key"), "{}", ended.stderr);
    assert_eq!(on(folder.path(), &["migrate", "run"]).code, 1);
}

#[test]
fn a_schema_is_shown_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let status = |expected: [u32; 2]| {
        let shown = json(&on(folder.path(), &["migrate", "status", "--json"]));
        assert_eq!([&shown["current"], &shown["pending"]], expected);
    };
    status([0, NEWEST]);
    let applied = json(&on(folder.path(), &["migrate", "run", "--json"]));
    assert_eq!((&applied["applied"], &applied["current"]), (&NEWEST.into(), &NEWEST.into()));
    status([NEWEST, 0]);
    assert_eq!(json(&on(folder.path(), &["migrate", "run", "--json"]))["applied"], 0);

    let ended = on(&folder.path().join("not-there"), &["migrate", "status"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    std::fs::write(folder.path().join("breakerbox.db"), "this is no database at all, whatever its name")
        .unwrap();
    let ended = on(folder.path(), &["migrate", "status"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
}
