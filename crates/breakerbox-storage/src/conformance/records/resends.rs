//! Resends by filter: jobs that proceed in steps.

use std::time::Duration;

use breakerbox_model::objects::{
    ApiKeyId, Backlog, DeliveryFilter, Endpoint, EventId, Id, JobId, Priority, Resend, ResendState, StateName,
};

use crate::RecordsError;
use crate::records::{NewResend, PageOf};

use super::world::World;

fn of_tenant(name: &str) -> NewResend {
    let tenant = Some(name.parse().unwrap());
    NewResend { filter: DeliveryFilter { tenant, ..DeliveryFilter::default() }, by: None }
}

/// Creates a tenant with one endpoint and this many dead letters.
async fn dead_letters(world: &World, tenant: &str, count: usize) -> Endpoint {
    world.tenant(tenant).await;
    let endpoint = world.endpoint(tenant, "https://a.example/").await;
    for _ in 0..count {
        world.event(tenant, "a.b").await;
        world.clock.advance(Duration::from_millis(1));
    }
    world.fail_all(endpoint.lane()).await;
    endpoint
}

/// Runs resend steps until no job is running. Returns the number of resent deliveries and the number of steps.
async fn finish(world: &World, limit: usize) -> (u64, usize) {
    let (mut resent, mut steps) = (0, 0);
    loop {
        let batch = world.records.step_resends(limit).await.unwrap();
        assert!(batch.done <= limit as u64);
        if !batch.more {
            return (resent, steps);
        }
        let woken: u64 = batch.woken.iter().map(|lane| u64::from(lane.count)).sum();
        assert_eq!(woken, batch.done, "each lane is woken");
        (resent, steps) = (resent + batch.done, steps + 1);
        assert!(steps < 1_000, "a job ends");
    }
}

async fn job(world: &World, id: JobId) -> Resend {
    world.records.resend(id).await.unwrap()
}

pub async fn a_job_resends_what_failed_and_nothing_else(world: &mut World) {
    let endpoint = dead_letters(world, "acme", 25).await;
    let other = dead_letters(world, "other", 3).await;
    let delivered = world.event("acme", "a.b").await;
    let leased = world.claim(endpoint.lane(), 1).await;
    world.settle(&leased[0], breakerbox_model::delivery::NextStep::Delivered).await;
    let waiting = world.event("acme", "a.b").await;
    world.clock.advance(Duration::from_millis(1));
    let by = ApiKeyId(Id::from_number(7).unwrap());
    let created = world.records.create_resend(NewResend { by: Some(by), ..of_tenant("acme") }).await.unwrap();
    assert_eq!((created.state, created.by, created.progress.resent), (ResendState::Running, Some(by), 0));
    assert_eq!(created.filter.state, Some(StateName::Failed));
    assert_eq!(created.filter.until, Some(world.now()), "what comes later is not its business");
    assert_eq!(world.backlog("acme").await, 1, "nothing is resent yet");
    assert_eq!(finish(world, 10).await, (25, 3));
    let done = job(world, created.id).await;
    assert_eq!(
        (done.state, done.progress.resent, done.finished_at),
        (ResendState::Done, 25, Some(world.now()))
    );
    assert_eq!(world.backlog("acme").await, 26);
    assert_eq!(world.backlog("other").await, 0);
    assert_eq!(world.claim(other.lane(), 5).await, []);
    let leased = world.claim(endpoint.lane(), 100).await;
    assert_eq!(leased[0].event, waiting, "live traffic comes first");
    assert!(leased[1..].iter().all(|leased| leased.priority == Priority::Low && leased.attempts == 0));
    assert!(leased[1..].is_sorted_by_key(|leased| leased.id), "the oldest first");
    assert_eq!(world.of_event(delivered).await[0].state.name(), StateName::Delivered);
    for (filter, what) in [
        (DeliveryFilter { tenant: Some("nobody".parse().unwrap()), ..DeliveryFilter::default() }, "tenant"),
        (
            DeliveryFilter {
                endpoint: Some(breakerbox_model::objects::EndpointId(by.0)),
                ..DeliveryFilter::default()
            },
            "endpoint",
        ),
        (DeliveryFilter { event: Some(EventId(by.0)), ..DeliveryFilter::default() }, "event"),
    ] {
        let refused = world.records.create_resend(NewResend { filter, by: None }).await;
        assert!(
            matches!(&refused, Err(RecordsError::Missing { what: found, .. }) if *found == what),
            "{refused:?}"
        );
    }
}

pub async fn jobs_take_turns_and_go_on_after_a_restart(world: &mut World) {
    dead_letters(world, "acme", 6).await;
    dead_letters(world, "other", 6).await;
    let first = world.records.create_resend(of_tenant("acme")).await.unwrap();
    let second = world.records.create_resend(of_tenant("other")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(world.records.step_resends(2).await.unwrap().done, 2);
    }
    let progress = [job(world, first.id).await.progress, job(world, second.id).await.progress];
    assert_eq!(progress.map(|progress| progress.resent), [2, 2]);
    assert!(progress.iter().all(|progress| progress.reached.is_some()));
    world.restart().await;
    assert_eq!(finish(world, 2).await.0, 8, "nothing twice, nothing left");
    assert_eq!((world.backlog("acme").await, world.backlog("other").await), (6, 6));
    let listed = world.records.resends(None, &PageOf::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|job| job.id).collect::<Vec<_>>(), [second.id, first.id]);
    let theirs = world.records.resends(Some(&"acme".parse().unwrap()), &PageOf::default()).await.unwrap();
    assert_eq!(theirs.items.iter().map(|job| job.id).collect::<Vec<_>>(), [first.id]);
}

pub async fn a_job_waits_for_room_and_lets_others_pass(world: &mut World) {
    let full = dead_letters(world, "full", 5).await;
    dead_letters(world, "other", 5).await;
    let mut settings = super::world::tenant_settings("full");
    settings.backlog = Some(Backlog { count: 3, ..Backlog::default() });
    world.records.change_tenant(&full.tenant, settings, None).await.unwrap();
    let stuck = world.records.create_resend(of_tenant("full")).await.unwrap();
    let passes = world.records.create_resend(of_tenant("other")).await.unwrap();
    for _ in 0..6 {
        assert!(world.records.step_resends(2).await.unwrap().more);
    }
    assert_eq!(job(world, passes.id).await.state, ResendState::Done);
    let waits = job(world, stuck.id).await;
    assert_eq!((waits.state, waits.progress.resent), (ResendState::Running, 3));
    assert_eq!(world.backlog("full").await, 3);
    let leased = world.claim(full.lane(), 3).await;
    for leased in &leased {
        world.settle(leased, breakerbox_model::delivery::NextStep::Delivered).await;
    }
    assert_eq!(finish(world, 2).await.0, 2);
    assert_eq!(job(world, stuck.id).await.progress.resent, 5);
}

pub async fn a_job_can_be_stopped(world: &mut World) {
    dead_letters(world, "acme", 5).await;
    let id = world.records.create_resend(of_tenant("acme")).await.unwrap().id;
    world.records.step_resends(2).await.unwrap();
    let stopped = world.records.cancel_resend(id).await.unwrap();
    assert_eq!((stopped.state, stopped.progress.resent), (ResendState::Cancelled, 2));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.records.cancel_resend(id).await.unwrap(), stopped);
    assert_eq!(finish(world, 2).await, (0, 0));
    assert_eq!(world.backlog("acme").await, 2, "what waits by then waits");
    world.clock.advance(Duration::from_secs(31 * 86_400));
    let running = world.records.create_resend(of_tenant("acme")).await.unwrap();
    assert!(world.records.resend(id).await.is_err(), "nobody asks for it any more");
    world.clock.advance(Duration::from_secs(31 * 86_400));
    world.records.create_resend(of_tenant("acme")).await.unwrap();
    assert_eq!(job(world, running.id).await.state, ResendState::Running, "one that runs stays");
    let missing = world.records.cancel_resend(JobId(Id::from_number(7).unwrap())).await;
    assert!(matches!(missing, Err(RecordsError::Missing { what: "job", .. })), "{missing:?}");
}

pub async fn a_job_skips_what_has_no_endpoint(world: &mut World) {
    let endpoint = dead_letters(world, "acme", 3).await;
    let stays = world.endpoint("acme", "https://b.example/").await;
    world.event("acme", "a.b").await;
    world.fail_all(endpoint.lane()).await;
    world.fail_all(stays.lane()).await;
    world.clock.advance(Duration::from_millis(1));
    let id = world.records.create_resend(of_tenant("acme")).await.unwrap().id;
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    assert_eq!(finish(world, 2).await.0, 1);
    let progress = job(world, id).await.progress;
    assert_eq!((progress.resent, progress.skipped), (1, 4));
    assert_eq!(world.claim(stays.lane(), 5).await.len(), 1);
}
