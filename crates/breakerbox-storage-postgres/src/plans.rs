//! The plans of the statements on the hot path: they read what they lease or settle, and not what is parked, leased or finished.

use std::fmt::Write as _;

use breakerbox_testkit::servers::PostgresServer;
use serde_json::Value as Json;

use super::{Database, Options, Transaction, Value};

/// The number of rows of each kind that a statement must not read.
const OTHERS: i64 = 20_000;

/// Adds up the rows that all scans of a table read, those that were filtered out included.
fn rows_read(plan: &Json, table: &str) -> f64 {
    let mut rows = 0.0;
    if plan["Relation Name"] == table {
        let number = |name: &str| plan[name].as_f64().unwrap_or(0.0);
        let each = number("Actual Rows")
            + number("Rows Removed by Filter")
            + number("Rows Removed by Index Recheck")
            + number("Rows Removed by Join Filter");
        rows += each * number("Actual Loops");
    }
    let children = plan["Plans"].as_array().into_iter().flatten();
    rows + children.map(|child| rows_read(child, table)).sum::<f64>()
}

async fn read_by(transaction: &Transaction, sql: &str, parameters: &[&dyn Value]) -> f64 {
    let mut explain = String::new();
    write!(explain, "EXPLAIN (ANALYZE, FORMAT JSON) {sql}").unwrap();
    let rows = transaction.query(&explain, parameters).await.unwrap();
    let plan: Json = rows[0].get(0);
    rows_read(&plan[0]["Plan"], "deliveries")
}

/// Writes rows of one lane that is parked (due, and not claimed), of the lane 7 that are due later, that are leased and
/// that are due, and finished rows.
async fn fill(transaction: &Transaction) {
    for (first, lane, state, due_at, count) in [
        (1_000_000, 5_i64, 0_i16, 0_i64, OTHERS),
        (2_000_000, 7, 0, 900, OTHERS),
        (3_000_000, 7, 1, 0, OTHERS),
        (4_000_000, 7, 0, 10, 100),
    ] {
        let sql = "INSERT INTO deliveries (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe,
                pulled, size, lease, lease_until)
            SELECT n, n, 1, $2, $3, 2, 0, 0, $4, 0, false, 1, n, 500 FROM generate_series($1, $1 + $5 - 1) AS n";
        transaction.execute(sql, &[&i64::from(first), &lane, &state, &due_at, &count]).await.unwrap();
    }
}

/// Returns the parameters that settle two leased deliveries: one is delivered, the other waits again.
fn settlements() -> Vec<&'static dyn Value> {
    fn kept<T: Value + Send + 'static>(value: T) -> &'static dyn Value {
        Box::leak(Box::new(value))
    }
    let leased = vec![3_000_000_i64, 3_010_000];
    vec![
        kept(Some(100_i64)),
        kept(0_i16),
        kept(leased.clone()),
        kept(leased),
        kept(vec![2_i16, 0]),
        kept(vec![None::<i16>; 2]),
        kept(vec![None, Some(200_i64)]),
        kept(vec![1_i32, 1]),
        kept(vec![1_i32, 1]),
        kept(vec![None::<i64>; 2]),
        kept(vec![true, false]),
        kept(vec![Some(90_i64); 2]),
        kept(vec![5_i64; 2]),
        kept(vec![Some(200_i32); 2]),
        kept(vec![None::<String>; 2]),
        kept(vec![None::<String>; 2]),
        kept(vec![false; 2]),
        kept(vec![None::<Vec<u8>>; 2]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_leased_or_finished_is_not_read() {
    let server = PostgresServer::start().unwrap();
    let database = Database::open(&server.url(), Options::default()).await.unwrap();
    let transaction = database.begin().await.unwrap();
    fill(&transaction).await;
    transaction.commit().await.unwrap();
    for analyzed in [false, true] {
        if analyzed {
            server.query("ANALYZE breakerbox_gateway.deliveries").unwrap();
        }
        let transaction = database.begin().await.unwrap();
        let claim = include_str!("sql/claim_due.sql");
        let (now, lanes, levels, limits, leases) =
            (Some(100_i64), vec![7_i64, 8], vec![2_i16, 2], vec![10_i32, 10], vec![1_000_i64, 1_000]);
        let parameters: [&dyn Value; 6] = [&now, &lanes, &levels, &limits, &leases, &1_i64];
        let read = read_by(&transaction, claim, &parameters).await;
        assert!(read <= 60.0, "a claim of 10 reads {read} rows");
        let parameters: [&dyn Value; 5] = [&now, &7_i64, &1_i64, &1_000_i64, &1_i64];
        let read = read_by(&transaction, include_str!("sql/claim_probe.sql"), &parameters).await;
        assert!(read <= 20.0, "a probe reads {read} rows");
        let read = read_by(&transaction, include_str!("sql/next_due.sql"), &[&lanes]).await;
        assert!(read <= 8.0, "due times of two lanes: {read} rows");
        let read = read_by(&transaction, include_str!("sql/waiting_lanes.sql"), &[&-1_i64, &10_i64]).await;
        assert!(read <= 20.0, "two lanes: {read} rows");
        let read = read_by(&transaction, include_str!("sql/probe_supply.sql"), &[&now, &7_i64]).await;
        assert!(read <= 12.0, "probe supply: {read} rows");
        let read = read_by(&transaction, include_str!("sql/pick_overdue.sql"), &[&now, &10_i64]).await;
        assert!(read <= 1.0, "no lease has ended: {read} rows");
        let read = read_by(&transaction, include_str!("sql/pick_expired.sql"), &[&now, &10_i64]).await;
        assert!(read <= 1.0, "nothing has expired: {read} rows");
        let (waiting, failed) = (vec![4_000_050_i64, 4_000_051], 3_i16);
        let parameters: [&dyn Value; 6] = [&waiting, &failed, &Some(3_i16), &now, &0_i16, &now];
        let read = read_by(&transaction, include_str!("sql/stop_if_waiting.sql"), &parameters).await;
        assert!(read <= 12.0, "ending two reads {read} rows");
        let read = read_by(&transaction, include_str!("sql/settle_if_leased.sql"), &settlements()).await;
        assert!(read <= 12.0, "settling two reads {read} rows");
        transaction.rollback().await.unwrap();
    }
}
