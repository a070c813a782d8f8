//! Tenants: create, change, delete.

use std::time::Duration;

use crate::records::{ChangeFilter, NewResend, NewTenant, PageOf};
use crate::{Defaults, RecordsError};
use breakerbox_core::{CircuitBy, Timestamp};
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Backlog, DeliveryFilter, RateLimit, ResendState, Secret, TenantId};
use serde_json::json;

use super::history::change;
use super::reminders::{MINUTE, once};
use super::world::World;
use super::world::tenant_settings;

fn id(name: &str) -> TenantId {
    name.parse().unwrap()
}

pub async fn a_tenant_is_as_it_was_created_and_after_a_restart_too(world: &mut World) {
    let mut settings = tenant_settings("Acme & Sons");
    settings.enabled = false;
    settings.policy = Some(json!({ "window": "5m" }));
    settings.circuit_by = CircuitBy::Host;
    settings.retry = Some("1s,2s".parse().unwrap());
    settings.response_rules = serde_json::from_str(r#"{"404": {"action": "fail"}}"#).unwrap();
    settings.backlog = Some(Backlog { count: 7, bytes: 77 });
    settings.ingest_rate = Some(RateLimit { per_second: 0.5, burst: 3 });
    settings.expires_after = Some(Duration::from_micros(1_500_001));
    let secret = Secret::random();
    let new = NewTenant { id: id("acme"), settings: settings.clone(), secret: Some(secret.clone()) };
    let created = world.records.create_tenant(new.clone()).await.unwrap();
    assert_eq!((&created.settings, created.created_at), (&settings, world.now()));
    assert_eq!(created.secrets.active(world.now()).collect::<Vec<_>>(), [&secret]);
    let again = world.records.create_tenant(new).await;
    assert!(matches!(again, Err(RecordsError::Exists { what: "tenant", .. })), "{again:?}");
    world.clock.advance(Duration::from_secs(60));
    for _ in 0..2 {
        assert_eq!(world.records.tenant(&id("acme")).await.unwrap(), created);
        assert_eq!(
            world.records.tenants(&PageOf::default()).await.unwrap().items,
            std::slice::from_ref(&created)
        );
        let entry = world.directory.tenant(&id("acme")).unwrap();
        assert_eq!((entry.enabled, entry.backlog.count), (false, 7));
        assert_eq!(entry.policy.window(), Duration::from_secs(300));
        world.restart().await;
    }
    let missing = world.records.tenant(&id("nobody")).await;
    assert!(matches!(missing, Err(RecordsError::Missing { what: "tenant", .. })), "{missing:?}");
}

pub async fn two_who_change_a_tenant_notice_each_other(world: &mut World) {
    let seen = world.tenant("acme").await;
    world.clock.advance(Duration::from_secs(1));
    let mine = tenant_settings("mine");
    let changed = world.records.change_tenant(&seen.id, mine.clone(), Some(seen.revision)).await.unwrap();
    assert!(changed.revision > seen.revision && changed.changed_at > seen.changed_at);
    assert_eq!((changed.created_at, &changed.secrets), (seen.created_at, &seen.secrets));
    let refused = world.records.change_tenant(&seen.id, tenant_settings("theirs"), Some(seen.revision)).await;
    assert!(matches!(refused, Err(RecordsError::Changed { .. })), "{refused:?}");
    let refused = world.records.delete_tenant(&seen.id, Some(seen.revision)).await;
    assert!(matches!(refused, Err(RecordsError::Changed { .. })), "{refused:?}");
    assert_eq!(world.records.tenant(&seen.id).await.unwrap().settings, mine);
    let whatever = world.records.change_tenant(&seen.id, tenant_settings("theirs"), None).await.unwrap();
    assert_eq!(whatever.settings.name, "theirs");
    world.restart().await;
    assert_eq!(world.records.tenant(&seen.id).await.unwrap(), whatever);
}

pub async fn a_tenants_defaults_reach_its_endpoints(world: &mut World) {
    world.tenant("acme").await;
    let plain = world.endpoint("acme", "https://a.example/").await;
    let own = world
        .endpoint_with("acme", "https://b.example/", |settings| {
            settings.retry = Some("9s".parse().unwrap());
            settings.policy = Some(json!({ "failures": 3 }));
            settings.timeout = Some(Duration::from_secs(3));
        })
        .await;
    world
        .records
        .change_tenant(
            &id("acme"),
            breakerbox_model::objects::TenantSettings {
                retry: Some("7s".parse().unwrap()),
                policy: Some(json!({ "window": "10m", "failures": 4 })),
                expires_after: Some(Duration::from_secs(5)),
                ..tenant_settings("acme")
            },
            None,
        )
        .await
        .unwrap();
    let defaults = Defaults { timeout: Duration::from_secs(11), ..Defaults::default() };
    for restarted in [false, true] {
        let plain = world.directory.endpoint(plain.lane()).unwrap();
        let own = world.directory.endpoint(own.lane()).unwrap();
        assert_eq!(plain.retry.waits(), [Duration::from_secs(7)]);
        assert_eq!(own.retry.waits(), [Duration::from_secs(9)]);
        assert_eq!((plain.policy.failures(), own.policy.failures()), (Some(4), Some(3)));
        assert_eq!(own.policy.window(), Duration::from_secs(600), "the tenant's shines through");
        assert_eq!((plain.has_own_policy, own.has_own_policy), (false, true));
        assert_eq!(plain.expires_after, Some(Duration::from_secs(5)));
        let expected = Duration::from_secs(if restarted { 11 } else { 15 });
        assert_eq!((plain.timeout, own.timeout), (expected, Duration::from_secs(3)));
        world.restart_with(defaults.clone()).await;
    }
}

pub async fn a_policy_that_cannot_be_used_is_refused_and_nothing_changes(world: &mut World) {
    let mut settings = tenant_settings("acme");
    settings.policy = Some(json!({ "windw": "5m" }));
    let new = NewTenant { id: id("acme"), settings: settings.clone(), secret: None };
    let refused = world.records.create_tenant(new).await.unwrap_err();
    assert!(matches!(&refused, RecordsError::Policy(text) if text.contains("windw")), "{refused}");
    assert!(world.directory.tenant(&id("acme")).is_none());
    world.tenant("acme").await;
    let own = world
        .endpoint_with("acme", "https://a.example/", |settings| {
            settings.policy = Some(json!({ "cool_off": "5m" }));
        })
        .await;
    // The tenant's policy is valid by itself, but not combined with the endpoint's.
    settings.policy = Some(json!({ "cool_off": "1s", "cool_off_max": "1m" }));
    let refused = world.records.change_tenant(&id("acme"), settings, None).await;
    let of_endpoint = |error: &RecordsError| matches!(error, RecordsError::EndpointPolicy { endpoint, why } if *endpoint == own.id && why.starts_with("cool_off: "));
    assert!(refused.as_ref().is_err_and(of_endpoint), "{refused:?}");
    world.restart().await;
    assert_eq!(world.records.tenant(&id("acme")).await.unwrap().settings, tenant_settings("acme"));
    assert!(world.directory.endpoint(own.lane()).unwrap().has_own_policy);
}

pub async fn a_tenant_in_use_stays(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    world.event("acme", "a.b").await;
    let refused = world.records.delete_tenant(&id("acme"), None).await;
    assert!(matches!(refused, Err(RecordsError::InUse(_))), "{refused:?}");
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    let refused = world.records.delete_tenant(&id("acme"), None).await;
    assert!(
        matches!(refused, Err(RecordsError::InUse(_))),
        "its deliveries are not cancelled yet: {refused:?}"
    );
    world.records.cancel_orphans(100).await.unwrap();
    world.records.delete_tenant(&id("acme"), None).await.unwrap();
    for _ in 0..2 {
        assert!(world.records.tenant(&id("acme")).await.is_err());
        assert!(world.submit("acme", super::world::event("a.b")).await.is_err());
        world.restart().await;
    }
}

pub async fn a_name_can_be_used_again(world: &mut World) {
    world.tenant("acme").await;
    let finished = world.reminder(once(world.now() + MINUTE)).await;
    world.clock.advance(2 * MINUTE);
    world.run_scheduler().await;
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    let event = world.event("acme", "a.b").await;
    world.fail_all(endpoint.lane()).await;
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    world.records.cancel_orphans(100).await.unwrap();
    world.records.delete_tenant(&id("acme"), None).await.unwrap();
    world.tenant("acme").await;
    let theirs = DeliveryFilter { tenant: Some(id("acme")), ..DeliveryFilter::default() };
    assert_eq!(world.found(&theirs, 10).await, [], "what was before is not theirs");
    let old = world.of_event(event).await;
    assert_eq!(old.len(), 1, "and is still there");
    let refused = world.records.resend_delivery(old[0].id).await;
    assert!(matches!(refused, Err(RecordsError::Missing { what: "endpoint", .. })), "{refused:?}");
    // Not even a client with access to all tenants can run it on behalf of the new tenant.
    world.records.run_reminder(finished.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 0);
    assert_eq!(world.found(&theirs, 10).await, []);
}

/// A job that was running when its tenant was deleted does not affect another tenant with the same name.
pub async fn a_resend_ends_with_its_tenant(world: &mut World) {
    for is_new in [false, true] {
        world.tenant("acme").await;
        let endpoint = world.endpoint("acme", "https://a.example/").await;
        world.event("acme", "a.b").await;
        world.fail_all(endpoint.lane()).await;
        world.clock.advance(MINUTE);
        if is_new {
            assert!(!world.records.step_resends(10).await.unwrap().more, "nothing is left to do");
            assert_eq!(world.backlog("acme").await, 0, "nothing was resent");
            continue;
        }
        let filter = DeliveryFilter { tenant: Some(id("acme")), ..DeliveryFilter::default() };
        let job = world.records.create_resend(NewResend { filter, by: None }).await.unwrap();
        world.records.delete_endpoint(endpoint.id, None).await.unwrap();
        world.records.delete_tenant(&id("acme"), None).await.unwrap();
        let ended = world.records.resend(job.id).await.unwrap();
        assert_eq!(ended.state, ResendState::Cancelled);
    }
}

/// A new tenant does not see the circuit history of a deleted tenant with the same name.
pub async fn history_stays_with_its_tenant(world: &mut World) {
    let key = "acme https://a.example/";
    let filter = || ChangeFilter { tenant: Some(id("acme")), ..ChangeFilter::default() };
    let of_circuit = || ChangeFilter { circuit: Some(key.into()), ..filter() };
    world.tenant("acme").await;
    let old = change(key, 2, world.now());
    world.records.append_history(vec![old.clone().into()]).await.unwrap();
    world.records.delete_tenant(&id("acme"), None).await.unwrap();
    world.tenant("acme").await;
    // Even if the clock was set back.
    let new = change(key, 3, Timestamp::from_micros(old.change.at.as_micros() - 1_000_000));
    world.records.append_history(vec![new.clone().into()]).await.unwrap();
    world.restart().await;
    for filter in [filter(), of_circuit()] {
        let found = world.records.history(&filter, &PageOf::first(10)).await.unwrap().items;
        assert_eq!(found, std::slice::from_ref(&new), "{filter:?}");
    }
    let all = world.records.history(&ChangeFilter::default(), &PageOf::first(10)).await.unwrap().items;
    assert_eq!(all.len(), 2, "and the operator sees both");
}

pub async fn two_secrets_sign_during_a_rotation_and_one_after(world: &mut World) {
    let before = world.tenant("acme").await;
    let old = before.secrets.active(world.now()).next().unwrap().clone();
    let new = Secret::random();
    world.records.rotate_tenant_secret(&id("acme"), new.clone(), Duration::from_secs(60)).await.unwrap();
    for _ in 0..2 {
        let entry = world.directory.tenant(&id("acme")).unwrap();
        let active = |seconds: u64| {
            let at = world.now() + Duration::from_secs(seconds);
            entry.secrets.active(at).cloned().collect::<Vec<_>>()
        };
        assert_eq!(active(59), [new.clone(), old.clone()]);
        assert_eq!(active(60), std::slice::from_ref(&new));
        world.restart().await;
    }
    let ended = world.records.end_tenant_rotation(&id("acme")).await.unwrap();
    assert_eq!(ended.secrets.active(world.now()).collect::<Vec<_>>(), [&new]);
}
