//! One of the hundred callers. It acquires a permit and, if that is a probe, ends the probe as planned.
//!
//! Callers that are tasks make calls; callers that are threads acquire permits and settle them explicitly.
//! Where the circuit may admit more than a probe, because it has closed, tasks acquire permits too, because a
//! permit states whether it is a probe.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use breakerbox::{CallError, Circuit, Permit, ProbeTimeout, Refusal, Settlement};
use tokio::sync::watch;
use tokio::task::yield_now;

use super::probe_end::{Late, ProbeEnd, When};
use super::receiver::Visit;
use super::wave::Wave;

/// Whether a caller is a task or a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Task,
    Thread,
}

/// Runs a caller that takes part in every wave (in which all callers acquire at once), until there are no
/// more waves.
pub(super) async fn serve(kind: Kind, circuit: Circuit, mut waves: watch::Receiver<Option<Arc<Wave>>>) {
    let mut caller = Caller { kind, circuit: &circuit, kept: None };
    while waves.changed().await.is_ok() {
        let Some(wave) = waves.borrow_and_update().clone() else { return };
        caller.take_part(&wave).await;
        wave.finished.arrive();
    }
}

struct Caller<'c> {
    kind: Kind,
    circuit: &'c Circuit,
    /// A probe permit from an earlier wave, whose result arrives late.
    kept: Option<Permit<'c>>,
}

/// The result of a call, or `None` if the call panicked.
type CallResult = Option<Result<(), CallError<&'static str>>>;
type Call<'c> = Pin<Box<dyn Future<Output = Result<(), CallError<&'static str>>> + Send + 'c>>;

/// The permit, call or result that a caller holds after it was admitted.
enum Admitted<'c> {
    Permit(Permit<'c>),
    /// A call in flight.
    Call(Call<'c>),
    /// A call that has already ended, because the thread was delayed for longer than the probe timeout.
    CallResult(CallResult),
}

impl<'c> Caller<'c> {
    async fn take_part(&mut self, wave: &Arc<Wave>) {
        if let Some(late) = wave.plan.late
            && let Some(permit) = self.kept.take()
        {
            if late.when == When::WhileAnotherProbes {
                wave.given.wait().await;
            }
            self.come_late(permit, late, wave);
        }
        wave.meet();
        match self.admitted(wave) {
            None => wave.answered.arrive(),
            Some(Admitted::Permit(permit)) if !permit.is_probe() => {
                permit.success();
                wave.answered.arrive();
            }
            Some(Admitted::Permit(permit)) => {
                let visit = wave.probe();
                wave.answered.arrive();
                self.hold(wave).await;
                self.settle(permit, visit, wave);
            }
            Some(Admitted::Call(call)) => {
                wave.answered.arrive();
                self.finish(call, wave).await;
            }
            Some(Admitted::CallResult(ended)) => {
                wave.answered.arrive();
                check(ended, wave);
            }
        }
    }

    async fn yield_to_others(&self) {
        match self.kind {
            Kind::Task => yield_now().await,
            Kind::Thread => thread::yield_now(),
        }
    }

    /// Keeps a probe in flight until every caller was admitted or refused. In a hasty wave, only yields once
    /// to the other callers.
    async fn hold(&self, wave: &Wave) {
        if wave.hasty { self.yield_to_others().await } else { wave.answered.wait().await }
    }

    /// Settles the probe from an earlier wave, and checks that this late result changes nothing.
    fn come_late(&self, permit: Permit<'c>, late: Late, wave: &Wave) {
        // Every write creates a new version. While another caller probes, no other caller writes: that probe
        // waits for this caller, which has not acquired yet.
        let version = || match late.when {
            When::WhileAnotherProbes => Some(self.circuit.record().version),
            When::AtOnce => None,
        };
        let before = version();
        let settlement = if late.is_success { permit.success() } else { permit.failure() };
        if settlement != Settlement::Late || version() != before {
            wave.late_applied(late);
        }
    }

    /// Acquires until the caller is admitted, and retries refusals that only mean that the clock has not been
    /// moved yet. Returns `None` after any other refusal.
    fn admitted(&self, wave: &Arc<Wave>) -> Option<Admitted<'c>> {
        loop {
            match self.try_acquire(wave) {
                Ok(admitted) => return Some(admitted),
                Err(refusal) if wave.is_too_early(&refusal) => {}
                Err(_) => return None,
            }
        }
    }

    fn try_acquire(&self, wave: &Arc<Wave>) -> Result<Admitted<'c>, Refusal> {
        match wave.plan.probe {
            Some(probe_end)
                if self.kind == Kind::Task
                    && wave.admits_only_probes()
                    && probe_end != ProbeEnd::ComesLate =>
            {
                let mut call: Call<'c> =
                    Box::pin(self.circuit.call(destination(probe_end, Arc::clone(wave))));
                // A call acquires its permit when it is first polled.
                let mut polled = Poll::Pending;
                wave.try_acquire(|| {
                    polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    match polled {
                        Poll::Ready(Err(CallError::Refused(refusal))) => Err(refusal),
                        _ => Ok(()),
                    }
                })?;
                Ok(match polled {
                    Poll::Pending => Admitted::Call(call),
                    Poll::Ready(result) => Admitted::CallResult(Some(result)),
                })
            }
            _ => wave.try_acquire(|| self.circuit.try_acquire()).map(Admitted::Permit),
        }
    }

    /// Settles a probe's permit in the way that the wave plans for the probe.
    fn settle(&mut self, permit: Permit<'c>, visit: Visit, wave: &Wave) {
        let settlement = match wave.plan.probe {
            Some(ProbeEnd::Succeeds) => {
                drop(visit);
                permit.success()
            }
            Some(ProbeEnd::Fails) => {
                drop(visit);
                permit.failure()
            }
            Some(ProbeEnd::TimesOut) => {
                wave.clock.advance(permit.time_left().unwrap_or_default());
                drop(visit);
                permit.failure()
            }
            Some(ProbeEnd::IsDroppedLate) => {
                wave.clock.advance(wave.grace);
                return drop((visit, permit));
            }
            Some(ProbeEnd::Panics) => {
                let call = AssertUnwindSafe(|| {
                    let _dropped_after_the_visit = permit;
                    let _visit = visit;
                    resume_unwind(Box::new("the caller's code"))
                });
                return drop(catch_unwind::<_, ()>(call));
            }
            Some(ProbeEnd::IsLost) => return std::mem::forget((visit, permit)),
            Some(ProbeEnd::ComesLate) => {
                std::mem::forget(visit);
                self.kept = Some(permit);
                return;
            }
            // If no probe was planned, no caller should have one. The number of probes reveals it.
            Some(ProbeEnd::IsCancelled) | None => return drop((visit, permit)),
        };
        if settlement != Settlement::Counted {
            wave.note(format!("the probe's outcome was taken as {settlement:?}"));
        }
    }

    /// Completes a probe's call in the way that the wave plans for the probe.
    async fn finish(&self, mut call: Call<'c>, wave: &Wave) {
        match wave.plan.probe {
            Some(ProbeEnd::IsCancelled) => {
                self.hold(wave).await;
                drop(call);
            }
            Some(ProbeEnd::IsDroppedLate) => {
                self.hold(wave).await;
                wave.clock.advance(wave.grace);
                drop(call);
            }
            Some(ProbeEnd::IsLost) => {
                self.hold(wave).await;
                std::mem::forget(call);
            }
            _ => {
                let ended =
                    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
                        Ok(polled) => polled.map(Some),
                        Err(_) => Poll::Ready(None),
                    });
                check(ended.await, wave);
            }
        }
    }
}

/// Simulates the destination that a probe calls, which succeeds, fails, hangs or panics as `probe_end`
/// states.
async fn destination(probe_end: ProbeEnd, wave: Arc<Wave>) -> Result<(), &'static str> {
    let _visit = wave.probe();
    yield_now().await;
    if !wave.hasty {
        wave.answered.wait().await;
    }
    match probe_end {
        ProbeEnd::Succeeds => Ok(()),
        ProbeEnd::Fails => Err("down"),
        ProbeEnd::Panics => resume_unwind(Box::new("the caller's code")),
        _ => pending().await,
    }
}

/// Checks that a probe's call ended as planned, and records a deviation otherwise.
fn check(ended: CallResult, wave: &Wave) {
    let expected = match wave.plan.probe {
        Some(ProbeEnd::Succeeds) => Some(Ok(())),
        Some(ProbeEnd::Fails) => Some(Err(CallError::Failed("down"))),
        Some(ProbeEnd::TimesOut) => Some(Err(CallError::ProbeTimedOut(ProbeTimeout))),
        _ => None,
    };
    if ended != expected {
        wave.note(format!("the probe's call came to {ended:?}"));
    }
}
