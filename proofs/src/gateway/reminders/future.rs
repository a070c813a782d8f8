//! A million reminders are not due yet. Checking for due reminders, firing and claiming them costs as much as
//! without the million, and so do deliveries.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox_model::objects::{LaneId, Priority, ReminderRules, TenantId};
use breakerbox_model::reminder::{CatchUp, Decision, ReminderDefaults, WhenFailed};
use breakerbox_storage::{Claim, Queue, ReminderStore, Reservations};
use breakerbox_storage_sqlite::SqliteQueue;
use breakerbox_testkit::gateway::Settings;
use breakerbox_testkit::receiver::{Receiver, Recording};

use super::database_probe::waiting;
use super::folder::{Folder, New};
use super::times;
use crate::gateway::backlog::{cost, median};
use crate::gateway::findings::Findings;
use crate::gateway::site::{Site, WAIT_LIMIT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of reminders that are not due.
    pub future: usize,
    /// The number of rounds of checking, firing and claiming. Rounds alternate between the empty and the full
    /// database.
    pub looks: usize,
    /// The number of rounds of deliveries. Rounds alternate between the empty and the full database.
    pub rounds: usize,
    /// The duration of each round of deliveries.
    pub time: Duration,
    /// Whether costs are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self =
        Self { future: 1_000_000, looks: 200, rounds: 7, time: Duration::from_secs(4), judged: true };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self =
        Self { future: 10_000, looks: 5, rounds: 1, time: Duration::from_millis(500), judged: false };
}

/// The maximum allowed ratio of the costs with many reminders to the costs without any.
const COSTS_MORE: f64 = 1.2;

/// The number of reminders that are due in one round.
const DUE: usize = 64;

/// The number of reminders that the scheduler reads in one batch.
const PIECE: usize = 256;

/// The duration for which an idle gateway is measured.
const QUIET: Duration = Duration::from_secs(5);

/// The maximum allowed CPU time of two idle gateways within [`QUIET`]. An idle gateway only checks the clock
/// from time to time.
const IDLE: Duration = Duration::from_millis(100);

const DAY: Duration = Duration::from_secs(86_400);
const TENANT: &str = "shop";
const PATH: &str = "/reminders";
const LEASE: Duration = Duration::from_secs(60);
const SAYS: ReminderDefaults = ReminderDefaults { catch_up: CatchUp::All, when_failed: WhenFailed::Stop };

/// A dispatcher that accepts no runs, so that every fired run must be claimed from the database.
struct NoDispatch;

impl Reservations for NoDispatch {
    fn reserve(&self, _: LaneId, _: &TenantId, _: Option<&Arc<str>>) -> Option<Duration> {
        None
    }

    fn release(&self, _: LaneId) {}
}

/// Compares the costs of a gateway without reminders with those of a gateway that has many.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!("{} reminders that are not due", size.future));
    let (mut empty, mut full) = (prepared(program)?, prepared(program)?);
    let (empty_folder, full_folder) = (opened(&empty)?, opened(&full)?);
    let (began, tomorrow) = (Instant::now(), times::now() + DAY);
    let url = |number: usize| full.receiver.url(&format!("{PATH}?reminder={number}"));
    let spread = |number: usize| tomorrow + DAY * 365 / 1_000_000 * u32::try_from(number).unwrap_or(0);
    let tenant: TenantId = TENANT.parse()?;
    full_folder.add((0..size.future).map(|number| New::once(&tenant, url(number), spread(number))))?;
    findings.note("put there in, s", began.elapsed().as_secs());

    let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
    for round in 0..=size.looks.max(1) {
        for ((site, folder), costs) in
            [(&empty, &empty_folder), (&full, &full_folder)].into_iter().zip(&mut costs)
        {
            let cost = look_fire_claim(site, folder, &tenant)?;
            // The first round is a warm-up.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let [on_empty, on_full] = &costs;
    compare(
        "a look at which nothing is due",
        on_empty,
        on_full,
        |cost| cost.look,
        size.judged,
        &mut findings,
    );
    let name = format!("a look at which {DUE} are due");
    compare(&name, on_empty, on_full, |cost| cost.look_at_due, size.judged, &mut findings);
    compare(&format!("firing {DUE}"), on_empty, on_full, |cost| cost.fire, size.judged, &mut findings);
    compare(&format!("claiming {DUE}"), on_empty, on_full, |cost| cost.claim, size.judged, &mut findings);
    empty_folder.close();
    full_folder.close();

    empty.gateway.start_again()?;
    full.gateway.start_again()?;
    deliveries(&empty, &full, size, &mut findings)?;
    Ok(findings)
}

fn prepared(program: &Path) -> Result<Site> {
    let receiver = Receiver::builder().recording(Recording::Off).start()?;
    Ok(Site { gateway: Settings::new(program).prepare()?, receiver })
}

fn opened(site: &Site) -> Result<Folder> {
    let folder = Folder::open(site.gateway.data())?;
    folder.add_tenant(TENANT, ReminderRules::default())?;
    Ok(folder)
}

/// The duration of each step in one round.
#[derive(Clone, Copy, Debug)]
struct Cost {
    look: Duration,
    look_at_due: Duration,
    fire: Duration,
    claim: Duration,
}

/// Runs each step of the scheduler and the dispatcher once, and measures it.
fn look_fire_claim(site: &Site, folder: &Folder, tenant: &TenantId) -> Result<Cost> {
    let database = folder.database.clone();
    let queue = SqliteQueue::new(database, folder.records.directory().clone(), Arc::new(NoDispatch));
    folder
        .runtime
        .block_on(async {
            let began = Instant::now();
            let nothing = queue.due_reminders(times::now(), PIECE).await?;
            queue.next_check_at().await?;
            let look = began.elapsed();
            ensure!(nothing.is_empty(), "{} are due", nothing.len());
            Ok((queue, look))
        })
        .and_then(|(queue, look)| {
            let at = times::now();
            let new = |number: usize| {
                New::once(tenant, site.receiver.url(&format!("{PATH}?reminder=due-{number}")), at)
            };
            folder.add((0..DUE).map(new))?;
            folder.runtime.block_on(async {
                let began = Instant::now();
                let due = queue.due_reminders(times::now(), PIECE).await?;
                queue.next_check_at().await?;
                let look_at_due = began.elapsed();
                ensure!(due.len() == DUE, "{} are due", due.len());
                let decided: Vec<Decision> = due.iter().map(|due| due.decide(SAYS, times::now())).collect();
                let began = Instant::now();
                let applied = queue.apply_decisions(decided).await?;
                let fire = began.elapsed();
                ensure!(applied.fired == DUE as u64, "{} were fired", applied.fired);
                let lane = applied.woken.first().context("nothing waits")?.lane;
                let limit = u32::try_from(DUE).unwrap_or(u32::MAX);
                let began = Instant::now();
                let claim = Claim::Due { lane, priority: Priority::Medium, limit, lease: LEASE };
                let claimed = queue.claim(vec![claim]).await?;
                let claim = began.elapsed();
                let claimed = claimed.first().map_or(0, |claimed| claimed.deliveries.len());
                ensure!(claimed == DUE, "{claimed} were claimed");
                Ok(Cost { look, look_at_due, fire, claim })
            })
        })
}

fn compare(
    what: &str,
    empty: &[Cost],
    full: &[Cost],
    of: impl Fn(&Cost) -> Duration,
    judged: bool,
    findings: &mut Findings,
) {
    let [empty, full] =
        [empty, full].map(|costs| median(costs.iter().map(|cost| of(cost).as_secs_f64() * 1e6)));
    ratio(&format!("{what}, us"), empty, full, judged, findings);
}

fn ratio(what: &str, empty: f64, full: f64, judged: bool, findings: &mut Findings) {
    let (seen, ratio) = (format!("{full:.0} : {empty:.0}"), full / empty.max(1.0));
    let promised = format_args!("at most {COSTS_MORE}x");
    findings.judge(&format!("{what}, full : empty"), seen, promised, ratio <= COSTS_MORE, judged);
}

/// Compares two gateway processes, first while they are idle, then while they deliver.
fn deliveries(empty: &Site, full: &Site, size: Size, findings: &mut Findings) -> Result<()> {
    // Send the fired runs first.
    for site in [empty, full] {
        site.until("nothing is due any more", 2 * WAIT_LIMIT, |site| Ok(waiting(site)? == 0))?;
    }
    let before = [empty, full].map(|site| site.gateway.usage());
    thread::sleep(if size.judged { QUIET } else { QUIET / 5 });
    let mut idle = Vec::new();
    for (site, before) in [empty, full].into_iter().zip(before) {
        idle.push(site.gateway.usage()?.cpu.saturating_sub(before?.cpu));
    }
    findings.note("CPU time of 5 s in which nothing is due, empty, ms", idle[0].as_millis());
    findings.within("the same, full", idle[1], idle[0] + IDLE, size.judged);

    let mut costs: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for site in [empty, full] {
        site.add_healthy(TENANT, 1, &[])?;
        cost(site, size.time)?;
    }
    for _ in 0..size.rounds.max(1) {
        for (site, costs) in [empty, full].into_iter().zip(&mut costs) {
            costs.push(cost(site, size.time)?);
        }
    }
    let [empty_cost, full_cost] =
        costs.map(|costs| (median(costs.iter().map(|cost| cost.0)), median(costs.iter().map(|cost| cost.1))));
    ratio("CPU for each event, us", empty_cost.0, full_cost.0, size.judged, findings);
    ratio("accept p50, us", empty_cost.1, full_cost.1, size.judged, findings);
    Ok(())
}
