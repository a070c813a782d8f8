//! Complete calls, in async code and in threads.

use std::convert::Infallible;
use std::future::Ready;
use std::time::Duration;

use breakerbox::{
    Breakerbox, CallError, Circuit, CircuitStatus, Classification, Clock, ProbeTimeout, Refusal,
};

use crate::service::{Service, secs, simple};

type Answer = Result<&'static str, &'static str>;

#[tokio::test]
async fn ok_is_a_success_and_err_a_failure() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    assert_eq!(circuit.call(async { Answer::Ok("hello") }).await, Ok("hello"));
    assert_eq!(circuit.call(async { Answer::Err("reset") }).await, Err(CallError::Failed("reset")));
    let totals = circuit.totals();
    assert_eq!((totals.successes, totals.failures), (1, 1));
}

#[tokio::test]
async fn a_refused_call_is_not_made() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    let refused = circuit.call(async { unreachable!("the future must not be polled") }).await;
    let refused: Result<(), CallError<Infallible>> = refused;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::Open { .. }))));
    assert_eq!(refused.unwrap_err().to_string(), "the call was refused (open)");
}

#[tokio::test]
async fn a_classifier_decides_what_counts() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    let classify = |result: &Result<u16, &str>| match result {
        Ok(503) => Classification::failure_with_retry_after(secs(120)),
        Ok(500..) => Classification::FAILURE,
        Ok(_) => Classification::SUCCESS,
        Err(_) => Classification::IGNORED,
    };
    for status in [200, 404, 500, 502] {
        assert_eq!(circuit.call_classified(classify, async { Ok(status) }).await, Ok(status));
    }
    assert_eq!(
        circuit.call_classified(classify, async { Err("ours") }).await,
        Err(CallError::Failed("ours"))
    );
    let totals = circuit.totals();
    assert_eq!((totals.successes, totals.failures), (2, 2));
    circuit.call_classified(classify, async { Ok(503) }).await.unwrap();
    assert!(matches!(circuit.try_acquire(), Err(Refusal::Open { retry_in, .. }) if retry_in == secs(120)));
}

#[tokio::test]
async fn a_fallback_is_told_why_and_holds_no_lease() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    let answer = circuit.call_or_else(async { Answer::Ok("real") }, |error| async move {
        Answer::Ok(if error.refusal().is_some() { "cached" } else { "apology" })
    });
    assert_eq!(answer.await, Ok("cached"));
    service.clock.advance(secs(30));
    let answer = circuit.call_or_else(async { Answer::Err("down") }, |_| async {
        assert!(matches!(circuit.try_acquire(), Err(Refusal::Open { .. })), "the probe is settled");
        Answer::Ok("apology")
    });
    assert_eq!(answer.await, Ok("apology"));
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_given_up_at_its_deadline() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let start = tokio::time::Instant::now();
    let hanging = std::future::pending::<Answer>();
    assert_eq!(circuit.call(hanging).await, Err(CallError::ProbeTimedOut(ProbeTimeout)));
    assert_eq!(start.elapsed(), secs(10), "probe_timeout");
    assert_eq!(circuit.status(), CircuitStatus::Open);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_or_a_failure() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    for (waits, failures) in [(0, 0), (1, 1)] {
        let mut call = Box::pin(circuit.call(std::future::pending::<Answer>()));
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context)));
        assert!(polled.await.is_pending());
        service.clock.advance(secs(waits));
        drop(call);
        assert_eq!(circuit.totals().failures, failures);
    }
}

/// Where the caller's code panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Panics {
    InTheCall,
    InABlockingCall,
    InTheClassifier,
    BeforeTheFallback,
    InTheFallback,
}

impl Panics {
    /// Makes a call whose code panics at this point. Returns whether the call succeeded, if the panic does not
    /// propagate.
    async fn call(self, circuit: Circuit) -> bool {
        let down = async { Answer::Err("down") };
        match self {
            Self::InTheCall => circuit.call(async { panic::<Answer>() }).await.is_ok(),
            Self::InABlockingCall => circuit.call_blocking(panic::<Answer>).is_ok(),
            Self::InTheClassifier => circuit.call_classified(|_| panic(), down).await.is_ok(),
            Self::BeforeTheFallback => circuit.call_or_else(down, |_| panic::<Ready<Answer>>()).await.is_ok(),
            Self::InTheFallback => circuit.call_or_else(down, |_| async { panic::<Answer>() }).await.is_ok(),
        }
    }
}

fn panic<T>() -> T {
    std::panic::resume_unwind(Box::new("the caller's code"))
}

#[tokio::test]
async fn a_probe_that_panics_holds_up_nobody() {
    for (panics, then) in [
        // The permit is dropped within the cancel grace period, and the lease with it.
        (Panics::InTheCall, CircuitStatus::HalfOpen),
        (Panics::InABlockingCall, CircuitStatus::HalfOpen),
        (Panics::InTheClassifier, CircuitStatus::HalfOpen),
        // The call failed, and was settled before the fallback ran.
        (Panics::BeforeTheFallback, CircuitStatus::Open),
        (Panics::InTheFallback, CircuitStatus::Open),
    ] {
        let service = Service::new(&simple().cool_off_factor(1.0));
        let circuit = service.tripped("e1");
        service.clock.advance(secs(30));
        assert!(tokio::spawn(panics.call(circuit.clone())).await.unwrap_err().is_panic(), "{panics:?}");
        assert_eq!(circuit.status(), then, "{panics:?}");
        if then == CircuitStatus::Open {
            service.clock.advance(secs(30));
        }
        assert_eq!(circuit.call(async { Answer::Ok("up") }).await, Ok("up"), "{panics:?}");
        assert_eq!(circuit.status(), CircuitStatus::Closed, "{panics:?}");
    }
}

#[tokio::test]
async fn a_fallback_that_panics_after_a_refusal_changes_nothing() {
    for panics in [Panics::BeforeTheFallback, Panics::InTheFallback] {
        let service = Service::new(&simple());
        let circuit = service.tripped("e1");
        let before = circuit.record();
        assert!(tokio::spawn(panics.call(circuit.clone())).await.unwrap_err().is_panic());
        assert_eq!(circuit.record(), before);
    }
}

#[tokio::test]
async fn a_call_that_panics_after_the_grace_has_failed() {
    for panics in [Panics::InTheCall, Panics::InABlockingCall, Panics::InTheClassifier] {
        let service = Service::new(&simple().cancel_grace(Duration::ZERO));
        let circuit = service.circuit("e1");
        for failures in 1..=2 {
            assert!(tokio::spawn(panics.call(circuit.clone())).await.unwrap_err().is_panic());
            assert_eq!(circuit.totals().failures, failures, "{panics:?}");
        }
        assert_eq!(circuit.call(async { Answer::Ok("fine") }).await, Ok("fine"));
    }
}

#[test]
fn threads_can_call_too_without_any_runtime() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    for _ in 0..3 {
        assert_eq!(circuit.call_blocking(|| Answer::Err("down")), Err(CallError::Failed("down")));
    }
    assert!(matches!(circuit.call_blocking(|| Answer::Ok("up")), Err(CallError::Refused(_))));
    service.clock.advance(secs(30));
    let too_late = circuit.call_blocking(|| {
        service.clock.advance(secs(11));
        Answer::Ok("up")
    });
    assert_eq!(too_late, Ok("up"), "the caller has its answer");
    assert_eq!(circuit.status(), CircuitStatus::Open, "but the probe came too late");
}

#[test]
fn a_probe_on_another_runtime_needs_no_timer() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let mut call = Box::pin(circuit.call(async { Answer::Ok("up") }));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(call.as_mut().poll(&mut context), std::task::Poll::Ready(Ok("up"))));
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}

#[test]
fn a_probe_on_a_runtime_without_a_timer_is_left_to_run() {
    let service = Service::new(&simple());
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(circuit.call(async { Answer::Ok("up") })), Ok("up"));
    assert_eq!(circuit.status(), CircuitStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn dry_run_cuts_no_call_short() {
    let service = Service::with(&simple(), |builder| builder.dry_run(|_, _| {}));
    let circuit = service.tripped("e1");
    service.clock.advance(secs(30));
    let slow = async {
        service.clock.advance(secs(15));
        tokio::time::sleep(secs(15)).await;
        Answer::Ok("late, but there")
    };
    assert_eq!(circuit.call(slow).await, Ok("late, but there"));
    assert_eq!(circuit.status(), CircuitStatus::HalfOpen, "as a probe it came too late");
}

/// A clock that advances by eleven seconds with each read, so that a probe's deadline has passed before the probe
/// starts.
struct Slow(std::sync::atomic::AtomicU64);

impl Clock for Slow {
    fn now(&self) -> breakerbox::Timestamp {
        breakerbox::Timestamp::from_millis(self.0.fetch_add(11_000, std::sync::atomic::Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_probe_without_time_left_is_not_made_and_holds_up_nobody() {
    let clock = Slow(std::sync::atomic::AtomicU64::new(1_000));
    let policy = simple().window(secs(3_600)).build().unwrap();
    let breakers = Breakerbox::builder().policy(policy).clock(clock).build();
    let circuit = breakers.circuit("e1").unwrap();
    crate::service::fail(&circuit, 3);
    for _ in 0..10 {
        let answer = circuit.call(async { Answer::Ok("never polled") }).await;
        assert!(matches!(answer, Err(CallError::Refused(Refusal::Open { .. } | Refusal::Probing { .. }))));
    }
    assert_eq!(circuit.status(), CircuitStatus::HalfOpen, "nobody has probed, and anybody may");
}

#[test]
fn a_call_in_a_thread_can_be_judged_and_have_a_fallback() {
    let service = Service::new(&simple());
    let circuit = service.circuit("e1");
    let not_found = |answer: &Answer| match answer {
        Err("not found") => Classification::SUCCESS,
        other => breakerbox::by_result(other),
    };
    for _ in 0..5 {
        let answer = circuit.call_blocking_classified(not_found, || Answer::Err("not found"));
        let shown =
            answer.or_else(|why| if why.refusal().is_none() { Ok("nothing") } else { Err("refused") });
        assert_eq!(shown, Ok("nothing"));
    }
    assert_eq!(circuit.totals().successes, 5);
}
