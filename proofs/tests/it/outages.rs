//! What happens when the store is away, at a small scale. `cargo xtask prove outages` runs all of it in full.

use breakerbox_proofs::fleet::Kind;
use breakerbox_proofs::fleet::worker::OnLoss;
use breakerbox_proofs::outages::{self, Case, Size};

use crate::program;

async fn holds(kind: Kind, case: Case, on_loss: &[OnLoss]) {
    let reports = outages::prove(program(), kind, case, on_loss, Size::SMALL).await.unwrap();
    assert_eq!(reports.len(), on_loss.len());
    for report in reports {
        assert!(report.faults().is_empty(), "{}\n{report}\n{:#?}", outages::Report::head(), report.faults());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_comes_back_empty() {
    holds(Kind::Redis, Case::Emptied, &OnLoss::ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_fails_over_and_loses_the_last_writes() {
    holds(Kind::Redis, Case::FailedOver, &[OnLoss::Local]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_flushed() {
    holds(Kind::Redis, Case::Flushed, &[OnLoss::Local]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_killed() {
    holds(Kind::Postgres, Case::Killed, &[OnLoss::Local, OnLoss::Refuse]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_to_postgres_is_a_black_hole() {
    holds(Kind::Postgres, Case::BlackHole, &[OnLoss::Local, OnLoss::Admit]).await;
}
