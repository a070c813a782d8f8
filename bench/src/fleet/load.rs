//! The load that a fleet puts on its store: requests, bytes and CPU time, by the number of keys and processes,
//! healthy and with a percentage of calls failing at random. Every process calls every key once per second.
//!
//! CPU time is that of the server's processes, as reported by the system. Bytes come from the Redis server's
//! statistics, and for Postgres from a proxy in front of it.

use std::io::{BufRead, BufReader, Lines};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox_testkit::proxy::Proxy;
use breakerbox_testkit::servers::{PostgresOptions, PostgresServer, RedisServer};
use breakerbox_testkit::usage::Usage;
use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use super::commands::{commands, scripts};
use super::listener::READY;

/// How long the processes make calls before the measurement starts.
const WARM_UP: Duration = Duration::from_secs(5);

/// The number of failing calls per million: one percent.
const ONE_PERCENT: u64 = 10_000;

#[derive(Args)]
pub(crate) struct Sizes {
    /// Part `load`: numbers of keys
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000])]
    load_keys: Vec<u64>,
    /// Part `load`: numbers of processes
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    load_processes: Vec<u32>,
    /// Part `load`: run only with this store
    #[arg(long, value_enum)]
    load_store: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Redis,
    Postgres,
}

pub(super) fn run(runtime: &Runtime, sizes: &Sizes, time: Duration) -> Result<()> {
    println!(
        "\nload of the store: every key is called once a second by every process, for {} s",
        time.as_secs()
    );
    println!(
        "\n| store | processes | keys | failing | calls/s | requests/s | commands/s | KB/s in | KB/s out | % of a core | for each process |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for kind in [Kind::Redis, Kind::Postgres] {
        if sizes.load_store.is_some_and(|only| only != kind) {
            continue;
        }
        let mut cases = vec![(0, 0, 0)];
        for &keys in &sizes.load_keys {
            for &processes in &sizes.load_processes {
                cases.extend([(processes, keys, 0), (processes, keys, ONE_PERCENT)]);
            }
        }
        for (processes, keys, failing) in cases {
            // A new server for each measurement, so that no data are left from the previous one.
            let server = Server::start(kind, runtime)?;
            let (calls, used) = measure(&server, processes, keys, failing, time)?;
            print(kind, processes, keys, failing, calls, &used, time);
        }
    }
    Ok(())
}

/// Starts processes that make calls through the store, and measures after a warm-up. Returns the number of
/// calls per second, and the resources that the server used during `time`.
fn measure(server: &Server, processes: u32, keys: u64, failing: u64, time: Duration) -> Result<(f64, Used)> {
    let start = |seed| Caller::start(&server.url(), keys, failing, u64::from(seed));
    let mut callers = (0..processes).map(start).collect::<Result<Vec<_>>>()?;
    for caller in &mut callers {
        let said = caller.next()?;
        ensure!(said == READY, "a process said {said}");
    }
    let began = Instant::now();
    thread::sleep(WARM_UP);
    let before = server.used()?;
    thread::sleep(time);
    let used = server.used()?.since(&before);
    let mut calls = 0;
    for mut caller in callers {
        drop(caller.input.take());
        calls += caller.next()?.parse::<u64>()?;
    }
    Ok((calls as f64 / began.elapsed().as_secs_f64(), used))
}

fn print(kind: Kind, processes: u32, keys: u64, failing: u64, calls: f64, used: &Used, time: Duration) {
    let seconds = time.as_secs_f64();
    let store = match kind {
        Kind::Redis => "redis",
        Kind::Postgres => "postgres",
    };
    let rate = |count: u64| count as f64 / seconds;
    let commands = match kind {
        Kind::Redis => format!("{:.0}", rate(used.commands)),
        Kind::Postgres => "-".to_owned(),
    };
    let percent = used.cpu.as_secs_f64() / seconds * 100.0;
    println!(
        "| {store} | {processes} | {keys} | {} % | {calls:.0} | {:.1} | {commands} | {:.1} | {:.1} | {percent:.1} | {:.2} |",
        failing as f64 / 1e4,
        rate(used.requests),
        rate(used.bytes_in) / 1e3,
        rate(used.bytes_out) / 1e3,
        percent / f64::from(processes.max(1))
    );
}

/// The resources that a server has used since it started, or between two measurements.
#[derive(Clone, Copy)]
struct Used {
    cpu: Duration,
    requests: u64,
    /// The number of commands that the server executed. For Redis, commands executed by scripts are included.
    commands: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Used {
    const fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            requests: self.requests.saturating_sub(before.requests),
            commands: self.commands.saturating_sub(before.commands),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(before.bytes_out),
        }
    }
}

enum Server {
    Redis(RedisServer),
    Postgres(PostgresServer, Proxy),
}

impl Server {
    fn start(kind: Kind, runtime: &Runtime) -> Result<Self> {
        Ok(match kind {
            Kind::Redis => Self::Redis(RedisServer::start().context("a private Redis server")?),
            Kind::Postgres => {
                let server = PostgresOptions::new().start().context("a private Postgres server")?;
                let proxy = runtime.block_on(Proxy::before((Ipv4Addr::LOCALHOST, server.port()).into()))?;
                Self::Postgres(server, proxy)
            }
        })
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server, proxy) => {
                server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()))
            }
        }
    }

    fn used(&self) -> Result<Used> {
        match self {
            Self::Redis(server) => {
                let number = |section, field: &str| -> Result<u64> {
                    let value =
                        server.info(section, field)?.with_context(|| format!("INFO without {field}"))?;
                    Ok(value.parse()?)
                };
                let process = u32::try_from(number("server", "process_id")?)?;
                Ok(Used {
                    cpu: Usage::of(process)?.cpu,
                    requests: scripts(server)?,
                    commands: commands(server)?,
                    bytes_in: number("stats", "total_net_input_bytes")?,
                    bytes_out: number("stats", "total_net_output_bytes")?,
                })
            }
            Self::Postgres(server, proxy) => {
                let mut cpu = Duration::ZERO;
                for process in server.processes()? {
                    // A process that exited meanwhile has no statistics.
                    cpu += Usage::of(process).map(|usage| usage.cpu).unwrap_or_default();
                }
                let commits = server.query("SELECT sum(xact_commit) FROM pg_stat_database")?;
                let (bytes_in, bytes_out) = proxy.passed_bytes();
                Ok(Used { cpu, requests: commits.trim().parse()?, commands: 0, bytes_in, bytes_out })
            }
        }
    }
}

/// A calling process. It is killed when the value is dropped.
struct Caller {
    child: Child,
    input: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    fn start(url: &str, keys: u64, failing: u64, seed: u64) -> Result<Self> {
        let numbers = [keys, failing, seed].map(|number| number.to_string());
        let mut child = Command::new(std::env::current_exe()?)
            .args(["fleet-caller", url])
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = BufReader::new(child.stdout.take().context("it has a standard output")?).lines();
        let input = child.stdin.take();
        Ok(Self { child, input, said })
    }

    fn next(&mut self) -> Result<String> {
        Ok(self.said.next().context("a process ended")??)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
