//! The Python example: four worker processes, a failing destination and a healthy one. The receiver counts the calls.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use breakerbox_testkit::gateway::{Api, Gateway};
use breakerbox_testkit::receiver::{Behaviour, Receiver};
use serde_json::{Value, json};

use crate::command::root;

const WORKERS: u64 = 4;
/// The number of jobs for the failing destination, per worker.
const DYING: u64 = 3;
const HEALTHY: u64 = 20;
/// A generous timeout, so that a hanging test fails.
const LONG: Duration = Duration::from_secs(120);

/// A worker process. It is killed when dropped.
struct Worker {
    child: Child,
    jobs: Option<ChildStdin>,
}

impl Worker {
    fn start(gateway: &Gateway, key: &str) -> Self {
        let mut child = Command::new("python3")
            .arg(root().join("examples/python/worker.py"))
            .env("BREAKERBOX_URL", format!("http://{}", gateway.address()))
            .env("BREAKERBOX_API_KEY", key)
            .env("WORKER_STOP_AFTER", "240")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("no_proxy", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let jobs = child.stdin.take();
        Self { child, jobs }
    }

    fn give(&mut self, url: &str, count: u64) {
        let jobs = self.jobs.as_mut().unwrap();
        for n in 0..count {
            writeln!(jobs, "{}", json!({ "url": url, "body": { "n": n } })).unwrap();
        }
        jobs.flush().unwrap();
    }

    /// Tells the worker that there are no more jobs, and waits until it exits.
    fn finish(&mut self) -> Value {
        drop(self.jobs.take());
        wait_until("a worker ends", || self.child.try_wait().unwrap().is_some());
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns whether the circuit is open and no permit is unsettled.
fn is_open_and_quiet(api: &Api) -> bool {
    let circuits = api.get("/v1/circuits?tenant=default").unwrap();
    let metrics = api.metrics().unwrap();
    let sum = |name: &str| metrics.sum(name).unwrap();
    circuits["items"][0]["state"] == "open"
        && sum("breakerbox_permits_given_total") == sum("breakerbox_permits_settled_total")
}

#[test]
fn four_workers_probe_one_at_a_time_and_serve_the_others_meanwhile() {
    let receiver = Receiver::start().unwrap();
    // Long enough to detect two concurrent calls.
    receiver.set("/dying", Behaviour::after(503, Duration::from_millis(100)));
    let gateway = Gateway::start(Path::new(env!("CARGO_BIN_EXE_breakerbox"))).unwrap();
    let api = gateway.api().clone();
    let policy = json!({
        "failure_rate": "off", "consecutive_failures": 5, "cool_off": "300ms", "cool_off_factor": 1, "jitter": 0,
        "probes": 2, "probe_timeout": "60s", "disable_after": "off",
    });
    api.patch("/v1/tenants/default", &json!({ "policy": policy })).unwrap();
    let new = json!({ "name": "workers", "scopes": ["send"], "tenant": "default" });
    let key = api.post("/v1/keys", &new).unwrap()["key"].as_str().unwrap().to_owned();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::start(&gateway, &key)).collect();

    workers.iter_mut().for_each(|worker| worker.give(&receiver.url("/dying"), DYING));
    wait_until("the circuit opens", || is_open_and_quiet(&api));
    // From here on, each request to the failing destination is a probe.
    receiver.forget();
    let before = receiver.seen("/dying").requests;
    workers.iter_mut().for_each(|worker| worker.give(&receiver.url("/healthy"), HEALTHY));
    wait_until("the healthy one is served throughout", || {
        receiver.seen("/healthy").delivered == WORKERS * HEALTHY
    });
    wait_until("it is probed", || receiver.seen("/dying").requests >= before + 5);
    let seen = receiver.seen("/dying");
    assert_eq!((seen.most_in_flight, seen.delivered), (1, 0), "one probe at a time: {seen:?}");

    receiver.set("/dying", Behaviour::HEALTHY);
    let said: Vec<Value> = workers.iter_mut().map(Worker::finish).collect();
    let sum = |name: &str| said.iter().map(|said| said[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("done"), sum("left")), (WORKERS * (DYING + HEALTHY), 0), "{said:?}");
    assert_eq!(receiver.seen("/dying").delivered, WORKERS * DYING);
    let circuits = api.get("/v1/circuits?tenant=default").unwrap();
    assert_eq!(circuits["items"][0]["state"], "closed", "{circuits}");
}
