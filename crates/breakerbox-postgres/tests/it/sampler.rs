//! Tests of the sampler on a real server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::sampling::{LatencyUnit, Poll, SampleError, Sampler, Since, SqlQuery, SqlTable, TimeFormat};
use breakerbox::{Breakerbox, CircuitStatus, Policy, Preset, Sample};
use breakerbox_postgres::{PostgresSampler, PostgresStore};
use breakerbox_testkit::servers::PostgresServer;
use tokio_postgres::Client;

use crate::server::{client, patient, shared, until};

/// A table of attempts, with table and column names that need quoting.
struct Attempts {
    server: Arc<PostgresServer>,
    client: Client,
    name: String,
    times: TimeFormat,
}

impl Attempts {
    /// Creates a table that only this test uses.
    async fn new(name: &str, times: TimeFormat) -> Self {
        let server = tokio::task::spawn_blocking(shared).await.unwrap();
        let client = client(&server.url()).await.unwrap();
        let attempts = Self { server, client, name: format!("my \"attempts\"; -- {name}"), times };
        attempts.create().await;
        attempts
    }

    async fn create(&self) {
        let table = self.quoted();
        let time = if self.times == TimeFormat::Native { "timestamptz" } else { "bigint" };
        self.run(&format!(
            r#"CREATE TABLE {table} ("Key?" varchar(99), "how it went" text, ms real, "from" {time}, "to" {time});
               CREATE INDEX ON {table} ("to");
               CREATE INDEX ON {table} ("Key?", "from")"#
        ))
        .await;
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    fn table(&self) -> SqlTable {
        SqlTable::new(&self.name)
            .key_column("Key?")
            .outcome_column("how it went", &["it's fine"], &["failed", "timed out"])
            .latency_column("ms", LatencyUnit::Millis)
            .started_at_column("from")
            .finished_at_column("to")
            .times(self.times)
    }

    fn sampler(&self) -> PostgresSampler {
        PostgresSampler::new(&self.server.url(), self.table()).unwrap()
    }

    /// Adds an attempt for each key, which started `from` and finished `to` seconds ago; with `None`, it has
    /// not finished.
    async fn add(&self, keys: &[&str], outcome: &str, from: u32, to: Option<u32>) {
        let ago = |seconds: u32| {
            let then = format!("extract(epoch FROM clock_timestamp() - interval '{seconds} s')");
            match self.times {
                TimeFormat::UnixSeconds => format!("floor({then})::bigint"),
                TimeFormat::UnixMillis => format!("floor({then} * 1000)::bigint"),
                TimeFormat::UnixMicros => format!("floor({then} * 1000000)::bigint"),
                _ => format!("clock_timestamp() - interval '{seconds} s'"),
            }
        };
        let to = to.map_or_else(|| "NULL".to_owned(), ago);
        let sql = format!(
            "INSERT INTO {} SELECT k, $2, 100.5, {}, {to} FROM unnest($1::text[]) AS k",
            self.quoted(),
            ago(from)
        );
        self.client.execute(&sql, &[&keys, &outcome]).await.unwrap();
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn counts(samples: &HashMap<String, Sample>, key: &str) -> Option<(u64, u64)> {
    samples.get(key).map(|sample| (sample.successes, sample.failures)).filter(|counts| *counts != (0, 0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recent_attempts_and_runs_are_counted_apart() {
    let attempts = Attempts::new("recent", TimeFormat::Native).await;
    for (outcome, ago) in
        [("it's fine", 200), ("failed", 150), ("it's fine", 40), ("failed", 20), ("timed out", 10)]
    {
        attempts.add(&["dead", "half-open"], outcome, ago + 1, Some(ago)).await;
    }
    attempts.add(&["never well"], "failed", 21, Some(20)).await;
    let poll = Poll::new(secs(300), vec![Since::started("half-open", secs(100))]).with_recent(secs(30));
    let counted = PostgresSampler::new(&attempts.server.url(), attempts.table().count_runs()).unwrap();
    assert!(counted.returns_runs());
    for (sampler, has_runs) in [(attempts.sampler(), false), (counted, true)] {
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_what_the_poll_asks_for_however_times_are_written() {
    for times in [TimeFormat::Native, TimeFormat::UnixSeconds, TimeFormat::UnixMillis, TimeFormat::UnixMicros]
    {
        let attempts = Attempts::new(&format!("{times:?}"), times).await;
        let keys = ["plain", "it's \"odd\" \u{1f50c}", "closed lately", "half-open", "half-open for long"];
        attempts.add(&keys, "it's fine", 200, Some(100)).await;
        attempts.add(&keys, "failed", 400, Some(300)).await;
        attempts.add(&keys, "timed out", 1_000, Some(800)).await;
        attempts.add(&keys, "failed", 8_000, Some(7_000)).await;
        attempts.add(&keys, "not a word", 50, Some(40)).await;
        attempts.add(&keys, "", 50, None).await;
        let since = vec![
            Since::finished("closed lately", secs(200)),
            Since::started("half-open", secs(250)),
            Since::started("half-open for long", secs(9_000)),
            Since::started("never called", secs(9_000)),
        ];
        let samples = attempts.sampler().sample(&Poll::new(secs(600), since)).await.unwrap();
        assert_eq!(counts(&samples, "plain"), Some((1, 1)), "{times:?}");
        assert_eq!(counts(&samples, "it's \"odd\" \u{1f50c}"), Some((1, 1)), "{times:?}");
        assert_eq!(counts(&samples, "closed lately"), Some((1, 0)), "{times:?}");
        assert_eq!(counts(&samples, "half-open"), Some((1, 0)), "{times:?}");
        assert_eq!(counts(&samples, "half-open for long"), Some((1, 3)), "{times:?}: longer than the window");
        assert_eq!(counts(&samples, "never called"), None, "{times:?}");
        assert_eq!(samples["plain"].latency_sum, Some(Duration::from_millis(201)), "{times:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finds_its_way_by_the_indices() {
    let attempts = Attempts::new("plan", TimeFormat::Native).await;
    let table = attempts.quoted();
    attempts
        .run(&format!(
            "INSERT INTO {table}
             SELECT 'e' || n % 1000, 'failed', 1, now() - n * interval '1 second', now() - n * interval '1 second'
             FROM generate_series(1, 20000) AS n;
             ANALYZE {table}"
        ))
        .await;
    let sampler = attempts.sampler();
    // The settings that the sampler's own connections use.
    let settings = PostgresStore::builder(&attempts.server.url()).session_settings();
    let client = &attempts.client;
    client.batch_execute(&settings).await.unwrap();
    let explain = format!(
        "PREPARE poll AS {}; EXPLAIN EXECUTE poll (60000000, '{{e1,e2}}', '{{1000000,1000000}}', '{{t,f}}', 30000000)",
        sampler.query()
    );
    let message = client.simple_query(&explain).await.unwrap();
    let plan: Vec<_> = message
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect();
    let plan = plan.join("\n");
    client.batch_execute("DEALLOCATE poll").await.unwrap();
    assert!(!plan.contains("Seq Scan"), "{plan}");
    assert!(plan.contains("to\" >= ") && plan.contains("from\" >= "), "{plan}");
    assert!(plan.matches("Index").count() >= 2, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_said() {
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    let poll = Poll::new(secs(60), Vec::new());
    let says = async |source: SqlQuery| {
        let sampler = PostgresSampler::new(&server.url(), source).unwrap();
        match sampler.sample(&poll).await.unwrap_err() {
            SampleError::Failed(cause) => cause.to_string(),
            error => error.to_string(),
        }
    };
    // The query must contain all four parameters, so that the server knows their types.
    let query = |select: &str| {
        SqlQuery(format!(
            "{select} WHERE $1::bigint > 0 AND $2::text[] IS NOT NULL AND $3::bigint[] IS NOT NULL AND $4::bool[] IS NOT NULL"
        ))
    };
    assert!(says(query("SELECT * FROM no_such_table")).await.contains("\"no_such_table\" does not exist"));
    let says_what = says(query("SELECT 'a'::text AS key, 1 AS successes, 0::bigint AS failures")).await;
    assert!(says_what.starts_with("successes: "), "{says_what}");
    let negative = query("SELECT 'a'::text AS key, -1::bigint AS successes, 0::bigint AS failures");
    assert_eq!(says(negative).await, "successes: must be at least 0, but is -1");
    let error = PostgresSampler::new("mysql://x", SqlTable::new("a")).unwrap_err().to_string();
    assert!(error.starts_with("url: "), "{error}");
    let error = PostgresSampler::new(&server.url(), SqlTable::new("")).unwrap_err().to_string();
    assert_eq!(error, "table: must not be empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_that_takes_too_long_is_ended_at_the_server() {
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    let database = patient(&server.url()).time_limit(Duration::from_millis(300)).database().unwrap();
    let slow = "SELECT 'a'::text AS key, 0::bigint AS successes, 0::bigint AS failures, pg_sleep(600)
        WHERE $1::bigint > 0 AND $2::text[] IS NOT NULL AND $3::bigint[] IS NOT NULL AND $4::bool[] IS NOT NULL";
    let sampler = PostgresSampler::on(database, SqlQuery(slow.into())).unwrap();
    let error = sampler.sample(&Poll::new(secs(60), Vec::new())).await.unwrap_err();
    assert!(matches!(error, SampleError::TimedOut { .. }), "{error}");
}

/// Tests end to end with two agents, one table and one store, all on one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_one_table_one_leader() {
    let server = Arc::new(tokio::task::spawn_blocking(PostgresServer::start).await.unwrap().unwrap());
    let client = client(&server.url()).await.unwrap();
    let attempts =
        Attempts { server: Arc::clone(&server), client, name: "attempts".into(), times: TimeFormat::Native };
    attempts.create().await;
    let mut agents = Vec::new();
    for _ in 0..2 {
        let store = patient(&server.url()).connect().await.unwrap();
        let agent = Breakerbox::builder()
            .store(store)
            .store_timeout(secs(20))
            .sampling(Policy::builder().preset(Preset::Convoy).cool_off(Duration::from_millis(500)))
            .sampler(attempts.sampler())
            .sample_every(Duration::from_millis(100))
            .poll_timeout(secs(20))
            .build()
            .unwrap();
        agents.push(agent);
    }
    attempts.add(&["e1"; 10], "failed", 1, Some(1)).await;
    let all = async |status: CircuitStatus| {
        for agent in &agents {
            let circuit = agent.circuit("e1").unwrap();
            let _ = circuit.check().await;
            if circuit.status() != status {
                return false;
            }
        }
        true
    };
    until("open everywhere", async || all(CircuitStatus::Open).await || all(CircuitStatus::HalfOpen).await)
        .await;
    assert_eq!(agents.iter().filter(|agent| agent.report().leads).count(), 1);
    until("half-open everywhere", async || all(CircuitStatus::HalfOpen).await).await;
    until("a success that started since", async || {
        attempts.add(&["e1"], "it's fine", 0, Some(0)).await;
        all(CircuitStatus::Closed).await
    })
    .await;
    drop(agents);
}
