//! Many jobs in one transaction: one that the database refuses does not harm the others, and what is left behind is tidied up.

use std::time::Duration;

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Backlog, Filter, NewEvent, Priority};
use breakerbox_storage::conformance::queue::rig::{Rig, Verbs, acme, attempt, batch, event, to_url};
use breakerbox_storage::{Retention, Settled, Settlement, SubmitError};
use futures_util::future::join_all;

use super::PostgresRig;

#[tokio::test]
async fn a_batch_that_the_database_refuses_harms_no_other() {
    let (rig, lane) = acme::<PostgresRig>().await;
    let queue = rig.queue();
    // Text in Postgres can't contain a zero byte. The API lets none through.
    let poison = NewEvent { content_type: "text/\0".into(), ..event("a") };
    let batches = (0..10).map(|nth| batch(vec![if nth == 4 { poison.clone() } else { event("a") }]));
    let answers = join_all(batches.map(|batch| queue.submit(batch))).await;
    let refused: Vec<usize> =
        answers.iter().enumerate().filter(|(_, answer)| answer.is_err()).map(|(nth, _)| nth).collect();
    assert_eq!(refused, [4]);
    assert!(matches!(answers[4], Err(SubmitError::Queue(_))));
    assert_eq!(rig.rows().await[..3], [9; 3]);
    assert_eq!(rig.due(lane, Priority::Medium, 20).await.len(), 9);
}

#[tokio::test]
async fn settlements_in_one_group_are_each_done_once() {
    let (rig, lane) = acme::<PostgresRig>().await;
    rig.submit(vec![event("a"); 30]).await;
    let leased = rig.due(lane, Priority::Medium, 30).await;
    let (queue, now) = (rig.queue(), rig.now());
    let settle = |nth: usize| {
        let mut attempt = attempt(now);
        attempt.detail = Some("what the receiver \0 said".into());
        let leased = &leased[nth % 30];
        let (id, lease) = (leased.id, leased.lease);
        queue.settle(Settlement { id, lease, attempt, next: NextStep::Delivered, stands_for: None })
    };
    let settled: Vec<Settled> =
        join_all((0..60).map(settle)).await.into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(settled.iter().filter(|settled| **settled == Settled::Done).count(), 30);
    assert_eq!(rig.rows().await[3], 30, "one attempt each");
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, counted.count), (counted, 0));
}

#[tokio::test]
async fn what_nothing_refers_to_is_forgotten() {
    let (rig, all) = acme::<PostgresRig>().await;
    rig.add_tenant("gone", Backlog::default()).await;
    let lane = rig.submit(vec![to_url("https://example.com/")]).await.woken[0].lane;
    for leased in rig.due(lane, Priority::Medium, 9).await {
        rig.settle(&leased, NextStep::Delivered).await;
    }
    let other = rig.add_endpoint("acme", Filter::any_of(["b"]).unwrap(), None).await;
    rig.submit(vec![event("b")]).await;
    let count = async |what: &str| -> i64 {
        rig.database.read(&format!("SELECT count(*) FROM {what}"), &[]).await.unwrap()[0].get(0)
    };
    let transaction = rig.database.begin().await.unwrap();
    let now = i64::try_from(rig.now().as_micros()).unwrap();
    let sql = "UPDATE tenants SET deleted_at = $1 WHERE id = 'gone'";
    transaction.execute(sql, &[&now]).await.unwrap();
    transaction.commit().await.unwrap();
    while rig.queue().prune(&Retention::default(), 100).await.unwrap().more {}
    assert_eq!(count("tenants").await, 2, "an event from before its deletion may be its");
    for lane in [all, other] {
        for leased in rig.due(lane, Priority::Medium, 9).await {
            rig.settle(&leased, NextStep::Delivered).await;
        }
    }
    rig.pass(Duration::from_secs(40 * 86_400));
    // The events are deleted first; the tenant is when nothing else is left to do.
    for _ in 0..2 {
        while rig.queue().prune(&Retention::default(), 100).await.unwrap().more {}
        rig.pass(Duration::from_secs(3_601));
    }
    assert_eq!(count("tenants").await, 1);
    assert_eq!(count("lanes").await, 0);
    assert_eq!(count("backlogs").await, 0, "counters that add up to nothing are gone");
}
