//! The rate of notifications, in virtual time: limits, digests, failing targets and removed targets.

use std::time::Duration;

use breakerbox_gateway::notifications::NotifierSettings;
use breakerbox_gateway::telemetry::labels::NotificationResult;
use breakerbox_model::delivery::{Fault, LocalFault, Reply};
use breakerbox_model::notifications::{MOST_WAITING, Notification};
use breakerbox_storage::records::{History, Notifications, SendState};

use super::rig::{Rig, TENANT, heard, webhook};

/// Returns the number of notifications in a message.
fn told(body: &serde_json::Value) -> u64 {
    if body["kind"] == "digest" { body["count"].as_u64().unwrap() } else { 1 }
}

#[tokio::test]
async fn fifty_trips_of_one_endpoint_in_a_minute_are_at_most_seven_messages() {
    let rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    for n in 0..50 {
        rig.trip(1, 2 * n + 1).await;
        rig.pass(1).await;
        if n % 2 == 0 {
            rig.recover(1, 2 * n + 2).await;
        }
    }
    rig.pass(120).await;
    let messages = rig.sent_to("ops.example");
    let counts: Vec<u64> = messages.iter().map(|taken| told(&taken.body)).collect();
    assert!(messages.len() <= 7, "{counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), 75, "none goes unmentioned");
    let kinds = |kind: &str| -> u64 {
        let in_digest = |body: &serde_json::Value| body["groups"][0]["kinds"][kind].as_u64().unwrap_or(0);
        messages.iter().map(|taken| in_digest(&taken.body) + u64::from(taken.body["kind"] == kind)).sum()
    };
    assert_eq!((kinds("trip"), kinds("recovery")), (50, 25));
    assert!(rig.all().await.iter().all(|past| past.sends[0].state == SendState::Sent));
    assert_eq!(rig.metrics.notifications_waiting.get(), 0);
}

#[tokio::test]
async fn a_dead_target_is_tried_ever_later_and_given_up_and_delays_nobody() {
    let rig = Rig::new(vec![
        webhook("operator/webhook", "https://dead.example/in"),
        webhook("operator/slack", "https://well.example/in"),
    ])
    .await;
    rig.kill("dead.example");
    let began = rig.now();
    rig.trip(1, 1).await;
    rig.pass(2).await;
    assert_eq!(rig.sent_to("well.example").len(), 1, "at once");
    assert_eq!(rig.notifier.failing().len(), 1);
    rig.pass(4_400).await;
    let tries: Vec<u64> =
        rig.sent_to("dead.example").iter().map(|taken| taken.at.since(began).as_secs()).collect();
    assert_eq!(tries, [1, 6, 36, 156, 756, 4_356], "5 s, 30 s, 2 min, 10 min, an hour, and then no more");
    rig.pass(10_000).await;
    assert_eq!(rig.sent_to("dead.example").len(), 6);
    let past = &rig.all().await[0];
    let of = |target: &str| past.sends.iter().find(|send| *send.target == *target).unwrap();
    let (dead, well) = (of("operator/webhook"), of("operator/slack"));
    assert_eq!((dead.state, dead.tries, dead.answer.as_deref()), (SendState::GivenUp, 6, Some("timeout")));
    assert_eq!((well.state, well.tries, well.answer.as_deref()), (SendState::Sent, 1, Some("200")));
    let count = |result| rig.metrics.notification_messages.of(result).get();
    assert_eq!(
        (
            count(NotificationResult::Sent),
            count(NotificationResult::Failed),
            count(NotificationResult::GivenUp)
        ),
        (1, 6, 1)
    );
    assert_eq!(rig.metrics.notifications_waiting.get(), 0);
}

#[tokio::test]
async fn a_notification_that_the_gateway_cannot_send_uses_no_try() {
    let rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    rig.answer("ops.example", Reply::Failed(Fault::Local(LocalFault::Descriptors)));
    rig.trip(1, 1).await;
    rig.pass(100).await;
    let tried = rig.sent_to("ops.example").len();
    assert!((10..=21).contains(&tried), "about every five seconds: {tried}");
    assert!(rig.notifier.failing().is_empty(), "its target is not to blame");
    let send = rig.all().await[0].sends[0].clone();
    assert_eq!((send.state, send.tries), (SendState::Waiting, 0));
    rig.answer("ops.example", Reply::Answered { status: 200, retry_after: None });
    rig.pass(10).await;
    let send = rig.all().await[0].sends[0].clone();
    assert_eq!((send.state, send.tries), (SendState::Sent, 1));
}

#[tokio::test]
async fn many_dead_targets_leave_room_for_the_others() {
    let mut targets: Vec<_> = (0..40)
        .map(|n| webhook(&format!("operator/dead{n:02}"), &format!("https://dead{n}.example/")))
        .collect();
    targets.push(webhook("operator/webhook", "https://well.example/in"));
    let rig = Rig::new(targets).await;
    (0..40).for_each(|n| rig.kill(&format!("dead{n}.example")));
    for epoch in 1..=5 {
        rig.trip(1, epoch).await;
        rig.pass(1).await;
        assert_eq!(rig.sent_to("well.example").len() as u64, epoch);
    }
}

#[tokio::test]
async fn what_was_waiting_goes_together_when_its_target_is_back() {
    let mut rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    rig.kill("ops.example");
    for endpoint in 0..30 {
        rig.trip(endpoint, 1).await;
        rig.pass(1).await;
    }
    rig.restart().await;
    rig.answer("ops.example", breakerbox_model::delivery::Reply::Answered { status: 204, retry_after: None });
    let before = rig.sent_to("ops.example").len();
    rig.pass(4_000).await;
    let after = rig.sent_to("ops.example").split_off(before);
    assert_eq!(after.iter().map(|taken| told(&taken.body)).sum::<u64>(), 30);
    assert!(after.len() < 10, "{}", after.len());
    assert!(rig.notifier.failing().is_empty());
}

#[tokio::test]
async fn a_target_has_room_for_so_many_and_the_rest_is_counted_and_said() {
    let settings = NotifierSettings { burst: 1, ..NotifierSettings::default() };
    let rig = Rig::with(vec![webhook("operator/webhook", "https://ops.example/in")], settings).await;
    let too_many = u32::try_from(MOST_WAITING).unwrap() + 25;
    for first in (0..too_many).step_by(500) {
        let rule = breakerbox_core::Cause::Rule(breakerbox_core::TripRule::Failures);
        let batch = (first..(first + 500).min(too_many))
            .map(|n| heard(n, 1, rule.clone(), breakerbox_core::CircuitStatus::Open, rig.now(), rig.after));
        rig.records.append_history(batch.collect()).await.unwrap();
    }
    let waiting = rig.records.waiting_targets().await.unwrap();
    assert_eq!((waiting[0].waiting, waiting[0].not_kept), (MOST_WAITING, 25));
    rig.pass(1).await;
    let messages = rig.sent_to("ops.example");
    assert_eq!(messages.len(), 1);
    let body = &messages[0].body;
    assert_eq!((body["count"].as_u64(), body["not_stored"].as_u64()), (Some(u64::from(too_many)), Some(25)));
    assert!(rig.records.waiting_targets().await.unwrap().is_empty());
    rig.trip(1, 2).await;
    rig.pass(60).await;
    assert_eq!(rig.sent_to("ops.example")[1].body["kind"], "trip", "and that is over");
}

#[tokio::test]
async fn a_target_that_is_taken_away_is_sent_nothing_more() {
    let rig = Rig::new(vec![]).await;
    rig.targets(vec![webhook("tgt_1", "https://one.example/"), webhook("tgt_2", "https://two.example/")])
        .await;
    rig.kill("one.example");
    rig.trip(1, 1).await;
    rig.pass(1).await;
    rig.targets(vec![webhook("tgt_2", "https://two.example/")]).await;
    rig.pass(60).await;
    assert_eq!(rig.sent_to("one.example").len(), 1);
    assert_eq!(rig.sent_to("two.example").len(), 1);
    let sends = &rig.all().await[0].sends;
    let states: Vec<_> = sends.iter().map(|send| (&*send.target, send.state)).collect();
    assert_eq!(states, [("tgt_1", SendState::Dropped), ("tgt_2", SendState::Sent)]);
}

#[tokio::test]
async fn targets_choose_what_they_are_told() {
    use breakerbox_model::notifications::{Kind, Kinds};
    let mut only_recoveries = webhook("tgt_1", "https://one.example/");
    only_recoveries.on = Kinds::of(&[Kind::Recovery, Kind::StoreLost]);
    let rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    rig.targets(vec![only_recoveries]).await;
    rig.trip(1, 1).await;
    rig.recover(1, 2).await;
    rig.records.notify(Notification::store_lost("gone", rig.now())).await.unwrap();
    rig.pass(1).await;
    let kinds = |host: &str| -> Vec<String> {
        rig.sent_to(host).iter().map(|taken| taken.body["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds("ops.example"), ["trip", "recovery", "store_lost"]);
    assert_eq!(kinds("one.example"), ["recovery"], "the store is the operator's affair");
}

#[tokio::test]
async fn old_notifications_are_forgotten_and_those_that_wait_are_not() {
    let rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    rig.trip(1, 1).await;
    rig.pass(1).await;
    rig.trip(2, 1).await;
    rig.clock.advance(Duration::from_secs(31 * 86_400));
    let before = rig.now().before(NotifierSettings::default().kept);
    assert_eq!(rig.records.prune_notifications(before, 100).await.unwrap(), 1);
    let left = rig.all().await;
    assert_eq!(left.len(), 1);
    assert_eq!(&*left[0].notification.subject, format!("{TENANT} https://2.example/in"));
    rig.pass(1).await;
    assert_eq!(rig.records.prune_notifications(before, 100).await.unwrap(), 1);
}
