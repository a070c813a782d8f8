//! Tests that every hot-path query seeks directly, regardless of how much is parked, due later or finished. They use
//! SQLite's query plans and step counts, because times depend on the machine.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus, params_from_iter};

use super::claim::{DUE, PROBE_DUE, PROBE_LATER, WHOLE};
use super::lanes::{ANY_DUE, ANY_PULLABLE, NEXT_DUE, NEXT_LANE, NEXT_LATER};
use super::maintenance::{EXPIRED, IN_LANE};
use super::migrations::migrate;
use super::reminders::due;

const NOW: i64 = 1_000_000_000;
const LANE: i64 = 50;
const OUTAGE: i64 = 7;

fn database() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, Path::new("memory")).unwrap();
    connection
}

/// Inserts `count` deliveries with ids starting at `first`, in this lane and state, due at this time.
fn fill(connection: &Connection, first: i64, count: i64, lane: i64, state: i64, due_at: i64) {
    let sql = "WITH RECURSIVE n (i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1)
        INSERT INTO deliveries
            (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, expires_at)
        SELECT i, i, 1, ?3, ?4, i % 4, 1, 0, ?5 + i, 0, ?5 + i + 1000000000000 FROM n";
    connection.execute(sql, [first, count, lane, state, due_at]).unwrap();
}

/// Inserts deliveries that are due.
fn fill_due(connection: &Connection) {
    fill(connection, 900_000_000, 40, LANE, 0, 0);
}

/// Inserts `count` reminders with ids starting at `first`, to be checked at this time.
fn fill_reminders(connection: &Connection, first: i64, count: i64, next_check_at: Option<i64>) {
    let sql = "WITH RECURSIVE n (i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1)
        INSERT INTO reminders (id, tenant, settings, size, state, asked, turn, runs, numbered, skipped, look_at, revision,
            created_at, changed_at)
        SELECT i, 1, '{}', 0, 0, 0, 0, 0, 0, 0, ?3 + i, 1, 0, 0 FROM n";
    connection.execute(sql, rusqlite::params![first, count, next_check_at]).unwrap();
}

fn questions() -> Vec<(&'static str, Vec<i64>)> {
    let mut questions = vec![
        (NEXT_DUE, vec![LANE]),
        (NEXT_LANE, vec![LANE - 1]),
        (EXPIRED, vec![NOW, 10]),
        (IN_LANE, vec![LANE, 3]),
        (WHOLE, vec![900_000_000]),
        (PROBE_LATER, vec![LANE, NOW, OUTAGE]),
        (ANY_PULLABLE, vec![LANE, NOW]),
        (due::NEXT, vec![]),
        (due::UNTIL, vec![NOW, 3]),
    ];
    for priority in 0..4 {
        questions.push((DUE, vec![LANE, priority, NOW, 3]));
        questions.push((PROBE_DUE, vec![LANE, priority, NOW, OUTAGE]));
        questions.push((ANY_DUE, vec![LANE, priority, NOW]));
        questions.push((NEXT_LATER, vec![LANE, priority, NOW]));
    }
    questions
}

/// Returns the number of SQLite virtual-machine steps that each query takes.
fn decisions(connection: &Connection) -> Vec<i32> {
    let count = |(sql, values): (&str, Vec<i64>)| {
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement.query(params_from_iter(values.into_iter().map(Value::from))).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        statement.get_status(StatementStatus::VmStep)
    };
    questions().into_iter().map(count).collect()
}

#[test]
fn every_question_goes_straight_to_its_place() {
    let connection = database();
    for (sql, values) in questions() {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> = statement
            .query_map(params_from_iter(values.into_iter().map(Value::from)), |row| row.get("detail"))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let is_straight = |detail: &String| {
            let scans = ["SCAN deliveries", "SCAN r", "SCAN t"].iter().any(|scan| detail.starts_with(scan));
            !scans && !detail.contains("TEMP B-TREE")
        };
        assert!(plan.iter().all(is_straight), "{sql}\n{plan:?}");
        assert!(plan.iter().any(|detail| detail.starts_with("SEARCH")), "{sql}\n{plan:?}");
    }
}

#[test]
fn a_claim_and_a_look_take_as_many_steps_among_a_hundred_thousand_as_among_none() {
    const MANY: i64 = 100_000;
    let connection = database();
    fill_due(&connection);
    // One row of each kind, so that the baseline is not an empty table.
    fill(&connection, 800_000_000, 8, LANE, 0, 2 * NOW);
    fill(&connection, 800_000_100, 8, LANE + 1, 0, 0);
    let tenant = "INSERT INTO tenants VALUES (1, 'acme', '{}', x'', 1, 0, 0, NULL)";
    connection.execute(tenant, []).unwrap();
    fill_reminders(&connection, 700_000_000, 8, Some(-NOW)); // due
    fill_reminders(&connection, 700_000_100, 8, Some(NOW)); // not yet
    let alone = decisions(&connection);
    fill_reminders(&connection, 1, MANY, Some(3 * NOW)); // in the far future
    fill_reminders(&connection, 1_000_000, MANY, None); // never
    fill(&connection, 1, MANY, LANE, 0, 3 * NOW); // due later
    fill(&connection, 1_000_000, MANY, LANE - 1, 0, 0); // parked in another lane
    fill(&connection, 2_000_000, MANY, LANE, 2, 0); // delivered
    fill(&connection, 3_000_000, MANY, LANE, 0, 3 * NOW); // brought forward already
    connection.execute("UPDATE deliveries SET pulled = 1 WHERE id BETWEEN 3000000 AND 3999999", []).unwrap();
    let among_many = decisions(&connection);
    assert_eq!(alone, among_many);
}

#[test]
fn indexes_hold_what_is_unfinished_and_nothing_else() {
    let connection = database();
    fill(&connection, 1, 1_000, LANE, 2, 0);
    let pages = |index: &str| {
        let sql = "SELECT sum(ncell) FROM dbstat WHERE name = ?1";
        connection.query_row(sql, [index], |row| row.get::<_, i64>(0)).unwrap()
    };
    for index in ["waiting", "pullable", "leased", "expiring", "dead_letters", "all_dead_letters"] {
        assert_eq!(pages(index), 0, "{index}: what is delivered is in none of them");
    }
}
