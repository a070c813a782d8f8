//! A tenant's callbacks become slow, or fail: its circuit opens at the outcome that exceeds its limit, its runs
//! are parked, it is probed with one call at a time, and after its recovery the runs fire according to
//! `catch_up`. Another tenant is not affected.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox::Timestamp;
use breakerbox_model::delivery::RetrySchedule;
use breakerbox_model::objects::{ReminderId, ReminderRules, ReminderState, TenantId};
use breakerbox_model::reminder::CatchUp;
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::receiver::{Behaviour, Receiver, Recording};
use serde_json::{Value, json};

use super::circuits::{circuit, history, state, time_of, word};
use super::database_probe::active;
use super::folder::{Folder, New, rules};
use super::runs::{Expected, Runs};
use super::times;
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::site::{Site, WAIT_LIMIT};

/// How the tenant's callbacks fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallbackFault {
    /// The callbacks take longer than the allowed mean.
    Slow,
    /// The callbacks fail more often than allowed.
    Failing,
}

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The fault of the tenant's callbacks.
    pub fault: CallbackFault,
    /// The number of the affected tenant's reminders, each due every second. Half of them fire all missed runs
    /// (`CatchUp::All`), the other half only the latest (`CatchUp::Latest`).
    pub reminders: usize,
    /// The number of occurrences of each reminder.
    pub occurrences: u32,
    /// The number of probes before the recovery.
    pub probes: u64,
    /// The duration for which the other tenant is measured, alone and during the fault.
    pub time: Duration,
    /// The number of the other tenant's events per second.
    pub per_second: f64,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: [Self; 2] = [Self::full(CallbackFault::Slow), Self::full(CallbackFault::Failing)];
    /// A part of the full size, for `cargo test`.
    pub const SMALL: [Self; 2] = [Self::small(CallbackFault::Slow), Self::small(CallbackFault::Failing)];

    const fn full(fault: CallbackFault) -> Self {
        let (time, per_second) = (Duration::from_secs(20), 100.0);
        Self { fault, reminders: 40, occurrences: 20, probes: 8, time, per_second, judged: true }
    }

    const fn small(fault: CallbackFault) -> Self {
        let (time, per_second) = (Duration::from_secs(1), 20.0);
        Self { fault, reminders: 12, occurrences: 4, probes: 2, time, per_second, judged: false }
    }
}

impl CallbackFault {
    /// Returns the affected tenant's policy, with a short cool-off.
    fn policy(self) -> Value {
        let cool_off = format!("{}s", COOL_OFF.as_secs());
        let mut policy = json!({"cool_off": cool_off, "cool_off_max": cool_off, "jitter": 0});
        let limits = match self {
            // A late response fails a probe.
            Self::Slow => {
                json!({"mean_latency": "200ms", "min_calls": 5, "failures": "off", "consecutive_failures": "off", "probe_timeout": "200ms"})
            }
            Self::Failing => json!({"failures": 20, "consecutive_failures": "off", "mean_latency": "off"}),
        };
        if let (Some(policy), Some(limits)) = (policy.as_object_mut(), limits.as_object()) {
            policy.extend(limits.clone());
        }
        policy
    }

    /// Returns the number of outcomes after which the circuit must open.
    const fn limit(self) -> u64 {
        match self {
            Self::Slow => 5,
            Self::Failing => 20,
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Slow => "mean_latency",
            Self::Failing => "failures",
        }
    }

    fn behaviour(self) -> Behaviour {
        match self {
            Self::Slow => Behaviour::after(200, Duration::from_millis(400)),
            Self::Failing => Behaviour::after(500, Duration::from_millis(50)),
        }
    }
}

/// The cool-off before each probe.
const COOL_OFF: Duration = Duration::from_secs(2);

/// The number of concurrent callbacks.
const AT_ONCE: u32 = 4;

/// The factor by which the other tenant's latencies may increase.
const NOTICED: f64 = 1.5;

/// The number of the other tenant's reminders.
const OTHERS: usize = 20;

/// The time that the gateway is given to start.
const TO_START: Duration = Duration::from_secs(4);

const SECOND: Duration = Duration::from_secs(1);
const TROUBLED: &str = "troubled";
const OTHER: &str = "other";
const CALLBACKS: &str = "/troubled/reminders";
const OTHER_CALLBACKS: &str = "/other/reminders";

/// The reminders of both tenants.
struct Filled {
    /// The first due time of the affected tenant's reminders.
    first_at: Timestamp,
    /// The reminders with the catch-up rule that fires every missed run.
    all: Vec<ReminderId>,
    /// The reminders with the catch-up rule that fires only the latest missed run.
    latest: Vec<ReminderId>,
    others: Others,
}

/// The other tenant's reminders, each due every second, and spread evenly over the second.
struct Others {
    first_at: Timestamp,
    reminders: Vec<ReminderId>,
    runs: u32,
}

/// Makes one tenant exceed its limits, and checks both tenants.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn prove(program: &Path, size: Size) -> Result<Findings> {
    let fault = size.fault;
    let mut findings =
        Findings::new(format!("limits of a tenant: {} reminders every second, {fault:?}", size.reminders));
    let callbacks = Receiver::builder().recording(Recording::Visits { at_most: 2_000_000 }).start()?;
    let receiver = Receiver::builder().recording(Recording::Off).start()?;
    let mut site = Site { gateway: Settings::new(program).prepare()?, receiver };
    callbacks.set(CALLBACKS, fault.behaviour());
    let filled = fill(&site, &callbacks, size)?;
    site.gateway.start_again()?;
    let healthy = site.add_healthy(OTHER, 1, &[])?;
    let event = Event::new(OTHER, "order.paid");
    site.measure(&event, size.per_second, size.time / 10, &healthy)?;
    let alone = site.measure(&event, size.per_second, size.time, &healthy)?;

    let limit = filled.first_at.since(times::now()) + WAIT_LIMIT;
    site.until("its circuit opens", limit, |site| Ok(state(&circuit(site, TROUBLED)?) == "open"))?;
    site.until("what was in flight has ended", WAIT_LIMIT, |_| Ok(callbacks.seen(CALLBACKS).in_flight == 0))?;
    callbacks.forget_most();
    site.until("that is written down", WAIT_LIMIT, |site| Ok(!history(site, TROUBLED)?.is_empty()))?;
    let trip = history(&site, TROUBLED)?.pop().context("there was a trip")?;
    findings.exactly("opened by", word(&trip, "cause"), fault.rule().into());
    // Callbacks that were in flight arrive soon, and the first probe much later.
    let opened = count_until(&callbacks, time_of(&trip)? + COOL_OFF / 2);
    findings.at_least("callbacks until it opened", opened, fault.limit());
    let most = fault.limit() + u64::from(AT_ONCE) - 1;
    findings.at_most("callbacks until it opened, those in flight too", opened, most);

    let beside = site.measure(&event, size.per_second, size.time, &healthy)?;
    times::sleep_until(filled.first_at + SECOND * size.occurrences);
    site.until("so many probes", 2 * WAIT_LIMIT, |_| {
        Ok(callbacks.seen(CALLBACKS).requests >= opened + size.probes)
    })?;
    let (outage, recovered) = (callbacks.seen(CALLBACKS), callbacks.start_time().elapsed());
    callbacks.set(CALLBACKS, Behaviour::HEALTHY);
    findings.note("probes while it was open", outage.requests - opened);
    findings.exactly("the most of them at once", outage.most_in_flight, 1);
    site.until("all have fired", 2 * WAIT_LIMIT, |site| Ok(active(site, TROUBLED)? == 0))?;
    let returned = callbacks.start_time().elapsed();
    findings.note("from its recovery until all have fired", Millis(returned - recovered));
    findings.exactly("reminders that stopped", site.metric("breakerbox_reminders_stopped_total")?, 0.0);
    site.gateway.ask_to_stop()?;
    site.gateway.wait_for_end(WAIT_LIMIT)?;
    judge_return(&site, &callbacks, &filled, size, recovered, &mut findings)?;

    findings.note("p50 of another tenant's deliveries, before", Millis(alone.deliveries.p50));
    findings.note("p50 of another tenant's deliveries, meanwhile", Millis(beside.deliveries.p50));
    notice(
        "usual p99 of its deliveries",
        alone.deliveries.usual_p99,
        beside.deliveries.usual_p99,
        size.judged,
        &mut findings,
    );
    findings.exactly("deliveries of it that did not come", alone.missing + beside.missing, 0);
    let (before, meanwhile) = filled.others.lags(&callbacks, filled.first_at, recovered);
    findings.note(
        "callbacks of its reminders, before and meanwhile",
        format!("{} and {}", before.len(), meanwhile.len()),
    );
    let (before, meanwhile) = (usual_p99(before), usual_p99(meanwhile));
    notice("usual p99 of its callbacks, after their time", before, meanwhile, size.judged, &mut findings);
    Ok(findings)
}

fn notice(what: &str, before: Duration, meanwhile: Duration, judged: bool, findings: &mut Findings) {
    findings.note(&format!("{what}, before"), Millis(before));
    findings.within(&format!("{what}, meanwhile"), meanwhile, before.mul_f64(NOTICED), judged);
}

fn fill(site: &Site, callbacks: &Receiver, size: Size) -> Result<Filled> {
    let folder = Folder::open(site.gateway.data())?;
    let retry = Some(RetrySchedule::new(vec![SECOND; 50])?);
    let limits = ReminderRules { retry, ..rules(size.fault.policy(), AT_ONCE) };
    let troubled = folder.add_tenant(TROUBLED, limits)?;
    let other = folder.add_tenant(OTHER, ReminderRules::default())?;
    let others_first = times::now() + TO_START;
    let before = size.time * 6 / 5 + 2 * SECOND;
    let first_at = others_first + before;
    let occurrences = size.occurrences;
    let new = |tenant: &TenantId, path: &str, (number, of): (usize, usize), first_at, times| {
        let url = callbacks.url(&format!("{path}?reminder={number}"));
        New::repeated(tenant, url, first_at + phase(number, of), SECOND, times)
    };
    let half = size.reminders / 2;
    let troubled = |from: usize, catch_up: CatchUp| {
        let new = |number: usize| {
            let place = (from + number, size.reminders);
            New { catch_up: Some(catch_up), ..new(&troubled, CALLBACKS, place, first_at, occurrences) }
        };
        folder.add((0..half).map(new))
    };
    let (all, latest) = (troubled(0, CatchUp::All)?, troubled(half, CatchUp::Latest)?);
    // More runs than the test observes.
    let runs = u32::try_from(before.as_secs() + size.time.as_secs()).unwrap_or(0) + 2 * occurrences + 60;
    let new = |number| new(&other, OTHER_CALLBACKS, (number, OTHERS), others_first, runs);
    let reminders = folder.add((0..OTHERS).map(new))?;
    folder.close();
    Ok(Filled { first_at, all, latest, others: Others { first_at: others_first, reminders, runs } })
}

/// Returns the number of callbacks that started before this time.
fn count_until(callbacks: &Receiver, until: Timestamp) -> u64 {
    let (start, path) = (times::start_of(callbacks), callbacks.number(CALLBACKS));
    let count = callbacks.with_visits(|visits| {
        visits.iter().filter(|visit| visit.endpoint == path && start + visit.at() < until).count()
    });
    count as u64
}

/// Returns when in each second a reminder fires, so that `of` reminders are spread evenly over the second.
fn phase(number: usize, of: usize) -> Duration {
    let share = |number: usize| u32::try_from(number).unwrap_or(0);
    SECOND * share(number) / share(of).max(1)
}

/// Checks that all parked runs have fired, according to each reminder's catch-up rule.
fn judge_return(
    site: &Site,
    callbacks: &Receiver,
    filled: &Filled,
    size: Size,
    recovered: Duration,
    findings: &mut Findings,
) -> Result<()> {
    let everybody: Vec<_> = filled.all.iter().chain(&filled.latest).copied().collect();
    let came = Runs::of(&everybody, size.occurrences).came(callbacks, &[CALLBACKS]);
    findings.exactly("callbacks that belong to no run", came.unexpected, 0);

    let runs = Runs::of(&filled.all, size.occurrences);
    let came = runs.came(callbacks, &[CALLBACKS]);
    findings.note("catch_up all: runs that were due", runs.count());
    findings.exactly("catch_up all: lost", runs.missing(&came), 0);
    findings.exactly("catch_up all: out of order", runs.out_of_order(&came), 0);

    let runs = Runs::of(&filled.latest, size.occurrences);
    let came = runs.came(callbacks, &[CALLBACKS]);
    let (mut returned, mut too_many, mut none) = (0, 0, 0);
    for place in 0..filled.latest.len() {
        let fired = came.delivered_since(place, recovered);
        returned += fired;
        none += usize::from(fired == 0);
        // A run that was attempted before it was parked counts for its own occurrence, so a later one is in
        // addition to it.
        too_many += usize::from(fired > 1 + usize::from(came.was_tried_before(place, recovered)));
    }
    findings.note("catch_up latest: runs that fired after the recovery", returned);
    // On a very slow machine, a reminder may have ended before the trip.
    findings.judge("catch_up latest: reminders that fired nothing", none, 0, none == 0, size.judged);
    findings.exactly("catch_up latest: reminders that fired more than the latest", too_many, 0);

    let folder = Folder::open(site.gateway.data())?;
    let (mut not_finished, mut not_to_the_end) = (0, 0);
    for id in everybody {
        let reminder = folder.reminder(id)?;
        not_finished += usize::from(reminder.state != ReminderState::Finished);
        not_to_the_end += usize::from(reminder.last_at != reminder.settings.schedule.ends_at);
    }
    folder.close();
    findings.exactly("reminders that are not finished", not_finished, 0);
    findings.exactly("reminders whose last time nothing stands for", not_to_the_end, 0);
    Ok(())
}

impl Others {
    /// Returns the delays of the callbacks, ordered by due time. The first list contains the callbacks due
    /// before `parted_at`, the second those due later.
    fn lags(
        &self,
        callbacks: &Receiver,
        parted_at: Timestamp,
        until: Duration,
    ) -> (Vec<Duration>, Vec<Duration>) {
        let (runs, start) = (Runs::of(&self.reminders, self.runs), times::start_of(callbacks));
        let mut lags: Vec<_> = runs
            .came(callbacks, &[OTHER_CALLBACKS])
            .first()
            .filter(|(_, at)| *at < until)
            .map(|(Expected { reminder, run }, at)| {
                let due = self.first_at + phase(reminder, self.reminders.len()) + SECOND * (run - 1);
                (due, times::lag(due, start, at))
            })
            .collect();
        lags.sort();
        let place = lags.partition_point(|(due, _)| *due < parted_at);
        let meanwhile = lags.split_off(place);
        [lags, meanwhile].map(|lags| lags.into_iter().map(|(_, lag)| lag).collect()).into()
    }
}

/// Returns the median of the 99th percentiles of ten slices, so that one moment in which the machine is busy
/// does not affect the result.
fn usual_p99(lags: Vec<Duration>) -> Duration {
    let mut slices: Vec<Duration> = lags
        .chunks(lags.len().div_ceil(10).max(1))
        .filter_map(|slice| {
            let mut slice = slice.to_vec();
            slice.sort();
            slice.get(slice.len() * 99 / 100).copied()
        })
        .collect();
    slices.sort();
    slices.get(slices.len() / 2).copied().unwrap_or_default()
}
