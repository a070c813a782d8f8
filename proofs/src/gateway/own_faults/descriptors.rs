//! Idle clients without an API key use up the file descriptors: no connection can be accepted or opened.
//! Accepted events wait, and are delivered when descriptors are available again.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use breakerbox_testkit::gateway::{Gateway, Settings};
use breakerbox_testkit::receiver::Receiver;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::{Size, degraded, judge_blame, judge_recovery};
use crate::gateway::findings::{Findings, Millis};
use crate::gateway::site::WAIT_LIMIT;

/// The number of endpoints, each on its own port, so that each needs its own connection.
const ENDPOINTS: usize = 20;
/// The number of file descriptors left for idle clients.
const SPARE_DESCRIPTORS: u64 = 8;
/// The number of idle clients, which take up all descriptors that are left.
const CLIENTS: usize = 64;

pub(super) fn prove(program: &Path, size: Size) -> Result<Findings> {
    let mut findings = Findings::new(format!("no file descriptors for {}", Millis(size.without_descriptors)));
    let gateway = Settings::new(program).start()?;
    let api = gateway.api();
    api.create_tenant("shop", &json!({}))?;
    let receivers = (0..ENDPOINTS).map(|_| Receiver::start()).collect::<Result<Vec<_>, _>>()?;
    for receiver in &receivers {
        api.create_endpoint("shop", &receiver.url("/in"), &[], &json!({}))?;
    }
    let before = limit(&gateway)?;
    findings.exactly("its soft limit is its hard limit", before.current == before.maximum, true);

    // From now on only existing connections work; this API client's connection is one of them.
    let tight = Rlimit { current: Some(used(&gateway)? + SPARE_DESCRIPTORS), maximum: before.maximum };
    set_limit(&gateway, tight)?;
    let clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(gateway.address())).collect();
    let (began, mut events, mut said) = (Instant::now(), 0_u64, None);
    while began.elapsed() < size.without_descriptors || (said.is_none() && began.elapsed() < WAIT_LIMIT) {
        api.post(
            "/v1/events",
            &json!({"tenant": "shop", "type": "order.paid", "payload": {"number": events}}),
        )?;
        events += 1;
        said = said.or(degraded(api)?.into_iter().find(|reason| reason.starts_with("descriptors: ")));
        thread::sleep(std::time::Duration::from_millis(100));
    }
    let arrived = || receivers.iter().map(|receiver| receiver.seen("/in").delivered).sum::<u64>();
    let arrived_meanwhile = arrived();
    set_limit(&gateway, before)?;
    drop(clients);
    let freed = Instant::now();
    let wanted = events * ENDPOINTS as u64;
    while arrived() < wanted && freed.elapsed() < WAIT_LIMIT {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    findings.note("events accepted meanwhile", events);
    findings.note("deliveries that arrived meanwhile, of 20 each", arrived_meanwhile);
    findings.exactly("deliveries that arrived in the end", arrived(), wanted);
    findings.note("all had arrived after", Millis(freed.elapsed()));
    let faults = api.metrics()?.sum_with("breakerbox_local_faults_total", "cause=\"descriptors\"");
    let faults = faults.context("there is no count of local faults")?;
    findings.at_least("local faults counted", faults, 1.0);
    let pace = faults / began.elapsed().as_secs_f64();
    findings.at_most("local faults in a second, on average", pace.round(), 450.0);
    findings.hold("health says so", said.as_deref().unwrap_or("no"), "degraded", said.is_some());
    judge_blame(api, &mut findings)?;
    judge_recovery(api, "descriptors: ", &mut findings)?;
    Ok(findings)
}

fn pid(gateway: &Gateway) -> Result<Pid> {
    let id = i32::try_from(gateway.id()?)?;
    Pid::from_raw(id).context("a process has a number")
}

fn limit(gateway: &Gateway) -> Result<Rlimit> {
    let text = fs::read_to_string(format!("/proc/{}/limits", gateway.id()?))?;
    let line = text.lines().find(|line| line.starts_with("Max open files")).context("it has no limit")?;
    let mut numbers = line.split_whitespace().skip(3).map(|word| word.parse().ok());
    let mut next = || numbers.next().context("a limit has two numbers");
    Ok(Rlimit { current: next()?, maximum: next()? })
}

fn set_limit(gateway: &Gateway, limit: Rlimit) -> Result<()> {
    prlimit(Some(pid(gateway)?), Resource::Nofile, limit)?;
    Ok(())
}

fn used(gateway: &Gateway) -> Result<u64> {
    Ok(fs::read_dir(format!("/proc/{}/fd", gateway.id()?))?.count() as u64)
}
