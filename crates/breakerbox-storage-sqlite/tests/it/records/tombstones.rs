//! Deleted tenants are removed from the database once nothing refers to them, and not before.

use std::time::Duration;

use breakerbox_model::objects::TenantId;
use breakerbox_storage::Retention;

use super::World;

const DAY: Duration = Duration::from_secs(86_400);

/// Returns the names of the deleted tenants that are still in the database.
fn tombstones(world: &World) -> Vec<String> {
    let database = world.database();
    let path = database.path();
    let file =
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement =
        file.prepare("SELECT id FROM tenants WHERE deleted_at IS NOT NULL ORDER BY row").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

async fn prune(world: &World) {
    while world.queue.prune(&Retention::default(), 100).await.unwrap().more {}
}

/// Creates a tenant with finished deliveries, and deletes it.
async fn deleted(world: &World, name: &str) {
    world.tenant(name).await;
    let endpoint = world.endpoint(name, "https://a.example/").await;
    world.event(name, "a.b").await;
    world.fail_all(endpoint.lane()).await;
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    world.records.cancel_orphans(100).await.unwrap();
    world.records.delete_tenant(&name.parse::<TenantId>().unwrap(), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_tenants_are_forgotten_when_nothing_names_them() {
    let mut world = World::on_sqlite().await;
    deleted(&world, "first").await;
    deleted(&world, "second").await;
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    world.clock.advance(29 * DAY);
    prune(&world).await;
    assert_eq!(tombstones(&world), ["first", "second"], "their dead letters are kept for a month");
    world.clock.advance(2 * DAY);
    // Other tenants' rows from that time don't matter once they are gone, too.
    world.event("acme", "a.b").await;
    prune(&world).await;
    assert_eq!(tombstones(&world), Vec::<String>::new());
    let work = world.claim(endpoint.lane(), 10).await;
    assert_eq!(work.len(), 1, "nobody else lost anything");

    // The newest row stays, so that its number is not reused.
    deleted(&world, "last").await;
    world.clock.advance(40 * DAY);
    world.fail_all(endpoint.lane()).await;
    prune(&world).await;
    assert_eq!(tombstones(&world), ["last"]);
    world.restart().await;
    world.tenant("next").await;
    assert!(world.directory.tenant(&"next".parse().unwrap()).unwrap().row > 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_still_has_finished_work_is_not_forgotten() {
    let world = World::on_sqlite().await;
    deleted(&world, "first").await;
    world.tenant("acme").await;
    for days in [1, 20, 8] {
        world.clock.advance(days * DAY);
        prune(&world).await;
        assert_eq!(tombstones(&world), ["first"]);
    }
    let found = world.found(&breakerbox_model::objects::DeliveryFilter::default(), 10).await;
    assert_eq!(found.len(), 1, "it is shown, and whose it was");
}
