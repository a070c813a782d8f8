//! The maximum rate: events are accepted, committed, delivered and settled, in a closed loop.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox_testkit::load::{Load, percentile};

use super::{Arguments, Site, floor, micros_each, middle, millis, verdict};

/// The target throughput, in events per second.
const RATE: f64 = 8_000.0;
const ACCEPT_P99: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
struct Round {
    accepted: f64,
    delivered: f64,
    accept_p50: Duration,
    accept_p99: Duration,
    whole_p50: Duration,
    whole_p99: Duration,
    gateway: f64,
    receiver: f64,
    generator: f64,
    straight: f64,
    straight_receiver: f64,
    straight_generator: f64,
}

pub(super) fn run(arguments: &Arguments, events: u64) -> Result<()> {
    let site = Site::start(&arguments.program)?;
    // The first round opens connections, and fills pages and caches.
    round(&site, arguments.connections, events / 4)?;
    let rounds: Vec<Round> = (0..arguments.rounds.max(1))
        .map(|_| round(&site, arguments.connections, events))
        .collect::<Result<_>>()?;
    let usage = site.gateway.usage()?;
    let of = |figure: fn(&Round) -> f64| middle(&rounds.iter().map(figure).collect::<Vec<_>>());
    let (delivered, p99) = (of(|r| r.delivered), of(|r| r.accept_p99.as_secs_f64()));
    let (least, most) = rounds.iter().fold((f64::MAX, 0.0_f64), |(least, most), round| {
        (least.min(round.delivered), most.max(round.delivered))
    });

    println!("\n{events} events in a closed loop, accepted and delivered to one endpoint\n");
    println!("| what | figure | wanted | |");
    println!("| --- | --- | --- | --- |");
    println!(
        "| accepted and delivered, events/s | {delivered:.0} ({least:.0} to {most:.0}) | {RATE:.0} | {} |",
        verdict(delivered >= RATE)
    );
    println!("| accepted, events/s | {:.0} | | |", of(|r| r.accepted));
    println!("| accept p50, ms | {:.2} | | |", of(|r| millis(r.accept_p50)));
    println!(
        "| accept p99, ms | {:.2} | {:.0} | {} |",
        of(|r| millis(r.accept_p99)),
        millis(ACCEPT_P99),
        verdict(p99 <= ACCEPT_P99.as_secs_f64())
    );
    println!("| end to end p50, ms | {:.2} | | |", of(|r| millis(r.whole_p50)));
    println!("| end to end p99, ms | {:.2} | | |", of(|r| millis(r.whole_p99)));
    println!("| peak memory, MB | {} | | |", usage.peak >> 20);
    println!();
    println!("| CPU for each event, us | gateway | receiver | generator | requests/s |");
    println!("| --- | --- | --- | --- | --- |");
    println!(
        "| through the gateway | {:.1} | {:.1} | {:.1} | {delivered:.0} |",
        of(|r| r.gateway),
        of(|r| r.receiver),
        of(|r| r.generator)
    );
    println!(
        "| straight at the receiver (the limit) | | {:.1} | {:.1} | {:.0} |",
        of(|r| r.straight_receiver),
        of(|r| r.straight_generator),
        of(|r| r.straight)
    );
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // Figures for people.
fn round(site: &Site, connections: usize, events: u64) -> Result<Round> {
    let receiver = &site.receiver;
    let cpu = receiver.cpu();
    let straight = floor::straight(receiver, connections, events)?;
    let straight_receiver = micros_each(receiver.cpu() - cpu, events);

    receiver.forget();
    let (before, cpu, used) = (site.delivered(), receiver.cpu(), site.gateway.usage()?.cpu);
    let began = Instant::now();
    let load = Load { connections, requests: events, ..site.gateway.api().load(&Site::event()) };
    let report = load.run()?;
    ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
    ensure!(site.wait_until_delivered(before + events), "not everything was delivered");
    let took = began.elapsed();
    // The settlements after the last delivery are part of the measurement too.
    std::thread::sleep(Duration::from_millis(100));
    let whole = receiver.latencies(0);
    Ok(Round {
        accepted: report.rate(),
        delivered: events as f64 / took.as_secs_f64(),
        accept_p50: report.percentile(50.0),
        accept_p99: report.percentile(99.0),
        whole_p50: percentile(&whole, 50.0),
        whole_p99: percentile(&whole, 99.0),
        gateway: micros_each(site.gateway.usage()?.cpu - used, events),
        receiver: micros_each(receiver.cpu() - cpu, events),
        generator: micros_each(report.cpu, events),
        straight: straight.rate(),
        straight_receiver,
        straight_generator: micros_each(straight.cpu, events),
    })
}
