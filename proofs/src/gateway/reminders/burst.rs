//! Many reminders are due at the same moment. They start on time, run at the rate of plain deliveries, never
//! exceed each tenant's in-flight limit, and do not block another tenant's deliveries.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox::Timestamp;
use breakerbox_model::objects::{ReminderId, ReminderRules, TenantId};
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::Load;
use breakerbox_testkit::receiver::{Behaviour, Receiver, Recording};
use serde_json::json;

use super::database_probe::waiting;
use super::folder::{Folder, New};
use super::runs::Runs;
use super::times;
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::ledger::duplicates;
use crate::gateway::site::{Site, WAIT_LIMIT};

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of reminders that are due at the same moment.
    pub reminders: usize,
    /// The number of plain deliveries whose rate is measured first.
    pub plain: u64,
    /// The duration for which another tenant is measured, first alone, then during the burst.
    pub time: Duration,
    /// The number of the other tenant's events per second.
    pub per_second: f64,
    /// Whether durations and rates are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        reminders: 100_000,
        plain: 40_000,
        time: Duration::from_secs(10),
        per_second: 100.0,
        judged: true,
    };
    /// A small part of the full size, for `cargo test`.
    pub const SMALL: Self = Self {
        reminders: 2_000,
        plain: 1_000,
        time: Duration::from_secs(1),
        per_second: 30.0,
        judged: false,
    };
}

/// The tenants with reminders, and the in-flight limit of each.
const TENANTS: [(&str, u32); 4] = [("north", 16), ("east", 32), ("south", 64), ("west", 64)];

/// The duration of a callback, long enough that callbacks visibly run concurrently.
const TAKES: Duration = Duration::from_millis(2);

/// During the burst, the other tenant's latencies may be longer by this much, or twice as long, whichever is
/// more.
const OR_LONGER_BY: Duration = Duration::from_millis(20);

/// The maximum allowed time from the reminders' due time to the first callback.
const ON_TIME: Duration = Duration::from_secs(1);

/// The minimum allowed callback rate, as a share of the rate of plain deliveries. Firing gets half of the
/// writer's time, so that other writes can proceed.
const OF_PLAIN: f64 = 0.4;

/// The number of events in one request.
const BATCH: usize = 100;

/// The number of reminders that are created to estimate how long it takes to create all of them.
const SAMPLE: usize = 500;

/// The time between the creation of the last reminder and the reminders' due time, in which the gateway starts.
const BEFORE: Duration = Duration::from_secs(5);

/// Waits until all reminders are due at once, and measures their callbacks.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!(
        "{} reminders of {} tenants due at the same moment",
        size.reminders,
        TENANTS.len()
    ));
    let crowd = Receiver::builder().recording(Recording::Visits { at_most: 2_000_000 }).start()?;
    let receiver = Receiver::builder().recording(Recording::Off).start()?;
    let mut site = Site { gateway: Settings::new(program).prepare()?, receiver };
    let folder = Folder::open(site.gateway.data())?;
    let tenants = TENANTS
        .map(|(name, at_once)| {
            crowd.set(&path(name), Behaviour::after(200, TAKES));
            crowd.set(&plain(name), Behaviour::after(200, TAKES));
            let rules = ReminderRules { max_in_flight: Some(at_once), ..ReminderRules::default() };
            folder.add_tenant(name, rules)
        })
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    folder.add_tenant("shop", ReminderRules::default())?;
    folder.close();
    site.gateway.start_again()?;
    let healthy = site.add_healthy("shop", 1, &[])?;
    let event = Event::new("shop", "order.paid");
    site.measure(&event, size.per_second, size.time / 5, &healthy)?;
    let alone = site.measure(&event, size.per_second, size.time, &healthy)?;
    let plain_rate = plain_deliveries(&site, &crowd, size)?;

    site.gateway.ask_to_stop()?;
    site.gateway.wait_for_end(WAIT_LIMIT)?;
    let (moment, reminders) = fill(&site, &crowd, &tenants, size)?;
    site.gateway.start_again()?;
    site.measure(&event, size.per_second, size.time / 10, &healthy)?;
    let is_early = times::now() < moment;
    ensure!(is_early || !size.judged, "the machine is too slow: the gateway was not ready at the moment");

    let limit = moment.since(times::now()) + WAIT_LIMIT;
    site.until("the first callback", limit, |_| Ok(seen(&crowd).0 > 0))?;
    let beside = site.measure(&event, size.per_second, size.time, &healthy)?;
    let done_meanwhile = seen(&crowd).0;
    site.until("all callbacks", 10 * WAIT_LIMIT, |_| Ok(seen(&crowd).1 >= reminders.len() as u64))?;
    site.until("nothing waits", WAIT_LIMIT, |site| Ok(waiting(site)? == 0))?;

    let (runs, start) = (Runs::of(&reminders, 1), times::start_of(&crowd));
    let paths = TENANTS.map(|(name, _)| path(name));
    let came = runs.came(&crowd, &paths.each_ref().map(String::as_str));
    let mut lags: Vec<_> = came.first().map(|(_, at)| times::lag(moment, start, at)).collect();
    lags.sort();
    let (first, last) = (lags.first().context("none came")?, lags.last().context("none came")?);
    let early = came.first().filter(|(_, at)| start + *at < moment).count();
    findings.exactly("callbacks before the moment", early, 0);
    findings.within("from the moment to the first callback", *first, ON_TIME, size.judged);
    findings.note("from the moment to the last", Millis(*last));
    let rate = rate(lags.len() as u64, last.saturating_sub(*first));
    findings.note("plain deliveries in a second, accepted and delivered", format!("{plain_rate:.0}"));
    findings.note("callbacks in a second", format!("{rate:.0}"));
    let ratio = rate / plain_rate.max(1.0);
    let promised = format!("at least {OF_PLAIN}");
    findings.judge("of the plain rate", format!("{ratio:.2}"), promised, ratio >= OF_PLAIN, size.judged);
    findings.exactly("reminders that did not come", runs.missing(&came), 0);
    findings.exactly("callbacks that belong to nothing", came.unexpected, 0);
    findings.exactly("callbacks too many", duplicates(&crowd, &[]).count, 0);
    for (name, at_once) in TENANTS {
        let most = crowd.seen(&path(name)).most_in_flight;
        findings.at_most(&format!("most in flight of {name}"), most, at_once);
    }
    alone.compare(&beside, "the crowd", OR_LONGER_BY, size.judged, &mut findings);
    findings.note("events of the other tenant meanwhile", beside.events);
    let busy = done_meanwhile < reminders.len() as u64;
    findings.judge("the crowd was still busy then", busy, true, busy, size.judged);
    Ok(findings)
}

fn path(tenant: &str) -> String {
    format!("/{tenant}/reminders")
}

fn plain(tenant: &str) -> String {
    format!("/{tenant}/plain")
}

/// Returns the number of callbacks, and the number of those that succeeded.
fn seen(crowd: &Receiver) -> (u64, u64) {
    let seen = TENANTS.map(|(name, _)| crowd.seen(&path(name)));
    (seen.iter().map(|seen| seen.requests).sum(), seen.iter().map(|seen| seen.delivered).sum())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-3)
}

/// Returns the number of plain deliveries per second, from the first submitted event to the last response. The
/// number of lanes (endpoint queues) and their in-flight limits are the same as for the reminders.
fn plain_deliveries(site: &Site, crowd: &Receiver, size: Size) -> Result<f64> {
    let mut loads = Vec::new();
    for (name, at_once) in TENANTS {
        let settings = json!({"max_in_flight": at_once});
        site.api().create_endpoint(name, &crowd.url(&plain(name)), &[], &settings)?;
        let requests = size.plain / TENANTS.len() as u64 / BATCH as u64;
        let batches = site.api().load_of_batches(&Event { size: 100, ..Event::new(name, "bulk") }, BATCH);
        loads.push(Load { requests: requests.max(1), connections: 1, ..batches });
    }
    let began = Instant::now();
    let loads = loads.into_iter().map(Load::start).collect::<Result<Vec<_>, _>>()?;
    let mut wanted = 0;
    for report in loads.into_iter().map(breakerbox_testkit::load::Running::finish) {
        ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
        wanted += report.successes() * BATCH as u64;
    }
    let delivered = || TENANTS.iter().map(|(name, _)| crowd.seen(&plain(name)).delivered).sum::<u64>();
    site.until("plain deliveries", 5 * WAIT_LIMIT, |_| Ok(delivered() >= wanted))?;
    let rate = rate(wanted, began.elapsed());
    crowd.forget();
    Ok(rate)
}

/// Writes all reminders to the stopped gateway's directory. To determine when they can be due, first writes a
/// few that are due in a year, and estimates how long the rest will take.
fn fill(
    site: &Site,
    crowd: &Receiver,
    tenants: &[TenantId],
    size: Size,
) -> Result<(Timestamp, Vec<ReminderId>)> {
    let folder = Folder::open(site.gateway.data())?;
    let new = |number: usize, at: Timestamp| {
        let tenant = &tenants[number % tenants.len()];
        // Each reminder has its own URL, and the receiver counts them by tenant.
        New::once(tenant, crowd.url(&format!("{}?reminder={number}", path(tenant.as_str()))), at)
    };
    let (began, next_year) = (Instant::now(), times::now() + Duration::from_secs(365 * 86_400));
    folder.add((0..SAMPLE).map(|number| new(number, next_year)))?;
    let share = u32::try_from(size.reminders / SAMPLE + 1).unwrap_or(u32::MAX);
    let moment = times::now() + began.elapsed() * share * 2 + BEFORE;
    let reminders = folder.add((0..size.reminders).map(|number| new(number, moment)))?;
    folder.close();
    Ok((moment, reminders))
}
