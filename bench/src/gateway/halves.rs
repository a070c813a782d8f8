//! Each half of the gateway's work alone: accepting events without sending, and delivering a backlog without
//! new events.

use std::time::Instant;

use anyhow::{Result, ensure};
use breakerbox_testkit::load::Load;
use serde_json::json;

use super::{Arguments, Site, micros_each, middle};

#[derive(Clone, Copy)]
struct Round {
    accepted: f64,
    accept_cpu: f64,
    drained: f64,
    drain_cpu: f64,
}

pub(super) fn run(arguments: &Arguments, events: u64) -> Result<()> {
    let site = Site::start(&arguments.program)?;
    round(&site, arguments.connections, events / 4)?;
    let rounds: Vec<Round> = (0..arguments.rounds.max(1))
        .map(|_| round(&site, arguments.connections, events))
        .collect::<Result<_>>()?;
    let of = |figure: fn(&Round) -> f64| middle(&rounds.iter().map(figure).collect::<Vec<_>>());
    println!("\n{events} events, first only accepted, then only delivered\n");
    println!("| what | events/s | CPU of the gateway for each, us |");
    println!("| --- | --- | --- |");
    println!("| accept, endpoint disabled | {:.0} | {:.1} |", of(|r| r.accepted), of(|r| r.accept_cpu));
    println!("| drain what waits | {:.0} | {:.1} |", of(|r| r.drained), of(|r| r.drain_cpu));
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // Figures for people.
fn round(site: &Site, connections: usize, events: u64) -> Result<Round> {
    let (api, endpoint) = (site.gateway.api(), &site.endpoint);
    api.post(&format!("/v1/endpoints/{endpoint}/disable"), &json!({}))?;
    let (before, used) = (site.delivered(), site.gateway.usage()?.cpu);
    let report = Load { connections, requests: events, ..api.load(&Site::event()) }.run()?;
    ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
    let accept = site.gateway.usage()?.cpu - used;
    let (began, used) = (Instant::now(), site.gateway.usage()?.cpu);
    api.post(&format!("/v1/endpoints/{endpoint}/enable"), &json!({}))?;
    ensure!(site.wait_until_delivered(before + events), "not everything was delivered");
    let took = began.elapsed();
    Ok(Round {
        accepted: report.rate(),
        accept_cpu: micros_each(accept, events),
        drained: events as f64 / took.as_secs_f64(),
        drain_cpu: micros_each(site.gateway.usage()?.cpu - used, events),
    })
}
