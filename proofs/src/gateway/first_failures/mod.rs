//! New endpoints, and reminders of new tenants, that fail from the first request: the circuit opens with the
//! failure that its policy specifies, or stays closed if the receiver only asks to slow down; retries are made
//! when they are due; and the throttle never holds a lane (an endpoint's queue) for longer than two seconds.
//!
//! | item | description |
//! | --- | --- |
//! | [`events`] | trials with events: each endpoint has its own circuit |
//! | [`reminders`] | trials with reminders: each tenant has one circuit for all of its reminders |
//! | `trace` | the history of each circuit, from the gateway's database |
//!
//! **The failure that opens the circuit.** It is the fifth consecutive one (`consecutive_failures` 5, also in the
//! preset `reminders`). At 0.5 events/s the first delivery's retry, due after 5 s, is among them, so the fifth
//! failure is that of the fourth event or of the first one's retry. Retries of reminders are due after a minute.

mod trace;

use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use breakerbox_model::objects::{ReminderRules, TenantId};
use breakerbox_testkit::gateway::{Event, Settings};
use breakerbox_testkit::load::{Load, Pace};
use breakerbox_testkit::receiver::{Behaviour, Hostile, Receiver, Recording, RefusingPort};
use serde_json::json;

use self::trace::{Named, Trace};
use super::findings::{Findings, Millis};
use super::reminders::folder::{Folder, New};
use super::reminders::times;
use super::site::{Site, WAIT_LIMIT, create_all};

/// How a receiver fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No process listens on the port.
    Refused,
    /// Connections are reset instead of answered.
    Reset,
    /// Requests get no response.
    Hanging,
    /// The receiver responds with this status immediately.
    Status(u16),
}

impl Fault {
    const ALL: [Self; 6] =
        [Self::Refused, Self::Reset, Self::Hanging, Self::Status(500), Self::Status(503), Self::Status(429)];

    fn name(self) -> String {
        match self {
            Self::Refused => "refused".into(),
            Self::Reset => "reset".into(),
            Self::Hanging => "hanging".into(),
            Self::Status(status) => status.to_string(),
        }
    }

    /// Returns whether the fault must open the circuit. A 429, which only asks the sender to slow down, must
    /// not open it.
    fn trips(self) -> bool {
        self != Self::Status(429)
    }

    fn behaviour(self) -> Behaviour {
        match self {
            // The URL points to another port.
            Self::Refused => Behaviour::HEALTHY,
            Self::Reset => Behaviour::Hostile(Hostile::Reset),
            Self::Hanging => Behaviour::Hang,
            Self::Status(status) => Behaviour::status(status),
        }
    }
}

/// The scale at which the test runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of parallel trials for each fault at each rate.
    pub trials: usize,
    /// The event rates to test, each as the number of events per second and the duration in seconds.
    pub events: &'static [(f64, f64)],
    /// The reminder rates to test, each as the number of reminders per second and the number of reminders.
    pub reminders: &'static [(f64, u32)],
    /// The timeout for a request.
    pub timeout: Duration,
    /// Whether reminders whose callback hangs are included. These take half a minute until twenty have failed.
    pub hanging_reminders: bool,
    /// Whether the test waits for the first probes, and for the first retries of reminders.
    pub retries: bool,
    /// Whether durations are checked. Set to `false` on a busy machine.
    pub judged: bool,
}

impl Size {
    /// The full size, for which the guarantee is stated.
    pub const FULL: Self = Self {
        trials: 20,
        events: &[(0.5, 20.0), (2.0, 15.0), (20.0, 10.0), (200.0, 3.0)],
        reminders: &[(0.5, 26), (2.0, 40), (20.0, 60), (200.0, 100)],
        timeout: Duration::from_secs(1),
        hanging_reminders: true,
        retries: true,
        judged: true,
    };
    /// A part of the full size, for `cargo test`.
    pub const SMALL: Self = Self {
        trials: 2,
        events: &[(2.0, 4.0), (20.0, 2.0)],
        reminders: &[(20.0, 30)],
        timeout: Duration::from_millis(300),
        hanging_reminders: false,
        retries: false,
        judged: false,
    };
}

/// The maximum time that the throttle may hold back a lane (an endpoint's queue).
const LONGEST_HOLD: Duration = Duration::from_secs(2);

/// The tolerance for durations on a busy machine.
const SLACK: Duration = Duration::from_millis(300);

/// The rate (in calls per second) at which, and above which, the trials for different faults run one after
/// another, so that the machine is not overloaded.
const ONE_BY_ONE: f64 = 20.0;

/// The maximum delay of an event's first retry, which is 5 s plus ten percent of jitter.
const EVENT_WAITS: [Duration; 1] = [Duration::from_millis(5_500)];

/// The delay of a reminder's first retry, which has no jitter.
const REMINDER_WAITS: [Duration; 1] = [Duration::from_secs(60)];

/// The trials for one fault at one rate.
struct Group {
    fault: Fault,
    rate: f64,
    /// The keys of the trials' circuits.
    keys: Vec<String>,
}

/// Checks when circuits open for new endpoints that fail from the first event.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn events(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!("first failures of new endpoints, {} trials each", size.trials));
    let (mut site, refusing) = (Site::plain(program, &[])?, RefusingPort::new()?);
    let timeout = json!({"timeout": format!("{}ms", size.timeout.as_millis())});
    let mut groups = Vec::new();
    for (fault, (place, (rate, seconds))) in every(&Fault::ALL, size.events) {
        let tenant = format!("{}-{place}", fault.name());
        site.api().create_tenant(&tenant, &json!({}))?;
        let urls: Vec<_> =
            (0..size.trials).map(|trial| url(&site.receiver, &refusing, fault, &tenant, trial)).collect();
        let endpoints: Vec<_> = urls.iter().map(|url| (url.clone(), Vec::new())).collect();
        create_all(site.api(), &tenant, &endpoints, &timeout)?;
        let keys = urls.iter().map(|url| format!("{tenant} {url}")).collect();
        groups.push((Group { fault, rate, keys }, tenant, Duration::from_secs_f64(seconds)));
    }
    thread::scope(|scope| {
        let load = |(group, tenant, time): &(Group, String, Duration)| {
            thread::sleep(turn(group.fault, group.rate, *time));
            // Each event goes to all endpoints of its tenant.
            let load = site.api().load(&Event { size: 128, ..Event::new(tenant, "order.paid") });
            let report =
                Load { pace: Pace::Open { per_second: group.rate }, time: *time, connections: 4, ..load }
                    .run()?;
            ensure!(report.failures() == 0, "events were refused: {:?}", report.first_refusal);
            Ok(())
        };
        let loads: Vec<_> = groups.iter().map(|group| scope.spawn(move || load(group))).collect();
        loads.into_iter().try_for_each(|load| load.join().map_err(|_| anyhow::anyhow!("a load panicked"))?)
    })?;
    let groups: Vec<_> = groups.into_iter().map(|(group, ..)| group).collect();
    let opening = opening(&groups);
    site.until("circuits open", WAIT_LIMIT, |site| Ok(trace::trips_and_probes(site)?.0 >= opening))?;
    if size.retries {
        site.until(
            "circuits are probed",
            WAIT_LIMIT,
            |site| Ok(trace::trips_and_probes(site)?.1 >= opening),
        )?;
    }
    let traces = stop_and_read(&mut site, &EVENT_WAITS)?;
    judge(&groups, &traces, &Named { rule: "consecutive_failures", failures: 5 }, size, &mut findings)?;
    Ok(findings)
}

/// Checks when circuits open for new tenants whose reminders fail from the first callback.
///
/// # Errors
/// Returns an error if the test can't run. Violated guarantees are reported in the findings.
pub fn reminders(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!("first failures of reminders, {} tenants each", size.trials));
    let (receiver, refusing) = (Receiver::builder().recording(Recording::Off).start()?, RefusingPort::new()?);
    let mut site = Site { gateway: Settings::new(program).prepare()?, receiver };
    let folder = Folder::open(site.gateway.data())?;
    let rules = ReminderRules { timeout: Some(size.timeout), ..ReminderRules::default() };
    let mut groups = Vec::new();
    let mut new = Vec::new();
    let faults = Fault::ALL.into_iter().filter(|fault| size.hanging_reminders || *fault != Fault::Hanging);
    // Late enough that all reminders have been written and the gateway has started.
    let begin = times::now() + Duration::from_secs(if size.retries { 15 } else { 3 });
    for (fault, (place, (rate, count))) in every(&faults.collect::<Vec<_>>(), size.reminders) {
        let time = Duration::from_secs_f64(f64::from(count) / rate);
        let first_at = begin + turn(fault, rate, time);
        let mut keys = Vec::new();
        for trial in 0..size.trials {
            let name = format!("{}-{place}-{trial}", fault.name());
            let tenant = folder.add_tenant(&name, rules.clone())?;
            let url = url(&site.receiver, &refusing, fault, &name, trial);
            new.extend((0..count).map(|number| {
                New::once(&tenant, url.clone(), first_at + Duration::from_secs_f64(f64::from(number) / rate))
            }));
            keys.push(format!("{name}/reminders"));
        }
        groups.push(Group { fault, rate, keys });
    }
    let beside = (0..size.trials)
        .map(|trial| {
            let tenant = folder.add_tenant(&format!("beside-{trial}"), rules.clone())?;
            new.extend(beside_a_dead_host(&tenant, &site.receiver, &refusing, begin));
            Ok(format!("{tenant}/reminders"))
        })
        .collect::<Result<Vec<_>>>()?;
    let last_at = new.iter().map(|new| new.first_at).max().context("there are reminders")?;
    folder.add(new)?;
    folder.close();
    site.gateway.start_again()?;
    let is_early = times::now() < begin;
    ensure!(is_early || !size.judged, "the machine is too slow: the gateway was not ready at the moment");

    times::sleep_until(last_at);
    let opening = opening(&groups);
    site.until("circuits open", 2 * WAIT_LIMIT, |site| Ok(trace::trips_and_probes(site)?.0 >= opening))?;
    if size.retries {
        // Waits for the first retry of the last reminder that is retried.
        times::sleep_until(last_at + REMINDER_WAITS[0] + LONGEST_HOLD);
    }
    let traces = stop_and_read(&mut site, &REMINDER_WAITS)?;
    judge(&groups, &traces, &Named { rule: "consecutive_failures", failures: 5 }, size, &mut findings)?;
    judge_beside(&beside, &traces, size, &mut findings)?;
    Ok(findings)
}

/// The number of reminders to a dead host, which is too small to open the circuit, and the number of
/// reminders to a healthy host.
const BESIDE: [u32; 2] = [6, 5];

fn beside_a_dead_host(
    tenant: &TenantId,
    receiver: &Receiver,
    refusing: &RefusingPort,
    begin: breakerbox::Timestamp,
) -> Vec<New> {
    let second = Duration::from_secs(1);
    let [dead, healthy] = BESIDE;
    let dead = (0..dead).map(|number| New::once(tenant, refusing.url("/dead"), begin + second / 4 * number));
    let healthy = (0..healthy)
        .map(|number| New::once(tenant, receiver.url("/healthy"), begin + second / 2 + second * number));
    dead.chain(healthy).collect()
}

/// Returns all combinations of a fault and a rate. Each rate comes with its index in `rates`.
fn every<T: Copy>(faults: &[Fault], rates: &[T]) -> Vec<(Fault, (usize, T))> {
    let of =
        |fault: &Fault| rates.iter().copied().enumerate().map(move |rate| (*fault, rate)).collect::<Vec<_>>();
    faults.iter().flat_map(of).collect()
}

/// Returns the delay before the trials for a fault start. At high rates, the faults run one after another,
/// with slightly more than `time` for each. At other rates, all start immediately.
fn turn(fault: Fault, rate: f64, time: Duration) -> Duration {
    let place = Fault::ALL.iter().position(|other| *other == fault).unwrap_or_default();
    let place = if rate >= ONE_BY_ONE { u32::try_from(place).unwrap_or_default() } else { 0 };
    (time + Duration::from_millis(500)) * place
}

/// Returns the URL for one trial, at a receiver that has this fault.
fn url(receiver: &Receiver, refusing: &RefusingPort, fault: Fault, tenant: &str, trial: usize) -> String {
    let path = format!("/{tenant}/{trial}");
    if fault == Fault::Refused {
        return refusing.url(&path);
    }
    receiver.set(&path, fault.behaviour());
    receiver.url(&path)
}

/// Returns the number of circuits that must open.
fn opening(groups: &[Group]) -> i64 {
    let keys: usize = groups.iter().filter(|group| group.fault.trips()).map(|group| group.keys.len()).sum();
    i64::try_from(keys).unwrap_or(i64::MAX)
}

fn stop_and_read(site: &mut Site, waits: &[Duration]) -> Result<HashMap<String, Trace>> {
    site.gateway.ask_to_stop()?;
    site.gateway.wait_for_end(WAIT_LIMIT)?;
    trace::read(site, waits)
}

fn judge(
    groups: &[Group],
    traces: &HashMap<String, Trace>,
    named: &Named,
    size: Size,
    findings: &mut Findings,
) -> Result<()> {
    for group in groups {
        let what = |what: &str| format!("{}, {}/s: {what}", group.fault.name(), group.rate);
        let of = |key: &String| traces.get(key).with_context(|| format!("nothing was sent to {key}"));
        let traces = group.keys.iter().map(of).collect::<Result<Vec<_>>>()?;
        let trips: Vec<_> = traces.iter().filter_map(|trace| trace.trip.as_ref()).collect();
        let latest = |times: Vec<Duration>| times.into_iter().max().unwrap_or_default();
        if group.fault.trips() {
            let as_named = traces.iter().filter(|trace| trace.opened_with(named)).count();
            findings.exactly(
                &what(&format!("opened with failure {}", named.failures)),
                as_named,
                traces.len(),
            );
            let after = latest(traces.iter().filter_map(|trace| trace.opened_after()).collect());
            findings.note(&what("opened after, at the latest"), Millis(after));
        } else {
            findings.exactly(&what("opened"), trips.len(), 0);
        }
        let hold = latest(traces.iter().map(|trace| trace.longest_hold()).collect());
        findings.within(&what("longest hold"), hold, LONGEST_HOLD + SLACK, size.judged);
        let retries = traces.iter().map(|trace| trace.retries());
        let (count, late) = retries.fold((0, Duration::ZERO), |all, one| (all.0 + one.0, all.1.max(one.1)));
        if count > 0 {
            findings.note(&what("retries while closed"), count);
            // If no request is ever accepted, the throttle admits only some of the due requests, and retries
            // wait.
            let judged = size.judged && group.fault.trips();
            findings.within(&what("the latest of them after its time"), late, SLACK, judged);
        }
        let probes: Vec<_> = traces.iter().filter_map(|trace| trace.probe_late()).collect();
        if !probes.is_empty() {
            findings.exactly(&what("probed"), probes.len(), traces.len());
            findings.within(
                &what("the latest probe after its time"),
                latest(probes),
                LONGEST_HOLD,
                size.judged,
            );
        }
    }
    Ok(())
}

/// Checks that a tenant's reminders to a healthy host are not delayed by reminders to a dead host.
fn judge_beside(
    keys: &[String],
    traces: &HashMap<String, Trace>,
    size: Size,
    findings: &mut Findings,
) -> Result<()> {
    let [dead, healthy] = BESIDE;
    let (mut came, mut failed, mut latest) = (0, 0, Duration::ZERO);
    for key in keys {
        let trace = traces.get(key).with_context(|| format!("nothing was sent to {key}"))?;
        for attempt in trace.attempts.iter().filter(|attempt| !attempt.is_retry) {
            if attempt.status != Some(200) {
                failed += 1;
                continue;
            }
            came += 1;
            let scheduled_at = attempt.scheduled_at.context("a run has its time")?;
            latest = latest.max(attempt.started.since(scheduled_at));
        }
    }
    let of = |count: u32| count as usize * keys.len();
    findings.exactly("reminders to a dead host of the same tenant", failed, of(dead));
    findings.exactly("reminders to a healthy host beside it", came, of(healthy));
    findings.within("the latest of them after its time", latest, LONGEST_HOLD, size.judged);
    Ok(())
}
