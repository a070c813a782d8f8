//! Each change is notified once, however many processes observe it and whatever happens in between.

use breakerbox_core::{Cause, CircuitStatus, TripRule};
use breakerbox_model::notifications::{News, Notification, OutageStep};
use breakerbox_model::objects::{DisabledBecause, EndpointSettings, Moment};
use breakerbox_storage::records::{Endpoints, History, NewEndpoint, Notifications, PageOf};
use futures_util::future::join_all;

use super::rig::{Rig, TENANT, heard, webhook};

const RULE: Cause = Cause::Rule(TripRule::Failures);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_told_eight_times_at_once_and_again_after_a_restart_is_one_notification() {
    let mut rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    let change = heard(1, 7, RULE, CircuitStatus::Open, rig.now(), rig.after);
    let told = join_all((0..8).map(|_| rig.records.append_history(vec![change.clone()]))).await;
    assert_eq!(told.into_iter().map(Result::unwrap).sum::<u64>(), 1);
    rig.pass(1).await;
    rig.restart().await;
    assert_eq!(rig.records.append_history(vec![change.clone(); 8]).await.unwrap(), 0);
    // By a caller that has the notification and not the change.
    for _ in 0..8 {
        let OutageStep::Begins(began) = &change.outage else { panic!("{:?}", change.outage) };
        assert!(!rig.records.notify(began.trip.clone()).await.unwrap());
    }
    rig.pass(120).await;
    assert_eq!(rig.all().await.len(), 1);
    assert_eq!(rig.sent_to("ops.example").len(), 1);
}

#[tokio::test]
async fn a_notification_is_durable_with_its_change_and_survives_a_restart() {
    let mut rig = Rig::new(vec![webhook("operator/webhook", "https://ops.example/in")]).await;
    rig.trip(1, 7).await;
    rig.restart().await;
    let (key, page) = (format!("{TENANT} https://1.example/in"), PageOf::first(9));
    assert_eq!(rig.records.circuit_history(&key, &page).await.unwrap().items.len(), 1);
    assert_eq!(rig.all().await.len(), 1);
    rig.pass(1).await;
    let sent = rig.sent_to("ops.example");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].body["id"], rig.all().await[0].id.to_string());
}

#[tokio::test]
async fn a_recovery_says_since_when_it_was_not() {
    let rig = Rig::new(vec![]).await;
    let since = |past: &breakerbox_storage::records::PastNotification| match &past.notification.news {
        News::Recovery(news) => news.since.map(|since| since.0),
        other => panic!("{other:?}"),
    };
    rig.recover(1, 1).await;
    let began = rig.now();
    rig.trip(1, 2).await;
    rig.pass(90).await;
    rig.recover(1, 5).await;
    rig.recover(1, 9).await;
    let all = rig.all().await;
    assert_eq!(all.len(), 2, "of an outage that was told of, and of no other");
    let began = Moment(began).to_string().parse::<Moment>().unwrap().0;
    assert_eq!(since(&all[1]), Some(began));
}

#[tokio::test]
async fn of_the_store_only_what_is_new_is_told() {
    let rig = Rig::new(vec![]).await;
    let mut told = Vec::new();
    for lost in [false, true, true, false, false, true, false] {
        rig.pass(1).await;
        let notification = if lost {
            Notification::store_lost("no answer", rig.now())
        } else {
            Notification::store_back(rig.now())
        };
        told.push(rig.records.notify(notification).await.unwrap());
    }
    assert_eq!(told, [false, true, false, true, false, true, true]);
    let all = rig.all().await;
    let (lost_at, News::StoreBack { since }) = (all[0].notification.at, &all[1].notification.news) else {
        panic!("{all:?}")
    };
    assert_eq!(since.unwrap().0, lost_at);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_told_with_what_disables_it() {
    let rig = Rig::new(vec![]).await;
    let settings = EndpointSettings::new("https://hooks.example.com/in?token=secret".parse().unwrap());
    let new = NewEndpoint { tenant: TENANT.parse().unwrap(), settings, secret: None, disabled: false };
    let id = rig.records.create_endpoint(new).await.unwrap().id;
    let set = |disabled| rig.records.set_endpoint_disabled(id, disabled);
    for _ in 0..8 {
        set(Some(DisabledBecause::Gone)).await.unwrap();
    }
    assert_eq!(rig.all().await.len(), 1);
    set(None).await.unwrap();
    set(Some(DisabledBecause::Owner)).await.unwrap();
    assert_eq!(rig.all().await.len(), 1, "its owner knows");
    set(None).await.unwrap();
    set(Some(DisabledBecause::Gone)).await.unwrap();
    let all = rig.all().await;
    assert_eq!(all.len(), 2, "gone again");
    assert!(!all[0].notification.text().body.contains("token"));
}

#[tokio::test]
async fn targets_are_kept_sealed_and_whole() {
    use breakerbox_model::notifications::{Kind, Kinds, NotificationTarget, Way};
    use breakerbox_model::objects::Secret;
    use breakerbox_storage::records::Tenants;
    let mut rig = Rig::new(vec![]).await;
    let secret = Secret::random();
    let targets = vec![
        NotificationTarget {
            name: "tgt_1".into(),
            way: Way::Webhook {
                url: "https://a.example/in?token=kept-apart".parse().unwrap(),
                secret: secret.clone(),
            },
            on: Kinds::of(&[Kind::Trip, Kind::DeadLetters]),
        },
        NotificationTarget {
            name: "tgt_2".into(),
            way: Way::Slack { url: "https://b.example/services/kept-apart".parse().unwrap() },
            on: Kinds::ALL,
        },
        NotificationTarget {
            name: "tgt_3".into(),
            way: Way::Email { to: vec!["kept-apart@example.com".parse().unwrap()] },
            on: Kinds::ALL,
        },
    ];
    rig.targets(targets.clone()).await;
    rig.trip(1, 1).await;
    rig.restart().await;
    let kept = rig.records.tenant(&TENANT.parse().unwrap()).await.unwrap().settings.notification_targets;
    assert_eq!(kept, targets);
    for entry in std::fs::read_dir(rig.folder()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        for secret in ["kept-apart", secret.reveal().trim_start_matches("whsec_")] {
            let is_there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_there, "{secret} is in the clear");
        }
    }
}
