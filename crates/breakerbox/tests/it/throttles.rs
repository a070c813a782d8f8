//! Throttles as a service uses them: calls, priorities, classifiers, fallbacks, retries, one throttle per key.

use std::io;
use std::time::Duration;

use breakerbox::throttle::{
    CallError, Levels, LoadSignal, Overload, Pass, Priority, Rejected, Strategy, Throttle, ThrottlePolicy,
    ThrottleState, context_priority, with_priority, with_priority_blocking,
};
use breakerbox::{Breakerbox, KeyError, ManualClock, OverrideCommand, ProbeTimeout};

use crate::service::{Service, secs, simple};

type Classifier = fn(&Answer) -> LoadSignal;
type Answer = Result<&'static str, NetworkFault>;

#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
enum NetworkFault {
    #[error("queue full")]
    Full,
    #[error("not found")]
    NotFound,
    #[error("stopped")]
    Stopped,
}

fn classify(answer: &Answer) -> LoadSignal {
    match answer {
        Err(NetworkFault::Full) => LoadSignal::Reject,
        Err(NetworkFault::Stopped) => LoadSignal::Neither,
        Ok(_) | Err(NetworkFault::NotFound) => LoadSignal::Accept,
    }
}

/// Returns a throttle with a manual clock.
fn throttle() -> (Throttle<Classifier>, ManualClock) {
    let clock = ManualClock::new();
    let throttle = Throttle::builder().clock(clock.clone()).classify(classify as Classifier);
    (throttle.build(), clock)
}

/// Makes calls with this result, ten milliseconds apart, and returns how many were shed.
async fn calls<C>(throttle: &Throttle<C>, clock: &ManualClock, count: u32, answer: Answer) -> u32
where
    C: breakerbox::throttle::Classify<&'static str, NetworkFault>,
{
    let mut shed = 0;
    for _ in 0..count {
        clock.advance(Duration::from_millis(10));
        let result = throttle.call(Priority::LOW, async { answer }).await;
        shed += u32::from(result.is_err_and(|error| error.is_local()));
    }
    shed
}

#[tokio::test]
async fn what_counts_is_whether_the_destination_had_room() {
    let table = [
        (Ok("fine"), LoadSignal::Accept),
        (Err(NetworkFault::NotFound), LoadSignal::Accept),
        (Err(NetworkFault::Stopped), LoadSignal::Neither),
        (Err(NetworkFault::Full), LoadSignal::Reject),
    ];
    for (answer, expected) in table {
        let (throttle, clock) = throttle();
        // Rejects make the throttle shed calls, and accepts allow retries.
        let sheds = calls(&throttle, &clock, 500, answer).await > 0;
        let told = match (sheds, throttle.take_retry()) {
            (true, _) => LoadSignal::Reject,
            (false, true) => LoadSignal::Accept,
            (false, false) => LoadSignal::Neither,
        };
        assert_eq!(told, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_shed_call_is_not_made_and_says_when_to_come_back() {
    let (throttle, clock) = throttle();
    calls(&throttle, &clock, 500, Err(NetworkFault::Full)).await;
    // The rest of the budget must be used up first.
    let shed = loop {
        if let Err(shed) = throttle.try_acquire(Priority::LOW) {
            break shed;
        }
    };
    assert!(shed.retry_in() > Duration::ZERO);
    let never = async { unreachable!("the future must not be polled") };
    let result: Result<&str, CallError<NetworkFault>> = throttle.call(Priority::LOW, never).await;
    let error = result.unwrap_err();
    assert!(error.is_local());
    let why = error.shed().unwrap().to_string();
    assert!(why.starts_with("shed: about "), "{why}");
}

#[tokio::test]
async fn after_the_trouble_everything_is_let_through_again() {
    let (throttle, clock) = throttle();
    assert!(calls(&throttle, &clock, 500, Err(NetworkFault::Full)).await > 300);
    calls(&throttle, &clock, 200, Ok("fine")).await;
    assert_eq!(calls(&throttle, &clock, 500, Ok("fine")).await, 0);
}

#[tokio::test]
async fn a_fallback_is_told_whether_the_call_was_ever_made() {
    let (throttle, clock) = throttle();
    let mut told = [0, 0];
    for _ in 0..500 {
        clock.advance(Duration::from_millis(10));
        let answer =
            throttle.call_or_else(Priority::LOW, async { Err(NetworkFault::Full) }, |why| async move {
                Answer::Ok(if why.is_local() { "local" } else { "remote" })
            });
        told[usize::from(answer.await == Ok("local"))] += 1;
    }
    assert!(told[0] > 10 && told[1] > 300, "{told:?}");
    let answer = throttle.call_or_else(Priority::HIGH, async { Ok("fine") }, |_| async { Answer::Ok("no") });
    assert_eq!(answer.await, Ok("fine"));
}

#[tokio::test]
async fn what_the_task_carries_wins_over_the_argument() {
    let (throttle, clock) = throttle();
    // Twice as many calls as the destination can take, half of them important: the other half is shed.
    let mut passed = [0, 0];
    for n in 0..2_000 {
        clock.advance(Duration::from_millis(5));
        let important = n % 2 == 0;
        let carried = if important { Priority::HIGH } else { Priority::LOW };
        let has_room = n % 4 < 2;
        let answer = if has_room { Ok("fine") } else { Err(NetworkFault::Full) };
        // The argument is the opposite of the task's priority.
        let argument = if important { Priority::LOW } else { Priority::HIGH };
        let made = with_priority(carried, throttle.call(argument, async { answer })).await;
        if n >= 1_000 {
            passed[usize::from(important)] += u32::from(!made.is_err_and(|error| error.is_local()));
        }
    }
    assert!(passed[1] > 3 * passed[0], "unimportant and important: {passed:?}");
}

#[tokio::test]
async fn a_task_carries_its_priority_and_nobody_elses() {
    let inside = async { (context_priority(), tokio::spawn(async { context_priority() }).await.unwrap()) };
    assert_eq!(with_priority(Priority::HIGH, inside).await, (Some(Priority::HIGH), None));
    let nested = with_priority(Priority::HIGH, with_priority(Priority::LOW, async { context_priority() }));
    assert_eq!(nested.await, Some(Priority::LOW));
    assert_eq!(with_priority_blocking(Priority::MEDIUM, context_priority), Some(Priority::MEDIUM));
    assert_eq!(context_priority(), None);
}

#[tokio::test]
async fn a_dropped_future_is_neither() {
    let (throttle, clock) = throttle();
    calls(&throttle, &clock, 100, Ok("fine")).await;
    while throttle.take_retry() {}
    for _ in 0..500 {
        clock.advance(Duration::from_millis(10));
        let mut call = Box::pin(throttle.call(Priority::LOW, std::future::pending::<Answer>()));
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context)));
        assert!(polled.await.is_pending(), "nothing was rejected, so nothing is shed");
    }
    assert!(!throttle.take_retry(), "nothing was accepted, so nothing may be retried");
}

#[tokio::test]
async fn calls_that_hang_are_noticed_while_they_hang() {
    let (throttle, clock) = throttle();
    calls(&throttle, &clock, 100, Ok("fine")).await;
    let mut hanging = Vec::new();
    let shed = (0..500).find(|_| {
        clock.advance(Duration::from_millis(10));
        throttle.try_acquire(Priority::LOW).map(|pass| hanging.push(pass)).is_err()
    });
    assert!(shed.is_some_and(|calls| calls < 150), "{shed:?}: within about a second of traffic");
}

#[tokio::test]
async fn whatever_panics_the_throttle_works_on() {
    let clock = ManualClock::new();
    let throttle = Throttle::builder()
        .clock(clock.clone())
        .classify(|answer: &Answer| match answer {
            Err(NetworkFault::Full) => std::panic::resume_unwind(Box::new("the classifier")),
            _ => LoadSignal::Accept,
        })
        .build();
    for n in 0..300 {
        clock.advance(Duration::from_millis(10));
        let throttle = throttle.clone();
        let task = tokio::spawn(async move {
            let call = async move {
                match n % 3 {
                    0 => Err(NetworkFault::Full),
                    1 => std::panic::resume_unwind(Box::new("the call")),
                    _ => Err(NetworkFault::NotFound),
                }
            };
            let fallback = |_| async { std::panic::resume_unwind(Box::new("the fallback")) };
            throttle.call_or_else::<_, _, NetworkFault, _>(Priority::LOW, call, fallback).await
        });
        assert!(task.await.unwrap_err().is_panic());
    }
    assert_eq!(throttle.call(Priority::LOW, async { Ok("fine") }).await, Ok("fine"));
}

#[test]
fn threads_can_call_too_without_any_runtime() {
    let (throttle, clock) = throttle();
    let mut shed = 0;
    for _ in 0..500 {
        clock.advance(Duration::from_millis(10));
        let answer = throttle.call_blocking(Priority::LOW, || Answer::Err(NetworkFault::Full));
        shed += u32::from(answer.is_err_and(|error| error.is_local()));
    }
    assert!(shed > 300, "{shed}");
}

#[tokio::test]
async fn retries_are_a_tenth_of_what_was_accepted_and_a_shed_is_never_retried() {
    let (throttle, clock) = throttle();
    let failed = CallError::Failed(NetworkFault::NotFound);
    assert!(!throttle.may_retry(&failed), "nothing was accepted yet");
    calls(&throttle, &clock, 100, Ok("fine")).await;
    assert_eq!((0..100).filter(|_| throttle.may_retry(&failed)).count(), 10);
    calls(&throttle, &clock, 500, Ok("fine")).await;
    calls(&throttle, &clock, 500, Err(NetworkFault::Full)).await;
    let shed = loop {
        if let Err(shed) = throttle.try_acquire(Priority::LOW) {
            break CallError::<NetworkFault>::Shed(shed);
        }
    };
    assert!(!throttle.may_retry(&shed));
}

#[tokio::test]
async fn what_was_never_sent_is_not_retried_and_costs_no_budget() {
    let (throttle, clock) = throttle();
    calls(&throttle, &clock, 100, Ok("fine")).await;
    let open = Service::new(&simple()).tripped("e1");
    let inside = open.call(async { Err::<(), _>(NetworkFault::Full) });
    let refused = Throttle::default().call(Priority::LOW, inside).await.unwrap_err();
    assert!(matches!(refused, CallError::Failed(breakerbox::CallError::Refused(_))), "{refused:?}");
    let hidden = CallError::Failed(Sending(io::Error::other(KeyError::NoHost)));
    for _ in 0..100 {
        assert!(!throttle.may_retry(&refused) && !throttle.may_retry(&hidden));
    }
    assert_eq!((0..100).filter(|_| throttle.take_retry()).count(), 10, "all of it is left");
}

#[tokio::test]
async fn each_key_has_a_throttle_of_its_own() {
    let clock = ManualClock::new();
    let throttles = Throttle::builder().clock(clock.clone()).classify(classify as Classifier).build_keyed(2);
    let drowning = throttles.throttle("drowning").unwrap();
    let well = throttles.throttle("well").unwrap();
    assert!(calls(&drowning, &clock, 500, Err(NetworkFault::Full)).await > 300);
    assert_eq!(calls(&well, &clock, 500, Ok("fine")).await, 0);
    let again = throttles.throttle("drowning").unwrap();
    assert!(calls(&again, &clock, 100, Err(NetworkFault::Full)).await > 50, "the same throttle");
    assert_eq!((drowning.key(), throttles.len()), (Some("drowning"), 2));

    let no_room = throttles.throttle("third").unwrap();
    assert_eq!(calls(&no_room, &clock, 500, Err(NetworkFault::Full)).await, 0, "sent without a throttle");
    assert_eq!((no_room.key(), throttles.uncontrolled()), (None, 1));
    calls(&no_room, &clock, 500, Ok("fine")).await;
    let failed = CallError::Failed(NetworkFault::NotFound);
    assert!(!no_room.take_retry() && !no_room.may_retry(&failed), "nobody counts, so there is no budget");
    drop((drowning, again, well));
    clock.advance(secs(60));
    assert_eq!(throttles.throttle("third").unwrap().key(), Some("third"), "idle ones made room");
}

#[test]
fn bad_input_gets_a_typed_error() {
    let policy = ThrottlePolicy::builder;
    let table = [
        (policy().k(0.5), "k: must be a number of at least 1, but is 0.5"),
        (policy().window(Duration::ZERO), "window: must be at least a millisecond, but is 0ns"),
        (policy().min_rate(0.0), "min_rate: must be a number above 0, but is 0"),
        (policy().levels(0), "levels: there must be at least one"),
        (policy().retry_percent(200), "retry_percent: must be 0 to 100, but is 200"),
    ];
    for (builder, expected) in table {
        assert_eq!(builder.build().unwrap_err().to_string(), expected);
    }
    let error = Levels::STANDARD.priority(4).unwrap_err();
    assert_eq!(error.to_string(), "priority: there are 4 levels, 0 to 3, but this is 4");
    let throttles = breakerbox::throttle::Throttles::default();
    assert_eq!(throttles.throttle("").unwrap_err(), KeyError::Empty);
    let huge = "x".repeat(10 * 1024 * 1024);
    assert_eq!(throttles.throttle(&huge).unwrap_err(), KeyError::TooLong { length: huge.len() });
}

#[test]
fn a_priority_beyond_a_throttles_levels_counts_as_its_lowest() {
    let policy = ThrottlePolicy::builder().levels(2).strategy(Strategy::Sre).build().unwrap();
    let throttle = Throttle::builder().policy(policy).clock(ManualClock::new()).build();
    let [highest, lowest] = [0, 1].map(|level| throttle.levels().priority(level).unwrap());
    // With the published formula, a level's rejects affect only that level and lower ones.
    for _ in 0..10_000 {
        drop(throttle.try_acquire(lowest));
    }
    let shed =
        |priority| (0..200).filter(|_| throttle.try_acquire(priority).map(Pass::accept).is_err()).count();
    assert_eq!(shed(highest), 0);
    assert!(shed(lowest) > 100);
    assert!(shed(Priority::LOW) > 100, "the fourth of two");
}

#[derive(Debug, thiserror::Error)]
#[error("while sending")]
struct Sending(#[source] io::Error);

#[tokio::test]
async fn the_ready_classifier_looks_through_the_whole_chain() {
    let overload = Overload::default();
    let io = |kind: io::ErrorKind| io::Error::from(kind);
    for (kind, signal) in [
        (io::ErrorKind::TimedOut, LoadSignal::Reject),
        (io::ErrorKind::WouldBlock, LoadSignal::Reject),
        (io::ErrorKind::ConnectionRefused, LoadSignal::Neither),
        (io::ErrorKind::ConnectionReset, LoadSignal::Neither),
        (io::ErrorKind::ConnectionAborted, LoadSignal::Neither),
        (io::ErrorKind::BrokenPipe, LoadSignal::Neither),
        (io::ErrorKind::UnexpectedEof, LoadSignal::Neither),
        (io::ErrorKind::HostUnreachable, LoadSignal::Neither),
        (io::ErrorKind::NetworkUnreachable, LoadSignal::Neither),
        (io::ErrorKind::NetworkDown, LoadSignal::Neither),
        (io::ErrorKind::AddrInUse, LoadSignal::Neither),
        (io::ErrorKind::AddrNotAvailable, LoadSignal::Neither),
        (io::ErrorKind::PermissionDenied, LoadSignal::Accept),
    ] {
        assert_eq!(overload.of(&io(kind)), signal, "{kind}");
        assert_eq!(overload.of(&Sending(io(kind))), signal, "{kind} behind another");
        assert_eq!(overload.of(&CallError::Failed(Sending(io(kind)))), signal, "{kind} behind a call's");
    }
    assert_eq!(overload.of(&Rejected::because(NetworkFault::NotFound)), LoadSignal::Reject);
    let elapsed = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(overload.of(&elapsed), LoadSignal::Reject);
    let cancelled = tokio::spawn(std::future::pending::<()>());
    cancelled.abort();
    assert_eq!(overload.of(&cancelled.await.unwrap_err()), LoadSignal::Neither);
    let panicked = tokio::spawn(async { std::panic::resume_unwind(Box::new("a mistake of this service")) });
    assert_eq!(overload.of(&panicked.await.unwrap_err() as &tokio::task::JoinError), LoadSignal::Neither);
    let hidden =
        io::Error::other(Rejected::because("an io::Error's source is not what it holds, but what is behind"));
    assert_eq!(overload.of(&hidden), LoadSignal::Reject);
    let told = Overload::default().or(|error| error.is::<Sending>().then_some(LoadSignal::Neither));
    assert_eq!(
        told.of(&Sending(io(io::ErrorKind::TimedOut))),
        LoadSignal::Neither,
        "what it was told goes first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_was_given_up_is_a_reject_to_a_throttle_around_its_circuit() {
    let circuit = Service::new(&simple()).tripped_and_cooled("e1");
    let hanging = std::future::pending::<Result<(), NetworkFault>>();
    let error = Throttle::default().call(Priority::HIGH, circuit.call(hanging)).await.unwrap_err();
    assert_eq!(error, CallError::Failed(breakerbox::CallError::ProbeTimedOut(ProbeTimeout)));
    assert_eq!(Overload::default().of(&error), LoadSignal::Reject);
}

#[tokio::test]
async fn what_was_never_sent_says_nothing_about_the_destination() {
    let overload = Overload::default();
    let breakers = Breakerbox::builder().build();
    let circuit = breakers.circuit("e1").unwrap();
    circuit
        .try_override(
            OverrideCommand::ForceOpen,
            &breakerbox::Attribution::new("ops", "maintenance").unwrap(),
        )
        .unwrap();
    let refused = circuit.call(async { Ok::<(), NetworkFault>(()) }).await.unwrap_err();
    assert_eq!(overload.of(&refused), LoadSignal::Neither);

    let (inner, clock) = throttle();
    calls(&inner, &clock, 500, Err(NetworkFault::Full)).await;
    let shed = loop {
        if let Err(error @ CallError::Shed(_)) = inner.call(Priority::LOW, async { Ok("fine") }).await {
            break error;
        }
    };
    assert_eq!(overload.of(&shed), LoadSignal::Neither);
    assert_eq!(overload.of(&CallError::Failed(KeyError::NoHost)), LoadSignal::Neither);
}

#[tokio::test]
async fn a_snapshot_shows_what_was_shed_and_an_observer_hears_when_it_begins_and_ends() {
    use std::sync::{Arc, Mutex};
    let (clock, event) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
    let news = Arc::clone(&event);
    let throttles = Throttle::builder()
        .clock(clock.clone())
        .classify(classify as Classifier)
        .observer(|_| panic!("an observer that panics keeps nobody from hearing"))
        .observer(move |change| news.lock().unwrap().push(change.clone()))
        .build_keyed(10);
    let throttle = throttles.throttle("e1").unwrap();
    assert_eq!(calls(&throttle, &clock, 100, Ok("fine")).await, 0);
    let calm = throttle.snapshot().unwrap();
    assert_eq!((calm.state, calm.rate), (Some(ThrottleState::Calm), None));
    assert_eq!((calm.admitted, calm.accepted, calm.rejected), (100, 100, Some(0)));
    assert!(event.lock().unwrap().is_empty());

    let shed = calls(&throttle, &clock, 200, Err(NetworkFault::Full)).await;
    let busy = throttle.snapshot().unwrap();
    assert_ne!(busy.state, Some(ThrottleState::Calm));
    assert!(busy.rate.is_some_and(|rate| rate > 0.0), "{busy:?}");
    assert_eq!(busy.admitted, 300 - u64::from(shed));
    let (low, higher) = busy.shed.split_last().unwrap();
    assert_eq!(
        (*low, busy.shed_in_total()),
        (u64::from(shed), u64::from(shed)),
        "all calls were of the lowest"
    );
    assert_eq!(higher.iter().sum::<u64>(), 0);
    let first = event.lock().unwrap()[0].clone();
    assert_eq!((first.key.as_deref(), first.from), (Some("e1"), ThrottleState::Calm));

    for _ in 0..50 {
        calls(&throttle, &clock, 100, Ok("fine")).await;
    }
    assert_eq!(throttle.snapshot().unwrap().state, Some(ThrottleState::Calm));
    let event = event.lock().unwrap();
    assert_eq!(event.last().unwrap().to, ThrottleState::Calm);
    assert!(event.windows(2).all(|pair| pair[0].to == pair[1].from), "{event:?}");
    let (mut seen, mut keys) = (0, Vec::new());
    throttles.for_each(|throttle| {
        seen += throttle.snapshot().unwrap().admitted;
        keys.push(throttle.key().unwrap().to_owned());
    });
    assert_eq!(
        (seen, keys),
        (throttles.find("e1").unwrap().snapshot().unwrap().admitted, vec!["e1".to_owned()])
    );
    assert!(throttles.find("e2").is_none());
}

#[tokio::test]
async fn the_published_formula_counts_sheds_and_has_no_state() {
    let clock = ManualClock::new();
    let policy = ThrottlePolicy::builder().strategy(Strategy::Sre).build().unwrap();
    let builder = Throttle::builder().policy(policy).clock(clock.clone()).classify(classify as Classifier);
    let throttle = builder.observer(|change| panic!("{change:?}")).build();
    let shed = calls(&throttle, &clock, 500, Err(NetworkFault::Full)).await;
    let snapshot = throttle.snapshot().unwrap();
    assert_eq!((snapshot.state, snapshot.rate, snapshot.rejected), (None, None, None));
    assert!(shed > 0);
    assert_eq!((snapshot.admitted, snapshot.shed_in_total()), (u64::from(500 - shed), u64::from(shed)));
}

#[tokio::test(start_paused = true)]
async fn in_paused_time_a_throttle_needs_no_clock() {
    let throttle = Throttle::builder().classify(classify as Classifier).build();
    let mut shed = 0;
    for n in 0..300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let answer = if n < 100 { Ok("fine") } else { Err(NetworkFault::Full) };
        let result = throttle.call(Priority::LOW, async { answer }).await;
        shed += u32::from(result.is_err_and(|error| error.is_local()));
    }
    assert!(shed > 0, "with real time no time would have passed");
}
