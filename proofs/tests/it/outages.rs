//! Store outages, at a small scale. `cargo xtask prove outages` runs all of them in full.

use breakerbox_proofs::fleet::Kind;
use breakerbox_proofs::outages::{self, Case, Setting, Size};

use crate::program;

async fn holds(kind: Kind, case: Case, settings: &[Setting]) {
    let reports = outages::prove(program(), kind, case, settings, Size::SMALL).await.unwrap();
    assert_eq!(reports.len(), settings.len());
    for report in reports {
        assert!(report.faults().is_empty(), "{}\n{report}\n{:#?}", outages::Report::head(), report.faults());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_comes_back_empty() {
    holds(Kind::Redis, Case::Emptied, &[Setting::LOCAL, Setting::ADMIT, Setting::REFUSE]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_fails_over_and_loses_the_last_writes() {
    holds(Kind::Redis, Case::FailedOver, &[Setting::LOCAL]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_flushed() {
    holds(Kind::Redis, Case::Flushed, &[Setting::LOCAL]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_killed() {
    holds(Kind::Postgres, Case::Killed, &[Setting::LOCAL, Setting::REFUSE]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_to_postgres_is_a_black_hole() {
    holds(Kind::Postgres, Case::BlackHole, &[Setting::LOCAL, Setting::ADMIT]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_redis_is_full() {
    holds(Kind::Redis, Case::MemoryFull, &[Setting::LOCAL, Setting::STRICT]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_read_only() {
    holds(Kind::Postgres, Case::ReadOnly, &[Setting::LOCAL, Setting::REFUSE]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_to_write_to_postgres_is_revoked() {
    holds(Kind::Postgres, Case::RightsRevoked, &[Setting::LOCAL, Setting::STRICT]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_promote_a_replica() {
    holds(Kind::Redis, Case::SentinelFailover, &[Setting::LOCAL, Setting::STRICT]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_in_a_cluster() {
    holds(Kind::Redis, Case::ClusterFailover, &[Setting::LOCAL]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_of_a_cluster_are_paused() {
    holds(Kind::Redis, Case::ClusterPaused, &[Setting::LOCAL, Setting::STRICT]).await;
}
