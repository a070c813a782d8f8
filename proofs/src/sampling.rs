//! A leader's tick at full size, on a real Redis: many known circuits, some of which start to fail at once.
//! Measures the duration of the tick and of reading all open circuits after it, and the maximum time that a
//! caller waits meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use breakerbox::sampling::{Poll, SampleError, Sampler, Sampling, Ticked};
use breakerbox::store::{Store, Swap};
use breakerbox::{
    Breakerbox, Cause, CircuitStatus, Epoch, Policy, Preset, Record, Sample, Timestamp, Version,
};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisServer;
use clap::Args;

/// The maximum allowed duration of a tick, and also of the read of all open circuits that follows.
const LIMIT: Duration = Duration::from_secs(1);

/// The maximum time that a tick or a read of all open circuits may delay a call.
const PAUSE: Duration = Duration::from_millis(100);

/// The timeout for each step, so that the test can't hang.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Size of the sampled fleet
#[derive(Args, Clone, Copy)]
pub struct Sizes {
    /// Number of known circuits, which have a record in the store
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub known: u64,
    /// Number of known circuits that start to fail, all at once
    #[arg(long, default_value_t = 10_000)]
    pub failing: u64,
}

/// The measurements of one run.
pub struct Seen {
    /// The tick in which the failing circuits opened.
    pub tick: Ticked,
    quiet_tick: Ticked,
    /// The time from the end of `tick` until another process knew every circuit that had opened.
    spread: Duration,
    /// How long it took to read all open circuits.
    reread: Duration,
    /// The duration of the longest check of a closed circuit during the test.
    longest_check: Duration,
    /// The number of checks of closed circuits during the test.
    pub checks: u64,
    /// The duration of the longest check that had to read from the store.
    pub longest_first_check: Duration,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tick, quiet_tick, spread, reread, longest_check, checks, longest_first_check } = self;
        let Ticked { circuits, keys, changes, took, .. } = tick;
        writeln!(f, "known circuits              {circuits:>8}")?;
        writeln!(f, "keys sampled                {keys:>8}")?;
        writeln!(f, "circuits opened             {changes:>8}")?;
        writeln!(f, "that tick took              {:>8.0} ms", took.as_secs_f64() * 1e3)?;
        writeln!(f, "a tick that changes nothing {:>8.0} ms", quiet_tick.took.as_secs_f64() * 1e3)?;
        writeln!(f, "then known to another worker{:>8.0} ms", spread.as_secs_f64() * 1e3)?;
        writeln!(f, "reading all that is open    {:>8.0} ms", reread.as_secs_f64() * 1e3)?;
        writeln!(f, "longest check, known        {:>8.1} ms of {checks}", longest_check.as_secs_f64() * 1e3)?;
        write!(f, "longest check, by the store {:>8.1} ms", longest_first_check.as_secs_f64() * 1e3)
    }
}

impl Seen {
    /// Returns a message for each limit that was exceeded.
    #[must_use]
    pub fn misses(&self) -> Vec<String> {
        [
            ("the tick", self.tick.took, LIMIT),
            ("the quiet tick", self.quiet_tick.took, LIMIT),
            ("the re-read", self.reread, LIMIT),
            ("a check of a known circuit", self.longest_check, PAUSE),
        ]
        .iter()
        .filter(|(_, took, limit)| took > limit)
        .map(|(what, took, limit)| format!("{what} took {took:?}, more than {limit:?}"))
        .collect()
    }
}

/// A sampler whose totals are set in memory.
struct Totals {
    sizes: Sizes,
    failing: AtomicBool,
    polls: AtomicU64,
}

#[async_trait::async_trait]
impl Sampler for Totals {
    async fn sample(&self, _: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let failing = if self.failing.load(Ordering::SeqCst) { self.sizes.failing } else { 0 };
        let sample = |n| {
            let failures = if n < failing { 20 } else { 0 };
            (key(n), {
                let mut sample = Sample::new(1, failures);
                sample.latency_sum = Some(Duration::from_millis(50));
                sample
            })
        };
        self.polls.fetch_add(1, Ordering::SeqCst);
        Ok((0..self.sizes.known).map(sample).collect())
    }
}

fn key(n: u64) -> String {
    format!("tenant-{} https://hooks-{n}.example.com/in", n % 1_000)
}

/// Runs the test and returns its measurements.
///
/// # Errors
/// Returns an error if there is no Redis server, or a step exceeds its timeout.
pub async fn see(sizes: Sizes) -> Result<Seen> {
    ensure!(sizes.failing <= sizes.known, "no more can fail than are known");
    let server = tokio::task::spawn_blocking(RedisServer::start).await??;
    make_known(&connect(&server).await?, sizes.known).await?;
    let totals = Arc::new(Totals { sizes, failing: AtomicBool::new(false), polls: AtomicU64::new(0) });
    let leader = agent(connect(&server).await?).sampler(Arc::clone(&totals)).build()?;
    let worker = agent(connect(&server).await?).build()?;
    ticked(&leader, |ticked| ticked.keys as u64 == sizes.known).await?;
    // The worker knows every circuit, like a worker that has run for some time.
    let circuits = (0..sizes.known).map(|n| worker.circuit(&key(n))).collect::<Result<Vec<_>, _>>()?;
    for circuit in &circuits {
        circuit.check().await.ok().context("closed")?;
    }
    let quiet_tick = next_tick(&leader).await?;

    let done = Arc::new(AtomicBool::new(false));
    let checking = tokio::spawn(keep_checking(worker.clone(), sizes, Arc::clone(&done)));
    totals.failing.store(true, Ordering::SeqCst);
    let tick = ticked(&leader, |ticked| ticked.changes as u64 == sizes.failing).await?;
    let opened_at = Instant::now();
    let failing = || circuits.iter().take(usize::try_from(sizes.failing).unwrap_or(usize::MAX));
    while failing().any(|circuit| circuit.status() != CircuitStatus::Open) {
        if opened_at.elapsed() > WAIT_LIMIT {
            bail!("the worker never knew all of it");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let spread = opened_at.elapsed();
    let reread = reread(&connect(&server).await?, sizes.failing).await?;
    done.store(true, Ordering::SeqCst);
    let (longest_check, checks, longest_first_check) = checking.await?;
    Ok(Seen { tick, quiet_tick, spread, reread, longest_check, checks, longest_first_check })
}

async fn connect(server: &RedisServer) -> Result<RedisStore> {
    Ok(RedisStore::builder(&server.url()).time_limit(Duration::from_secs(20)).connect().await?)
}

fn agent(store: RedisStore) -> breakerbox::sampling::SamplingBuilder {
    Breakerbox::builder()
        .store(store)
        .store_timeout(Duration::from_secs(20))
        // The trips of the known circuits, which closed six minutes ago, are not yet forgiven.
        .sampling(Policy::builder().preset(Preset::Convoy).cool_off(Duration::from_secs(60)))
        .sample_every(Duration::from_secs(2))
}

/// Creates a record for every circuit, in which the circuit was open and closed six minutes ago. That is
/// longer ago than the window, but recent enough that the trip is not forgotten.
async fn make_known(store: &RedisStore, known: u64) -> Result<()> {
    let now = store.read(&[]).await?.now;
    let closed_at = Timestamp::from_micros(now.as_micros() - 360_000_000);
    let record = |n: u64| {
        let mut record = Record::fresh(Epoch(closed_at.as_micros()), Version(n.into()), closed_at);
        record.opened_at = Some(closed_at);
        record.trips = 1;
        record.last_success = Some(closed_at);
        record.cause = Some(Cause::RecoveryRateMet);
        record.tenant = Some(key(n).split(' ').next().unwrap_or_default().into());
        record
    };
    let not_after = now + Duration::from_secs(3_600);
    let keep_for = Some(Duration::from_secs(600));
    let swap = |n| Swap { key: key(n).into(), expected: None, record: record(n), not_after, keep_for };
    let swaps: Vec<_> = (0..known).map(swap).collect();
    for swaps in swaps.chunks(500) {
        store.swap_all(swaps).await?;
    }
    Ok(())
}

/// Reads all circuits that are not closed, a thousand at a time, as a worker does at the interval
/// `reread_every`. Returns the duration.
async fn reread(store: &RedisStore, open: u64) -> Result<Duration> {
    let keys: Vec<_> = (0..open).map(|n| key(n).into()).collect();
    let began_at = Instant::now();
    for keys in keys.chunks(1_000) {
        let read = store.read(keys).await?.all()?.value;
        ensure!(read.iter().flatten().all(|record| record.status() != CircuitStatus::Closed), "all are open");
    }
    Ok(began_at.elapsed())
}

/// Waits for a tick of the leader that meets the condition, and returns it.
async fn ticked(leader: &Sampling, is: impl Fn(&Ticked) -> bool) -> Result<Ticked> {
    let began_at = Instant::now();
    loop {
        let report = leader.report();
        if let Some(ticked) = report.last_tick.filter(&is) {
            return Ok(ticked);
        }
        if began_at.elapsed() > WAIT_LIMIT {
            bail!("no such tick: {report:?}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn next_tick(leader: &Sampling) -> Result<Ticked> {
    let ticks = leader.report().ticks;
    let began_at = Instant::now();
    while leader.report().ticks == ticks {
        ensure!(began_at.elapsed() < WAIT_LIMIT, "no tick");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    leader.report().last_tick.context("there was one")
}

/// Checks a known, closed circuit in a loop, and from time to time a circuit that no process knows yet. Returns
/// the longest check, the number of checks, and the longest check of a new circuit.
async fn keep_checking(worker: Sampling, sizes: Sizes, done: Arc<AtomicBool>) -> (Duration, u64, Duration) {
    let (mut longest, mut checks, mut longest_first) = (Duration::ZERO, 0, Duration::ZERO);
    let healthy = worker.circuit(&key(sizes.known - 1)).ok();
    while !done.load(Ordering::SeqCst) {
        for _ in 0..100 {
            let began_at = Instant::now();
            if let Some(circuit) = &healthy {
                let _ = circuit.check().await;
            }
            longest = longest.max(began_at.elapsed());
            checks += 1;
            tokio::task::yield_now().await;
        }
        let began_at = Instant::now();
        let _ = worker.check(&format!("new https://example.com/{checks}")).await;
        longest_first = longest_first.max(began_at.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (longest, checks, longest_first)
}
