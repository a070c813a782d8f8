//! 200 events per second, at fixed times: the latency of an event on an idle gateway, compared with one durable
//! commit.

use std::time::Duration;

use anyhow::{Result, ensure};
use breakerbox_testkit::load::{Load, Pace, percentile};

use super::{Arguments, Site, floor, middle, millis, verdict};

const PER_SECOND: f64 = 200.0;

/// The end-to-end latency that is allowed in addition to the duration of three commits.
const EXTRA: Duration = Duration::from_millis(1);

#[derive(Clone, Copy)]
struct Round {
    commit: Duration,
    accept_p50: Duration,
    whole_p50: Duration,
    whole_p99: Duration,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let site = Site::start(&arguments.program)?;
    let time = Duration::from_secs(arguments.seconds.max(1));
    round(&site, time / 5)?;
    let rounds: Vec<Round> =
        (0..arguments.rounds.max(1)).map(|_| round(&site, time)).collect::<Result<_>>()?;
    let of = |figure: fn(&Round) -> Duration| middle(&rounds.iter().map(figure).collect::<Vec<_>>());
    let (commit, whole) = (of(|r| r.commit), of(|r| r.whole_p50));
    let wanted = 3 * commit + EXTRA;
    println!("\n{PER_SECOND:.0} events in a second\n");
    println!("| what | ms | wanted | |");
    println!("| --- | --- | --- | --- |");
    println!("| one durable commit in the same folder | {:.2} | | |", millis(commit));
    println!("| accept p50 | {:.2} | | |", millis(of(|r| r.accept_p50)));
    println!(
        "| end to end p50 | {:.2} | 3 commits + 1 ms = {:.2} | {} |",
        millis(whole),
        millis(wanted),
        verdict(whole <= wanted)
    );
    println!("| end to end p99 | {:.2} | | |", millis(of(|r| r.whole_p99)));
    Ok(())
}

fn round(site: &Site, time: Duration) -> Result<Round> {
    let before_it = floor::commit(site.gateway.data())?;
    site.receiver.forget();
    let before = site.delivered();
    let pace = Pace::Open { per_second: PER_SECOND };
    let report = Load { pace, time, connections: 16, ..site.gateway.api().load(&Site::event()) }.run()?;
    ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
    ensure!(site.wait_until_delivered(before + report.successes()), "not everything was delivered");
    // The lower of two measurements: a disk that another process keeps busy for a moment would only make the
    // target easier.
    let commit = before_it.min(floor::commit(site.gateway.data())?);
    let whole = site.receiver.latencies(0);
    Ok(Round {
        commit,
        accept_p50: report.percentile(50.0),
        whole_p50: percentile(&whole, 50.0),
        whole_p99: percentile(&whole, 99.0),
    })
}
