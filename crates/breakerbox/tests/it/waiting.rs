//! Waiting for a permit: which callers are woken, and when. Tokio's clock stands still unless all tasks wait for it,
//! so a caller that waited for no time was woken.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake};
use std::time::Duration;

use breakerbox::{
    Attribution, Breakerbox, Circuit, CircuitStatus, Clock, OverrideCommand, Refusal, Timestamp,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::service::{Service, secs, simple, succeed};

/// Waits for a permit in a separate task, settles it as a success, and returns whether it was a probe.
fn waiter(circuit: &Circuit, limit: Duration) -> JoinHandle<Result<bool, Refusal>> {
    let circuit = circuit.clone();
    tokio::spawn(async move {
        let permit = circuit.acquire_within(limit).await?;
        let is_probe = permit.is_probe();
        permit.success();
        Ok(is_probe)
    })
}

/// Lets every task run until the task has to wait.
async fn let_them_wait() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn operator() -> Attribution {
    Attribution::new("ops", "maintenance").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_the_probe_ends() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let probe = circuit.try_acquire().unwrap();
    let start = Instant::now();
    let waiters: Vec<_> = (0..10).map(|_| waiter(&circuit, secs(60))).collect();
    let_them_wait().await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    probe.success();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Ok(false), "the circuit is closed");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_goes_to_whoever_waits() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let probe = circuit.try_acquire().unwrap();
    let start = Instant::now();
    let (first, second) = (waiter(&circuit, secs(60)), waiter(&circuit, secs(60)));
    let_them_wait().await;
    drop(probe);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(true), Ok(false)));
    assert_eq!((start.elapsed(), circuit.status()), (Duration::ZERO, CircuitStatus::Closed));
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_keeps_nobody_waiting() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let probe = circuit.try_acquire().unwrap();
    let start = Instant::now();
    let (first, second) = (waiter(&circuit, secs(60)), waiter(&circuit, secs(60)));
    let_them_wait().await;
    // The first waiting caller is woken, and dropped before it can acquire.
    drop(probe);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(second.await.unwrap(), Ok(true));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_beyond_the_limit() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    circuit.try_override(OverrideCommand::ForceOpen, &operator()).unwrap();
    let start = Instant::now();
    assert_eq!(circuit.acquire_within(secs(5)).await.err(), Some(Refusal::ForcedOpen));
    assert_eq!(start.elapsed(), secs(5));
    assert_eq!(circuit.acquire_within(Duration::ZERO).await.err(), Some(Refusal::ForcedOpen));
    assert_eq!(start.elapsed(), secs(5), "no time is no waiting");
}

#[tokio::test(start_paused = true)]
async fn an_operator_lets_everybody_go() {
    let service = Service::new(&simple());
    let (circuit, other) = (service.circuit("e1"), service.circuit("e2"));
    for circuit in [&circuit, &other] {
        circuit.try_override(OverrideCommand::ForceOpen, &operator()).unwrap();
    }
    let start = Instant::now();
    let waiters: Vec<_> = (0..100).map(|_| waiter(&circuit, secs(3_600))).collect();
    let elsewhere = waiter(&other, secs(3_600));
    let_them_wait().await;
    circuit.try_override(OverrideCommand::ForceClosed, &operator()).unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Ok(false));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!elsewhere.is_finished(), "another circuit");
    elsewhere.abort();
}

#[tokio::test(start_paused = true)]
async fn on_the_ramp_each_call_that_settles_lets_others_through() {
    let service = Service::new(&simple().ramp_cap(8));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    let start = Instant::now();
    let in_flight = Arc::new(AtomicU32::new(0));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let (circuit, in_flight, seen) = (circuit.clone(), in_flight.clone(), seen.clone());
            tokio::spawn(async move {
                let permit = circuit.acquire_within(secs(60)).await.unwrap();
                let now = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
                seen.lock().unwrap().push(now);
                tokio::task::yield_now().await;
                in_flight.fetch_sub(1, Ordering::SeqCst);
                permit.success();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "all were woken");
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[..3].iter().max()), (1_000, Some(&2)), "in flight: one, then two");
}

#[tokio::test(start_paused = true)]
async fn a_call_on_the_ramp_that_never_settles_is_found_out_within_a_second() {
    let service = Service::new(&simple().ramp_cap(8));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    succeed(&circuit, 1);
    // A call in the ramp that never settles is written off after a window, without waking a waiting caller.
    std::mem::forget(circuit.try_acquire().unwrap());
    let start = Instant::now();
    let waiter = waiter(&circuit, secs(60));
    let_them_wait().await;
    service.clock.advance(secs(60));
    assert_eq!(waiter.await.unwrap(), Ok(false));
    assert!(start.elapsed() <= secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_cool_off_whoever_waits_gets_the_probe() {
    let clock = TokioClock(Instant::now());
    let breakers = Breakerbox::builder().policy(simple().build().unwrap()).clock(clock).build();
    let circuit = breakers.circuit("e1").unwrap();
    crate::service::fail(&circuit, 3);
    let start = Instant::now();
    let waiters = [(); 3].map(|()| waiter(&circuit, secs(60)));
    let mut probes = 0;
    for waiter in waiters {
        probes += u32::from(waiter.await.unwrap().unwrap());
    }
    assert_eq!(probes, 1);
    assert!((secs(30)..secs(31)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

/// A clock that shows tokio's time.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000) + self.0.elapsed()
    }
}

#[test]
fn without_a_timer_nobody_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    let refusal = runtime.block_on(async { circuit.acquire_within(secs(60)).await.map(drop) });
    assert!(matches!(refusal, Err(Refusal::Open { .. })));
}

/// A waker that polls its future while it is being woken, as some executors do.
struct Inline(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let Some(mut future) = self.0.lock().unwrap().take() else { return };
        let waker = Arc::clone(&self).into();
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.0.lock().unwrap() = Some(future);
        }
    }
}

#[test]
fn a_waker_runs_under_no_lock() {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let service = Service::new(&simple());
        let circuit = service.tripped("e1");
        service.clock.advance(secs(30));
        let probe = circuit.try_acquire().unwrap();
        let waits = {
            let (circuit, done) = (circuit.clone(), done.clone());
            async move {
                let permit = circuit.acquire_within(secs(60)).await.unwrap();
                done.send(permit.is_probe()).unwrap();
            }
        };
        Arc::new(Inline(Mutex::new(Some(Box::pin(waits))))).wake();
        probe.success();
    });
    assert_eq!(
        is_done.recv_timeout(secs(20)),
        Ok(false),
        "woken, asked and answered while the probe settles"
    );
}
