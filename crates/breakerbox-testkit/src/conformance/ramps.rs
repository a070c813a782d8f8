//! Ramps: never more slots in use than the limit, however many processes acquire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::store::{RampReply, RampRequest, RampState, RampStep, RampView, ReleasedSlot};
use breakerbox::{CircuitStatus, Epoch, Nonce, Timestamp};

use super::{AnyStore, WAIT_LIMIT, at_once, put, record, unique_key};

const LONG: Duration = Duration::from_secs(600);

const BEGUN: Timestamp = Timestamp::from_micros(1_700_000_000_123_456);

/// Returns a request in epoch 5 (the epoch of circuits from [`closed`]) that neither acquires nor releases
/// slots.
fn request(key: &Arc<str>) -> RampRequest {
    RampRequest {
        key: Arc::clone(key),
        epoch: Epoch(5),
        first_limit: 1,
        begun_at: BEGUN,
        give: Vec::new(),
        replace: None,
        take: Vec::new(),
        slot_for: LONG,
        keep_for: LONG,
    }
}

fn take(key: &Arc<str>, slots: impl IntoIterator<Item = u128>) -> RampRequest {
    RampRequest { take: slots.into_iter().map(Nonce).collect(), ..request(key) }
}

fn give(key: &Arc<str>, slot: u128, succeeded: bool) -> RampRequest {
    RampRequest { give: vec![ReleasedSlot { slot: Nonce(slot), succeeded }], ..request(key) }
}

fn replace(key: &Arc<str>, expected: u64, limit: Option<u32>) -> RampRequest {
    RampRequest { replace: Some(RampStep { expected, limit }), ..request(key) }
}

async fn send(store: &AnyStore, request: &RampRequest) -> RampReply {
    store.ramp(request).await.expect("the store answers").value
}

#[track_caller]
fn done(reply: RampReply) -> RampView {
    match reply {
        RampReply::Done(view) => view,
        RampReply::Late => panic!("the epoch is current"),
    }
}

/// Returns three counts: calls in flight, slots acquired, and successes.
const fn brief(view: &RampView) -> (u32, u32, u32) {
    (view.in_flight, view.taken, view.state.successes)
}

/// Creates a closed circuit with epoch 5, and returns its key.
async fn closed(store: &AnyStore, name: &str) -> Arc<str> {
    let key = unique_key(name);
    put(store, &key, None, record(CircuitStatus::Closed, 5, 1)).await;
    key
}

/// The first request sets the ramp's limit, and no more slots than this limit can be acquired.
pub async fn slots_are_taken_up_to_the_limit(store: AnyStore) {
    let key = closed(&store, "ramp").await;
    let view = done(send(&store, &take(&key, [1, 2])).await);
    let state = RampState { step: 0, limit: Some(1), successes: 0, refused_at: BEGUN };
    assert_eq!(view, RampView { state, in_flight: 1, taken: 1, replaced: false });
    let answer = store.ramp(&take(&key, [3])).await.expect("the store answers");
    let view = done(answer.value);
    assert_eq!(brief(&view), (1, 0, 0));
    assert!(view.state.refused_at > BEGUN, "the first refusal is remembered");
    assert!(view.state.refused_at <= answer.now, "and is told from the second one on");
    let later = RampRequest { first_limit: 7, ..take(&key, [4]) };
    assert_eq!(brief(&done(send(&store, &later).await)), (1, 0, 0), "the ramp has begun already");
    let other = closed(&store, "another ramp").await;
    let three = RampRequest { first_limit: 3, ..take(&other, [1, 2]) };
    assert_eq!(brief(&done(send(&store, &three).await)), (2, 2, 0));
    assert_eq!(brief(&done(send(&store, &take(&other, [3, 4, 5])).await)), (3, 1, 0), "the first that fits");
}

/// A released slot can be acquired again. A slot can be released only once, and its success counts once.
pub async fn a_slot_that_is_given_back_is_free(store: AnyStore) {
    let key = closed(&store, "ramp given back").await;
    send(&store, &take(&key, [1])).await;
    assert_eq!(brief(&done(send(&store, &give(&key, 9, true)).await)), (1, 0, 0), "nobody has that one");
    assert_eq!(brief(&done(send(&store, &give(&key, 1, true)).await)), (0, 0, 1));
    assert_eq!(brief(&done(send(&store, &give(&key, 1, true)).await)), (0, 0, 1), "once");
    // The slot is released and acquired in one request.
    send(&store, &take(&key, [2])).await;
    let both = RampRequest { take: vec![Nonce(3), Nonce(4)], ..give(&key, 2, false) };
    assert_eq!(brief(&done(send(&store, &both).await)), (1, 1, 1), "an unsuccessful call adds nothing");
}

/// A request replaces the ramp's limit only if it names the current step of the ramp. A new limit starts with
/// zero successes.
pub async fn a_limit_is_replaced_by_whoever_saw_the_latest_step(store: AnyStore) {
    let key = closed(&store, "ramp limit").await;
    send(&store, &take(&key, [1])).await;
    // Release, replace and acquire, in this order and in one request.
    let all = RampRequest {
        replace: Some(RampStep { expected: 0, limit: Some(4) }),
        take: (2..8).map(Nonce).collect(),
        ..give(&key, 1, true)
    };
    let view = done(send(&store, &all).await);
    assert!(view.replaced);
    assert_eq!((view.state.step, view.state.limit, brief(&view)), (1, Some(4), (4, 4, 0)));
    for stale in [0, 2] {
        let view = done(send(&store, &replace(&key, stale, Some(9))).await);
        assert_eq!((view.replaced, view.state.step, view.state.limit), (false, 1, Some(4)));
    }
    let lower = done(send(&store, &replace(&key, 1, Some(2))).await);
    assert_eq!((lower.state.limit, lower.in_flight), (Some(2), 4), "nobody is called back");
    assert_eq!(brief(&done(send(&store, &take(&key, [9])).await)), (4, 0, 0));
    send(&store, &give(&key, 2, false)).await;
    send(&store, &give(&key, 3, false)).await;
    assert_eq!(
        brief(&done(send(&store, &take(&key, [9])).await)),
        (2, 0, 0),
        "two are still too many for one more"
    );
    send(&store, &give(&key, 4, false)).await;
    assert_eq!(brief(&done(send(&store, &take(&key, [9])).await)), (2, 1, 0));
}

/// The slot of a process that died becomes free when the slot expires.
pub async fn a_slot_expires(store: AnyStore) {
    let key = closed(&store, "ramp expiry").await;
    let brief_one = RampRequest { slot_for: Duration::from_millis(5), ..take(&key, [1]) };
    assert_eq!(done(send(&store, &brief_one).await).taken, 1);
    let limit = Instant::now() + WAIT_LIMIT;
    while done(send(&store, &take(&key, [2])).await).taken == 0 {
        assert!(Instant::now() < limit, "a place expires");
        tokio::task::yield_now().await;
    }
    let late = done(send(&store, &give(&key, 1, true)).await);
    assert_eq!(brief(&late), (1, 0, 0), "the place of before is nobody's, and its success counts nowhere");
}

/// A ramp that has ended stays ended, and no slots can be acquired.
pub async fn a_ramp_that_is_over_is_over_for_everybody(store: AnyStore) {
    let key = closed(&store, "ramp over").await;
    send(&store, &take(&key, [1])).await;
    let view = done(send(&store, &replace(&key, 0, None)).await);
    assert_eq!((view.replaced, view.state.limit), (true, None));
    let before = view.state.refused_at;
    let view = done(send(&store, &take(&key, [2])).await);
    assert_eq!((view.state.limit, view.taken), (None, 0));
    let view = done(send(&store, &request(&key)).await);
    assert_eq!(view.state.refused_at, before, "what needs no place is not refused one");
}

/// A ramp belongs to one epoch. Requests from other epochs are late, and a new epoch starts a new ramp.
pub async fn a_ramp_belongs_to_an_epoch(store: AnyStore) {
    let nobodys = unique_key("ramp of nobody");
    assert_eq!(send(&store, &take(&nobodys, [1])).await, RampReply::Late, "there is no record");
    let key = closed(&store, "ramp epoch").await;
    for epoch in [0, 4, 6] {
        let other = RampRequest { epoch: Epoch(epoch), ..take(&key, [1]) };
        assert_eq!(send(&store, &other).await, RampReply::Late, "epoch {epoch}");
    }
    assert_eq!(done(send(&store, &take(&key, [1])).await).taken, 1);
    send(&store, &replace(&key, 0, Some(8))).await;
    // A new version in the same epoch: the ramp stays.
    put(&store, &key, Some(1), record(CircuitStatus::Closed, 5, 2)).await;
    let view = done(send(&store, &request(&key)).await);
    assert_eq!((view.state.step, view.in_flight), (1, 1));
    put(&store, &key, Some(2), record(CircuitStatus::Open, 6, 3)).await;
    let late = RampRequest { give: give(&key, 1, true).give, ..take(&key, [2]) };
    assert_eq!(send(&store, &late).await, RampReply::Late);
    let new = RampRequest { epoch: Epoch(6), ..take(&key, [2, 3]) };
    let view = done(send(&store, &new).await);
    assert_eq!((view.state.step, view.state.limit, brief(&view)), (0, Some(1), (1, 1, 0)));
}

/// A ramp that gets no requests expires.
pub async fn an_idle_ramp_goes(store: AnyStore) {
    let key = closed(&store, "ramp idle").await;
    let brief_one = RampRequest { keep_for: Duration::from_millis(5), ..replace(&key, 0, Some(8)) };
    let view = done(send(&store, &brief_one).await);
    assert_eq!((view.state.step, view.state.limit), (1, Some(8)));
    let limit = Instant::now() + WAIT_LIMIT;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let again = RampRequest { keep_for: Duration::from_millis(5), ..request(&key) };
        let state = done(send(&store, &again).await).state;
        if (state.step, state.limit) == (0, Some(1)) {
            break;
        }
        assert!(Instant::now() < limit, "{state:?}");
    }
}

/// The limit is never exceeded, for any number of concurrent requests.
pub async fn takes_at_once_never_exceed_the_limit(store: AnyStore) {
    let key = closed(&store, "ramp race").await;
    let (tasks, rounds) = (20, 10);
    let most = at_once(tasks, |n| {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        async move {
            let mut given = Vec::new();
            let mut most = 0;
            for round in 0..rounds {
                let slots = [0, 1].map(|part| Nonce(u128::from(n) * 1_000 + round * 2 + part));
                let wanted = RampRequest {
                    first_limit: 3,
                    take: slots.to_vec(),
                    give: std::mem::take(&mut given),
                    ..request(&key)
                };
                let view = done(send(&store, &wanted).await);
                most = most.max(view.in_flight);
                let taken = slots.into_iter().take(view.taken as usize);
                given.extend(taken.map(|slot| ReleasedSlot { slot, succeeded: true }));
                tokio::task::yield_now().await;
            }
            send(&store, &RampRequest { give: given, ..request(&key) }).await;
            most
        }
    })
    .await;
    assert_eq!(most.into_iter().max(), Some(3));
    let view = done(send(&store, &request(&key)).await);
    assert_eq!(view.in_flight, 0, "all came back");
    let winners = at_once(tasks, |_| {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        async move { done(send(&store, &replace(&key, 0, Some(9))).await).replaced }
    })
    .await;
    assert_eq!(winners.into_iter().filter(|replaced| *replaced).count(), 1);
}
