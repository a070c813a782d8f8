//! Listings go along an index and sort nothing, so the cost of a page does not depend on the size of a table.

use breakerbox_storage_postgres::{Database, Value};

use super::world::World;

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../../src/sql/records/", $name, ".sql"))
    };
}

async fn plan(database: &Database, sql: &str, values: &[&dyn Value]) -> String {
    let rows = database.read(&format!("EXPLAIN {sql}"), values).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Fills the tables that listings read, so that the server chooses as it would with real data.
async fn fill(database: &Database) {
    let transaction = database.begin().await.unwrap();
    for sql in [
        "INSERT INTO tenants (id, settings, sealed, revision, created_at, changed_at)
         SELECT 't' || n, '{}', '', 1, 0, 0 FROM generate_series(1, 50) n",
        "INSERT INTO finished (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, size,
             finished_at)
         SELECT n * 1000, n, n % 50 + 1, n % 500, 2 + n % 3, 2, 1, 1, 0, 0, false, 10, n FROM generate_series(1, 20000) n",
        "INSERT INTO deliveries (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, pulled, size)
         SELECT n * 1000 + 1, n, n % 50 + 1, n % 500 + 1, n % 2, n % 4, 0, 0, n, 0, false, 10 FROM generate_series(1, 20000) n",
        "INSERT INTO backlogs (tenant, lane, slot, count, bytes)
         SELECT n % 50 + 1, n, 0, 1, 1 FROM generate_series(1, 20000) n",
        "INSERT INTO circuit_changes (key, epoch, at, change, owner)
         SELECT 'k' || n % 100, n, n, '{}', n % 50 + 1 FROM generate_series(1, 20000) n",
        "INSERT INTO reminders (id, tenant, reference, settings, size, state, asked, turn, runs, numbered, skipped, revision,
             created_at, changed_at)
         SELECT n, n % 50 + 1, 'r' || n, '{}', 1, 0, 0, 1, 0, 0, 0, 1, 0, 0 FROM generate_series(1, 20000) n",
        "INSERT INTO notifications (id, kind, subject, epoch, tenant, at, news)
         SELECT n, 'trip', 's' || n, 1, n % 50 + 1, n, '{}' FROM generate_series(1, 20000) n",
        "INSERT INTO jobs (id, tenant, kind, wanted, done, skipped, created_at)
         SELECT n, n % 50 + 1, 'resend', '{}', 0, 0, 0 FROM generate_series(1, 20000) n",
        "ANALYZE tenants, finished, deliveries, backlogs, circuit_changes, reminders, notifications, jobs",
    ] {
        transaction.execute(sql, &[]).await.unwrap();
    }
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_goes_along_an_index_and_sorts_nothing() {
    let world = World::on_postgres().await;
    let database = world.database();
    fill(&database).await;
    let (low, high, none, one, looks, size) = (0_i64, i64::MAX, None::<i64>, Some(1_i64), 20_000_i64, 51_i64);
    let no_text = None::<String>;
    let mut plans = Vec::new();
    for (source, condition, tenant, state) in [
        ("all_deliveries", "true", &none, None),
        ("all_deliveries", "true", &one, Some("delivered")),
        ("finished", "state = 3", &none, Some("failed")),
        ("finished", "state = 3 AND tenant = $3", &one, Some("failed")),
    ] {
        for direction in ["ASC", "DESC"] {
            let sql = sql!("find_deliveries")
                .replace("{source}", source)
                .replace("{condition}", condition)
                .replace("{direction}", direction);
            let values: [&dyn Value; 8] = [&low, &high, tenant, &none, &no_text, &state, &looks, &size];
            plans.push((sql.clone(), plan(&database, &sql, &values).await));
        }
    }
    for (sql, values) in [
        (sql!("list_lanes"), vec![&high as &dyn Value, &none, &looks, &size]),
        (sql!("list_lanes"), vec![&high, &one, &looks, &size]),
        (sql!("changes_by_time"), vec![&low, &high, &high, &"", &high, &size]),
        (sql!("changes_of_owner"), vec![&low, &high, &high, &"", &high, &size, &one]),
        (sql!("changes_of_circuit"), vec![&"k1", &high, &size]),
        (sql!("list_notifications"), vec![&high, &none, &size]),
        (sql!("list_notifications_of_tenant"), vec![&high, &one, &size]),
        (sql!("list_resends"), vec![&high, &size]),
        (sql!("list_resends_of_tenant"), vec![&high, &size, &one]),
        (sql!("list_attempts"), vec![&high, &high, &size]),
        (sql!("list_runs"), vec![&high, &high, &size]),
    ] {
        plans.push((sql.to_owned(), plan(&database, sql, &values).await));
    }
    for (condition, tenant, reference) in [
        ("true", &none, None),
        ("tenant = $2", &one, None),
        ("tenant = $2 AND reference = $4", &one, Some("r7")),
    ] {
        let sql = sql!("list_reminders").replace("{condition}", condition);
        let values: [&dyn Value; 6] = [&high, tenant, &none, &reference, &looks, &size];
        plans.push((sql.clone(), plan(&database, &sql, &values).await));
    }
    for (sql, plan) in plans {
        // The first due delivery of each priority: four rows.
        let sorts = plan.lines().filter(|line| line.contains("Sort") && !line.contains("Sort Key")).count();
        let allowed = usize::from(sql.contains("unnest(ARRAY[0, 1, 2, 3])"));
        assert!(sorts <= allowed, "{sql}\n{plan}");
        assert!(!plan.contains("Seq Scan") && !plan.contains("HashAggregate"), "{sql}\n{plan}");
    }
}
