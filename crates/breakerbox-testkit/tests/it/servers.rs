//! Private servers start when they are needed, and are gone afterwards.

use std::net::{Ipv4Addr, TcpStream};
use std::panic;
use std::process::Command;

use breakerbox_testkit::servers::{
    PostgresOptions, PostgresServer, Process, RedisCluster, RedisOptions, RedisServer, Restart,
};

fn is_there(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[test]
fn a_server_is_gone_when_it_is_dropped_even_by_a_panic() {
    let server = RedisServer::start().unwrap();
    let port = server.port();
    assert!(is_there(port));
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(move || {
        let mut server = server;
        server.pause().unwrap();
        panic!("a test that fails");
    }));
    assert!(panicked.is_err() && !is_there(port));
}

#[test]
fn a_restart_finds_what_was_written_to_disk_or_nothing() {
    let mut kept = RedisOptions::new().append_only().password("secret").start().unwrap();
    let mut lost = RedisServer::start().unwrap();
    assert_ne!(kept.port(), lost.port());
    let there = |server: &RedisServer| server.query::<bool>(&["EXISTS", "key"]).unwrap();
    for server in [&kept, &lost] {
        server.query::<()>(&["SET", "key", "value"]).unwrap();
        assert!(there(server));
    }
    kept.restart(Restart::WithData).unwrap();
    lost.restart(Restart::WithData).unwrap();
    assert!(there(&kept) && !there(&lost));
    kept.restart(Restart::Empty).unwrap();
    assert!(!there(&kept));
}

#[test]
fn a_replica_has_what_its_master_has_and_can_be_promoted() {
    let (master, replica) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    master.query::<()>(&["SET", "key", "value"]).unwrap();
    replica.replica_of(&master).unwrap();
    assert_eq!(replica.query::<String>(&["GET", "key"]).unwrap(), "value");
    assert!(replica.query::<()>(&["SET", "key", "other"]).is_err());
    replica.promote().unwrap();
    replica.query::<()>(&["SET", "key", "other"]).unwrap();
}

#[test]
fn a_redis_that_refuses_writes_answers_reads() {
    let server = RedisServer::start().unwrap();
    server.query::<()>(&["SET", "key", "value"]).unwrap();
    server.refuse_writes().unwrap();
    let error = server.query::<()>(&["SET", "key", "other"]).unwrap_err().to_string();
    assert!(error.contains("OOM"), "{error}");
    assert_eq!(server.query::<String>(&["GET", "key"]).unwrap(), "value");
    server.allow_writes().unwrap();
    server.query::<()>(&["SET", "key", "other"]).unwrap();
}

#[test]
fn a_postgres_that_refuses_writes_answers_reads() {
    let server = PostgresServer::start().unwrap();
    server.query("CREATE SCHEMA s").unwrap();
    server.query("CREATE TABLE s.t (n int)").unwrap();
    server.refuse_writes().unwrap();
    let error = server.query("INSERT INTO s.t VALUES (1)").unwrap_err().to_string();
    assert!(error.contains("read-only transaction"), "{error}");
    assert_eq!(server.query("SELECT count(*) FROM s.t").unwrap(), "0");
    server.allow_writes().unwrap();
    server.query("INSERT INTO s.t VALUES (1)").unwrap();

    let url = server.add_user("fleet").unwrap();
    assert!(url.starts_with("postgres://fleet@"), "{url}");
    server.query("GRANT ALL ON SCHEMA s TO fleet").unwrap();
    server.grant_writes("s", "fleet").unwrap();
    let insert = "SET ROLE fleet; INSERT INTO s.t VALUES (2)";
    server.query(insert).unwrap();
    server.revoke_writes("s", "fleet").unwrap();
    let error = server.query(insert).unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
}

#[test]
fn a_program_that_is_missing_or_refuses_says_so() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let error = Process::start(&mut Command::new("no-such-server"), "a-package", log.path()).unwrap_err();
    assert!(error.to_string().contains("apt-get install a-package"), "{error}");
    let error = RedisOptions::new().set("no-such-setting", "1").start().unwrap_err().to_string();
    assert!(error.contains("no-such-setting"), "{error}");
}

#[test]
fn a_cluster_has_all_slots_and_moves_them() {
    let cluster = RedisCluster::start().unwrap();
    let slot: u16 = cluster.nodes()[0].query(&["CLUSTER", "KEYSLOT", "{0}"]).unwrap();
    let owner = cluster.nodes().iter().position(|node| node.query::<()>(&["SET", "{0}", "value"]).is_ok());
    assert_eq!(owner, Some(usize::from(slot) * 3 / 16_384));
    let (from, to) = (owner.unwrap(), (owner.unwrap() + 1) % 3);
    cluster.begin_move(slot, from, to).unwrap();
    cluster.move_keys(slot, from, to).unwrap();
    cluster.end_move(slot, to).unwrap();
    assert_eq!(cluster.nodes()[to].query::<String>(&["GET", "{0}"]).unwrap(), "value");
}

#[test]
fn a_postgres_server_is_gone_when_it_is_dropped_even_by_a_panic() {
    let server = PostgresServer::start().unwrap();
    let port = server.port();
    assert_eq!(server.query("SELECT 1").unwrap(), "1");
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(move || {
        let mut server = server;
        server.pause().unwrap();
        panic!("a test that fails");
    }));
    assert!(panicked.is_err() && !is_there(port));
}

#[test]
fn a_postgres_server_that_was_killed_or_restarted_has_what_it_wrote() {
    let mut server = PostgresOptions::new().durable().start().unwrap();
    server.query("CREATE TABLE kept (n int)").unwrap();
    server.query("CREATE UNLOGGED TABLE lost (n int)").unwrap();
    let both = "SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM lost)";
    server.query("INSERT INTO kept VALUES (1); INSERT INTO lost VALUES (1)").unwrap();
    server.restart().unwrap();
    assert_eq!(server.query(both).unwrap(), "1|1");
    server.kill().unwrap();
    assert!(server.query("SELECT 1").is_err());
    server.restart().unwrap();
    assert_eq!(server.query(both).unwrap(), "1|0", "a crash empties unlogged tables");
}

#[test]
fn a_postgres_server_with_a_password_or_a_bad_setting() {
    let server = PostgresOptions::new().password("secret").start().unwrap();
    assert!(server.url().contains(":secret@"));
    assert_eq!(
        server.query("SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256'").unwrap(),
        "1"
    );
    let error = PostgresOptions::new().set("no_such_setting", "1").start().unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}
