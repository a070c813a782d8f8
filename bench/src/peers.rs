//! The circuit breakers that are compared: each makes a no-op call through a closed breaker, and is refused by
//! an open one.
//!
//! Every breaker is used as its documentation shows, with a window or a threshold like ours, and without
//! extras.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use breakerbox::{Breakerbox, Circuit, Policy};
use failsafe::{CircuitBreaker as _, backoff, failure_policy};
use tower::ServiceExt;

/// A circuit breaker that is benchmarked: this project's or another crate's.
pub(crate) trait Subject: Send + Sync + Sized {
    const NAME: &'static str;

    /// Returns a closed breaker.
    fn closed() -> Self;

    /// Makes one call that succeeds.
    fn call(&self);

    /// Makes one call that fails.
    fn fail(&self);

    /// Tries one call, and returns whether it was refused.
    fn is_refused(&self) -> bool;

    /// Returns a breaker that refuses all calls for the next hour.
    fn open() -> Self {
        let subject = Self::closed();
        for _ in 0..1_000 {
            subject.fail();
        }
        assert!(subject.is_refused(), "{} does not open", Self::NAME);
        subject
    }
}

type Answer = Result<u32, u32>;

const HOUR: Duration = Duration::from_secs(3_600);

fn policy() -> breakerbox::PolicyBuilder {
    Policy::builder().cool_off(HOUR).cool_off_max(HOUR).jitter(0)
}

/// Breakerbox, with the default rules.
pub(crate) struct Ours(Circuit);

impl Ours {
    fn with(policy: &breakerbox::PolicyBuilder) -> Self {
        let breakers = Breakerbox::builder().policy(policy.build().expect("a good policy")).build();
        Self(breakers.circuit("tenant https://hooks.example.com/in").expect("a good key"))
    }
}

impl Subject for Ours {
    const NAME: &'static str = "breakerbox";

    fn closed() -> Self {
        Self::with(&policy())
    }

    #[inline]
    fn call(&self) {
        if let Ok(permit) = self.0.try_acquire() {
            black_box(1_u32);
            permit.success();
        }
    }

    fn fail(&self) {
        if let Ok(permit) = self.0.try_acquire() {
            permit.failure();
        }
    }

    #[inline]
    fn is_refused(&self) -> bool {
        self.0.try_acquire().is_err()
    }
}

/// Breakerbox, with a latency rule.
pub(crate) struct OursTimed(Ours);

impl Subject for OursTimed {
    const NAME: &'static str = "breakerbox, with a latency rule";

    fn closed() -> Self {
        Self(Ours::with(&policy().mean_latency(Duration::from_secs(5))))
    }

    #[inline]
    fn call(&self) {
        self.0.call();
    }

    fn fail(&self) {
        self.0.fail();
    }

    #[inline]
    fn is_refused(&self) -> bool {
        self.0.is_refused()
    }
}

/// The circuit breaker from the crate `circuit_breaker`.
pub(crate) struct CircuitBreakerCrate(circuit_breaker::CircuitBreaker);

impl Subject for CircuitBreakerCrate {
    const NAME: &'static str = "circuit_breaker";

    fn closed() -> Self {
        Self(circuit_breaker::CircuitBreaker::new(5, HOUR))
    }

    #[inline]
    fn call(&self) {
        let _ = black_box(self.0.execute(|| Ok::<_, std::io::Error>(black_box(1_u32))));
    }

    fn fail(&self) {
        let _ = self.0.execute(|| Err::<u32, _>(std::io::Error::from(std::io::ErrorKind::TimedOut)));
    }

    #[inline]
    fn is_refused(&self) -> bool {
        let mut ran = false;
        let _ = black_box(self.0.execute(|| {
            ran = true;
            Ok::<_, std::io::Error>(1_u32)
        }));
        !ran
    }
}

/// The circuit breaker from the crate `recloser`.
pub(crate) struct Recloser(recloser::Recloser);

impl Subject for Recloser {
    const NAME: &'static str = "recloser";

    fn closed() -> Self {
        let recloser = recloser::Recloser::custom().closed_len(10).open_wait(HOUR);
        Self(recloser.build())
    }

    #[inline]
    fn call(&self) {
        let _ = black_box(self.0.call(|| Answer::Ok(black_box(1))));
    }

    fn fail(&self) {
        let _ = self.0.call(|| Answer::Err(1));
    }

    #[inline]
    fn is_refused(&self) -> bool {
        matches!(self.0.call(|| Answer::Ok(1)), Err(recloser::Error::Rejected))
    }
}

type FailsafeBreaker = failsafe::StateMachine<failure_policy::ConsecutiveFailures<backoff::Constant>, ()>;

/// The circuit breaker from the crate `failsafe`, with its cheapest rule: a number of consecutive failures.
pub(crate) struct Failsafe(FailsafeBreaker);

impl Subject for Failsafe {
    const NAME: &'static str = "failsafe, consecutive failures";

    fn closed() -> Self {
        let rule = failure_policy::consecutive_failures(5, backoff::constant(HOUR));
        Self(failsafe::Config::new().failure_policy(rule).build())
    }

    #[inline]
    fn call(&self) {
        let _ = black_box(self.0.call(|| Answer::Ok(black_box(1))));
    }

    fn fail(&self) {
        let _ = self.0.call(|| Answer::Err(1));
    }

    #[inline]
    fn is_refused(&self) -> bool {
        matches!(self.0.call(|| Answer::Ok(1)), Err(failsafe::Error::Rejected))
    }
}

/// The circuit breaker from the crate `breaker`.
pub(crate) struct Breaker(breaker::CircuitBreaker);

impl Subject for Breaker {
    const NAME: &'static str = "breaker";

    fn closed() -> Self {
        let config =
            breaker::CircuitBreakerConfig::builder().consecutive_failures(5).wait_duration(HOUR).build();
        Self(breaker::CircuitBreaker::new(config))
    }

    #[inline]
    fn call(&self) {
        let _ = black_box(now(self.0.call(|| async { Answer::Ok(black_box(1)) })));
    }

    fn fail(&self) {
        let _ = now(self.0.call(|| async { Answer::Err(1) }));
    }

    #[inline]
    fn is_refused(&self) -> bool {
        let answer = now(self.0.call(|| async { Answer::Ok(1) }));
        matches!(answer, Err(breaker::CircuitBreakerError::CircuitOpen))
    }
}

type TowerBreaker = tower_resilience_circuitbreaker::CircuitBreaker<
    tower::util::ServiceFn<fn(Answer) -> std::future::Ready<Answer>>,
    tower_resilience_circuitbreaker::DefaultClassifier,
>;

/// The circuit breaker from the crate `tower-resilience-circuitbreaker`. The service is cloned for each call,
/// as is usual with tower.
pub(crate) struct TowerResilience(TowerBreaker);

impl TowerResilience {
    fn answer(
        &self,
        answer: Answer,
    ) -> Result<u32, tower_resilience_circuitbreaker::CircuitBreakerError<u32>> {
        now(self.0.clone().oneshot(answer))
    }
}

impl Subject for TowerResilience {
    const NAME: &'static str = "tower-resilience-circuitbreaker";

    fn closed() -> Self {
        let layer = tower_resilience_circuitbreaker::CircuitBreakerLayer::builder()
            .sliding_window_size(100)
            .minimum_number_of_calls(10)
            .wait_duration_in_open(HOUR)
            .build()
            .expect("a good configuration");
        Self(layer.layer_fn(tower::service_fn(std::future::ready as fn(Answer) -> _)))
    }

    #[inline]
    fn call(&self) {
        let _ = black_box(self.answer(Ok(black_box(1))));
    }

    fn fail(&self) {
        let _ = self.answer(Err(1));
    }

    #[inline]
    fn is_refused(&self) -> bool {
        self.answer(Ok(1)).is_err_and(|error| error.is_circuit_open())
    }
}

/// Polls a future until it is ready, without the cost of a runtime, and returns its output.
#[inline]
fn now<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::hint::spin_loop();
    }
}
