//! The SQLite sampler, with real files.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use breakerbox::Sample;
use breakerbox::sampling::{
    LatencyUnit, Poll, SampleError, Sampler, Since, SqlQuery, SqlTable, SqliteSampler, TimeFormat,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// A file with a table of attempts. The names of its table and columns contain quotes and SQL, to test quoting.
struct Attempts {
    folder: TempDir,
    connection: Connection,
    times: TimeFormat,
}

const TABLE: &str = r#"my "attempts"; DROP TABLE x"#;

impl Attempts {
    fn new(times: TimeFormat) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("attempts.db")).unwrap();
        connection
            .execute_batch(
                r#"CREATE TABLE "my ""attempts""; DROP TABLE x" ("Key?" TEXT, "how it went" TEXT, ms REAL, "from" ANY, "to" ANY);
                   CREATE INDEX by_finish ON "my ""attempts""; DROP TABLE x" ("to");
                   CREATE INDEX by_key ON "my ""attempts""; DROP TABLE x" ("Key?", "from");"#,
            )
            .unwrap();
        Self { folder, connection, times }
    }

    fn table(&self) -> SqlTable {
        SqlTable::new(TABLE)
            .key_column("Key?")
            .outcome_column("how it went", &["it's fine"], &["failed", "timed out"])
            .latency_column("ms", LatencyUnit::Millis)
            .started_at_column("from")
            .finished_at_column("to")
            .times(self.times)
    }

    fn sampler(&self) -> SqliteSampler {
        self.sampler_of(self.table())
    }

    fn sampler_of(&self, table: SqlTable) -> SqliteSampler {
        SqliteSampler::new(self.folder.path().join("attempts.db"), table).unwrap()
    }

    /// Adds an attempt that started `from` and finished `to` seconds ago; with `None`, it has not finished.
    fn add(&self, key: &str, outcome: &str, from: u64, to: Option<u64>) {
        let insert = r#"INSERT INTO "my ""attempts""; DROP TABLE x" VALUES (?1, ?2, 100.5, ?3, ?4)"#;
        let row = (key, outcome, self.ago(from), to.map(|to| self.ago(to)));
        self.connection.execute(insert, row).unwrap();
    }

    fn ago(&self, seconds: u64) -> rusqlite::types::Value {
        let at =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - Duration::from_secs(seconds);
        let number = |n: u128| rusqlite::types::Value::Integer(n.try_into().unwrap());
        match self.times {
            TimeFormat::UnixSeconds => number(at.as_secs().into()),
            TimeFormat::UnixMillis => number(at.as_millis()),
            TimeFormat::UnixMicros => number(at.as_micros()),
            _ => {
                let sql = "SELECT strftime('%Y-%m-%d %H:%M:%f', ?1, 'unixepoch', 'subsec')";
                self.connection.query_row(sql, [at.as_secs_f64()], |row| row.get(0)).unwrap()
            }
        }
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn counts(samples: &HashMap<String, Sample>, key: &str) -> Option<(u64, u64)> {
    samples.get(key).map(|sample| (sample.successes, sample.failures))
}

#[tokio::test]
async fn recent_attempts_and_runs_are_counted_apart() {
    for times in [TimeFormat::Native, TimeFormat::UnixMicros] {
        let attempts = Attempts::new(times);
        for (outcome, ago) in
            [("it's fine", 200), ("failed", 150), ("it's fine", 40), ("failed", 20), ("timed out", 10)]
        {
            attempts.add("dead", outcome, ago + 1, Some(ago));
            attempts.add("half-open", outcome, ago + 1, Some(ago));
        }
        attempts.add("never well", "failed", 21, Some(20));
        let poll = Poll::new(secs(300), vec![Since::started("half-open", secs(100))]).with_recent(secs(30));
        let plain = attempts.sampler();
        let counted = attempts.sampler_of(attempts.table().count_runs());
        assert_eq!((plain.returns_runs(), counted.returns_runs()), (false, true));
        for (sampler, has_runs) in [(plain, false), (counted, true)] {
            let samples = sampler.sample(&poll).await.unwrap();
            let dead = samples["dead"];
            assert_eq!((dead.successes, dead.failures), (2, 3));
            let recent = dead.recent.unwrap();
            assert_eq!((recent.successes, recent.failures), (0, 2));
            assert_eq!(recent.latency_sum, Some(Duration::from_millis(201)));
            assert_eq!(dead.failure_run, has_runs.then_some(2));
            assert_eq!(samples["never well"].failure_run, has_runs.then_some(1));
            let half_open = samples["half-open"];
            assert_eq!((half_open.successes, half_open.failures), (1, 2));
            assert_eq!((half_open.recent, half_open.failure_run), (None, None));
        }
        let unasked = attempts.sampler().sample(&Poll::new(secs(300), Vec::new())).await.unwrap();
        assert_eq!(unasked["dead"].recent, None);
    }
}

#[tokio::test]
async fn counts_what_the_poll_asks_for_however_times_are_written() {
    for times in [TimeFormat::Native, TimeFormat::UnixSeconds, TimeFormat::UnixMillis, TimeFormat::UnixMicros]
    {
        let attempts = Attempts::new(times);
        for key in ["plain", "it's \"odd\" \u{1f50c}", "closed lately", "half-open", "half-open for long"] {
            attempts.add(key, "it's fine", 20, Some(10));
            attempts.add(key, "failed", 40, Some(30));
            attempts.add(key, "timed out", 100, Some(80));
            attempts.add(key, "failed", 800, Some(700));
            attempts.add(key, "not a word", 5, Some(4));
            attempts.add(key, "", 5, None);
        }
        let since = vec![
            Since::finished("closed lately", secs(20)),
            Since::started("half-open", secs(25)),
            Since::started("half-open for long", secs(900)),
            Since::started("never called", secs(900)),
        ];
        let samples = attempts.sampler().sample(&Poll::new(secs(60), since)).await.unwrap();
        assert_eq!(counts(&samples, "plain"), Some((1, 1)), "{times:?}");
        assert_eq!(counts(&samples, "it's \"odd\" \u{1f50c}"), Some((1, 1)), "{times:?}");
        assert_eq!(counts(&samples, "closed lately"), Some((1, 0)), "{times:?}");
        assert_eq!(counts(&samples, "half-open"), Some((1, 0)), "{times:?}");
        assert_eq!(counts(&samples, "half-open for long"), Some((1, 3)), "{times:?}: longer than the window");
        assert_eq!(counts(&samples, "never called"), None, "{times:?}");
        assert_eq!(samples["plain"].latency_sum, Some(Duration::from_millis(201)), "{times:?}");
    }
}

#[tokio::test]
async fn an_attempt_that_started_before_the_transition_says_nothing_about_it() {
    let attempts = Attempts::new(TimeFormat::UnixMicros);
    attempts.add("e1", "failed", 30, Some(1));
    let poll = |since| Poll::new(secs(60), vec![since]);
    let sampler = attempts.sampler();
    let half_open = sampler.sample(&poll(Since::started("e1", secs(20)))).await.unwrap();
    assert_eq!(counts(&half_open, "e1"), None);
    let closed = sampler.sample(&poll(Since::finished("e1", secs(20)))).await.unwrap();
    assert_eq!(counts(&closed, "e1"), Some((0, 1)));
}

#[tokio::test]
async fn finds_its_way_by_the_indices() {
    let attempts = Attempts::new(TimeFormat::UnixMillis);
    let since = "CREATE TEMP TABLE breakerbox_since (key TEXT PRIMARY KEY, age INTEGER, started INTEGER)";
    attempts.connection.execute_batch(since).unwrap();
    let plan: Vec<String> = attempts
        .connection
        .prepare(&format!("EXPLAIN QUERY PLAN {}", attempts.sampler().query()))
        .unwrap()
        .query_map([60_000_000, 30_000_000], |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("USING INDEX by_finish (to>?)"), "{plan}");
    assert!(plan.contains("USING INDEX by_key (Key?=? AND from>?)"), "{plan}");
    assert_eq!(plan.matches("SCAN ").count(), 1, "of the few keys, once: {plan}");
}

#[tokio::test]
async fn many_keys_are_asked_for_at_once() {
    let attempts = Attempts::new(TimeFormat::UnixMicros);
    attempts.connection.execute_batch("BEGIN").unwrap();
    for n in 0..5_000 {
        attempts.add(&format!("e{n}"), "failed", 10, Some(5));
    }
    attempts.connection.execute_batch("COMMIT").unwrap();
    let since = (0..5_000).map(|n| Since::started(&format!("e{n}"), secs(if n % 2 == 0 { 20 } else { 1 })));
    let samples = attempts.sampler().sample(&Poll::new(secs(60), since.collect())).await.unwrap();
    assert_eq!(samples.len(), 2_500);
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let poll = Poll::new(secs(60), Vec::new());
    let says = async |sampler: SqliteSampler| match sampler.sample(&poll).await.unwrap_err() {
        SampleError::Failed(cause) => cause.to_string(),
        error => error.to_string(),
    };
    let sampler = || SqliteSampler::new(&path, SqlTable::new("attempts")).unwrap();
    assert!(says(sampler()).await.contains("unable to open database file"), "nothing is made");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE attempts (key)").unwrap();
    assert!(says(sampler()).await.contains("no such column: a."));
    let query = |text: &str| SqliteSampler::new(&path, SqlQuery(text.into())).unwrap();
    assert_eq!(says(query("SELECT 1 AS key")).await, "successes: the query has no such column");
    let negative = "SELECT 'a' AS key, -1 AS successes, 0 AS failures";
    assert_eq!(says(query(negative)).await, "successes: must be at least 0, but is -1");
    let no_text = "SELECT NULL AS key, 1 AS successes, 0 AS failures";
    assert!(says(query(no_text)).await.starts_with("key: "));
}

#[tokio::test]
async fn a_query_of_ones_own_gets_the_same_question() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    let text = "SELECT key, age AS successes, ?1 AS failures FROM temp.breakerbox_since WHERE started";
    let sampler = SqliteSampler::new(&path, SqlQuery(text.into())).unwrap();
    let samples = sampler.sample(&Poll::new(secs(60), vec![Since::started("e1", secs(7))])).await.unwrap();
    let expected = Sample::new(7_000_000, 60_000_000);
    assert_eq!(samples, HashMap::from([("e1".to_owned(), expected)]));
}

#[tokio::test]
async fn a_poll_that_nobody_waits_for_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    // This query never ends, unless the poll's window is short.
    let text = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
                SELECT 'e1' AS key, max(n) AS successes, 0 AS failures FROM n";
    let sampler = SqliteSampler::new(&path, SqlQuery(text.into())).unwrap();
    for _ in 0..3 {
        let endless = Poll::new(Duration::from_secs(1_000_000), Vec::new());
        let given_up = tokio::time::timeout(Duration::from_millis(50), sampler.sample(&endless)).await;
        assert!(given_up.is_err());
        // The connection is free again; otherwise this would wait forever.
        let brief = Poll::new(Duration::from_micros(3), Vec::new());
        let samples = tokio::time::timeout(secs(30), sampler.sample(&brief)).await.unwrap().unwrap();
        assert_eq!(counts(&samples, "e1"), Some((3, 0)));
    }
}
