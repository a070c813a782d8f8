//! Pagination: every listing, in pages of any size, returns each item once and in order, even while items are added.

use std::time::Duration;

use breakerbox_model::objects::{DeliveryFilter, StateName};
use breakerbox_storage::records::{MAX_PAGE, PageOf};
use proptest::prelude::*;

use super::World;

#[derive(Clone, Debug)]
enum Happens {
    Event { tenant: usize, kind: usize },
    Failed { endpoint: usize },
    Cancelled { nth: usize },
    Passes,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..2_usize, 0..2_usize).prop_map(|(tenant, kind)| Happens::Event { tenant, kind }),
        1 => (0..4_usize).prop_map(|endpoint| Happens::Failed { endpoint }),
        1 => (0..50_usize).prop_map(|nth| Happens::Cancelled { nth }),
        1 => Just(Happens::Passes),
    ]
}

/// A random filter: the indexes of tenant, endpoint and type, a state, and a time range in seconds.
type Asked = (Option<usize>, Option<usize>, Option<usize>, Option<StateName>, Option<(u64, u64)>);

fn filters() -> impl Strategy<Value = Asked> {
    (
        proptest::option::of(0..2_usize),
        proptest::option::of(0..4_usize),
        proptest::option::of(0..2_usize),
        proptest::option::of(proptest::sample::select(StateName::ALL.to_vec())),
        proptest::option::of((0..6_u64, 0..6_u64)),
    )
}

const TENANTS: [&str; 2] = ["acme", "other"];
const KINDS: [&str; 2] = ["a.b", "a.c"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn pages_hold_what_a_filter_admits_once_and_in_order(
        story in proptest::collection::vec(happens(), 1..40),
        asked in proptest::collection::vec((filters(), 1..6_usize), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::on_sqlite().await;
            let start = world.now();
            let mut endpoints = Vec::new();
            for tenant in TENANTS {
                world.tenant(tenant).await;
                for url in ["https://one.example/", "https://two.example/"] {
                    endpoints.push(world.endpoint(tenant, url).await);
                }
            }
            let everything = DeliveryFilter::default();
            for happens in story {
                match happens {
                    Happens::Event { tenant, kind } => drop(world.event(TENANTS[tenant], KINDS[kind]).await),
                    Happens::Failed { endpoint } => world.fail_all(endpoints[endpoint].lane()).await,
                    Happens::Cancelled { nth } => {
                        if let Some(id) = world.found(&everything, 500).await.get(nth) {
                            // A delivery that does not wait is not changed.
                            let _ = world.records.cancel_delivery(*id).await;
                        }
                    }
                    Happens::Passes => world.clock.advance(Duration::from_secs(1)),
                }
            }
            let all = world.records.deliveries(&everything, &PageOf::first(MAX_PAGE)).await.unwrap();
            prop_assert_eq!(all.next, None);
            for ((tenant, endpoint, kind, state, times), size) in asked {
                let at = |seconds: u64| start + Duration::from_secs(seconds);
                let filter = DeliveryFilter {
                    tenant: tenant.map(|tenant| TENANTS[tenant].parse().unwrap()),
                    endpoint: endpoint.map(|endpoint| endpoints[endpoint].id),
                    event: None,
                    kind: kind.map(|kind| KINDS[kind].parse().unwrap()),
                    state,
                    from: times.map(|(from, _)| at(from)),
                    until: times.map(|(_, until)| at(until)),
                };
                let admits = |delivery: &&breakerbox_model::objects::Delivery| {
                    filter.tenant.as_ref().is_none_or(|tenant| *tenant == delivery.tenant)
                        && filter.endpoint.is_none_or(|endpoint| Some(endpoint) == delivery.endpoint)
                        && filter.kind.as_ref().is_none_or(|kind| *kind == delivery.kind)
                        && filter.state.is_none_or(|state| state == delivery.state.name())
                        && filter.from.is_none_or(|from| delivery.created_at >= from)
                        && filter.until.is_none_or(|until| delivery.created_at < until)
                };
                let expected: Vec<_> = all.items.iter().filter(admits).map(|delivery| delivery.id).collect();
                prop_assert_eq!(world.found(&filter, size).await, expected, "{:?}", filter);
            }
            Ok(())
        })?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_meanwhile_disturbs_no_page() {
    let world = World::on_sqlite().await;
    world.tenant("acme").await;
    world.endpoint("acme", "https://a.example/").await;
    for _ in 0..7 {
        world.event("acme", "a.b").await;
    }
    let everything = DeliveryFilter::default();
    let before = world.found(&everything, 500).await;
    let mut page = PageOf::first(2);
    let mut found = Vec::new();
    loop {
        let answer = world.records.deliveries(&everything, &page).await.unwrap();
        found.extend(answer.items.iter().map(|delivery| delivery.id));
        world.event("acme", "a.b").await;
        let Some(next) = answer.next else { break };
        page = PageOf::after(next, 2);
    }
    assert_eq!(found, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_and_endpoints_come_in_pages_too() {
    let world = World::on_sqlite().await;
    let names = ["a", "A", "b.c", "b-c", "z9", "m"];
    for name in names {
        world.tenant(name).await;
        for number in 0..3 {
            world.endpoint(name, &format!("https://{number}.example/")).await;
        }
    }
    let mut sorted = names.map(String::from);
    sorted.sort();
    for size in 1..8 {
        let (mut page, mut found) = (PageOf::first(size), Vec::new());
        loop {
            let answer = world.records.tenants(&page).await.unwrap();
            found.extend(answer.items.iter().map(|tenant| tenant.id.to_string()));
            let Some(next) = answer.next else { break };
            page = PageOf::after(next, size);
        }
        assert_eq!(found, sorted, "{size}");
        for (tenant, expected) in
            [(None, 18), (Some("b-c".parse().unwrap()), 3), (Some("x".parse().unwrap()), 0)]
        {
            let (mut page, mut found) = (PageOf::first(size), Vec::new());
            loop {
                let answer = world.records.endpoints(tenant.as_ref(), &page).await.unwrap();
                assert!(answer.items.len() <= size);
                found.extend(answer.items.iter().map(|endpoint| endpoint.id));
                let Some(next) = answer.next else { break };
                page = PageOf::after(next, size);
            }
            assert_eq!(found.len(), expected, "{size} {tenant:?}");
            assert!(found.is_sorted_by(|newer, older| newer > older));
        }
    }
    for (count, name) in names.iter().enumerate() {
        for _ in 0..count {
            world.event(name, "a.b").await;
        }
    }
    let (mut page, mut found) = (PageOf::first(2), Vec::new());
    loop {
        let answer = world.records.backlogs(&page).await.unwrap();
        found.extend(answer.items.iter().map(|backlog| (backlog.tenant.to_string(), backlog.waiting.count)));
        let Some(next) = answer.next else { break };
        page = PageOf::after(next, 2);
    }
    let expected = [("A", 3), ("b-c", 9), ("b.c", 6), ("m", 15), ("z9", 12)];
    assert_eq!(found, expected.map(|(name, count)| (name.to_owned(), count)), "those without are left out");
    let waiting = world.records.waiting().await.unwrap();
    assert_eq!((waiting.backlog.count, waiting.tenants), (45, 5));
}
