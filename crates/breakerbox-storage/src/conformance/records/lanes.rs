//! The unfinished deliveries of lanes: counts, the delivery that is due first, pages.

use std::time::Duration;

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{LaneId, NewEvent, Priority, TenantId};

use super::world::{World, event};
use crate::records::{LaneBacklog, NextDelivery, PageOf};

async fn lane(world: &World, lane: LaneId) -> Option<LaneBacklog> {
    world.records.backlogs_of(&[lane]).await.unwrap().remove(0)
}

/// Returns all lanes of a tenant, or of all tenants, read in pages of this size.
async fn all(world: &World, tenant: Option<&str>, size: usize) -> Vec<LaneBacklog> {
    let tenant: Option<TenantId> = tenant.map(|tenant| tenant.parse().unwrap());
    let mut page = PageOf::first(size);
    let mut found = Vec::new();
    loop {
        let answer = world.records.lane_backlogs(tenant.as_ref(), &page).await.unwrap();
        assert!(answer.items.len() <= size);
        found.extend(answer.items);
        let Some(next) = answer.next else { return found };
        page = PageOf::after(next, size);
    }
}

pub async fn lanes_say_how_much_is_unfinished_and_what_is_due_first(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    assert_eq!(lane(world, endpoint.lane()).await, None, "nothing waits");
    let later = world.now() + Duration::from_secs(60);
    world.submit("acme", NewEvent { not_before: Some(later), ..event("a.b") }).await.unwrap();
    let found = lane(world, endpoint.lane()).await.unwrap();
    assert_eq!((found.unfinished.count, found.unfinished.bytes), (1, 7));
    assert_eq!((found.tenant.as_str(), found.dynamic.clone()), ("acme", None));
    assert_eq!(found.next, Some(NextDelivery { due_at: later, attempts: 0 }));
    // A delivery of another priority is due first, after a failed attempt.
    world.submit("acme", NewEvent { priority: Priority::Low, ..event("a.b") }).await.unwrap();
    let leased = world.claim(endpoint.lane(), 1).await.remove(0);
    let found = lane(world, endpoint.lane()).await.unwrap();
    assert_eq!((found.unfinished.count, found.next.unwrap().due_at), (2, later), "one is in flight");
    let due_at = world.now() + Duration::from_secs(5);
    world.settle(&leased, NextStep::Retry { due_at, uses_attempt: true, failed_probe: None }).await;
    let found = lane(world, endpoint.lane()).await.unwrap();
    assert_eq!(found.next, Some(NextDelivery { due_at, attempts: 1 }));
    world.restart().await;
    assert_eq!(lane(world, endpoint.lane()).await, Some(found));
}

pub async fn lanes_are_listed_page_by_page_and_by_tenant(world: &mut World) {
    let mut lanes = Vec::new();
    for tenant in ["acme", "bolt"] {
        world.tenant(tenant).await;
        for number in 0..3 {
            lanes.push(world.endpoint(tenant, &format!("https://{number}.example/")).await.lane());
        }
        world
            .endpoint_with(tenant, "https://idle.example/", |endpoint| {
                endpoint.filter = breakerbox_model::objects::Filter::any_of(["never"]).unwrap();
            })
            .await;
    }
    for tenant in ["acme", "bolt"] {
        world.event(tenant, "a.b").await;
        let url = Some("https://dynamic.example/x".parse().unwrap());
        world.submit(tenant, NewEvent { url, ..event("a.b") }).await.unwrap();
    }
    for size in [1, 3, 500] {
        let found = all(world, None, size).await;
        assert_eq!(found.len(), 8, "six endpoints and two dynamic URLs");
        assert!(found.is_sorted_by(|one, other| one.lane > other.lane), "the newest first");
        let dynamic: Vec<_> = found.iter().filter_map(|found| found.dynamic.as_deref()).collect();
        assert_eq!(dynamic, ["bolt https://dynamic.example/x", "acme https://dynamic.example/x"]);
        let bolt = all(world, Some("bolt"), size).await;
        assert!(bolt.iter().all(|found| found.tenant.as_str() == "bolt"));
        let endpoints = bolt.iter().filter(|found| found.dynamic.is_none()).map(|found| found.lane);
        assert_eq!(endpoints.collect::<Vec<_>>(), [lanes[5], lanes[4], lanes[3]]);
    }
    assert!(all(world, Some("nobody"), 9).await.is_empty());
    let of = world.records.backlogs_of(&[lanes[4], lanes[0]]).await.unwrap();
    assert_eq!(of.iter().flatten().map(|found| found.lane).collect::<Vec<_>>(), [lanes[4], lanes[0]]);
}

pub async fn a_deleted_endpoint_has_no_lane(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    world.event("acme", "a.b").await;
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    assert_eq!(lane(world, endpoint.lane()).await, None);
    assert!(all(world, None, 9).await.is_empty());
}
